//! What others notice: callers who run turns and look at sessions, at a moderate rate.

use std::{cell::Cell, time::Duration};

use tokio::time::interval;

use crate::{
    report::milliseconds,
    subject::{Server, create_session, run_turn},
    text::Noise,
};

const BETWEEN_TURNS: Duration = Duration::from_millis(50);
const BETWEEN_READS: Duration = Duration::from_millis(20);

/// Milliseconds of each request, from the moment it was due: whoever has to wait for the one before waits too.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) turns: Vec<f64>,
    pub(super) reads: Vec<f64>,
}

impl Waits {
    pub(super) fn extend(&mut self, more: Self) {
        self.turns.extend(more.turns);
        self.reads.extend(more.reads);
    }
}

/// Asks until it is done.
pub(super) async fn ask(
    server: &Server,
    session: &str,
    is_done: &Cell<bool>,
) -> anyhow::Result<Waits> {
    let (turns, reads) =
        futures::try_join!(turns(server, is_done), reads(server, session, is_done))?;
    Ok(Waits { turns, reads })
}

async fn turns(server: &Server, is_done: &Cell<bool>) -> anyhow::Result<Vec<f64>> {
    let mut connection = server.connect().await?;
    let session = create_session(&mut connection, "bench").await?;
    let (mut waits, mut noise) = (Vec::new(), Noise::new(16));
    let mut due = interval(BETWEEN_TURNS);
    while !is_done.get() {
        let due_at = due.tick().await;
        run_turn(&mut connection, &session, &mut noise).await?;
        waits.push(milliseconds(due_at.elapsed()));
    }
    Ok(waits)
}

async fn reads(server: &Server, session: &str, is_done: &Cell<bool>) -> anyhow::Result<Vec<f64>> {
    let mut connection = server.connect().await?;
    let (path, mut waits) = (format!("/api/sessions/{session}"), Vec::new());
    let mut due = interval(BETWEEN_READS);
    while !is_done.get() {
        let due_at = due.tick().await;
        connection.get(&path).await?;
        waits.push(milliseconds(due_at.elapsed()));
    }
    Ok(waits)
}
