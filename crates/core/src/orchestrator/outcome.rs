//! The one way a turn gets its outcome, whoever ends it.

use std::sync::Arc;

use serde_json::json;

use super::{
    accept::event,
    growing,
    planning::expiry,
    running::Finished,
    said::{Place, Whole},
    transcript::{Ending, Ready, Transcript},
};
use crate::{
    Error,
    agents::Agent,
    history,
    model::{
        Answer, ChainItem, EventBody, Failure, FailureCode, FileBundle, LiveChain,
        MessageCompleted, MessageContent, MessageId, PayloadId, Response, Role, Scope, Session,
        SessionId, SessionStateName, Timestamp, Turn, TurnEnded, TurnOpened, TurnState,
    },
    payloads::{self, Draft, MAX_EVENT_TEXT_BYTES},
    permissions,
    platform::Platform,
    policy::{chain, text::without_nul},
    ports::{
        AuditEntry, ChainKeeping, ChangeSet, Committed, ContextNeed, Expectation, NewEvent, Prompt,
        RuntimeFailure, StoreError, Write,
    },
};

/// A decided outcome, ready to be made durable.
pub(super) struct Outcome {
    pub(super) turn: Turn,
    answer: Option<Whole>,
    bundle: Option<Arc<FileBundle>>,
    ready: Ready,
    /// What the next turn can go on from.
    chain: Option<(LiveChain, Vec<ChainItem>)>,
    open_calls: Vec<String>,
    /// Whether questions may have been left open.
    has_asked: bool,
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
    let (mut ready, raw) = transcript.finish(ending);
    let response = Response {
        id: transcript.response_id().cloned(),
        first_token_at: transcript.first_text_at,
        received_at: Some(at),
        chain_expires_at: None,
        payload: raw,
        usage: transcript.usage,
    };
    let mut turn = turn;
    turn.warnings.extend(transcript.warnings.drain(..).map(without_nul));
    let (turn, answer) = match ended {
        Ok(()) => {
            let whole = transcript.answer();
            let (summary, text) = (whole.summary.clone(), whole.payload);
            let answer = Answer { at, summary, text, bundle: None, response };
            (turn.complete(answer)?, Some(whole))
        }
        Err(failure) => {
            let failure = to_failure(failure, response, at);
            ready.events.push(error_message(platform, &turn, &failure));
            (turn.fail(failure)?, None)
        }
    };
    ready.events.push(ended_event(&turn));
    let open_calls = std::mem::take(&mut transcript.open_calls);
    let has_asked = transcript.has_asked;
    Ok(Outcome { turn, answer, bundle: None, ready, chain: None, open_calls, has_asked })
}

impl Outcome {
    /// Adds the files that the agent wants written.
    pub(super) fn with_bundle(
        mut self,
        platform: &Platform,
        bundle: Option<FileBundle>,
    ) -> Result<Self, Error> {
        if let (Some(bundle), TurnState::Completed(answer)) = (bundle, &mut self.turn.state) {
            let id = PayloadId::from_uuid(platform.new_id());
            let json = serde_json::to_vec(&bundle).map_err(|error| StoreError::Corrupt {
                entity: "file bundle",
                reason: error.to_string(),
            })?;
            self.ready.drafts.push(Draft::json(id, self.turn.log, json));
            answer.bundle = Some(id);
            self.bundle = Some(Arc::new(bundle));
        }
        Ok(self)
    }

    /// A completed turn is what the next one goes on from; a failed one never is.
    pub(super) fn with_chain(
        mut self,
        platform: &Platform,
        agent: Option<&Agent>,
        prompt: &Prompt,
    ) -> Self {
        let need = agent.map_or(ContextNeed::Nothing, |agent| agent.runtime.context());
        let ContextNeed::Conversation { provider, keeping } = need else { return self };
        let Some(plan) = &self.turn.plan else { return self };
        let expires_at = expiry(keeping, platform.now(), platform.context.chain_days);
        let response_id = match &mut self.turn.state {
            TurnState::Completed(Answer { response, .. })
            | TurnState::Failed(Failure { response, .. }) => {
                response.chain_expires_at = expires_at.filter(|_| response.id.is_some());
                response.id.clone().filter(|_| keeping == ChainKeeping::Server)
            }
            TurnState::Pending => None,
        };
        let Some(answer) = &self.answer else { return self };
        let said = prompt.instruction.len() as u64 + answer.size_bytes;
        let chain = LiveChain {
            number: plan.chain.number,
            provider,
            model: self.turn.request.model.clone(),
            response_id,
            expires_at,
            tip: self.turn.id,
            history_bytes: plan.chain.history_bytes + said,
            open_calls: std::mem::take(&mut self.open_calls),
        };
        self.chain = Some((chain, chain::items_of(&self.turn)));
        self
    }

