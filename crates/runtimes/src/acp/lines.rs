//! Lines of an agent's output, of bounded length, and what they say.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// A longer line is no message.
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Requests are named by numbers and UUIDs; a longer name is not kept until its answer.
const MAX_ID_BYTES: usize = 1024;

/// A line, or why it is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// Longer than [`MAX_LINE_BYTES`]; all of it was skipped.
    TooLong,
    End,
}

/// What a line says.
#[derive(Debug)]
pub(super) enum Said {
    Request {
        id: Value,
        method: String,
        params: Box<RawValue>,
    },
    Notification {
        method: String,
        params: Box<RawValue>,
    },
    Reply {
        id: Value,
        outcome: Result<Box<RawValue>, RpcError>,
    },
    /// Not a message of the protocol.
    Garbage,
}

/// A refusal by the agent.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RpcError {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

/// A field that is there, even when it is null.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The next line, without its end. Never holds more than a line of the longest allowed length.
pub(super) async fn next_line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Line> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            // What is cut off in the middle is no line.
            return Ok(Line::End);
        }
        let end = memchr::memchr(b'\n', available);
        let taken = end.unwrap_or(available.len());
        if !is_too_long && line.len() + taken > MAX_LINE_BYTES {
            is_too_long = true;
            line = Vec::new();
        }
        if !is_too_long {
            line.extend_from_slice(&available[..taken]);
        }
        input.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(if is_too_long { Line::TooLong } else { Line::Whole(line) });
        }
    }
}

/// Reads a line as a message.
pub(super) fn read(line: &[u8]) -> Said {
    let Ok(message) = serde_json::from_slice::<Message>(line) else { return Said::Garbage };
    if message.id.as_ref().is_some_and(|id| id.to_string().len() > MAX_ID_BYTES) {
        return Said::Garbage;
    }
    let params = message.params.unwrap_or_else(|| RawValue::NULL.to_owned());
    match (message.id, message.method, message.result, message.error) {
        (Some(id), Some(method), None, None) => Said::Request { id, method, params },
        (None, Some(method), None, None) => Said::Notification { method, params },
        (Some(id), None, Some(result), None) => Said::Reply { id, outcome: Ok(result) },
        (Some(id), None, _, Some(error)) => Said::Reply { id, outcome: Err(error) },
        _ => Said::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_whole() {
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        let exact = vec![b'y'; MAX_LINE_BYTES];
        let text = [b"one\n".as_slice(), &long, b"\n", &exact, b"\n\ncut"].concat();
        let mut input = Cursor::new(text);

        let mut lines = Vec::new();
        loop {
            match next_line(&mut input).await.unwrap() {
                Line::End => break,
                line => lines.push(line),
            }
        }

        let expected = [
            Line::Whole(b"one".to_vec()),
            Line::TooLong,
            Line::Whole(exact),
            Line::Whole(Vec::new()),
        ];
        assert!(lines == expected, "{} lines", lines.len());
    }

    #[test]
    fn lines_are_told_apart_and_zero_is_an_id() {
        let kind = |line: &str| match read(line.as_bytes()) {
            Said::Request { id, method, .. } => format!("request {id} {method}"),
            Said::Notification { method, .. } => format!("notification {method}"),
            Said::Reply { id, outcome: Ok(_) } => format!("result {id}"),
            Said::Reply { id, outcome: Err(error) } => format!("error {id} {}", error.code),
            Said::Garbage => "garbage".to_owned(),
        };
        let table = [
            (r#"{"jsonrpc":"2.0","id":0,"method":"a","params":{}}"#, "request 0 a"),
            (r#"{"jsonrpc":"2.0","id":"u-1","method":"a"}"#, "request \"u-1\" a"),
            (r#"{"jsonrpc":"2.0","method":"b","params":[1]}"#, "notification b"),
            (r#"{"jsonrpc":"2.0","id":3,"result":null}"#, "result 3"),
            (r#"{"id":3,"error":{"code":-32000,"message":"log in"}}"#, "error 3 -32000"),
            (r#"{"id":3,"result":{},"error":null}"#, "result 3"),
            (r#"{"id":3}"#, "garbage"),
            (r#"{"id":3,"method":"a","result":1}"#, "garbage"),
            ("Loading model …", "garbage"),
            ("", "garbage"),
            ("[1,2]", "garbage"),
        ];
        let endless = format!(r#"{{"id":"{}","method":"a"}}"#, "x".repeat(MAX_ID_BYTES));

        for (line, expected) in table {
            assert_eq!(kind(line), expected, "{line}");
        }
        assert_eq!(kind(&endless), "garbage");
    }
}
