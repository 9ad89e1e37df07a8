//! Reads chunked bodies and the events in them, without copying what it only counts.

use anyhow::bail;
use memchr::memchr;

/// Takes the framing of `Transfer-Encoding: chunked` off a body that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct ChunkedDecoder {
    state: ChunkState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// In a line with the size of a chunk.
    Size { size: usize },
    /// In a chunk, with so many bytes to come.
    Data { left: usize },
    /// In the line end after a chunk.
    DataEnd { left: usize },
    /// The last chunk was seen.
    Done,
}

impl Default for ChunkState {
    fn default() -> Self {
        Self::Size { size: 0 }
    }
}

impl ChunkedDecoder {
    pub(crate) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Gives the data in the input to the sink.
    pub(crate) fn decode(
        &mut self,
        mut input: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> anyhow::Result<()> {
        while let Some(&byte) = input.first() {
            self.state = match self.state {
                ChunkState::Size { size } => {
                    input = &input[1..];
                    match byte {
                        b'\n' if size == 0 => ChunkState::Done,
                        b'\n' => ChunkState::Data { left: size },
                        b'\r' => ChunkState::Size { size },
                        digit => match char::from(digit).to_digit(16) {
                            Some(digit) => ChunkState::Size { size: size * 16 + digit as usize },
                            None => bail!("the size of a chunk holds byte {digit}"),
                        },
                    }
                }
                ChunkState::Data { left } => {
                    let (data, rest) = input.split_at(left.min(input.len()));
                    sink(data);
                    input = rest;
                    match left - data.len() {
                        0 => ChunkState::DataEnd { left: 2 },
                        left => ChunkState::Data { left },
                    }
                }
                ChunkState::DataEnd { left } => {
                    input = &input[1..];
                    match left {
                        1 => ChunkState::Size { size: 0 },
                        _ => ChunkState::DataEnd { left: left - 1 },
                    }
                }
                ChunkState::Done => return Ok(()),
            };
        }
        Ok(())
    }
}

/// Counts the distinct `message.delta` events of one stream by their ids.
#[derive(Debug, Default)]
pub(crate) struct DeltaCounter {
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    id: Option<usize>,
    is_delta: bool,
    seen: Vec<bool>,
    distinct: usize,
}

impl DeltaCounter {
    pub(crate) fn distinct(&self) -> usize {
        self.distinct
    }

    pub(crate) fn add(&mut self, mut data: &[u8]) {
        while let Some(end) = memchr(b'\n', data) {
            let (head, rest) = (&data[..end], &data[end + 1..]);
            if self.line.is_empty() {
                self.end_line(head);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.end_line(&line);
                line.clear();
                self.line = line;
            }
            data = rest;
        }
        self.line.extend_from_slice(data);
    }

    fn end_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            self.end_event();
        } else if let Some(id) = line.strip_prefix(b"id: ") {
            self.id = std::str::from_utf8(id).ok().and_then(|id| id.trim_end().parse().ok());
        } else if line == b"event: message.delta" {
            self.is_delta = true;
        }
    }

    fn end_event(&mut self) {
        if let (Some(id), true) = (self.id, self.is_delta) {
            if self.seen.len() <= id {
                self.seen.resize(id + 1024, false);
            }
            if !std::mem::replace(&mut self.seen[id], true) {
                self.distinct += 1;
            }
        }
        self.id = None;
        self.is_delta = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_stream_in_pieces_of_any_size_gives_each_delta_once() {
        let body = "id: 1\nevent: turn.started\ndata: {}\n\n\
                    id: 2\nevent: message.delta\ndata: {}\n\n: ping\n\n\
                    id: 3\nevent: message.delta\ndata: {}\n\n\
                    id: 3\nevent: message.delta\ndata: {}\n\n";
        let (first, second) = body.split_at(50);
        let wire =
            format!("{:x}\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());

        for size in 1..wire.len() {
            let (mut decoder, mut counter) = (ChunkedDecoder::default(), DeltaCounter::default());
            for piece in wire.as_bytes().chunks(size) {
                decoder.decode(piece, |data| counter.add(data)).unwrap();
            }

            assert_eq!((counter.distinct(), decoder.is_done()), (2, true), "pieces of {size}");
        }
    }
}