    /// What those who waited are told.
    pub(super) fn finished(self, committed: &Committed) -> Finished {
        let last_seq = committed.events.last().map_or(0, |event| event.seq);
        let answer = self.answer.and_then(|answer| answer.text);
        Finished { turn: self.turn, answer, bundle: self.bundle, last_seq }
    }

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
        changes.writes.extend(self.ready.writes(platform, scope).await?);
        if let Some((chain, items)) = self.chain.clone() {
            let (log, chain) = (self.turn.log, Box::new(chain));
            changes.writes.push(Write::AdvanceChain { log, chain, items });
        }
        if self.has_asked {
            let of = (self.turn.request.conversation, self.turn.id, self.turn.log);
            let before = changes.events.len();
            permissions::call_off(platform, scope, &mut changes, of).await?;
            // The turn's end stays last.
            changes.events[before.saturating_sub(1)..].rotate_left(1);
        }
        if let Some(answer) = &self.answer {
            changes.writes.extend(self.answer_writes(platform, scope, answer).await?);
        }
        Ok(changes)
    }

    async fn answer_writes(
        &self,
        platform: &Platform,
        scope: &Scope,
        answer: &Whole,
    ) -> Result<Vec<Write>, Error> {
        Ok(match &answer.place {
            Place::Message => Vec::new(),
            Place::Short(payload) => {
                let text = answer.text.as_deref().unwrap_or_default();
                let payload = match event_with(&self.ready.events, text) {
                    Some(index) => payloads::in_event(payload.id, self.turn.log, text, index),
                    None => payload.clone(),
                };
                vec![Write::PutPayload(payload)]
            }
            Place::Joined { named, rest, begins_with } => {
                if let Some((first, count)) = *begins_with {
                    growing::copy_parts(platform, scope, (first, count), named.id).await?;
                }
                let named = Write::PutPayload(named.clone());
                rest.iter().map(growing::Part::write).chain([named]).collect()
            }
        })
    }
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
    reason: RuntimeFailure,
    at: Timestamp,
) -> Result<Turn, Error> {
    add_failure(platform, changes, turn, to_failure(reason, Response::default(), at))
}

fn add_failure(
    platform: &Platform,
    changes: &mut ChangeSet,
    turn: Turn,
    failure: Failure,
) -> Result<Turn, Error> {
    let message = error_message(platform, &turn, &failure);
    let failed = turn.fail(failure)?;
    changes.events.extend([message, ended_event(&failed)]);
    changes.audit.push(audit(&failed));
    changes.writes.push(Write::FinishTurn(Box::new(failed.clone())));
    Ok(failed)
}

/// A started turn that nobody runs any more.
pub(crate) struct Orphan {
    pub(crate) turn: Turn,
    /// As far as it was known.
    pub(crate) response_id: Option<String>,
}

/// Fails a started turn that nobody runs any more, and closes the message that it left open.
pub(crate) async fn fail_orphan(
    platform: &Platform,
    scope: &Scope,
    session: SessionId,
    orphan: Orphan,
    cause: RuntimeFailure,
) -> Result<(Turn, Committed), Error> {
    let Orphan { turn, response_id } = orphan;
    let at = platform.now();
    let mut changes = ChangeSet::default();
    if let Some(open) = history::open_message(platform, scope, session, turn.id).await? {
        let (partial, interrupted) = (Some(false), true);
        let content = if open.text.len() <= MAX_EVENT_TEXT_BYTES {
            MessageContent::Text { text: open.text, partial, interrupted }
        } else {
            let id = PayloadId::from_uuid(platform.new_id());
            let staged =
                payloads::stage(platform, scope, Draft::text(id, turn.log, open.text)).await?;
            changes.writes.push(Write::PutPayload(staged));
            MessageContent::TextPayload { payload: id, partial, interrupted }
        };
        let message = MessageCompleted { message_id: open.id, role: Role::Agent, content };
        changes.events.push(event(&turn, at, EventBody::MessageCompleted(message)));
    }
    let response = Response { id: response_id, ..Response::default() };
    permissions::call_off(platform, scope, &mut changes, (session, turn.id, turn.log)).await?;
    let failure = to_failure(cause, response, at);
    let failed = add_failure(platform, &mut changes, turn, failure)?;
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
pub(crate) fn reason_for(code: FailureCode) -> RuntimeFailure {
    let verb = if code == FailureCode::Cancelled { "cancelled" } else { "interrupted" };
    RuntimeFailure { code, message: format!("the turn was {verb}") }
}

fn to_failure(failure: RuntimeFailure, response: Response, at: Timestamp) -> Failure {
    Failure { at, code: failure.code, errors: vec![without_nul(failure.message)], response }
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
