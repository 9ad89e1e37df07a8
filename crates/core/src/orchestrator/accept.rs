//! From an instruction to a durable turn. A `202` stops here.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::oneshot;
use tracing::{Instrument, info_span, instrument};

use super::{
    AnswerText, Executed, Orchestrator,
    planning::{Planned, Unplanned},
    run::Job,
    running::{Finished, Waiting},
};
use crate::{
    Error,
    agents::Agent,
    history::TurnContext,
    hosting::Slot,
    intake::{ExecuteCommand, OnBusy, Target},
    model::{
        Asked, EventBody, LogId, MessageCompleted, MessageContent, MessageId, PayloadId, Role,
        SERVER_RESTART, Scope, Seq, Session, SessionId, SessionState, Timestamp, Turn, TurnId,
        TurnOpened, TurnRequest, TurnState, TurnStatus,
    },
    payloads::{self, Draft, MAX_EVENT_TEXT_BYTES, StoredPayload},
    platform::{IdempotencyKey, Platform, RACE_ATTEMPTS},
    policy::{access::Action, chain::ProviderSays, delta::GivenFile, summary::summarize},
    ports::{
        AuditEntry, ChangeSet, Conflict, Expectation, NewEvent, Resource, ResourceKind, StoreError,
        Write,
    },
    sessions,
};

/// A turn that is durable and will be run.
#[derive(Debug)]
pub struct Accepted {
    pub session: SessionId,
    /// Where the turn's events are.
    pub log: LogId,
    pub turn: TurnId,
    pub sequence_number: u32,
    /// The position before the turn's first event; 0 for a replay.
    pub before_seq: Seq,
    /// The request was seen before; nothing was done this time.
    pub replayed: bool,
    /// Resolves with the outcome; absent for a replay.
    pub waiting: Option<Waiting>,
}

/// Whether the turn runs at once or waits for the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Now,
    Queued,
}

/// A turn that is about to become durable.
struct Beginning {
    session: SessionId,
    planned: Planned,
    files: Vec<GivenFile>,
    agent: Option<Agent>,
    changes: ChangeSet,
    /// The place of the session's agent process, if it has one.
    slot: Option<Slot>,
}

impl Orchestrator {
    /// Makes a turn durable and sets it going, or queues it.
    #[instrument(skip_all)]
    pub async fn accept(
        self: &Arc<Self>,
        scope: &Scope,
        command: ExecuteCommand,
        key: Option<&IdempotencyKey>,
    ) -> Result<Accepted, Error> {
        self.running.check_open()?;
        let mut start = Start::Now;
        let mut lost = Error::Draining;
        for _ in 0..RACE_ATTEMPTS {
            if let Some(resource) = self.platform.find_replay(scope, key).await? {
                return self.replay(scope, resource).await;
            }
            if let Target::Session(session, _) = &command.target {
                self.running.wait_until_released(*session).await;
            }
            match self.try_accept(scope, &command, start, key).await {
                Err(Error::Store(StoreError::Conflict(Conflict::TurnRunning))) => {
                    start = self.when_busy(scope, &command).await?;
                }
                Err(Error::Store(StoreError::Conflict(Conflict::LimitReached(_)))) => {
                    return Err(Error::QueueFull { limit: self.platform.limits.queued_turns });
                }
                Err(error) if error.is_lost_race() => lost = error,
                accepted => return accepted,
            }
        }
        Err(lost)
    }

    /// Accepts the instruction and waits for its outcome.
    pub async fn execute(
        self: &Arc<Self>,
        scope: &Scope,
        command: ExecuteCommand,
        key: Option<&IdempotencyKey>,
    ) -> Result<Executed, Error> {
        let accepted = self.accept(scope, command, key).await?;
        self.outcome_of(scope, accepted).await
    }

