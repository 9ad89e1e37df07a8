//! Tells a watcher how a run goes, for as long as it goes on.

use std::time::Duration;

use skein_core::ports::{IndexProgress, IndexWatch};
use tokio::sync::watch;

use crate::fault::Fault;

/// How often a watcher is told.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// Waits for a run that ends with its last progress; the watcher hears of that too.
pub(crate) async fn told(
    watch: &dyn IndexWatch,
    mut seen: watch::Receiver<IndexProgress>,
    run: impl Future<Output = Result<IndexProgress, Fault>>,
) -> Result<(), Fault> {
    tokio::pin!(run);
    let mut ticks = tokio::time::interval(TELL_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            outcome = &mut run => {
                watch.progress(outcome?);
                return Ok(());
            }
            _ = ticks.tick() => {
                if seen.has_changed().unwrap_or(false) {
                    watch.progress(*seen.borrow_and_update());
                }
            }
        }
    }
}
