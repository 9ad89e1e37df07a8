//! The one home of the wall clock, of new ids and of randomness.

use rand::{TryRngCore, rngs::OsRng};
use skein_core::{
    model::Timestamp,
    ports::{Clock, Ids, Secrets},
};
use uuid::Uuid;

/// What the operating system gives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct System;

impl Clock for System {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that is injected")]
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
    }
}

impl Ids for System {
    /// Later ids sort after earlier ones, also within one millisecond.
    #[expect(clippy::disallowed_methods, reason = "this is the source of ids that is injected")]
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

impl Secrets for System {
    /// Panics when the operating system has no randomness: a guessable secret would be worse.
    fn random_256_bits(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        rand::RngCore::fill_bytes(&mut OsRng.unwrap_err(), &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_and_each_sorts_after_the_one_before() {
        let ids: Vec<Uuid> = std::iter::repeat_with(|| System.next()).take(10_000).collect();

        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        assert!(ids.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn secrets_differ() {
        assert_ne!(System.random_256_bits(), System.random_256_bits());
    }
}
