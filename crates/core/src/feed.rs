//! Wakes readers of a log and keeps its newest events at hand, so that live readers need no query.
//!
//! Readers pull. A log that nobody reads costs nothing here. Losing everything in this module loses
//! speed, never data: whatever is not in the ring is in the store.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use tokio::sync::watch;

use crate::model::{Event, EventBody, LogId, MessageContent, Seq};

/// About this much event data is kept per log that somebody reads.
const RING_BYTES: usize = 1024 * 1024;

/// The logs that are being read right now.
#[derive(Debug, Default)]
pub struct Feed {
    hot: Mutex<HashMap<LogId, Arc<HotLog>>>,
    counters: Counters,
}

/// What became durable since this process started, for its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub commits: u64,
    pub events: u64,
    pub turns_begun: u64,
    pub turns_completed: u64,
    pub turns_failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    events: AtomicU64,
    turns_begun: AtomicU64,
    turns_completed: AtomicU64,
    turns_failed: AtomicU64,
}

/// Consecutive events of one log that became durable together.
#[derive(Debug)]
pub struct EventBatch {
    pub events: Vec<Event>,
    /// Filled by the first reader that needs it, so that an event is rendered once for all of them.
    pub rendered: OnceLock<Frames>,
}

/// Events as bytes, one after the other. What they look like is up to whoever renders them.
#[derive(Debug, Clone)]
pub struct Frames {
    pub bytes: Bytes,
    /// Where each event's frame ends.
    pub ends: Vec<usize>,
}

impl Frames {
    /// The frames from the event at this index on.
    pub fn from_index(&self, index: usize) -> Bytes {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.slice(start..)
    }
}

#[derive(Debug)]
struct HotLog {
    /// The newest `seq` that is known here, or `Seq::MAX` once the log is gone.
    newest: watch::Sender<Seq>,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    batches: VecDeque<(usize, Arc<EventBatch>)>,
    bytes: usize,
}

/// A place in the feed of one log, held by a reader. The log cools down when the last one is dropped.
#[derive(Debug)]
pub struct Subscription {
    feed: Arc<Feed>,
    log: LogId,
    hot: Arc<HotLog>,
    newest: watch::Receiver<Seq>,
}

impl Feed {
    /// From now on nothing of this log is missed: what is durable before is in the store, what comes after wakes.
    pub fn subscribe(self: &Arc<Self>, log: LogId) -> Subscription {
        let mut logs = lock(&self.hot);
        let hot = Arc::clone(logs.entry(log).or_insert_with(|| {
            Arc::new(HotLog { newest: watch::Sender::new(0), ring: Mutex::default() })
        }));
        // Under the lock, so that a reader who leaves now sees that somebody came.
        let newest = hot.newest.subscribe();
        drop(logs);
        Subscription { feed: Arc::clone(self), log, hot, newest }
    }

    /// Tells readers of events that have just become durable.
    pub fn publish(&self, events: &[Event]) {
        self.counters.count(events);
        for batch in events.chunk_by(|a, b| a.log == b.log && a.seq + 1 == b.seq) {
            let Some(log) = batch.first().map(|event| event.log) else { continue };
            let Some(hot) = lock(&self.hot).get(&log).map(Arc::clone) else { continue };
            hot.push(batch);
        }
    }

    /// What was published so far.
    pub fn counts(&self) -> Counts {
        Counts {
            commits: self.counters.commits.load(Relaxed),
            events: self.counters.events.load(Relaxed),
            turns_begun: self.counters.turns_begun.load(Relaxed),
            turns_completed: self.counters.turns_completed.load(Relaxed),
            turns_failed: self.counters.turns_failed.load(Relaxed),
        }
    }

    /// Ends the readers of a log that no longer exists.
    pub fn close(&self, log: LogId) {
        if let Some(hot) = lock(&self.hot).remove(&log) {
            hot.newest.send_replace(Seq::MAX);
        }
    }
}

impl Counters {
    fn count(&self, events: &[Event]) {
        self.commits.fetch_add(1, Relaxed);
        self.events.fetch_add(events.len() as u64, Relaxed);
        for event in events {
            if let EventBody::TurnStarted(_) = event.body {
                self.turns_begun.fetch_add(1, Relaxed);
            } else if let EventBody::TurnCompleted(_) = event.body {
                self.turns_completed.fetch_add(1, Relaxed);
            } else if let EventBody::TurnFailed(_) = event.body {
                self.turns_failed.fetch_add(1, Relaxed);
            }
        }
    }
}

impl HotLog {
    fn push(&self, events: &[Event]) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let weight: usize = events.iter().map(weight).sum();
        let batch = Arc::new(EventBatch { events: events.to_vec(), rendered: OnceLock::new() });
        lock(&self.ring).push(first.seq, weight, batch);
        self.newest.send_if_modified(|newest| {
            let advanced = last.seq > *newest;
            *newest = last.seq.max(*newest);
            advanced
        });
    }
}

