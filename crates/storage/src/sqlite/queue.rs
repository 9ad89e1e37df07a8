//! The writer's queue: two lanes, bounded in bytes, and a way to hold the writer between two groups.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use skein_core::ports::{Lane, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::job::Job;

/// Room is counted in kilobytes, so that few large jobs or many small ones may wait.
const ROOM_KB: u32 = 16 * 1024;

/// What a job takes in memory beside its data.
const JOB_OVERHEAD_KB: u32 = 4;

/// A job in the queue, with the room it takes there.
pub(super) struct Queued {
    pub(super) job: Box<dyn Job>,
    pub(super) bytes: usize,
    _room: OwnedSemaphorePermit,
}

/// The store was closed, or its writer died.
#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
pub(super) struct Closed;

impl From<Closed> for StoreError {
    fn from(closed: Closed) -> Self {
        Self::Unavailable(Box::new(closed))
    }
}

/// The lanes between callers and the writer.
pub(super) struct Lanes {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes whoever waits for the writer to stand still.
    still: Condvar,
    interactive_room: Arc<Semaphore>,
    bulk_room: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    interactive: VecDeque<Queued>,
    bulk: VecDeque<Queued>,
    is_closed: bool,
    /// Somebody wants the writer to begin no new group.
    is_held: bool,
    /// The writer is between two calls of [`Lanes::begin_group`].
    in_group: bool,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let room = || Arc::new(Semaphore::new(ROOM_KB as usize));
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            still: Condvar::new(),
            interactive_room: room(),
            bulk_room: room(),
        }
    }

    /// Waits for room, then queues the job. From then on the job runs whether or not anybody waits for it.
    pub(super) async fn push(
        &self,
        lane: Lane,
        job: Box<dyn Job>,
        bytes: usize,
    ) -> Result<(), Closed> {
        let room = match lane {
            Lane::Interactive => &self.interactive_room,
            Lane::Bulk => &self.bulk_room,
        };
        let kilobytes = u32::try_from(bytes / 1024).unwrap_or(ROOM_KB);
        let wanted = kilobytes.saturating_add(JOB_OVERHEAD_KB).min(ROOM_KB);
        let permit = Arc::clone(room).acquire_many_owned(wanted).await.map_err(|_| Closed)?;
        let mut state = self.lock();
        if state.is_closed {
            return Err(Closed);
        }
        let queued = Queued { job, bytes, _room: permit };
        match lane {
            Lane::Interactive => state.interactive.push_back(queued),
            Lane::Bulk => state.bulk.push_back(queued),
        }
        let must_wake = !state.in_group && !state.is_held;
        drop(state);
        if must_wake {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits for the first job of a group. None once the lanes are closed and empty.
    pub(super) fn begin_group(&self) -> Option<Queued> {
        let mut state = self.lock();
        state.in_group = false;
        self.still.notify_all();
        loop {
            if !state.is_held {
                let first = state.interactive.pop_front().or_else(|| state.bulk.pop_front());
                if first.is_some() {
                    state.in_group = true;
                    return first;
                }
                if state.is_closed {
                    return None;
                }
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Another job of this lane, if one waits.
    pub(super) fn take(&self, lane: Lane) -> Option<Queued> {
        let mut state = self.lock();
        match lane {
            Lane::Interactive => state.interactive.pop_front(),
            Lane::Bulk => state.bulk.pop_front(),
        }
    }

    /// Runs `work` while the writer stands still between two groups.
    pub(super) fn hold_writer<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        state.is_held = true;
        while state.in_group {
            state = self.still.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let result = work();
        self.lock().is_held = false;
        self.work.notify_one();
        result
    }

    /// Lets what is queued finish and refuses the rest.
    pub(super) fn close(&self) {
        self.interactive_room.close();
        self.bulk_room.close();
        self.lock().is_closed = true;
        self.work.notify_all();
    }

    /// The writer is gone: nobody will run what is queued.
    pub(super) fn abandon(&self) {
        self.close();
        let mut state = self.lock();
        state.in_group = false;
        let orphans = (std::mem::take(&mut state.interactive), std::mem::take(&mut state.bulk));
        drop(state);
        self.still.notify_all();
        drop(orphans);
    }

    /// Jobs that wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        state.interactive.len() + state.bulk.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
