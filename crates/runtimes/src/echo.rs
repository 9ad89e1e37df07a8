//! Replies with the instruction, or with filler: for wiring checks and load tests.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream, stream::BoxStream};
use skein_core::ports::{AgentOutcome, AgentRuntime, AgentUpdate, Coalescing, RunRequest};

/// Default pieces of an echoed instruction, so that streaming can be seen without a model.
const PIECES: usize = 3;

/// How an echo agent replies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EchoSettings {
    /// Filler of this many bytes instead of the instruction.
    pub reply_bytes: Option<usize>,
    /// In how many pieces the reply comes.
    pub chunks: Option<usize>,
    /// How large each piece is; with `chunks` and without `reply_bytes` this decides the length of the filler.
    pub chunk_bytes: Option<usize>,
    /// Whether pieces may be gathered into fewer events.
    pub coalesce: Option<bool>,
    /// Time between pieces, as a model takes it.
    pub pause: Option<Duration>,
}

/// The echo agent.
#[derive(Debug, Clone)]
pub struct Echo {
    settings: EchoSettings,
    /// Made once: filler is the same for every turn.
    filler: Option<Arc<str>>,
}

impl Echo {
    pub fn new(settings: EchoSettings) -> Self {
        let length = match (settings.reply_bytes, settings.chunks, settings.chunk_bytes) {
            (Some(bytes), _, _) => Some(bytes),
            (None, Some(chunks), Some(bytes)) => Some(chunks.saturating_mul(bytes)),
            (None, _, _) => None,
        };
        Self { filler: length.map(filler), settings }
    }

    fn piece_bytes(&self, reply: &str) -> usize {
        let pieces = match (self.settings.chunk_bytes, self.settings.chunks) {
            (Some(bytes), _) => return bytes.max(1),
            (None, Some(chunks)) => chunks,
            (None, None) if self.filler.is_some() => 1,
            (None, None) => PIECES,
        };
        reply.len().div_ceil(pieces.max(1)).max(1)
    }
}

impl AgentRuntime for Echo {
    fn run(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate> {
        let reply = self.filler.clone().unwrap_or_else(|| Arc::clone(&request.prompt.instruction));
        let (piece_bytes, pause) = (self.piece_bytes(&reply), self.settings.pause);
        let answered = AgentUpdate::Finished(AgentOutcome::Answered);
        if piece_bytes >= reply.len() {
            let text = AgentUpdate::Text(reply.as_ref().to_owned());
            return stream::iter([text, answered]).boxed();
        }
        stream::unfold((reply, 0), move |(reply, start)| async move {
            if start >= reply.len() {
                return None;
            }
            // Lets the reader write what it has, as it would with a model that takes its time.
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => tokio::task::yield_now().await,
            }
            let end = boundary(&reply, start + piece_bytes);
            Some((AgentUpdate::Text(reply[start..end].to_owned()), (reply, end)))
        })
        .chain(stream::iter([answered]))
        .boxed()
    }

    fn coalescing(&self) -> Coalescing {
        match self.settings.coalesce {
            Some(false) => Coalescing::EveryChunk,
            Some(true) | None => Coalescing::Gather,
        }
    }
}

/// The end of a piece, never inside a character.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&end| text.is_char_boundary(end)).unwrap_or(text.len())
}

/// Text that does not compress well, so that measurements with it are honest.
fn filler(bytes: usize) -> Arc<str> {
    const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let text: String = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let index = usize::try_from(state >> 58).unwrap_or(0);
        char::from(ALPHABET[index])
    })
    .take(bytes)
    .collect();
    Arc::from(text)
}

#[cfg(test)]
mod tests {
    use skein_core::{
        model::{Mode, SessionId, TurnId},
        ports::Prompt,
    };
    use tokio_util::sync::CancellationToken;
    use uuid::Uuid;

    use super::*;

    async fn pieces(settings: EchoSettings, instruction: &str) -> Vec<String> {
        let (session, turn) = (SessionId::from_uuid(Uuid::nil()), TurnId::from_uuid(Uuid::nil()));
        let prompt = Prompt {
            session,
            turn,
            system_prompt: None,
            model: None,
            temperature: None,
            previous_response_id: None,
            open_calls: Vec::new(),
            history: Vec::new(),
            passages: Vec::new(),
            files: Vec::new(),
            instruction: Arc::from(instruction),
            mode: Mode::Ask,
        };
        let request = RunRequest {
            session,
            turn,
            prompt: Arc::new(prompt),
            body: None,
            attempts: 1,
            cancel: CancellationToken::new(),
        };
        let mut updates: Vec<_> = Echo::new(settings).run(request).collect().await;
        assert_eq!(updates.pop(), Some(AgentUpdate::Finished(AgentOutcome::Answered)));
        let text = |update| match update {
            AgentUpdate::Text(text) => text,
            other => panic!("unexpected {other:?}"),
        };
        updates.into_iter().map(text).collect()
    }

    #[tokio::test]
    async fn the_instruction_comes_back_in_three_pieces_that_split_no_character() {
        let pieces = pieces(EchoSettings::default(), "héllo wörld 😀😀").await;

        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces.concat(), "héllo wörld 😀😀");
    }

    #[tokio::test]
    async fn filler_has_the_wanted_size_and_number_of_pieces() {
        let whole = EchoSettings { reply_bytes: Some(2000), ..EchoSettings::default() };
        let many =
            EchoSettings { chunks: Some(1000), chunk_bytes: Some(200), ..EchoSettings::default() };

        let whole = pieces(whole, "x").await;
        let many = pieces(many, "x").await;

        assert_eq!(whole.iter().map(String::len).collect::<Vec<_>>(), [2000]);
        assert_eq!(many.len(), 1000);
        assert!(many.iter().all(|piece| piece.len() == 200));
    }
}