    /// Waits for an accepted turn; a replayed one must have finished.
    pub async fn outcome_of(&self, scope: &Scope, accepted: Accepted) -> Result<Executed, Error> {
        let Accepted { session, turn, replayed, waiting, .. } = accepted;
        let (turn, answer, bundle) = match waiting {
            Some(waiting) => {
                let Finished { turn, answer, bundle, .. } = waiting.finished().await?;
                (turn, answer, bundle)
            }
            None => (self.turn(scope, session, turn, Action::Read).await?.turn, None, None),
        };
        let (answer, bundle) = match (&turn.state, answer) {
            (TurnState::Pending, _) => return Err(Error::IdempotencyInProgress { turn: turn.id }),
            (TurnState::Failed(_), _) => (None, None),
            (TurnState::Completed(_), Some(text)) => (Some(AnswerText::Here(text)), bundle),
            (TurnState::Completed(answer), None) => {
                let text = self.stored_text(scope, answer.text).await?;
                let bundle = match bundle {
                    Some(bundle) => Some(bundle),
                    None => self.stored_bundle(scope, answer.bundle).await?,
                };
                (Some(text), bundle)
            }
        };
        Ok(Executed { session, turn, answer, bundle, replayed })
    }

    async fn stored_text(&self, scope: &Scope, payload: PayloadId) -> Result<AnswerText, Error> {
        let meta = self.platform.store.find_payload(scope, payload).await?;
        let meta = meta.ok_or(StoreError::from(Conflict::Missing("payload")))?;
        let stored = StoredPayload::new(&self.platform, scope, meta);
        Ok(match stored.is_one_piece() {
            true => AnswerText::Here(Arc::from(String::from_utf8_lossy(&stored.body().await?))),
            false => AnswerText::Stored(stored),
        })
    }

    async fn try_accept(
        self: &Arc<Self>,
        scope: &Scope,
        command: &ExecuteCommand,
        start: Start,
        key: Option<&IdempotencyKey>,
    ) -> Result<Accepted, Error> {
        let (session, mut changes) = self.open_session(scope, command, start).await?;
        let slot = self.hosting.reserve(&session)?;
        let agent = self.agents.resolve_bound(&self.platform, scope, &session.binding).await?;
        let turn = self.new_turn(scope, &session, command, start);
        if let Some(spent) = self.spent_budget(scope, &turn).await? {
            let begun = self.begin_spent(scope, (&session, turn), (changes, command, key), spent);
            let begun = begun.await?;
            // A session that holds a place has a process, so that it can become idle.
            slot.into_iter().for_each(Slot::keep);
            self.hosting.launch(&session);
            return Ok(begun);
        }
        let mut planned =
            self.plan_or_set_aside(scope, (&session, agent.as_ref()), turn, command).await?;
        let staged =
            stage_instruction(&self.platform, scope, &planned.turn, &command.instruction).await?;
        add_turn(&mut changes, &self.platform, &session, &planned.turn, staged);
        if let Some(body) = planned.event() {
            changes.events.push(event(&planned.turn, planned.turn.created_at, body));
        }
        let drafts = std::mem::take(&mut planned.drafts);
        let payloads = self.stage(scope, drafts).await?;
        changes.writes.extend(payloads.into_iter().map(Write::PutPayload));
        changes.expects.extend(match (&command.target, start) {
            // A log that this change set opens holds nothing yet.
            (Target::New(_), _) => None,
            (Target::Session(..), Start::Now) => Some(Expectation::LogIdle { log: session.log }),
            (Target::Session(..), Start::Queued) => Some(Expectation::PendingTurnsBelow {
                log: session.log,
                // The running turn is pending too, but does not wait.
                below: self.platform.limits.queued_turns.saturating_add(1),
            }),
        });
        let resource = Resource { kind: ResourceKind::Turn, id: *planned.turn.id.as_uuid() };
        changes.idempotency = self.platform.idempotency_record(key, resource);
        let (session, files) = (session.id, command.files.clone());
        self.begin(scope, Beginning { session, planned, files, agent, changes, slot }).await
    }

