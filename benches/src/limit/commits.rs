//! What one small commit costs here: a single event, made durable by a writer that has nothing else to do.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{
    rows::{Source, Work},
    writer,
};
use crate::report::milliseconds;

/// Commits an event with this data again and again, so long apart, into a new session of a store that the product has
/// made. Gives the milliseconds that each took.
pub(crate) async fn commit_times(
    database: &Path,
    data: &str,
    count: usize,
    pause: Duration,
) -> anyhow::Result<Vec<f64>> {
    let (writer, writing) = writer::start(database)?;
    let mut source = Source::new(15);
    let (session, turn) = (source.id(), source.id());
    writer.write(Work::Open { session }).await?;
    writer.write(Work::Begin { session, turn, instruction: "commit".to_owned() }).await?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        tokio::time::sleep(pause).await;
        let work = Work::Deltas { session, turn, data: vec![data.to_owned()] };
        let began = Instant::now();
        writer.write(work).await?;
        times.push(milliseconds(began.elapsed()));
    }
    drop(writer);
    writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    Ok(times)
}
