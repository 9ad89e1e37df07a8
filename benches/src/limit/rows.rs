//! The rows of a session and of its turns, as the product's engine writes them.

use std::{collections::HashMap, time::Instant};

use anyhow::Context as _;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::store::{AGENT, ORG, USER};
use crate::{subject::REPLY_BYTES, text::Noise};

/// 15 November 2026; the rows need a plausible time, not the true one.
const EPOCH_MILLIS: u64 = 1_794_700_800_000;

/// The product compresses event data from this size on.
const COMPRESS_FROM_BYTES: usize = 512;

pub(crate) const SUMMARY_CHARS: usize = 1_024;

/// One thing to write.
#[derive(Debug)]
pub(super) enum Work {
    Open { session: Uuid },
    Begin { session: Uuid, turn: Uuid, instruction: String },
    Deltas { session: Uuid, turn: Uuid, data: Vec<String> },
    Finish { session: Uuid, turn: Uuid },
}

/// Where the newest events of a log went.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    pub(super) last_seq: i64,
    pub(super) turn_number: i64,
}

struct Log {
    id: Uuid,
    written: Written,
}

/// Gives ids and times, in order.
pub(super) struct Source {
    noise: Noise,
    began: Instant,
}

impl Source {
    pub(super) fn new(seed: u64) -> Self {
        Self { noise: Noise::new(seed), began: Instant::now() }
    }

    pub(super) fn now(&self) -> i64 {
        let millis = EPOCH_MILLIS + u64::try_from(self.began.elapsed().as_millis()).unwrap_or(0);
        i64::try_from(millis).unwrap_or(i64::MAX)
    }

    pub(super) fn id(&mut self) -> Uuid {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.noise.next().to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(self.now().unsigned_abs(), &random).into_uuid()
    }
}

/// Writes rows, and keeps the counters of the logs.
pub(super) struct Rows {
    source: Source,
    logs: HashMap<Uuid, Log>,
    /// The agent's message, packed once.
    packed_reply: Vec<u8>,
    reply_summary: String,
    audit_no: i64,
}

/// One event of a turn.
struct EventRow<'a> {
    kind: &'a str,
    message: Option<(Uuid, &'a str)>,
    data: &'a [u8],
}

/// What most statements of a turn need.
#[derive(Clone, Copy)]
struct Place {
    log: Uuid,
    turn: Uuid,
    at: i64,
}

impl Rows {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut source = Source::new(11);
        let reply = Noise::new(12).text(REPLY_BYTES);
        let message = message_json(source.id(), "agent", &reply, r#","partial":false"#);
        Ok(Self {
            source,
            logs: HashMap::new(),
            packed_reply: pack(message.as_bytes())?,
            reply_summary: reply[..SUMMARY_CHARS].to_owned(),
            audit_no: 0,
        })
    }

    pub(super) fn write(&mut self, store: &Connection, work: &Work) -> anyhow::Result<Written> {
        match work {
            Work::Open { session } => self.open(store, *session),
            Work::Begin { session, turn, instruction } => {
                self.begin(store, (*session, *turn), instruction)
            }
            Work::Deltas { session, turn, data } => self.deltas(store, (*session, *turn), data),
            Work::Finish { session, turn } => self.finish(store, (*session, *turn)),
        }
    }

