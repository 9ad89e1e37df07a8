//! Which turns run in this process, who waits for them, and how they are told to stop.

use std::{
    collections::{HashMap, hash_map::Entry},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    model::{FileBundle, Seq, SessionId, Turn, TurnId},
    ports::{RuntimeFailure, StoreError},
};

/// Stopping a turn takes a commit. Longer than this means that the store does not take it now.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// … and when the disk was seen to be full, longer than this.
const FULL_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Running {
    turns: Mutex<HashMap<TurnId, Arc<Control>>>,
    waiting: Mutex<HashMap<TurnId, oneshot::Sender<Outcome>>>,
    held: Arc<Held>,
    /// Sessions in which a turn may wait; all others need not be looked at when a turn ends.
    /// The number grows with every mark.
    queues: Mutex<HashMap<SessionId, u64>>,
    closed: AtomicBool,
}

/// The strings by which a running turn is held.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) stop: CancellationToken,
    /// Why, when it is stopped.
    pub(super) cause: OnceLock<RuntimeFailure>,
    /// Fires when the store has refused the turn's events because the disk is full.
    disk_full: CancellationToken,
    pub(super) ended: CancellationToken,
}

/// What became of a turn, for those who waited for it in this process.
#[derive(Debug, Clone)]
pub struct Finished {
    pub turn: Turn,
    pub answer: Option<Arc<str>>,
    pub bundle: Option<Arc<FileBundle>>,
    /// The turn's last event.
    pub last_seq: Seq,
}

impl Finished {
    /// A turn that was ended by others.
    pub(super) fn without_answer(turn: Turn) -> Self {
        Self { turn, answer: None, bundle: None, last_seq: 0 }
    }
}

type Outcome = Result<Finished, StoreError>;

/// Resolves when a turn has its outcome.
#[derive(Debug)]
pub struct Waiting(oneshot::Receiver<Outcome>);

impl Waiting {
    /// The outcome; an error when it could not be stored, or when this process stops first.
    pub async fn finished(self) -> Result<Finished, Error> {
        match self.0.await {
            Ok(outcome) => outcome.map_err(Error::from),
            Err(_) => Err(Error::Draining),
        }
    }
}

/// While it lives, no queued turn of the session starts and no new one is accepted.
#[derive(Debug)]
pub struct QueueHold {
    session: SessionId,
    held: Arc<Held>,
}

/// Sessions that somebody is about to put aside or end, with how many do.
#[derive(Debug, Default)]
struct Held {
    sessions: Mutex<HashMap<SessionId, usize>>,
    released: Notify,
}

impl Running {
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Draining) } else { Ok(()) }
    }

    /// Registered before the start is durable, so that nobody can find a turn running without its
    /// control. `None` when somebody else is starting it.
    pub(super) fn enter(&self, turn: TurnId) -> Option<Arc<Control>> {
        match lock(&self.turns).entry(turn) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => Some(Arc::clone(place.insert(Arc::default()))),
        }
    }

    /// The turn no longer runs here.
    pub(super) fn leave(&self, turn: TurnId) {
        if let Some(control) = lock(&self.turns).remove(&turn) {
            control.ended.cancel();
        }
    }

    /// Registered before the turn is durable, so that its outcome cannot be missed.
    pub(super) fn wait_for(&self, turn: TurnId) -> Waiting {
        let (sender, receiver) = oneshot::channel();
        lock(&self.waiting).insert(turn, sender);
        Waiting(receiver)
    }

    pub(super) fn forget(&self, turn: TurnId) {
        lock(&self.waiting).remove(&turn);
    }

    pub(super) fn resolve(&self, turn: TurnId, finished: Finished) {
        if let Some(waiting) = lock(&self.waiting).remove(&turn) {
            // Nobody is told when the caller has gone; the outcome is durable either way.
            drop(waiting.send(Ok(finished)));
        }
    }

    /// The store does not take the turn's events for now. The caller need not wait for better times.
    pub(super) fn resolve_failed(&self, turn: TurnId, error: StoreError) {
        if let (StoreError::Full, Some(control)) = (&error, lock(&self.turns).get(&turn)) {
            control.disk_full.cancel();
        }
        if let Some(waiting) = lock(&self.waiting).remove(&turn) {
            drop(waiting.send(Err(error)));
        }
    }

    /// Stops a turn that runs here and waits until it has ended. `false` when it does not run here.
    pub(super) async fn stop(&self, turn: TurnId, cause: RuntimeFailure) -> Result<bool, Error> {
        let Some(control) = lock(&self.turns).get(&turn).map(Arc::clone) else { return Ok(false) };
        control.cause.get_or_init(|| cause);
        control.stop.cancel();
        let full = async {
            control.disk_full.cancelled().await;
            tokio::time::sleep(FULL_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            () = control.ended.cancelled() => Ok(true),
            () = full => Err(StoreError::Full.into()),
            () = tokio::time::sleep(STOP_TIMEOUT) => Err(Error::TurnInProgress { turn: Some(turn) }),
        }
    }

    /// Called before a turn is queued and before a queue is looked at, so that a turn which ends meanwhile looks too.
    pub(super) fn mark_queue(&self, session: SessionId) -> u64 {
        let mut queues = lock(&self.queues);
        let mark = queues.entry(session).or_default();
        *mark += 1;
        *mark
    }

    /// Nothing was waiting after this mark; if somebody has marked it since, something may.
    pub(super) fn unmark_queue(&self, session: SessionId, mark: u64) {
        let mut queues = lock(&self.queues);
        if queues.get(&session) == Some(&mark) {
            queues.remove(&session);
        }
    }

    pub(super) fn may_have_queue(&self, session: SessionId) -> bool {
        lock(&self.queues).contains_key(&session)
    }

    pub(super) fn hold(&self, session: SessionId) -> QueueHold {
        *lock(&self.held.sessions).entry(session).or_default() += 1;
        QueueHold { session, held: Arc::clone(&self.held) }
    }

    pub(super) fn is_held(&self, session: SessionId) -> bool {
        lock(&self.held.sessions).contains_key(&session)
    }

    /// New turns wait here while their session is being ended, so that the end is not outrun.
    pub(super) async fn wait_until_released(&self, session: SessionId) {
        loop {
            let mut released = pin!(self.held.released.notified());
            // From here on a release is not missed.
            released.as_mut().enable();
            if !self.is_held(session) {
                return;
            }
            released.await;
        }
    }
}

impl Drop for QueueHold {
    fn drop(&mut self) {
        let mut held = lock(&self.held.sessions);
        if let Some(count) = held.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.session);
            }
        }
        drop(held);
        self.held.released.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
