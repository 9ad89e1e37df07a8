//! Moves the write-ahead log into the database file on a thread of its own, so that the writer never does.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, wal::CheckpointMode};

use super::{connection::PAGE_BYTES, queue::Lanes};

/// The log is copied each time it has grown by this.
const STEP_PAGES: u32 = 4 * 1024 * 1024 / PAGE_BYTES;

/// When nobody has written for this long, the log is emptied: a small directory and a quick next start.
const IDLE: Duration = Duration::from_millis(500);

/// What the writer tells the checkpointer.
pub(super) struct WalSignal {
    state: Mutex<WalState>,
    changed: Condvar,
}

#[derive(Default)]
struct WalState {
    /// Pages in the log after the newest commit.
    pages: u32,
    /// Counts commits since the log was last emptied.
    commits: u64,
    /// Pages in the log when it was last copied.
    copied_at: u32,
    is_stopped: bool,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Copy,
    Empty,
    Stop,
}

impl WalSignal {
    /// Begins as if something had been written: a crash may have left a long log behind.
    pub(super) fn new() -> Self {
        let state = WalState { commits: 1, ..WalState::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Called by the writer after each commit.
    pub(super) fn committed(&self, pages: u32) {
        let mut state = self.lock();
        if pages < state.pages {
            // The writer has started again from the beginning of the log.
            state.copied_at = 0;
        }
        state.pages = pages;
        state.commits += 1;
        let must_wake = state.commits == 1 || state.wants_copy();
        drop(state);
        if must_wake {
            self.changed.notify_one();
        }
    }

    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_one();
    }

    fn next_task(&self) -> Task {
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return Task::Stop;
            }
            if state.wants_copy() {
                state.copied_at = state.pages;
                return Task::Copy;
            }
            if state.commits == 0 {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let before = state.commits;
            let (woken, _) = self
                .changed
                .wait_timeout_while(state, IDLE, |state| !state.is_stopped && !state.wants_copy())
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if !state.is_stopped && state.commits == before {
                *state = WalState::default();
                return Task::Empty;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WalState {
    fn wants_copy(&self) -> bool {
        self.pages >= self.copied_at.saturating_add(STEP_PAGES)
    }
}

/// Runs until the signal says stop; then the log is emptied for the last time.
pub(super) fn run(connection: &Connection, signal: &WalSignal, lanes: &Lanes) {
    loop {
        match signal.next_task() {
            // What is written meanwhile is copied while the writer is held, a few pages: only a log that is
            // copied to its end starts again from its beginning, and under steady load it never would be.
            Task::Copy => {
                checkpoint(connection, CheckpointMode::PASSIVE);
                lanes.hold_writer(|| checkpoint(connection, CheckpointMode::PASSIVE));
            }
            Task::Empty => {
                lanes.hold_writer(|| checkpoint(connection, CheckpointMode::TRUNCATE));
            }
            Task::Stop => return checkpoint(connection, CheckpointMode::TRUNCATE),
        }
    }
}

/// A checkpoint that fails costs nothing but space: the next one takes it up.
fn checkpoint(connection: &Connection, mode: CheckpointMode) {
    if let Err(error) = connection.wal_checkpoint_v2(None::<&str>, mode) {
        tracing::debug!(%error, "a checkpoint was put off");
    }
}

/// Tells the signal about every commit of this connection.
pub(super) fn watch(connection: &mut Connection, signal: Arc<WalSignal>) -> rusqlite::Result<()> {
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
        signal.committed(u32::try_from(pages).unwrap_or(0));
        Ok(())
    }))
}