    fn open(&mut self, store: &Connection, session: Uuid) -> anyhow::Result<Written> {
        let (log, task, at) = (self.source.id(), self.source.id(), self.source.now());
        store
            .prepare_cached("INSERT INTO logs (org_id, id) VALUES (?1, ?2)")?
            .execute(params![ORG, log.as_bytes()])?;
        store
            .prepare_cached(
                "INSERT INTO sessions (org_id, id, log_id, owner_user, created_by, state, revision,
                     is_public, is_draft, agent_context_id, agent_context_version, interface,
                     task_id, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?4, 'active', 1, 0, 0, ?5, 1, 'api', ?6, ?7, ?7)",
            )?
            .execute(params![
                ORG,
                session.as_bytes(),
                log.as_bytes(),
                USER,
                AGENT,
                task.as_bytes(),
                at
            ])?;
        let written = Written::default();
        self.logs.insert(session, Log { id: log, written });
        Ok(written)
    }

    fn begin(
        &mut self,
        store: &Connection,
        (session, turn): (Uuid, Uuid),
        instruction: &str,
    ) -> anyhow::Result<Written> {
        let at = self.source.now();
        let (message, payload) = (self.source.id(), self.source.id());
        let log = self.logs.get_mut(&session).context("unknown session")?;
        log.written.turn_number += 1;
        let number = log.written.turn_number;
        let place = Place { log: log.id, turn, at };
        insert_turn(store, place, (session, payload), (number, instruction))?;
        let opened = format!(
            "\0{{\"sequenceNumber\":{number},\"instruction\":\"{instruction}\",\"mode\":\"ask\"}}"
        );
        let said = pack(message_json(message, "user", instruction, "").as_bytes())?;
        let events = [
            EventRow { kind: "turn.created", message: None, data: opened.as_bytes() },
            EventRow { kind: "message.completed", message: Some((message, "user")), data: &said },
            EventRow { kind: "turn.started", message: None, data: opened.as_bytes() },
        ];
        let first = append(store, place, &events, &mut log.written)?;
        count(store, place, log.written, "pending")?;
        insert_payload(store, place, payload, (first + 1, instruction.len()))?;
        let written = log.written;
        self.audit(store, place, ("turn.created", &format!("{{\"session\":\"{session}\"}}")))?;
        Ok(written)
    }

    fn deltas(
        &mut self,
        store: &Connection,
        (session, turn): (Uuid, Uuid),
        data: &[String],
    ) -> anyhow::Result<Written> {
        let log = self.logs.get_mut(&session).context("unknown session")?;
        let place = Place { log: log.id, turn, at: self.source.now() };
        let rows: Vec<Vec<u8>> = data.iter().map(|data| marked_plain(data.as_bytes())).collect();
        let event = |data| EventRow { kind: "message.delta", message: None, data };
        let events: Vec<_> = rows.iter().map(|data| event(data)).collect();
        append(store, place, &events, &mut log.written)?;
        count(store, place, log.written, "pending")?;
        Ok(log.written)
    }

    fn finish(
        &mut self,
        store: &Connection,
        (session, turn): (Uuid, Uuid),
    ) -> anyhow::Result<Written> {
        let at = self.source.now();
        let (message, payload) = (self.source.id(), self.source.id());
        let log = self.logs.get_mut(&session).context("unknown session")?;
        let place = Place { log: log.id, turn, at };
        store
            .prepare_cached(
                "UPDATE turns SET status = 'completed', finished_at = ?3, answer_summary = ?4,
                     answer_payload = ?5, received_at = ?3
                 WHERE org_id = ?1 AND id = ?2",
            )?
            .execute(params![ORG, turn.as_bytes(), at, self.reply_summary, payload.as_bytes()])?;
        let ended = format!("\0{{\"sequenceNumber\":{},\"warnings\":[]}}", log.written.turn_number);
        let events = [
            EventRow {
                kind: "message.completed",
                message: Some((message, "agent")),
                data: &self.packed_reply,
            },
            EventRow { kind: "turn.completed", message: None, data: ended.as_bytes() },
        ];
        let first = append(store, place, &events, &mut log.written)?;
        count(store, place, log.written, "completed")?;
        insert_payload(store, place, payload, (first, REPLY_BYTES))?;
        let written = log.written;
        self.audit(store, place, ("turn.completed", "{}"))?;
        Ok(written)
    }

    fn audit(
        &mut self,
        store: &Connection,
        place: Place,
        (action, detail): (&str, &str),
    ) -> anyhow::Result<()> {
        self.audit_no += 1;
        store
            .prepare_cached(
                "INSERT INTO audit
                     (org_id, at, actor, action, target, detail, chain_no, chain_hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                ORG,
                place.at,
                USER,
                action,
                format!("turn/{}", place.turn),
                detail.as_bytes(),
                self.audit_no,
                [7_u8; 32],
            ])?;
        Ok(())
    }
}

fn insert_turn(
    store: &Connection,
    place: Place,
    (session, payload): (Uuid, Uuid),
    (number, instruction): (i64, &str),
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT INTO turns (org_id, id, log_id, number, created_by, ticket_id, status, mode,
                 queued_at, started_at, dispatched_at, conversation_id, instruction_payload,
                 file_count, instruction_summary)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', 'ask', ?7, ?7, ?7, ?6, ?8, 0, ?9)",
        )?
        .execute(params![
            ORG,
            place.turn.as_bytes(),
            place.log.as_bytes(),
            number,
            USER,
            session.as_bytes(),
            place.at,
            payload.as_bytes(),
            instruction,
        ])?;
    Ok(())
}

