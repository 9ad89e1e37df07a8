//! Who may change a corpus as a whole.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::fault::Fault;

/// What a run or a removal is going on of, in this process.
#[derive(Debug)]
pub(crate) struct Claims<S>(Arc<Mutex<HashSet<S>>>);

impl<S> Default for Claims<S> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<S: Copy + Eq + Hash> Claims<S> {
    /// The right to change it, until it is dropped.
    pub(crate) fn claim(&self, subject: S) -> Result<Claim<S>, Fault> {
        let is_free = lock(&self.0).insert(subject);
        if is_free { Ok(Claim { claims: Arc::clone(&self.0), subject }) } else { Err(Fault::Busy) }
    }

    pub(crate) fn is_claimed(&self, subject: &S) -> bool {
        lock(&self.0).contains(subject)
    }
}

pub(crate) struct Claim<S: Copy + Eq + Hash> {
    claims: Arc<Mutex<HashSet<S>>>,
    subject: S,
}

impl<S: Copy + Eq + Hash> Drop for Claim<S> {
    fn drop(&mut self) {
        lock(&self.claims).remove(&self.subject);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
