//! Counts what a turn left in a store, so that it can be seen that the limit program wrote the same.

use std::{fmt, path::Path};

use rusqlite::{Connection, OpenFlags};

/// Averages over all turns of a store.
#[derive(Debug, Clone)]
pub(crate) struct RowsPerTurn {
    events: f64,
    event_bytes: f64,
    payloads: f64,
    audit: f64,
    turn_bytes: f64,
}

impl RowsPerTurn {
    /// Call it after the server has stopped.
    pub(crate) fn count(database: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, f64>(0));
        let turns = number("SELECT CAST(count(*) AS REAL) FROM turns")?.max(1.0);
        let per_turn = |sql: &str| number(sql).map(|total| total / turns);
        Ok(Self {
            events: per_turn(
                "SELECT CAST(count(*) AS REAL) FROM events WHERE turn_id IS NOT NULL",
            )?,
            event_bytes: per_turn(
                "SELECT CAST(coalesce(sum(length(data)), 0) AS REAL) FROM events
                 WHERE turn_id IS NOT NULL",
            )?,
            payloads: per_turn("SELECT CAST(count(*) AS REAL) FROM payloads")?,
            audit: per_turn("SELECT CAST(count(*) AS REAL) FROM audit WHERE target LIKE 'turn/%'")?,
            turn_bytes: per_turn(
                "SELECT CAST(coalesce(sum(length(instruction_summary)
                     + coalesce(length(answer_summary), 0)), 0) AS REAL) FROM turns",
            )?,
        })
    }
}

impl RowsPerTurn {
    /// The same of a database of PostgreSQL.
    pub(crate) async fn count_in(client: &tokio_postgres::Client) -> anyhow::Result<Self> {
        let row = client
            .query_one(
                "SELECT (SELECT count(*) FROM events WHERE turn_id IS NOT NULL) / turns.n,
                     (SELECT sum(length(data)) FROM events WHERE turn_id IS NOT NULL) / turns.n,
                     (SELECT count(*) FROM payloads) / turns.n,
                     (SELECT count(*) FROM audit WHERE target LIKE 'turn/%') / turns.n,
                     (SELECT sum(length(instruction_summary) + coalesce(length(answer_summary), 0))
                      FROM turns) / turns.n
                 FROM (SELECT greatest(count(*), 1)::float8 AS n FROM turns) turns",
                &[],
            )
            .await?;
        Ok(Self {
            events: row.try_get(0)?,
            event_bytes: row.try_get(1)?,
            payloads: row.try_get(2)?,
            audit: row.try_get(3)?,
            turn_bytes: row.try_get(4)?,
        })
    }
}

impl fmt::Display for RowsPerTurn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, event_bytes, payloads, audit, turn_bytes } = self;
        write!(
            formatter,
            "{events:.2} events ({event_bytes:.0} B of data), 1 turn ({turn_bytes:.0} B of summaries), \
             {payloads:.2} payloads, {audit:.2} audit rows"
        )
    }
}
