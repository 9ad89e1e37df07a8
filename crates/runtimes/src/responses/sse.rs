//! Server-sent events, cut out of bytes as they arrive.

use super::repeats::WithoutTexts;

/// A line of which this much has come without its end is looked through for texts that need not be held.
const LONG_LINE_BYTES: usize = 32 * 1024;

/// The largest event that is read.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// An event, or a line, is larger than [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Finds events in a stream that may be cut anywhere, also within characters and line ends.
///
/// Names, ids and retry times of events are skipped: the data says all that is needed.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// Whether texts of long lines repeat what is known.
    is_repeating: bool,
    /// Copies the line, once it is long.
    copying: Option<WithoutTexts>,
    data: Vec<u8>,
    has_data: bool,
    /// A line feed that follows belongs to the carriage return that ended the line before.
    after_return: bool,
    /// Set once the first line was seen, before which a byte order mark may stand.
    started: bool,
}

impl Events {
    /// Takes bytes in and gives the data of every event that they complete.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut give: impl FnMut(&[u8]),
    ) -> Result<(), TooLarge> {
        if self.after_return
            && let Some((first, rest)) = bytes.split_first()
        {
            self.after_return = false;
            bytes = if *first == b'\n' { rest } else { bytes };
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() {
                self.take_line(line, &mut give)?;
            } else {
                self.extend_line(line);
                self.copying = None;
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut give)?;
            }
            bytes = match (bytes[end], rest.first()) {
                (b'\r', Some(b'\n')) => &rest[1..],
                (b'\r', None) => {
                    self.after_return = true;
                    rest
                }
                _ => rest,
            };
        }
        self.extend_line(bytes);
        match self.line.len() + self.data.len() > MAX_EVENT_BYTES {
            true => Err(TooLarge),
            false => Ok(()),
        }
    }

    /// From here on the texts in long events are known: deltas have given them.
    pub(super) fn leave_out_texts(&mut self) {
        self.is_repeating = true;
    }

    /// Forgets an event that was cut off, so that another connection can go on.
    pub(super) fn restart(&mut self) {
        *self = Self { is_repeating: self.is_repeating, ..Self::default() };
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        if let Some(copying) = &mut self.copying {
            return copying.copy(bytes, &mut self.line);
        }
        self.line.extend_from_slice(bytes);
        if self.is_repeating && self.line.len() > LONG_LINE_BYTES {
            let begun = std::mem::take(&mut self.line);
            let mut copying = WithoutTexts::default();
            copying.copy(&begun, &mut self.line);
            self.copying = Some(copying);
        }
    }

    fn take_line(&mut self, line: &[u8], give: &mut impl FnMut(&[u8])) -> Result<(), TooLarge> {
        let line =
            if self.started { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.started = true;
        if line.is_empty() {
            if self.has_data {
                give(&self.data);
            }
            self.data.clear();
            self.has_data = false;
            return Ok(());
        }
        let Some(value) = data_of(line) else { return Ok(()) };
        if self.data.len() + value.len() > MAX_EVENT_BYTES {
            return Err(TooLarge);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
        Ok(())
    }
}

/// What a line adds to its event's data, if it does.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_of(chunks: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        let mut found = Vec::new();
        for chunk in chunks {
            let give = |data: &[u8]| found.push(String::from_utf8_lossy(data).into_owned());
            assert_eq!(events.feed(chunk, give), Ok(()));
        }
        found
    }

    const STREAM: &[u8] =
        "\u{feff}event: a\r\ndata: {\"x\":\r\ndata:\"é😀\"}\r\n\r\n: comment\n\nid: 7\ndata\n\n\
        dataset: no\ndata: one\rdata:  two\r\rdata: cut off"
            .as_bytes();

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let whole = events_of(&[STREAM]);
        assert_eq!(whole, ["{\"x\":\n\"é😀\"}", "", "one\n two"]);

        for cut in 0..STREAM.len() {
            assert_eq!(events_of(&[&STREAM[..cut], &STREAM[cut..]]), whole, "cut at {cut}");
        }
        let bytes: Vec<_> = STREAM.chunks(1).collect();
        assert_eq!(events_of(&bytes), whole);
    }

    #[test]
    fn an_event_beyond_the_limit_is_refused_however_it_is_built() {
        let line = vec![b'x'; MAX_EVENT_BYTES + 1];
        assert_eq!(Events::default().feed(&line, |_| ()), Err(TooLarge));

        let mut events = Events::default();
        let lines = [b"data:".as_slice(), &[b'x'; 1024 * 1024], b"\n"].concat();
        let fed: Vec<_> = (0..20).map(|_| events.feed(&lines, |_| ())).collect();
        assert!(fed.contains(&Err(TooLarge)));
    }

    #[test]
    fn a_long_event_that_repeats_known_texts_is_read_without_them() {
        let text = "x".repeat(2 * MAX_EVENT_BYTES);
        let stream = format!("data: {{\"text\":\"{text}\",\"id\":7}}\n\ndata: next\n\n");
        let mut events = Events::default();
        let mut found = Vec::new();

        events.leave_out_texts();
        for chunk in stream.as_bytes().chunks(16 * 1024) {
            assert_eq!(events.feed(chunk, |data| found.push(data.to_vec())), Ok(()));
            assert!(events.line.capacity() + events.data.capacity() < 256 * 1024);
        }

        assert_eq!(found, [br#"{"text":"","id":7}"#.to_vec(), b"next".to_vec()]);
    }

    #[test]
    fn after_a_restart_the_rest_of_a_cut_event_is_forgotten() {
        let mut events = Events::default();
        let mut found = Vec::new();

        assert_eq!(events.feed(b"data: half", |_| ()), Ok(()));
        events.restart();
        assert_eq!(events.feed(b"data: whole\n\n", |data| found.push(data.to_vec())), Ok(()));

        assert_eq!(found, [b"whole".to_vec()]);
    }
}
