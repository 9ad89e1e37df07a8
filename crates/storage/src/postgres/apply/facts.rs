//! What a change set decides on, read in one round trip once its locks are held.

use std::collections::{BTreeMap, HashMap};

use skein_core::{
    model::{LogId, Scope, SessionId, TurnId, TurnStatus, UserId},
    ports::{ChangeSet, Expectation, Write},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        connection::{Query, Transaction},
        error::Fault,
        rows::{Columns, moment},
    },
    event::{self, LogState},
    logs_and_turns,
};

/// Locks every log that the change set writes or decides on, in one order for all, before anything else:
/// so numbers have no gaps, come in commit order, and two change sets cannot wait for each other.
const LOCK_LOGS: &str =
    "SELECT id, last_seq, last_at, turn_count, last_turn_id, last_turn_status, last_turn_at
     FROM logs
     WHERE org_id = $1 AND id = ANY (ARRAY(
         SELECT unnest($2::uuid[]) UNION SELECT log_id FROM turns WHERE org_id = $1 AND id = ANY ($3)))
     ORDER BY id FOR NO KEY UPDATE";

const REMEMBER: &str =
    "INSERT INTO idempotency (org_id, user_id, key, fingerprint, resource_kind, resource_id, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)";

const REVISIONS: &str = "SELECT id, revision FROM sessions WHERE org_id = $1 AND id = ANY ($2)
     ORDER BY id FOR NO KEY UPDATE";

const PENDING: &str = "SELECT log_id, count(*) AS pending, count(started_at) AS running FROM turns
     WHERE org_id = $1 AND log_id = ANY ($2) AND status = 'pending' GROUP BY log_id";

const TURNS: &str = "SELECT id, status, started_at IS NOT NULL AS is_started FROM turns
     WHERE org_id = $1 AND id = ANY ($2)";

/// A reader by a share may become one by taking part.
pub(super) const PARTICIPANTS: &str = "SELECT s.id, wanted.principal, s.log_id, EXISTS (
         SELECT 1 FROM session_access a WHERE a.org_id = $1 AND a.principal = wanted.principal
             AND a.session_id = s.id AND a.via <> 'shared') AS takes_part
     FROM unnest($2::uuid[], $3::uuid[]) AS wanted (session_id, principal)
     JOIN sessions s ON s.org_id = $1 AND s.id = wanted.session_id";

/// True as long as the locks are held, but for what the change set itself does.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) revisions: HashMap<SessionId, u64>,
    /// Logs without such turns are absent.
    pub(super) pending: HashMap<LogId, Pending>,
    pub(super) turns: HashMap<TurnId, TurnProgress>,
    pub(super) participants: HashMap<(SessionId, UserId), Participant>,
}

/// The turns of a log that have no outcome.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pending {
    pub(super) all: u64,
    pub(super) running: u64,
}

/// How far a turn is.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnProgress {
    pub(super) status: TurnStatus,
    pub(super) is_started: bool,
}

/// Somebody who creates a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Participant {
    /// The log that the session writes.
    pub(super) log: LogId,
    /// Nothing has to be written down about them.
    pub(super) is_known: bool,
}

/// The ids that a change set decides on.
#[derive(Default)]
struct Wanted {
    sessions: Vec<Uuid>,
    logs: Vec<Uuid>,
    turns: Vec<Uuid>,
    joined: Vec<Uuid>,
    joining: Vec<Uuid>,
}

