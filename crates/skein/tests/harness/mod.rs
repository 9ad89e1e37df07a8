//! Talks to a running server as a client does: requests, event streams, and waiting with a deadline.

mod api;
mod events;

use std::time::Duration;

use tokio::time::{Instant, sleep};

pub(crate) use api::{Api, Reply};
pub(crate) use events::{EventStream, Frames};

/// Longer than anything here takes on a slow machine; reached only when something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Agents whose replies are predictable: `plain` answers at once and in one piece, `slow` writes for
/// longer than any test lasts, unless it is stopped.
pub(crate) const AGENTS: &str = r#"
[sessions]
default_agent = "plain"

[agents.plain]
runtime = "echo"
chunks = 1

[agents.slow]
runtime = "echo"
chunks = 4000000
chunk_bytes = 1
pause_ms = 1
"#;

/// The setting of [`AGENTS`] that makes `slow` slow, to be replaced when it is to be quicker or slower.
pub(crate) const SLOWNESS: &str = "chunks = 4000000";

/// Asks again and again, with a short pause, until there is an answer; fails at the deadline.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
