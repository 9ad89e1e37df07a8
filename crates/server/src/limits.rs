//! How much a user or an organisation may have open at once.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use skein_core::model::{OrgId, UserId};

use crate::error::{Code, Problem};

/// Streams that a user holds open.
#[derive(Debug, Clone)]
pub(crate) struct Streams(Slots<UserId>);

/// One open stream; dropping it makes room for another.
pub(crate) type StreamSlot = Slot<UserId>;

/// Requests of an organisation that are being worked on, so that no tenant fills the queues of another.
#[derive(Debug, Clone)]
pub(crate) struct InFlight(Slots<OrgId>);

impl Streams {
    pub(crate) fn new(per_user: usize) -> Self {
        Self(Slots::new(per_user))
    }

    pub(crate) fn enter(&self, user: UserId) -> Result<StreamSlot, Problem> {
        let limit = self.0.per_key as u64;
        self.0.enter(user).ok_or_else(|| {
            let detail = format!("{limit} streams of this user are open; close one first");
            Problem::new(Code::StreamLimit, detail).at_limit(limit)
        })
    }

    /// Streams that are open now, over all users.
    pub(crate) fn count(&self) -> usize {
        self.0.count()
    }
}

impl InFlight {
    pub(crate) fn new(per_org: usize) -> Self {
        Self(Slots::new(per_org))
    }

    pub(crate) fn enter(&self, org: OrgId) -> Result<Slot<OrgId>, Problem> {
        let limit = self.0.per_key as u64;
        self.0.enter(org).ok_or_else(|| {
            let detail = format!("{limit} requests of this organisation are being worked on");
            Problem::new(Code::RateLimited, detail).at_limit(limit)
        })
    }

    /// Requests that are being worked on now, over all organisations.
    pub(crate) fn count(&self) -> usize {
        self.0.count()
    }
}

/// Counts what is open by key. Keys with nothing open take no room.
#[derive(Debug, Clone)]
struct Slots<K: Eq + Hash> {
    open: Arc<Mutex<HashMap<K, usize>>>,
    per_key: usize,
}

/// One of what a key may have open; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Slot<K: Eq + Hash> {
    open: Arc<Mutex<HashMap<K, usize>>>,
    key: K,
}

impl<K: Copy + Eq + Hash> Slots<K> {
    fn new(per_key: usize) -> Self {
        Self { open: Arc::default(), per_key }
    }

    /// None when the key has as much open as it may.
    fn enter(&self, key: K) -> Option<Slot<K>> {
        let mut open = lock(&self.open);
        let count = open.get(&key).copied().unwrap_or_default();
        if count >= self.per_key {
            return None;
        }
        open.insert(key, count + 1);
        Some(Slot { open: Arc::clone(&self.open), key })
    }

    fn count(&self) -> usize {
        lock(&self.open).values().sum()
    }
}

impl<K: Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

/// What is guarded is valid after any panic: each change is a single step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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

    #[test]
    fn an_organisation_at_the_limit_leaves_room_for_the_others() {
        let in_flight = InFlight::new(1);
        let (one, other) =
            (OrgId::from_uuid(Uuid::from_u128(1)), OrgId::from_uuid(Uuid::from_u128(2)));

        let first = in_flight.enter(one).unwrap();
        let refused = in_flight.enter(one).unwrap_err();
        let others = in_flight.enter(other).unwrap();
        drop((first, others));

        assert_eq!(refused.code, Code::RateLimited);
        assert_eq!(in_flight.count(), 0);
        assert!(in_flight.0.open.lock().unwrap().is_empty());
    }
}
