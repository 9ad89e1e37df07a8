//! The one way a turn gets its outcome, whoever ends it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::{
    accept::event,
    transcript::{Ending, Ready, Transcript},
};
use crate::{
    Error, history,
    model::{
        Answer, EventBody, Failure, FailureCode, MessageCompleted, MessageContent, MessageId,
        PayloadId, Response, Role, Scope, Session, SessionId, SessionStateName, Timestamp, Turn,
        TurnEnded, TurnOpened, TurnState,
    },
    payloads::{self, MAX_EVENT_TEXT_BYTES},
    platform::Platform,
    policy::summary::summarize,
    ports::{AuditEntry, ChangeSet, Committed, Expectation, NewEvent, RuntimeFailure, Write},
};

/// A decided outcome, ready to be made durable.
pub(super) struct Outcome {
    pub(super) turn: Turn,
    pub(super) answer: Option<Arc<str>>,
    ready: Ready,
}

/// Decides the outcome from what the agent did and how it ended.
pub(super) fn decide(
    platform: &Platform,
    turn: Turn,
    transcript: &mut Transcript,
    ended: Result<(), RuntimeFailure>,
) -> Result<Outcome, Error> {
    let at = platform.now();
    let ending = if ended.is_ok() { Ending::Whole } else { Ending::CutOff };
    let mut ready = transcript.finish(ending);
    let response =
        Response { received_at: Some(at), usage: transcript.usage, ..Response::default() };
    let mut turn = turn;
    turn.warnings.append(&mut transcript.warnings);
    let (turn, answer) = match ended {
        Ok(()) => {
            let text = transcript.answer();
            let payload = payload_with(&ready, &text)
                .unwrap_or_else(|| PayloadId::from_uuid(platform.new_id()));
            let summary = summarize(&text);
            (turn.complete(Answer { at, summary, text: payload, response })?, Some(Arc::from(text)))
        }
        Err(failure) => {
            let failure = to_failure(failure, response, at);
            ready.events.push(error_message(platform, &turn, &failure));
            (turn.fail(failure)?, None)
        }
    };
    ready.events.push(ended_event(&turn));
    Ok(Outcome { turn, answer, ready })
}

impl Outcome {
    /// The change set, with large payloads stored ahead of it. May be called again after a refusal.
    pub(super) async fn changes(
        &self,
        platform: &Platform,
        scope: &Scope,
    ) -> Result<ChangeSet, Error> {
        let mut changes = ChangeSet {
            writes: vec![Write::FinishTurn(Box::new(self.turn.clone()))],
            events: self.ready.events.clone(),
            audit: vec![audit(&self.turn)],
            ..ChangeSet::default()
        };
        for (id, text) in &self.ready.payloads {
            let payload =
                payloads::stage(platform, scope, self.turn.log, *id, text.clone()).await?;
            changes.writes.push(Write::PutPayload(payload));
        }
        if let (TurnState::Completed(answer), Some(text)) = (&self.turn.state, &self.answer)
            && payload_with(&self.ready, text).is_none()
        {
            let payload = match event_with(&self.ready.events, text) {
                Some(index) => payloads::in_event(answer.text, self.turn.log, text, index),
                None => {
                    let bytes = Bytes::copy_from_slice(text.as_bytes());
                    payloads::stage(platform, scope, self.turn.log, answer.text, bytes).await?
                }
            };
            changes.writes.push(Write::PutPayload(payload));
        }
        Ok(changes)
    }
}

/// The payload of a long message that is the whole answer: it is the answer's payload too.
fn payload_with(ready: &Ready, wanted: &str) -> Option<PayloadId> {
    let found = ready.payloads.iter().find(|(_, text)| text.as_ref() == wanted.as_bytes());
    found.map(|(id, _)| *id)
}

/// The event that carries exactly this text: then the answer need not be stored again.
fn event_with(events: &[NewEvent], wanted: &str) -> Option<usize> {
    events.iter().position(|event| {
        if let EventBody::MessageCompleted(message) = &event.body
            && let MessageContent::Text { text, .. } = &message.content
        {
            message.role == Role::Agent && text == wanted
        } else {
            false
        }
    })
}

/// Adds the failure of a turn that never started to a change set.
pub(crate) fn fail_queued(
    platform: &Platform,
    changes: &mut ChangeSet,
    turn: Turn,
    code: FailureCode,
    at: Timestamp,
) -> Result<Turn, Error> {
    let failure = to_failure(reason_for(code), Response::default(), at);
    let message = error_message(platform, &turn, &failure);
    let failed = turn.fail(failure)?;
    changes.events.extend([message, ended_event(&failed)]);
    changes.audit.push(audit(&failed));
    changes.writes.push(Write::FinishTurn(Box::new(failed.clone())));
    Ok(failed)
}

