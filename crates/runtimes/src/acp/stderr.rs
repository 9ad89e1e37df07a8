//! What an agent writes to standard error: its last words are part of why it ended.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Of the last words that are kept.
const KEPT_BYTES: usize = 2_048;

/// After the last process has ended, there is only left to read what is in the pipe.
const REST: Duration = Duration::from_millis(500);

/// The end of what was written so far.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords {
    kept: Arc<Mutex<Vec<u8>>>,
    is_whole: CancellationToken,
}

impl LastWords {
    /// Reads to the end, so that the agent is never held up by its own noise.
    pub(super) async fn listen(self, mut stderr: impl AsyncRead + Unpin) {
        let _whole = self.is_whole.clone().drop_guard();
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..read]);
            let surplus = kept.len().saturating_sub(KEPT_BYTES);
            kept.drain(..surplus);
        }
    }

    /// Waits until everything is read that an agent which has ended wrote.
    pub(super) async fn whole(&self) {
        drop(timeout(REST, self.is_whole.cancelled()).await);
    }

    /// The last lines, as far as they are text.
    pub(super) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}
