//! How many streams a user may hold open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use skein_core::model::UserId;

use crate::error::{Code, Problem};

/// Counts open streams by user.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    open: Arc<Mutex<HashMap<UserId, usize>>>,
    per_user: usize,
}

/// One open stream; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    open: Arc<Mutex<HashMap<UserId, usize>>>,
    user: UserId,
}

impl Streams {
    pub(crate) fn new(per_user: usize) -> Self {
        Self { open: Arc::default(), per_user }
    }

    pub(crate) fn enter(&self, user: UserId) -> Result<StreamSlot, Problem> {
        let mut open = lock(&self.open);
        let count = open.entry(user).or_default();
        if *count >= self.per_user {
            let limit = self.per_user as u64;
            let detail = format!("{limit} streams of this user are open; close one first");
            return Err(Problem::new(Code::StreamLimit, detail).at_limit(limit));
        }
        *count += 1;
        Ok(StreamSlot { open: Arc::clone(&self.open), user })
    }

    /// Streams that are open now, over all users.
    pub(crate) fn count(&self) -> usize {
        lock(&self.open).values().sum()
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.user);
            }
        }
    }
}

/// The counts are valid after any panic: each change is a single step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_user_at_the_limit_waits_for_a_stream_to_close() {
        let streams = Streams::new(2);
        let (one, other) =
            (UserId::from_uuid(Uuid::from_u128(1)), UserId::from_uuid(Uuid::from_u128(2)));

        let first = streams.enter(one).unwrap();
        let _second = streams.enter(one).unwrap();
        let refused = streams.enter(one).unwrap_err();
        let _others = streams.enter(other).unwrap();
        drop(first);

        assert_eq!(refused.code, Code::StreamLimit);
        assert!(streams.enter(one).is_ok());
        assert_eq!(streams.count(), 2);
    }
}
