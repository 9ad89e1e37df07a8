//! Reads server-sent events from pieces of a body.

/// One event as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// Puts pieces together; pieces may end anywhere, also inside a character.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    buffer: Vec<u8>,
    event: SseEvent,
    has_data: bool,
}

impl SseParser {
    /// Takes a piece and gives the events that are complete with it.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<SseEvent> {
        self.buffer.extend_from_slice(piece);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer[start..start + length].strip_suffix(b"\r");
            let line = line.unwrap_or(&self.buffer[start..start + length]);
            let line = String::from_utf8_lossy(line).into_owned();
            start += length + 1;
            events.extend(self.line(&line));
        }
        self.buffer.drain(..start);
        events
    }

    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => self.event.name = Some(value.to_owned()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, `retry` and whatever may come.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_wherever_the_pieces_end() {
        let body = "retry: 1000\n\n: ping\n\nid: 1\nevent: a\ndata: {\"x\":\"ö\"}\n\nid:2\r\ndata:one\r\ndata: two\r\n\r\nid: 3\ndata: cut";
        let expected = [
            SseEvent {
                id: Some("1".to_owned()),
                name: Some("a".to_owned()),
                data: "{\"x\":\"ö\"}".to_owned(),
            },
            SseEvent { id: Some("2".to_owned()), name: None, data: "one\ntwo".to_owned() },
        ];

        for size in 1..=body.len() {
            let mut parser = SseParser::default();
            let events: Vec<_> =
                body.as_bytes().chunks(size).flat_map(|piece| parser.push(piece)).collect();

            assert_eq!(events, expected, "in pieces of {size}");
        }
    }
}