impl Ring {
    /// Keeps the ring consecutive. Commits of one log may be announced out of order; then the ring
    /// starts anew, and readers fetch what it lacks from the store.
    fn push(&mut self, first: Seq, weight: usize, batch: Arc<EventBatch>) {
        let end =
            self.batches.back().and_then(|(_, batch)| batch.events.last()).map(|last| last.seq);
        if end.is_some_and(|end| end + 1 != first) {
            self.batches.clear();
            self.bytes = 0;
        }
        self.bytes += weight;
        self.batches.push_back((weight, batch));
        while self.bytes > RING_BYTES && self.batches.len() > 1 {
            if let Some((weight, _)) = self.batches.pop_front() {
                self.bytes -= weight;
            }
        }
    }

    fn after(&self, position: Seq) -> Option<Arc<EventBatch>> {
        let holding = self.batches.partition_point(|(_, batch)| {
            batch.events.last().is_none_or(|last| last.seq <= position)
        });
        let (_, batch) = self.batches.get(holding)?;
        let follows = batch.events.first().is_some_and(|first| first.seq <= position + 1);
        follows.then(|| Arc::clone(batch))
    }
}

impl Subscription {
    /// The batch that holds the event after `position`, if it is still at hand.
    pub fn recent(&self, position: Seq) -> Option<Arc<EventBatch>> {
        lock(&self.hot.ring).after(position)
    }

    /// Whether something after `position` has been announced.
    pub fn is_beyond(&self, position: Seq) -> bool {
        *self.newest.borrow() > position
    }

    /// Waits until there is something after `position`. `false` means that the log is gone.
    pub async fn wait_beyond(&mut self, position: Seq) -> bool {
        match self.newest.wait_for(|newest| *newest > position).await {
            Ok(newest) => *newest != Seq::MAX,
            Err(_) => false,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut hot = lock(&self.feed.hot);
        let same = hot.get(&self.log).is_some_and(|current| Arc::ptr_eq(current, &self.hot));
        // Ours and the map's: nobody else holds it, and nobody can get it while the map is locked.
        if same && self.hot.newest.receiver_count() <= 1 {
            hot.remove(&self.log);
        }
    }
}

/// Roughly what an event occupies.
fn weight(event: &Event) -> usize {
    const SMALL: usize = 512;
    const TOOL: usize = 4096;
    if let EventBody::MessageDelta(delta) | EventBody::ThoughtDelta(delta) = &event.body {
        return SMALL + delta.text.len();
    }
    if let EventBody::MessageCompleted(message) = &event.body
        && let MessageContent::Text { text, .. } = &message.content
    {
        return SMALL + text.len();
    }
    if event.body.name().starts_with("tool.") { TOOL } else { SMALL }
}

/// The data behind these locks is valid after any panic: each change is a single push or insert.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::{Timestamp, Usage};

    const LOG: LogId = LogId::from_uuid(Uuid::nil());

    fn events(range: std::ops::RangeInclusive<Seq>) -> Vec<Event> {
        let event = |seq| Event {
            log: LOG,
            seq,
            turn: None,
            at: Timestamp::from_millis(0),
            body: EventBody::UsageRecorded(Usage::default()),
        };
        range.map(event).collect()
    }

    fn seqs(batch: &EventBatch) -> Vec<Seq> {
        batch.events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn a_reader_finds_the_batch_that_holds_the_event_after_its_position() {
        let feed = Arc::new(Feed::default());
        let reader = feed.subscribe(LOG);

        feed.publish(&events(5..=7));
        feed.publish(&events(8..=8));

        let found: Vec<_> =
            (3..=8).map(|position| reader.recent(position).map(|batch| seqs(&batch))).collect();
        let first = Some(vec![5, 6, 7]);
        assert_eq!(found, [None, first.clone(), first.clone(), first, Some(vec![8]), None]);
    }

    #[test]
    fn commits_announced_out_of_order_never_leave_a_gap_in_the_ring() {
        let feed = Arc::new(Feed::default());
        let reader = feed.subscribe(LOG);

        feed.publish(&events(1..=1));
        feed.publish(&events(3..=3));
        feed.publish(&events(2..=2));

        assert!(reader.recent(0).is_none(), "event 1 is behind a gap and must come from the store");
        assert_eq!(reader.recent(1).map(|batch| seqs(&batch)), Some(vec![2]));
        assert!(reader.recent(2).is_none());
    }

    #[tokio::test]
    async fn a_reader_is_woken_by_what_is_published_and_told_when_the_log_is_gone() {
        let feed = Arc::new(Feed::default());
        let mut reader = feed.subscribe(LOG);

        feed.publish(&events(1..=2));
        assert!(reader.wait_beyond(1).await);

        feed.close(LOG);
        assert!(!reader.wait_beyond(2).await);
    }

    #[test]
    fn a_log_that_nobody_reads_any_more_is_forgotten() {
        let feed = Arc::new(Feed::default());

        let first = feed.subscribe(LOG);
        let second = feed.subscribe(LOG);
        drop(first);
        assert_eq!(lock(&feed.hot).len(), 1);
        drop(second);

        assert!(lock(&feed.hot).is_empty());
    }

    #[test]
    fn the_ring_stays_within_its_size() {
        let feed = Arc::new(Feed::default());
        let reader = feed.subscribe(LOG);

        for seq in 1..=10_000 {
            feed.publish(&events(seq..=seq));
        }

        assert!(lock(&reader.hot.ring).bytes <= RING_BYTES);
        assert!(reader.recent(0).is_none());
        assert!(reader.recent(9_999).is_some());
    }
}
