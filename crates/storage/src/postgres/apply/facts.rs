//! What a change set decides on, read in one round trip once its locks are held.

use std::{
    collections::{BTreeMap, HashMap},
    time::SystemTime,
};

use skein_core::{
    model::{LogId, Scope, SessionId, TurnId, TurnStatus, UserId},
    ports::{ChangeSet, Expectation, Write},
};
use tokio_postgres::{Row, types::ToSql};
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
macro_rules! lock_logs {
    ($ids:literal) => {
        concat!(
            "SELECT id, last_seq, last_at, turn_count, last_turn_id, last_turn_status, last_turn_at
             FROM logs WHERE org_id = $1 AND id = ANY (",
            $ids,
            ") ORDER BY id FOR NO KEY UPDATE"
        )
    };
}

const LOCK_LOGS: &str = lock_logs!(
    "ARRAY(SELECT unnest($2::uuid[])
           UNION SELECT log_id FROM turns WHERE org_id = $1 AND id = ANY ($3))"
);

/// The usual case: one log, by its id, by a turn of it, or both.
const LOCK_LOG: &str =
    lock_logs!("ARRAY[$2::uuid, (SELECT log_id FROM turns WHERE org_id = $1 AND id = $3)]");

const REMEMBER: &str =
    "INSERT INTO idempotency (org_id, user_id, key, fingerprint, resource_kind, resource_id, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)";

const REVISION: &str =
    "SELECT revision FROM sessions WHERE org_id = $1 AND id = $2 FOR NO KEY UPDATE";

const PENDING: &str = "SELECT count(*) AS pending, count(started_at) AS running FROM turns
     WHERE org_id = $1 AND log_id = $2 AND status = 'pending'";

const TURN: &str = "SELECT status, started_at IS NOT NULL AS is_started FROM turns
     WHERE org_id = $1 AND id = $2";

/// A reader by a share may become one by taking part.
pub(super) const PARTICIPANT: &str = "SELECT s.log_id, EXISTS (
         SELECT 1 FROM session_access a WHERE a.org_id = $1 AND a.principal = $3
             AND a.session_id = $2 AND a.via <> 'shared') AS takes_part
     FROM sessions s WHERE s.org_id = $1 AND s.id = $2";

/// All three at once, for whoever adds a turn to a session.
const ENTRY: &str = "SELECT s.revision, s.log_id, EXISTS (
         SELECT 1 FROM session_access a WHERE a.org_id = $1 AND a.principal = $3
             AND a.session_id = $2 AND a.via <> 'shared') AS takes_part,
         waiting.pending, waiting.running
     FROM sessions s CROSS JOIN LATERAL (
         SELECT count(*) AS pending, count(t.started_at) AS running FROM turns t
         WHERE t.org_id = $1 AND t.log_id = s.log_id AND t.status = 'pending') waiting
     WHERE s.org_id = $1 AND s.id = $2 FOR NO KEY UPDATE OF s";

/// True as long as the locks are held, but for what the change set itself does.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) revisions: HashMap<SessionId, u64>,
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

/// One thing to find out. Nearly every change set is about one session, so nothing is asked about several at once: a
/// plan for many would be a worse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Log,
    Logs,
    Key,
    /// Stands for the session's revision, its log's pending turns and the participant.
    Entry(SessionId, UserId),
    Revision(SessionId),
    Pending(LogId),
    Turn(TurnId),
    Participant(SessionId, UserId),
}

/// The parameters that questions share.
struct Asking<'a> {
    scope: &'a Scope,
    logs: Vec<Uuid>,
    turns: Vec<Uuid>,
    log: Option<Uuid>,
    turn: Option<Uuid>,
    key: Option<Key<'a>>,
}

/// The columns of a remembered request.
struct Key<'a> {
    text: &'a str,
    fingerprint: &'a [u8],
    kind: &'static str,
    resource: Uuid,
    at: SystemTime,
}

/// Also remembers the request's idempotency key: a repeated request is told so before it is told that its first run is in
/// its way.
pub(super) async fn read(
    transaction: &Transaction<'_>,
    scope: &Scope,
    changes: &ChangeSet,
) -> Result<(BTreeMap<LogId, LogState>, Facts), Fault> {
    let asking = Asking::about(scope, changes);
    let questions = questions(&asking, changes);
    if questions.is_empty() {
        return Ok(Default::default());
    }
    let params: Vec<_> = questions.iter().map(|question| asking.params(question)).collect();
    let queries: Vec<Query<'_>> = questions
        .iter()
        .zip(&params)
        .map(|(question, params)| (question.sql(), params.as_slice()))
        .collect();
    let answers = transaction.query_all(&queries).await?;
    let (mut logs, mut facts) = (BTreeMap::new(), Facts::default());
    for (question, rows) in questions.into_iter().zip(answers) {
        match question {
            Question::Log | Question::Logs => logs = event::states(&rows)?,
            _ => facts.learn(question, &rows)?,
        }
    }
    Ok((logs, facts))
}

