//! The limit of agent processes: exactly so many, whoever asks at once.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{Error, model::SessionId};

/// The sessions that hold a place. One server works on a database, so it is counted here.
pub(super) struct Slots {
    limit: u32,
    held: Mutex<HashSet<SessionId>>,
}

/// A place that is given back when it is dropped, unless it is kept.
pub struct Slot {
    slots: Arc<Slots>,
    session: SessionId,
    is_kept: bool,
}

impl Slots {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, held: Mutex::default() }
    }

    /// A session that holds a place already keeps it.
    pub(super) fn reserve(slots: &Arc<Self>, session: SessionId) -> Result<Slot, Error> {
        let mut held = slots.lock();
        let is_kept = held.contains(&session);
        if !is_kept && held.len() >= slots.limit as usize {
            return Err(Error::SessionLimit { limit: slots.limit });
        }
        held.insert(session);
        drop(held);
        Ok(Slot { slots: Arc::clone(slots), session, is_kept })
    }

    /// How many are left, if the session held one.
    pub(super) fn free(&self, session: SessionId) -> Option<usize> {
        let mut held = self.lock();
        held.remove(&session).then(|| held.len())
    }

    pub(super) fn active(&self) -> u32 {
        u32::try_from(self.lock().len()).unwrap_or(u32::MAX)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<SessionId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The session that it was reserved for is durable.
    pub(crate) fn keep(mut self) {
        if std::mem::replace(&mut self.is_kept, true) {
            return;
        }
        let active = self.slots.active();
        tracing::info!(session.id = %self.session, active, "a session took an agent's place");
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_kept {
            self.slots.free(self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_place_is_given_back_unless_it_is_kept_and_nobody_takes_two() {
        let slots = Arc::new(Slots::new(2));
        let [a, b, c] = [1, 2, 3].map(|n| SessionId::from_uuid(Uuid::from_u128(n)));

        let first = Slots::reserve(&slots, a).unwrap();
        let second = Slots::reserve(&slots, b).unwrap();
        let refused = Slots::reserve(&slots, c);

        assert!(matches!(refused, Err(Error::SessionLimit { limit: 2 })));
        first.keep();
        drop(second);
        drop(Slots::reserve(&slots, a).unwrap());
        assert_eq!(slots.active(), 1, "the place of {a} was not given back by asking again");
        assert!(Slots::reserve(&slots, c).is_ok());
        assert_eq!(slots.free(a), Some(0));
        assert_eq!(slots.free(a), None);
    }
}