    /// A turn that can start at once is planned now; one that has to wait, when it starts.
    async fn plan_or_set_aside(
        &self,
        scope: &Scope,
        (session, agent): (&Session, Option<&Agent>),
        turn: Turn,
        command: &ExecuteCommand,
    ) -> Result<Planned, Error> {
        let instruction: Arc<str> = Arc::from(command.instruction.as_str());
        let files = &command.files;
        match (agent, turn.started_at) {
            (Some(agent), Some(_)) => {
                let unplanned = Unplanned { session, agent, turn, instruction, files };
                self.plan(scope, unplanned, ProviderSays::Nothing).await
            }
            (agent, _) => {
                let (turn, drafts) = self.set_aside(turn, agent, files)?;
                Ok(Planned { drafts, ..Planned::without_agent(turn, instruction) })
            }
        }
    }

    /// What the turn would be given if it ran now. Nothing is written.
    #[instrument(skip_all)]
    pub async fn dry_run(
        &self,
        scope: &Scope,
        command: &ExecuteCommand,
    ) -> Result<TurnContext, Error> {
        let (session, _) = self.open_session(scope, command, Start::Queued).await?;
        let agent = self.agents.resolve_bound(&self.platform, scope, &session.binding).await?;
        let turn = self.new_turn(scope, &session, command, Start::Now);
        let planned =
            self.plan_or_set_aside(scope, (&session, agent.as_ref()), turn, command).await?;
        let instruction_bytes = command.instruction.len() as u64;
        Ok(TurnContext { turn: planned.turn, instruction_bytes, is_dry_run: true })
    }

    /// From here on the turn does not depend on its caller: one task makes it durable and runs it.
    async fn begin(
        self: &Arc<Self>,
        scope: &Scope,
        beginning: Beginning,
    ) -> Result<Accepted, Error> {
        let (tell, told) = oneshot::channel();
        let (orchestrator, scope) = (Arc::clone(self), scope.clone());
        let turn = beginning.planned.turn.id;
        let span = info_span!("turn", session.id = %beginning.session, turn.id = %turn);
        let task = async move { orchestrator.begin_and_run(scope, beginning, tell).await };
        self.tasks.spawn(task.instrument(span));
        told.await.unwrap_or(Err(Error::Draining))
    }

    /// The turn is durable before the agent sees it, so a crash from here on leaves a pending turn
    /// that recovery can find.
    async fn begin_and_run(
        self: Arc<Self>,
        scope: Scope,
        beginning: Beginning,
        tell: oneshot::Sender<Result<Accepted, Error>>,
    ) {
        let Beginning { session, mut planned, files, agent, changes, slot } = beginning;
        let turn = &mut planned.turn;
        let waiting = self.running.wait_for(turn.id);
        let control = turn.started_at.and_then(|_| self.running.enter(turn.id));
        if turn.started_at.is_none() {
            self.running.mark_queue(session);
        }
        match self.platform.commit(&scope, changes).await {
            Ok(committed) => {
                slot.into_iter().for_each(Slot::keep);
                turn.number = committed.turn_numbers.first().copied().unwrap_or_default();
                let first = committed.events.iter().find(|event| event.turn == Some(turn.id));
                // A caller that has gone is not told; the turn goes on.
                drop(tell.send(Ok(Accepted {
                    session,
                    log: turn.log,
                    turn: turn.id,
                    sequence_number: turn.number,
                    before_seq: first.map_or(0, |event| event.seq.saturating_sub(1)),
                    replayed: false,
                    waiting: Some(waiting),
                })));
            }
            Err(error) => {
                let may_be_kept = error.is_unavailable();
                self.running.forget(turn.id);
                drop(tell.send(Err(error)));
                let kept = match may_be_kept {
                    true => self.kept_after_all(&scope, turn).await,
                    false => None,
                };
                let Some(kept) = kept else { return self.running.leave(turn.id) };
                *turn = kept;
            }
        }
        let Some(control) = control else {
            // The turn before it may have ended while this one was being queued.
            return self.start_next(&scope, session).await;
        };
        let scope = Scope::on_behalf_of(scope.org, scope.user);
        self.run(Job::new(scope, (session, planned), (agent, control)).with_files(files)).await;
    }