/// Also remembers the request's idempotency key: a repeated request is told so before it is told that its first run is in
/// its way.
pub(super) async fn read(
    transaction: &Transaction<'_>,
    scope: &Scope,
    changes: &ChangeSet,
) -> Result<(BTreeMap<LogId, LogState>, Facts), Fault> {
    let org = scope.org.as_uuid();
    let (logs, turns) = logs_and_turns(changes);
    let wanted = Wanted::of(changes, &turns);
    let record = changes.idempotency.as_ref();
    let fingerprint = record.map(|record| record.fingerprint.as_bytes().as_slice());
    let kind = record.map(|record| record.resource.kind.as_str());
    let resource = record.map(|record| record.resource.id);
    let at = record.map(|record| moment(record.created_at));
    let key = record.map(|record| &record.key);

    let all: [(bool, Query<'_>); 6] = [
        (!(logs.is_empty() && turns.is_empty()), (LOCK_LOGS, &[org, &logs, &turns])),
        (
            record.is_some(),
            (REMEMBER, &[org, scope.user.as_uuid(), &key, &fingerprint, &kind, &resource, &at]),
        ),
        (!wanted.sessions.is_empty(), (REVISIONS, &[org, &wanted.sessions])),
        (!wanted.logs.is_empty(), (PENDING, &[org, &wanted.logs])),
        (!wanted.turns.is_empty(), (TURNS, &[org, &wanted.turns])),
        (!wanted.joined.is_empty(), (PARTICIPANTS, &[org, &wanted.joined, &wanted.joining])),
    ];
    let asked: Vec<Query<'_>> =
        all.iter().filter(|(is_needed, _)| *is_needed).map(|(_, query)| *query).collect();
    if asked.is_empty() {
        return Ok(Default::default());
    }
    let mut answers = transaction.query_all(&asked).await?.into_iter();
    let [locked, _, revisions, pending, turns, participants] =
        all.map(|(is_needed, _)| is_needed.then(|| answers.next()).flatten().unwrap_or_default());
    let facts = Facts {
        revisions: collect(&revisions, "session", |row| {
            Ok((row.id("id", SessionId::from_uuid)?, row.counter("revision")?))
        })?,
        pending: collect(&pending, "turn", |row| {
            let counts = Pending { all: row.counter("pending")?, running: row.counter("running")? };
            Ok((row.id("log_id", LogId::from_uuid)?, counts))
        })?,
        turns: collect(&turns, "turn", |row| {
            let (status, is_started) = (row.word("status")?, row.get("is_started")?);
            Ok((row.id("id", TurnId::from_uuid)?, TurnProgress { status, is_started }))
        })?,
        participants: collect(&participants, "session", participant)?,
    };
    Ok((event::states(&locked)?, facts))
}

pub(super) fn participant(row: &Columns<'_>) -> Result<((SessionId, UserId), Participant), Fault> {
    let who = (row.id("id", SessionId::from_uuid)?, row.id("principal", UserId::from_uuid)?);
    let log = row.id("log_id", LogId::from_uuid)?;
    Ok((who, Participant { log, is_known: row.get("takes_part")? }))
}

fn collect<K: Eq + std::hash::Hash, V>(
    rows: &[Row],
    entity: &'static str,
    read: fn(&Columns<'_>) -> Result<(K, V), Fault>,
) -> Result<HashMap<K, V>, Fault> {
    rows.iter().map(|row| read(&Columns::new(entity, row))).collect()
}

impl Wanted {
    fn of(changes: &ChangeSet, turns: &[Uuid]) -> Self {
        let mut wanted = Self { turns: turns.to_vec(), ..Self::default() };
        for expectation in &changes.expects {
            match expectation {
                Expectation::SessionRevision { session, .. } => {
                    wanted.sessions.push(*session.as_uuid());
                }
                Expectation::LogIdle { log }
                | Expectation::NoTurnRunning { log }
                | Expectation::PendingTurnsBelow { log, .. } => wanted.logs.push(*log.as_uuid()),
                Expectation::TurnPending { .. } | Expectation::TurnQueued { .. } => {}
            }
        }
        for write in &changes.writes {
            if let Write::CreateTurn { session, turn } = write {
                wanted.joined.push(*session.as_uuid());
                wanted.joining.push(*turn.created_by.as_uuid());
            }
        }
        wanted
    }
}
