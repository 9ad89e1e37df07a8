//! Updates on their way to their turn. So many bytes of them may wait; then the agent is not listened to, and waits.

use std::sync::Arc;

use futures::{StreamExt, stream, stream::BoxStream};
use skein_core::ports::AgentUpdate;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Small updates that wait.
const MAX_UPDATES: usize = 256;
/// What waiting updates may hold together. A larger one waits alone.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A longer text goes on in pieces, which whoever writes them down takes one by one.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The end that updates are given to.
#[derive(Debug, Clone)]
pub(super) struct Updates {
    sender: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

#[derive(Debug)]
struct Waiting {
    update: AgentUpdate,
    _room: OwnedSemaphorePermit,
}

/// Both ends.
pub(super) fn updates() -> (Updates, BoxStream<'static, AgentUpdate>) {
    let (sender, receiver) = mpsc::channel::<Waiting>(MAX_UPDATES);
    let received = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|waiting| (waiting.update, receiver))
    });
    (Updates { sender, room: Arc::new(Semaphore::new(MAX_BYTES)) }, received.boxed())
}

impl Updates {
    /// Gives an update that was so long on the wire, when there is room for it. Nobody may listen any more.
    pub(super) async fn send(&self, update: AgentUpdate, bytes: usize) {
        let size = u32::try_from(bytes.clamp(1, MAX_BYTES)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&self.room).acquire_many_owned(size).await {
            drop(self.sender.send(Waiting { update, _room: room }).await);
        }
    }

    /// As [`Self::send`], with texts cut into pieces.
    pub(super) async fn send_in_pieces(&self, update: AgentUpdate, bytes: usize) {
        let (text, piece_of): (_, fn(String) -> AgentUpdate) = match update {
            AgentUpdate::Text(text) => (text, AgentUpdate::Text),
            AgentUpdate::Thought(text) => (text, AgentUpdate::Thought),
            update => return self.send(update, bytes).await,
        };
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.floor_char_boundary(MAX_TEXT_BYTES));
            self.send(piece_of(piece.to_owned()), piece.len()).await;
            rest = later;
        }
    }

    /// Gives one of our own.
    pub(super) async fn tell(&self, update: AgentUpdate) {
        self.send(update, 1).await;
    }

    /// Resolves when nobody listens any more.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn text(bytes: usize) -> AgentUpdate {
        AgentUpdate::Text("x".repeat(bytes))
    }

    #[tokio::test]
    async fn a_large_update_passes_alone_and_the_next_one_waits_for_it() {
        let (updates, mut received) = updates();
        updates.send(text(3 * MAX_BYTES), 3 * MAX_BYTES).await;
        let mut next = Box::pin(updates.send(text(1), 1));

        let waits = next.as_mut().now_or_never().is_none();
        let first = received.next().await;
        next.await;
        let second = received.next().await;

        assert!(waits);
        assert_eq!((first, second), (Some(text(3 * MAX_BYTES)), Some(text(1))));
    }

    #[tokio::test]
    async fn a_long_text_comes_in_pieces_that_are_whole_characters() {
        let (updates, received) = updates();
        let long = "é".repeat(MAX_TEXT_BYTES);

        updates.send_in_pieces(AgentUpdate::Thought(format!("x{long}")), 1).await;
        drop(updates);
        let pieces: Vec<_> = received.collect().await;

        let thoughts = pieces.iter().map(|piece| match piece {
            AgentUpdate::Thought(text) => text.as_str(),
            other => panic!("{other:?}"),
        });
        assert_eq!(thoughts.clone().map(str::len).collect::<Vec<_>>(), [65_535, 65_536, 2]);
        assert_eq!(thoughts.collect::<String>(), format!("x{long}"));
    }

    #[tokio::test]
    async fn nobody_waits_for_who_does_not_listen() {
        let (updates, received) = updates();
        updates.send(text(1), MAX_BYTES).await;
        let waiting = updates.send(text(1), MAX_BYTES);

        drop(received);
        waiting.await;

        updates.closed().await;
    }
}