/// Fails a started turn that nobody runs any more, and closes the message that it left open.
pub(crate) async fn fail_orphan(
    platform: &Platform,
    scope: &Scope,
    session: SessionId,
    turn: Turn,
    code: FailureCode,
) -> Result<(Turn, Committed), Error> {
    let at = platform.now();
    let mut changes = ChangeSet::default();
    if let Some(open) = history::open_message(platform, scope, session, turn.id).await? {
        let (partial, interrupted) = (Some(false), true);
        let content = if open.text.len() <= MAX_EVENT_TEXT_BYTES {
            MessageContent::Text { text: open.text, partial, interrupted }
        } else {
            let id = PayloadId::from_uuid(platform.new_id());
            let staged =
                payloads::stage(platform, scope, turn.log, id, Bytes::from(open.text)).await?;
            changes.writes.push(Write::PutPayload(staged));
            MessageContent::TextPayload { payload: id, partial, interrupted }
        };
        let message = MessageCompleted { message_id: open.id, role: Role::Agent, content };
        changes.events.push(event(&turn, at, EventBody::MessageCompleted(message)));
    }
    let failed = fail_queued(platform, &mut changes, turn, code, at)?;
    let committed = platform.commit(scope, changes).await?;
    Ok((failed, committed))
}

/// The change set that starts a queued turn, if its session takes turns now.
pub(super) fn starting(session: &Session, turn: &mut Turn, at: Timestamp) -> Option<ChangeSet> {
    match session.state.name() {
        SessionStateName::Active => {}
        SessionStateName::Created
        | SessionStateName::Suspended
        | SessionStateName::Completed
        | SessionStateName::Cancelled
        | SessionStateName::Failed => return None,
    }
    turn.started_at = Some(at);
    turn.dispatched_at = Some(at);
    let opened = TurnOpened {
        sequence_number: turn.number,
        instruction: turn.request.instruction_summary.clone(),
        mode: turn.request.mode,
    };
    let revision = session.revision;
    Some(ChangeSet {
        expects: vec![
            Expectation::SessionRevision { session: session.id, revision },
            Expectation::TurnQueued { turn: turn.id },
            Expectation::NoTurnRunning { log: turn.log },
        ],
        writes: vec![Write::StartTurn { turn: turn.id, at }],
        events: vec![event(turn, at, EventBody::TurnStarted(opened))],
        ..ChangeSet::default()
    })
}

/// What people read about a turn that was ended from outside.
pub(super) fn reason_for(code: FailureCode) -> RuntimeFailure {
    let verb = if code == FailureCode::Cancelled { "cancelled" } else { "interrupted" };
    RuntimeFailure { code, message: format!("the turn was {verb}") }
}

fn to_failure(failure: RuntimeFailure, response: Response, at: Timestamp) -> Failure {
    Failure { at, code: failure.code, errors: vec![failure.message], response }
}

fn error_message(platform: &Platform, turn: &Turn, failure: &Failure) -> NewEvent {
    let content = MessageContent::Error {
        message: failure.errors.join("\n"),
        code: failure.code.as_str().to_owned(),
    };
    let message_id = MessageId::from_uuid(platform.new_id());
    let message = MessageCompleted { message_id, role: Role::System, content };
    event(turn, failure.at, EventBody::MessageCompleted(message))
}

fn ended_event(turn: &Turn) -> NewEvent {
    let mut ended = TurnEnded {
        sequence_number: turn.number,
        error_code: None,
        errors: Vec::new(),
        warnings: turn.warnings.clone(),
    };
    let body = match &turn.state {
        TurnState::Failed(failure) => {
            ended.error_code = Some(failure.code);
            ended.errors.clone_from(&failure.errors);
            EventBody::TurnFailed(ended)
        }
        TurnState::Completed(_) | TurnState::Pending => EventBody::TurnCompleted(ended),
    };
    event(turn, turn.status_at(), body)
}

fn audit(turn: &Turn) -> AuditEntry {
    let (action, detail) = match &turn.state {
        TurnState::Failed(failure) => ("turn.failed", json!({"code": failure.code})),
        TurnState::Completed(_) | TurnState::Pending => ("turn.completed", json!({})),
    };
    AuditEntry { at: turn.status_at(), action, target: format!("turn/{}", turn.id), detail }
}
