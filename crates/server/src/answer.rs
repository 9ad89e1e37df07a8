//! What came of an instruction, as JSON. A long text is read and sent piece by piece.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use skein_api::ExecuteResponse;
use skein_core::orchestrator::{AnswerText, Executed};
use tracing::error;

use crate::json::{self, Pieces};

/// An outcome as one JSON text.
pub(crate) enum Answer {
    Short(Vec<u8>),
    Long(Pieces),
}

impl Answer {
    pub(crate) fn new(executed: Executed, instruction_bytes: u64) -> Self {
        let stored = match &executed.answer {
            Some(AnswerText::Stored(stored)) => Some(stored.clone()),
            Some(AnswerText::Here(_)) | None => None,
        };
        let response = ExecuteResponse::new(executed, instruction_bytes);
        let Some(stored) = stored else {
            let mut text = Vec::new();
            json::write(&mut text, &response);
            return Self::Short(text);
        };
        let (before, after) = response.around_text().unwrap_or_else(|error| {
            error!(%error, "an answer could not be written as JSON");
            Default::default()
        });
        let text = stored.pieces().map_ok(|piece| escaped(&piece));
        Self::Long(json::piece(before).chain(text).chain(json::piece(after)).boxed())
    }

    pub(crate) fn into_pieces(self) -> Pieces {
        match self {
            Self::Short(text) => json::piece(text),
            Self::Long(pieces) => pieces,
        }
    }
}

/// Text as it stands between the quotes of a JSON string. It may be cut within characters: only ASCII is escaped.
fn escaped(text: &[u8]) -> Bytes {
    let mut escaped = Vec::with_capacity(text.len() + text.len() / 16);
    for &byte in text {
        match byte {
            b'"' => escaped.extend_from_slice(b"\\\""),
            b'\\' => escaped.extend_from_slice(b"\\\\"),
            b'\n' => escaped.extend_from_slice(b"\\n"),
            b'\r' => escaped.extend_from_slice(b"\\r"),
            b'\t' => escaped.extend_from_slice(b"\\t"),
            0..0x20 => escaped.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => escaped.push(byte),
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_the_same_wherever_it_is_cut() {
        let text = "a \"quote\", a \\, é😀 and\r\n\ttabs\u{0}\u{1f}\u{8}\u{7f}\u{2028}";

        for cut in 0..text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            let json = [&b"\""[..], &escaped(first), &escaped(second), b"\""].concat();
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
        }
    }
}