/// Gives the `seq` of the first event.
fn append(
    store: &Connection,
    place: Place,
    events: &[EventRow<'_>],
    written: &mut Written,
) -> rusqlite::Result<i64> {
    let first = written.last_seq + 1;
    let mut statement = store.prepare_cached(
        "INSERT INTO events (org_id, log_id, seq, turn_id, type, at, message_id, role, data)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for event in events {
        written.last_seq += 1;
        statement.execute(params![
            ORG,
            place.log.as_bytes(),
            written.last_seq,
            place.turn.as_bytes(),
            event.kind,
            place.at,
            event.message.as_ref().map(|(id, _)| id.as_bytes()),
            event.message.map(|(_, role)| role),
            event.data,
        ])?;
    }
    Ok(first)
}

/// The log's counters, all in one statement.
fn count(store: &Connection, place: Place, written: Written, status: &str) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE logs SET last_seq = ?3, last_at = ?4, turn_count = ?5, last_turn_id = ?6,
                 last_turn_status = ?7, last_turn_at = ?4
             WHERE org_id = ?1 AND id = ?2",
        )?
        .execute(params![
            ORG,
            place.log.as_bytes(),
            written.last_seq,
            place.at,
            written.turn_number,
            place.turn.as_bytes(),
            status,
        ])?;
    Ok(())
}

fn insert_payload(
    store: &Connection,
    place: Place,
    payload: Uuid,
    (event_seq, bytes): (i64, usize),
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT INTO payloads
                 (org_id, id, log_id, sha256, size, media_type, location, event_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, 'text/plain; charset=utf-8', 'event', ?6)",
        )?
        .execute(params![
            ORG,
            payload.as_bytes(),
            place.log.as_bytes(),
            [9_u8; 32],
            i64::try_from(bytes).unwrap_or(i64::MAX),
            event_seq,
        ])?;
    Ok(())
}

/// The texts are made here and need no escaping.
fn message_json(id: Uuid, role: &str, text: &str, more: &str) -> String {
    format!(
        r#"{{"messageId":"{id}","role":"{role}","content":{{"type":"text","text":"{text}"{more}}}}}"#
    )
}

/// The data of a turn's events, as the product stores it.
pub(crate) struct EventData {
    pub(crate) opened: Vec<u8>,
    pub(crate) question: Vec<u8>,
    pub(crate) answer: Vec<u8>,
    pub(crate) closed: Vec<u8>,
}

impl EventData {
    pub(crate) fn new(instruction: &str, reply: &str) -> anyhow::Result<Self> {
        let opened =
            format!(r#"{{"sequenceNumber":1,"instruction":"{instruction}","mode":"ask"}}"#);
        let question = message_json(Uuid::nil(), "user", instruction, "");
        let answer = message_json(Uuid::nil(), "agent", reply, r#","partial":false"#);
        Ok(Self {
            opened: marked_plain(opened.as_bytes()),
            question: pack(question.as_bytes())?,
            answer: pack(answer.as_bytes())?,
            closed: marked_plain(br#"{"sequenceNumber":1,"warnings":[]}"#),
        })
    }
}

/// A mark and the bytes, compressed as the product does it.
fn pack(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    if bytes.len() < COMPRESS_FROM_BYTES {
        return Ok(marked_plain(bytes));
    }
    let mut packed = vec![1];
    packed.extend(zstd::bulk::compress(bytes, 1)?);
    Ok(packed)
}

fn marked_plain(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0];
    packed.extend_from_slice(bytes);
    packed
}

/// Reads back what [`pack`] gave, row after row.
pub(super) struct Unpacker {
    decompressor: zstd::bulk::Decompressor<'static>,
    unpacked: Vec<u8>,
}

impl Unpacker {
    pub(super) fn new() -> anyhow::Result<Self> {
        let decompressor = zstd::bulk::Decompressor::new()?;
        Ok(Self { decompressor, unpacked: Vec::with_capacity(64 * 1024) })
    }

    pub(super) fn unpack<'a>(&'a mut self, stored: &'a [u8]) -> anyhow::Result<&'a [u8]> {
        match stored.split_first() {
            Some((0, plain)) => Ok(plain),
            Some((_, compressed)) => {
                self.decompressor.decompress_to_buffer(compressed, &mut self.unpacked)?;
                Ok(&self.unpacked)
            }
            None => anyhow::bail!("an empty row"),
        }
    }
}
