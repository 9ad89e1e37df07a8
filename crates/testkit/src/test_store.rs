//! How an engine's test file hands a fresh store to a story.

use std::{any::Any, sync::Arc};

use skein_core::ports::Storage;

/// A fresh, migrated, empty store, or the reason why there is none on this machine.
pub enum TestStore {
    Ready {
        store: Arc<dyn Storage>,
        /// Dropped after the story: a temporary directory, a database to remove.
        guard: Box<dyn Any + Send>,
    },
    Skipped {
        reason: String,
    },
}

impl TestStore {
    pub fn ready(store: Arc<dyn Storage>, guard: impl Any + Send) -> Self {
        Self::Ready { store, guard: Box::new(guard) }
    }

    pub fn skipped(reason: impl Into<String>) -> Self {
        Self::Skipped { reason: reason.into() }
    }

    /// Tells the story on this store.
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    pub async fn run<S>(self, story: impl FnOnce(Arc<dyn Storage>) -> S)
    where
        S: Future<Output = ()>,
    {
        match self {
            Self::Ready { store, guard } => {
                story(store).await;
                drop(guard);
            }
            Self::Skipped { reason } => eprintln!("skipped: {reason}"),
        }
    }
}
