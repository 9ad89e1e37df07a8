//! Time, ids and secrets that are the same in every run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use skein_core::{
    model::Timestamp,
    ports::{Clock, Ids, Secrets},
};
use uuid::Uuid;

/// 2026-11-15T18:10:34.499Z: odd milliseconds show what rounds them.
const START_MS: i64 = 1_794_766_234_499;

/// A clock that moves only when it is told to. Clones show the same time.
#[derive(Debug, Clone)]
pub struct StoppedClock(Arc<AtomicI64>);

impl Default for StoppedClock {
    fn default() -> Self {
        Self::at(Timestamp::from_millis(START_MS))
    }
}

impl StoppedClock {
    pub fn at(time: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(time.as_millis())))
    }

    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_millis(), Ordering::SeqCst);
    }

    pub fn advance(&self, duration: Duration) {
        self.set(self.now().saturating_add(duration));
    }

    /// One millisecond later than any time given before.
    pub fn tick(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Ids of the shape of UUIDv7, each larger than the one before. Different seeds never give the same id.
#[derive(Debug)]
pub struct SeededIds {
    seed: u32,
    count: AtomicU64,
}

impl SeededIds {
    pub const fn new(seed: u32) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }
}

impl Ids for SeededIds {
    fn next(&self) -> Uuid {
        let count = self.count.fetch_add(1, Ordering::SeqCst);
        let millis = START_MS.unsigned_abs() + (count >> 12);
        let version = 0x7000 | (count & 0x0fff);
        let tail = (0b10 << 62) | (u64::from(self.seed) << 28) | (count & 0x0fff_ffff);
        Uuid::from_u64_pair(millis << 16 | version, tail)
    }
}

/// Secrets 0, 1, 2 …: different from each other and the same in every run.
#[derive(Debug, Default)]
pub struct FixedSecrets(AtomicU64);

impl Secrets for FixedSecrets {
    fn random_256_bits(&self) -> [u8; 32] {
        let mut secret = [0x5e; 32];
        secret[..8].copy_from_slice(&self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_ids_are_version_7_and_increase_beyond_one_millisecond() {
        let ids = SeededIds::new(9);

        let made: Vec<Uuid> = (0..10_000).map(|_| ids.next()).collect();

        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(made.iter().all(|id| id.get_version_num() == 7));
        assert!(made.iter().all(|id| id.get_variant() == uuid::Variant::RFC4122));
    }

    #[test]
    fn a_stopped_clock_moves_only_when_told() {
        let clock = StoppedClock::default();
        let start = clock.now();

        clock.advance(Duration::from_secs(2));

        assert_eq!(clock.now().since(start), Duration::from_secs(2));
        assert_eq!(clock.clone().tick().since(start), Duration::from_millis(2001));
    }
}
