//! What is done to a change set before it reaches the writer, so that the writer only writes.

use skein_core::{
    model::{EventBody, MessageContent, OrgId, Scope, Timestamp, Turn, UserId},
    ports::{
        ChangeSet, Conflict, Expectation, IdempotencyRecord, NewEvent, PayloadBody, StoreError,
        Write,
    },
};

use crate::{asked, codec};

/// About what a row takes beside its large columns.
const ROW_BYTES: usize = 256;

/// A change set whose large parts are encoded and packed.
pub(super) struct Prepared {
    pub(super) expects: Vec<Expectation>,
    pub(super) writes: Vec<PreparedWrite>,
    pub(super) events: Vec<PreparedEvent>,
    pub(super) audit: Vec<PreparedAudit>,
    pub(super) idempotency: Option<IdempotencyRecord>,
    /// About how much this adds to the write-ahead log.
    pub(super) bytes: usize,
    /// The store's own time, for rows whose write carries none.
    pub(super) now: Timestamp,
}

/// A write and, where it has one, its packed body.
pub(super) struct PreparedWrite {
    pub(super) write: Write,
    pub(super) packed: Option<Vec<u8>>,
}

/// An event and its packed data.
pub(super) struct PreparedEvent {
    pub(super) event: NewEvent,
    /// None when the data holds a number that only the writer can give.
    pub(super) packed: Option<Vec<u8>>,
}

/// A line of the audit log with its org and actor.
pub(super) struct PreparedAudit {
    pub(super) org: OrgId,
    pub(super) actor: UserId,
    pub(super) at: Timestamp,
    pub(super) action: &'static str,
    pub(super) target: String,
    /// JSON; short, so it is never compressed.
    pub(super) detail: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(
        scope: &Scope,
        changes: ChangeSet,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        check_event_texts(&changes)?;
        let events =
            changes.events.into_iter().map(prepare_event).collect::<Result<Vec<_>, _>>()?;
        let writes =
            changes.writes.into_iter().map(prepare_write).collect::<Result<Vec<_>, _>>()?;
        let audit = changes
            .audit
            .into_iter()
            .map(|entry| {
                Ok(PreparedAudit {
                    org: scope.org,
                    actor: scope.user,
                    at: entry.at,
                    action: entry.action,
                    target: entry.target,
                    detail: serde_json::to_vec(&entry.detail)
                        .map_err(|e| unwritable("audit", e))?,
                })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        let written: usize = writes.iter().map(|prepared| rows_of(&prepared.write)).sum();
        let rows = written + events.len() + audit.len();
        let bodies = writes.iter().map(|write| write.packed.as_deref());
        let data = events.iter().map(|event| event.packed.as_deref());
        let bytes = rows * ROW_BYTES + bodies.chain(data).flatten().map(<[u8]>::len).sum::<usize>();
        Ok(Self {
            expects: changes.expects,
            writes,
            events,
            audit,
            idempotency: changes.idempotency,
            bytes,
            now,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.expects.is_empty()
            && self.writes.is_empty()
            && self.events.is_empty()
            && self.audit.is_empty()
            && self.idempotency.is_none()
    }
}

fn prepare_event(event: NewEvent) -> Result<PreparedEvent, StoreError> {
    let packed = if lacks_number(&event.body) { None } else { Some(pack_event(&event.body)?) };
    Ok(PreparedEvent { event, packed })
}

/// Whether the number of a new turn is to be filled in.
fn lacks_number(body: &EventBody) -> bool {
    match body {
        EventBody::TurnCreated(opened) | EventBody::TurnStarted(opened) => {
            opened.sequence_number == 0
        }
        EventBody::TurnCompleted(ended) | EventBody::TurnFailed(ended) => {
            ended.sequence_number == 0
        }
        _ => false,
    }
}

/// An event's data as it is stored.
pub(super) fn pack_event(body: &EventBody) -> Result<Vec<u8>, StoreError> {
    body.encode().map(|json| codec::pack(&json)).map_err(|error| unwritable("event", error))
}

fn prepare_write(write: Write) -> Result<PreparedWrite, StoreError> {
    let packed = match &write {
        Write::PutPayload(payload) => match &payload.body {
            PayloadBody::Inline(body) => Some(codec::pack(body)),
            PayloadBody::Parts { .. } | PayloadBody::EventText { .. } => None,
        },
        Write::PutPayloadPart { body, .. } => Some(codec::pack(body)),
        Write::PutCheckpoint(checkpoint) => {
            Some(codec::pack_json("checkpoint", &checkpoint.state)?)
        }
        Write::PutPermission(asked) => Some(asked::pack(asked)?),
        Write::CreateTurn { turn, .. } | Write::PlanTurn(turn) => {
            turn.plan.as_deref().map(|plan| codec::pack_json("plan", plan)).transpose()?
        }
        _ => None,
    };
    Ok(PreparedWrite { write, packed })
}

/// About how many rows a write touches.
fn rows_of(write: &Write) -> usize {
    let of_turn = |turn: &Turn| {
        let chunks = turn.plan.as_deref().map_or(0, |plan| plan.chunks.len());
        1 + turn.request.files.len() + chunks
    };
    match write {
        Write::CreateTurn { turn, .. } | Write::PlanTurn(turn) => of_turn(turn),
        Write::AdvanceChain { items, .. } => 1 + items.len(),
        _ => 1,
    }
}

/// A payload that points at an event must point at a text of its own log.
fn check_event_texts(changes: &ChangeSet) -> Result<(), StoreError> {
    for write in &changes.writes {
        if let Write::PutPayload(payload) = write
            && let PayloadBody::EventText { event_index } = payload.body
        {
            let holds_text = changes.events.get(event_index).is_some_and(|event| {
                event.log == payload.log
                    && matches!(&event.body, EventBody::MessageCompleted(message)
                        if matches!(message.content, MessageContent::Text { .. }))
            });
            if !holds_text {
                return Err(Conflict::Missing("event with the payload's text").into());
            }
        }
    }
    Ok(())
}

fn unwritable(entity: &'static str, error: serde_json::Error) -> StoreError {
    StoreError::Corrupt { entity, reason: error.to_string() }
}
