//! Which engine the sessions of a test are in.

use super::postgres::{Database, Server};

/// Connections of one server under test. Fewer than by default, so that many can run beside each other.
const CONNECTIONS: &str = "8";

/// Where sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    /// The program's name says it: `stories_postgres` is the same source as `stories`.
    pub(crate) fn of_this_program() -> Self {
        match env!("CARGO_CRATE_NAME").ends_with("_postgres") {
            true => Self::Postgres,
            false => Self::Sqlite,
        }
    }
}

/// A migrated database for one test. `None`, and a line that says so, where no server was started; in CI that is an
/// error.
pub(super) fn fresh_database() -> Option<Database> {
    let server = Server::from_environment()?;
    // In a thread of its own, because a test's runtime cannot be waited on from within.
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(server.fresh_database())
    });
    Some(waiting.join().unwrap())
}

/// The settings that put a server on a database as its application.
pub(super) fn environment(database: &Database) -> [(&'static str, &str); 2] {
    [("SKEIN_STORE__URL", &database.app), ("SKEIN_STORE__CONNECTIONS", CONNECTIONS)]
}