/// In the order in which they are asked: the locks come first.
fn questions(asking: &Asking<'_>, changes: &ChangeSet) -> Vec<Question> {
    let mut questions: Vec<Question> =
        asking.turns.iter().map(|turn| Question::Turn(TurnId::from_uuid(*turn))).collect();
    match (asking.logs.len(), asking.turns.len()) {
        (0, 0) => {}
        (0 | 1, 0 | 1) => questions.push(Question::Log),
        _ => questions.push(Question::Logs),
    }
    questions.extend(asking.key.as_ref().map(|_| Question::Key));
    for expectation in &changes.expects {
        match expectation {
            Expectation::SessionRevision { session, .. } => {
                questions.push(Question::Revision(*session));
            }
            Expectation::LogIdle { log }
            | Expectation::NoTurnRunning { log }
            | Expectation::PendingTurnsBelow { log, .. } => questions.push(Question::Pending(*log)),
            Expectation::TurnPending { .. } | Expectation::TurnQueued { .. } => {}
        }
    }
    for write in &changes.writes {
        if let Write::CreateTurn { session, turn } = write {
            questions.push(Question::Participant(*session, turn.created_by));
        }
    }
    questions.sort_unstable();
    questions.dedup();
    match asking.logs.len() {
        1 => at_once(questions),
        _ => questions,
    }
}

/// The usual turn asks three times about its session, and names one log: its own.
fn at_once(mut questions: Vec<Question>) -> Vec<Question> {
    use Question::{Entry, Participant, Pending, Revision};
    let about_session = questions.iter().position(|question| matches!(question, Revision(_)));
    if let Some(first) = about_session
        && let [Revision(revised), Pending(_), Participant(session, user)] = questions[first..]
        && revised == session
    {
        questions.truncate(first);
        questions.push(Entry(session, user));
    }
    questions
}

impl Question {
    fn sql(&self) -> &'static str {
        match self {
            Self::Log => LOCK_LOG,
            Self::Logs => LOCK_LOGS,
            Self::Key => REMEMBER,
            Self::Entry(..) => ENTRY,
            Self::Revision(_) => REVISION,
            Self::Pending(_) => PENDING,
            Self::Turn(_) => TURN,
            Self::Participant(..) => PARTICIPANT,
        }
    }
}

impl<'a> Asking<'a> {
    fn about(scope: &'a Scope, changes: &'a ChangeSet) -> Self {
        let (logs, turns) = logs_and_turns(changes);
        let key = changes.idempotency.as_ref().map(|record| Key {
            text: &record.key,
            fingerprint: record.fingerprint.as_bytes(),
            kind: record.resource.kind.as_str(),
            resource: record.resource.id,
            at: moment(record.created_at),
        });
        let (log, turn) = (logs.first().copied(), turns.first().copied());
        Self { scope, logs, turns, log, turn, key }
    }

    fn params<'b>(&'b self, question: &'b Question) -> Vec<&'b (dyn ToSql + Sync)> {
        let org = self.scope.org.as_uuid();
        match question {
            Question::Log => vec![org, &self.log, &self.turn],
            Question::Logs => vec![org, &self.logs, &self.turns],
            Question::Key => match &self.key {
                Some(Key { text, fingerprint, kind, resource, at }) => {
                    vec![org, self.scope.user.as_uuid(), text, fingerprint, kind, resource, at]
                }
                None => Vec::new(),
            },
            Question::Revision(session) => vec![org, session.as_uuid()],
            Question::Pending(log) => vec![org, log.as_uuid()],
            Question::Turn(turn) => vec![org, turn.as_uuid()],
            Question::Entry(session, user) | Question::Participant(session, user) => {
                vec![org, session.as_uuid(), user.as_uuid()]
            }
        }
    }
}

impl Facts {
    fn learn(&mut self, question: Question, rows: &[Row]) -> Result<(), Fault> {
        let Some(row) = rows.first() else { return Ok(()) };
        match question {
            Question::Log | Question::Logs | Question::Key => {}
            Question::Revision(session) => {
                let revision = Columns::new("session", row).counter("revision")?;
                self.revisions.insert(session, revision);
            }
            Question::Pending(log) => {
                self.pending.insert(log, Pending::from(row)?);
            }
            Question::Entry(session, user) => {
                let revision = Columns::new("session", row).counter("revision")?;
                let participant = Participant::from(row)?;
                self.revisions.insert(session, revision);
                self.pending.insert(participant.log, Pending::from(row)?);
                self.participants.insert((session, user), participant);
            }
            Question::Turn(turn) => {
                let row = Columns::new("turn", row);
                let (status, is_started) = (row.word("status")?, row.get("is_started")?);
                self.turns.insert(turn, TurnProgress { status, is_started });
            }
            Question::Participant(session, user) => {
                self.participants.insert((session, user), Participant::from(row)?);
            }
        }
        Ok(())
    }
}

impl Pending {
    fn from(row: &Row) -> Result<Self, Fault> {
        let row = Columns::new("turn", row);
        Ok(Self { all: row.counter("pending")?, running: row.counter("running")? })
    }
}

impl Participant {
    /// A row of [`PARTICIPANT`].
    pub(super) fn from(row: &Row) -> Result<Self, Fault> {
        let row = Columns::new("session", row);
        let log = row.id("log_id", LogId::from_uuid)?;
        Ok(Self { log, is_known: row.get("takes_part")? })
    }
}