    /// The session that the instruction belongs to, ready to run, with what that changes.
    async fn open_session(
        &self,
        scope: &Scope,
        command: &ExecuteCommand,
        start: Start,
    ) -> Result<(Session, ChangeSet), Error> {
        let at = self.platform.now();
        let (id, rebind) = match &command.target {
            Target::Session(id, rebind) => (*id, rebind),
            Target::New(new) => {
                crate::policy::access::check_create(scope)?;
                let (created, mut changes) =
                    sessions::open(&self.platform, &self.agents, scope, new).await?;
                if created.is_resident {
                    // Active once its agent has answered.
                    return Ok((created, changes));
                }
                let (active, activation) = sessions::activation(&created, at)?;
                changes.writes.extend(activation.writes);
                changes.events.extend(activation.events);
                return Ok((active, changes));
            }
        };
        let record = self.platform.session_for(scope, id, Action::RunTurn).await?;
        let is_busy = record.log.last_turn.is_some_and(|turn| turn.status == TurnStatus::Pending);
        if is_busy && start == Start::Now {
            // The store would say so too, but only after everything was looked up and planned.
            return Err(Conflict::TurnRunning.into());
        }
        let session = record.session;
        let opened = match &session.state {
            SessionState::Created if !session.is_resident => sessions::activation(&session, at)?,
            SessionState::Created | SessionState::Active => {
                let revision = session.revision;
                let expects = vec![Expectation::SessionRevision { session: id, revision }];
                (session, ChangeSet { expects, ..ChangeSet::default() })
            }
            SessionState::Suspended { reason, .. } if reason == SERVER_RESTART => {
                sessions::resumption(&session, None, at)?
            }
            SessionState::Suspended { .. } => return Err(Error::SessionSuspended),
            SessionState::Completed { .. }
            | SessionState::Cancelled { .. }
            | SessionState::Failed { .. } => {
                let state = session.state.name();
                return Err(Error::SessionNotActive { state, wanted: "take instructions" });
            }
        };
        sessions::rebind(&self.platform, &self.agents, scope, opened, rebind).await
    }

    fn new_turn(
        &self,
        scope: &Scope,
        session: &Session,
        command: &ExecuteCommand,
        start: Start,
    ) -> Turn {
        let at = self.platform.now();
        let started_at = (start == Start::Now).then_some(at);
        Turn {
            id: TurnId::from_uuid(self.platform.new_id()),
            org: session.org,
            log: session.log,
            number: 0,
            created_by: scope.user,
            ticket: session.task,
            created_at: at,
            started_at,
            dispatched_at: started_at,
            request: TurnRequest {
                mode: command.mode,
                conversation: session.id,
                instruction_summary: summarize(&command.instruction),
                instruction: PayloadId::from_uuid(self.platform.new_id()),
                model: command.model.clone(),
                temperature: command.temperature,
                asked: Asked { model: command.model.clone(), temperature: command.temperature },
                previous_response_id: None,
                request_payload: None,
                rerun_of: command.rerun_of,
                workspace_id: or(&command.workspace_id, &session.binding.workspace_id),
                repo: or(&command.repo, &session.binding.repo),
                language: or(&command.language, &session.profile.default_language),
                scope_paths: match command.scope_paths.is_empty() {
                    true => session.binding.scope_paths.clone(),
                    false => command.scope_paths.clone(),
                },
                files: command.files.iter().map(|given| given.file.clone()).collect(),
                inputs: None,
            },
            plan: None,
            warnings: Vec::new(),
            state: TurnState::Pending,
        }
    }

