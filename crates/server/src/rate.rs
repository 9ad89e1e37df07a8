//! How many requests a user or an organisation may make in a second.

use std::{collections::HashMap, hash::Hash, sync::Mutex, time::Duration};

use tokio::time::Instant;

use crate::limits::lock;

/// Below this many keys nothing is looked through.
const FEW_KEYS: usize = 1_024;

/// So many requests a second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u32,
    /// How many may come at once after a pause.
    pub burst: u32,
}

/// A bucket per key that fills steadily and gives one token per request.
///
/// Kept as one moment: when the bucket would be full again. A key whose moment has passed is as good as unknown,
/// so only those that were busy within the time of a burst take room.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    /// The time in which one token flows in.
    interval: Duration,
    /// The time in which an empty bucket fills.
    depth: Duration,
    full_at: Mutex<Filling<K>>,
}

#[derive(Debug)]
struct Filling<K> {
    by_key: HashMap<K, Instant>,
    /// At this many keys those with a full bucket are dropped.
    tidy_at: usize,
}

impl<K: Copy + Eq + Hash> Buckets<K> {
    /// A rate of 0 counts as 1: nobody could ever come back.
    pub(crate) fn new(rate: Rate) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        let full_at = Filling { by_key: HashMap::new(), tidy_at: FEW_KEYS };
        let depth = interval.saturating_mul(rate.burst.max(1));
        Self { interval, depth, full_at: Mutex::new(full_at) }
    }

    /// Takes a token, or says how long it will be until there is one.
    pub(crate) fn take(&self, key: K, now: Instant) -> Result<(), Duration> {
        let mut filling = lock(&self.full_at);
        let full_at = filling.by_key.get(&key).map_or(now, |at| (*at).max(now)) + self.interval;
        let missing = (full_at - now).saturating_sub(self.depth);
        if !missing.is_zero() {
            return Err(missing);
        }
        filling.by_key.insert(key, full_at);
        filling.tidy(now);
        Ok(())
    }
}

impl<K: Eq + Hash> Filling<K> {
    /// Looks through all keys only when their number has doubled, so that it costs little per request.
    fn tidy(&mut self, now: Instant) {
        if self.by_key.len() >= self.tidy_at {
            self.by_key.retain(|_, full_at| *full_at > now);
            self.tidy_at = (self.by_key.len() * 2).max(FEW_KEYS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_burst_is_let_through_and_then_the_steady_rate() {
        let buckets = Buckets::new(Rate { per_second: 10, burst: 3 });
        let start = Instant::now();

        let at_once = [(); 5].map(|()| buckets.take("a", start));
        let later = buckets.take("a", start + MILLIS(99));
        let in_time =
            [buckets.take("a", start + MILLIS(100)), buckets.take("a", start + MILLIS(100))];

        assert_eq!(at_once, [Ok(()), Ok(()), Ok(()), Err(MILLIS(100)), Err(MILLIS(100))]);
        assert_eq!(later, Err(MILLIS(1)));
        assert_eq!(in_time, [Ok(()), Err(MILLIS(100))]);
    }

    #[test]
    fn one_key_does_not_spend_what_another_has() {
        let buckets = Buckets::new(Rate { per_second: 1, burst: 1 });
        let now = Instant::now();

        assert_eq!(buckets.take("a", now), Ok(()));
        assert_eq!(buckets.take("b", now), Ok(()));
        assert_eq!(buckets.take("a", now), Err(Duration::from_secs(1)));
    }

    #[test]
    fn refused_requests_do_not_put_the_next_one_off() {
        let buckets = Buckets::new(Rate { per_second: 1, burst: 1 });
        let start = Instant::now();

        let first = buckets.take("a", start);
        let flood = (0..1_000).filter(|_| buckets.take("a", start + MILLIS(500)).is_ok()).count();

        assert_eq!((first, flood), (Ok(()), 0));
        assert_eq!(buckets.take("a", start + MILLIS(1_000)), Ok(()));
    }

    #[test]
    fn keys_that_have_gone_quiet_take_no_room() {
        let buckets = Buckets::new(Rate { per_second: 1_000, burst: 10 });
        let start = Instant::now();

        for number in 0..100_000_u64 {
            assert_eq!(buckets.take(number, start + MILLIS(number)), Ok(()));
        }

        assert!(lock(&buckets.full_at).by_key.len() <= FEW_KEYS);
    }
}