    async fn when_busy(&self, scope: &Scope, command: &ExecuteCommand) -> Result<Start, Error> {
        match (command.on_busy, &command.target) {
            (OnBusy::Enqueue, _) => Ok(Start::Queued),
            (OnBusy::Reject, Target::New(_)) => Err(Error::TurnInProgress { turn: None }),
            (OnBusy::Reject, Target::Session(session, _)) => {
                let pending = self.platform.store.list_pending_turns(scope, *session).await?;
                Err(Error::TurnInProgress { turn: pending.first().map(|turn| turn.id) })
            }
        }
    }

    async fn replay(&self, scope: &Scope, resource: Resource) -> Result<Accepted, Error> {
        let turn = TurnId::from_uuid(resource.id);
        let found = self.platform.store.find_turn_anywhere(scope, turn).await?;
        let found = found.ok_or(Error::NotFound { entity: "turn" })?.turn;
        let session = found.request.conversation;
        self.platform.session_for(scope, session, Action::Read).await?;
        Ok(Accepted {
            session,
            log: found.log,
            turn,
            sequence_number: found.number,
            before_seq: 0,
            replayed: true,
            waiting: None,
        })
    }
}

fn or(first: &Option<String>, second: &Option<String>) -> Option<String> {
    first.as_ref().or(second.as_ref()).cloned()
}

/// A short instruction is kept in the log alone, a long one in a payload that the log names.
pub(super) enum Staged {
    InEvent { text: String },
    Apart(crate::ports::NewPayload),
}

pub(super) async fn stage_instruction(
    platform: &Platform,
    scope: &Scope,
    turn: &Turn,
    text: &str,
) -> Result<Staged, Error> {
    if text.len() <= MAX_EVENT_TEXT_BYTES {
        return Ok(Staged::InEvent { text: text.to_owned() });
    }
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let draft = Draft::text(turn.request.instruction, turn.log, bytes);
    Ok(Staged::Apart(payloads::stage(platform, scope, draft).await?))
}

/// The turn, its instruction, and the events that tell of them.
pub(super) fn add_turn(
    changes: &mut ChangeSet,
    platform: &Platform,
    session: &Session,
    turn: &Turn,
    staged: Staged,
) {
    let at = turn.created_at;
    let opened = TurnOpened {
        sequence_number: 0,
        instruction: turn.request.instruction_summary.clone(),
        mode: turn.request.mode,
    };
    changes.writes.push(Write::CreateTurn { session: session.id, turn: Box::new(turn.clone()) });
    changes.events.push(event(turn, at, EventBody::TurnCreated(opened.clone())));
    let message_index = changes.events.len();
    let (payload, content) = match staged {
        Staged::InEvent { text } => {
            let id = turn.request.instruction;
            let payload = payloads::in_event(id, turn.log, &text, message_index);
            (payload, MessageContent::user_text(text))
        }
        Staged::Apart(payload) => {
            let id = payload.id;
            let content =
                MessageContent::TextPayload { payload: id, partial: None, interrupted: false };
            (payload, content)
        }
    };
    changes.writes.push(Write::PutPayload(payload));
    let message_id = MessageId::from_uuid(platform.new_id());
    let message = MessageCompleted { message_id, role: Role::User, content };
    changes.events.push(event(turn, at, EventBody::MessageCompleted(message)));
    if turn.started_at.is_some() {
        changes.events.push(event(turn, at, EventBody::TurnStarted(opened)));
    }
    changes.audit.push(AuditEntry {
        at,
        action: "turn.created",
        target: format!("turn/{}", turn.id),
        detail: json!({"session": session.id}),
    });
}

pub(super) fn event(turn: &Turn, at: Timestamp, body: EventBody) -> NewEvent {
    NewEvent { log: turn.log, turn: Some(turn.id), at, body }
}
