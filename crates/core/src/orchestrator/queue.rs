//! Turns that wait behind another one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tracing::{error, warn};

use super::{
    Orchestrator,
    accept::event,
    outcome,
    planning::{Planned, Unplanned},
    run::{FIRST_RETRY, Job, LAST_RETRY},
    texts,
};
use crate::{
    Error,
    agents::Agent,
    hosting::Slot,
    model::{
        FileFate, FileText, PayloadId, SERVER_RESTART, Scope, SentTexts, Session, SessionId,
        SessionStateName, Turn, TurnFile,
    },
    payloads::Draft,
    platform::RACE_ATTEMPTS,
    policy::{chain::ProviderSays, delta::GivenFile},
    ports::{ContextNeed, StoreError, Write},
    sessions,
};

/// Before a queued turn that the store did not take is started again.
const START_RETRY: Duration = Duration::from_secs(1);

impl Orchestrator {
    /// Starts the oldest turn that waits in the session, if nothing runs and nothing holds it back.
    pub(crate) async fn start_next(self: &Arc<Self>, scope: &Scope, session: SessionId) {
        for _ in 0..RACE_ATTEMPTS {
            match self.try_start_next(scope, session).await {
                Ok(()) => return,
                // Somebody was faster; whether a turn still waits is seen on the next look.
                Err(error) if error.is_lost_race() => {}
                Err(Error::Store(error @ (StoreError::Full | StoreError::Unavailable(_)))) => {
                    warn!(%error, "a queued turn cannot be started now; trying again later");
                    return self.start_next_later(scope, session);
                }
                Err(error) => {
                    error!(%error, session.id = %session, "a queued turn could not be started");
                    return;
                }
            }
        }
        self.start_next_later(scope, session);
    }

    /// A turn that waits must not depend on somebody asking again.
    fn start_next_later(self: &Arc<Self>, scope: &Scope, session: SessionId) {
        let (orchestrator, scope) = (Arc::clone(self), scope.clone());
        self.tasks.spawn(async move {
            tokio::time::sleep(START_RETRY).await;
            orchestrator.start_next(&scope, session).await;
        });
    }

    async fn try_start_next(
        self: &Arc<Self>,
        scope: &Scope,
        session: SessionId,
    ) -> Result<(), Error> {
        if self.running.check_open().is_err() || self.running.is_held(session) {
            return Ok(());
        }
        let Some(turn) = self.next_affordable(scope, session).await? else { return Ok(()) };
        let Some(record) = self.platform.store.find_session(scope, session).await? else {
            return Ok(());
        };
        let scope = Scope::on_behalf_of(turn.org, turn.created_by);
        let Some(session) = self.after_restart(&scope, record.session).await? else {
            return Ok(());
        };
        self.start_queued(scope, &session, turn).await
    }

    /// The oldest turn that waits, if nothing runs. Those that would go over a budget fail on the way.
    async fn next_affordable(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Option<Turn>, Error> {
        let mark = self.running.mark_queue(session);
        let pending = self.platform.store.list_pending_turns(scope, session).await?;
        if pending.first().is_some_and(|turn| !turn.is_queued()) {
            return Ok(None);
        }
        for turn in pending {
            let scope = Scope::on_behalf_of(turn.org, turn.created_by);
            let Some(spent) = self.spent_budget(&scope, &turn).await? else {
                return Ok(Some(turn));
            };
            self.fail_waiting(&scope, turn, spent.reason()).await?;
        }
        self.running.unmark_queue(session, mark);
        Ok(None)
    }

    /// A session that only a restart has put aside goes on when something waits in it. `None` when there is no place
    /// for its agent now: the next prompt tries again.
    async fn after_restart(
        &self,
        scope: &Scope,
        session: Session,
    ) -> Result<Option<Session>, Error> {
        let is_restarted = session.state.name() == SessionStateName::Suspended
            && session.state.reason() == Some(SERVER_RESTART);
        if !is_restarted {
            return Ok(Some(session));
        }
        let Ok(slot) = self.hosting.reserve(&session) else { return Ok(None) };
        let (resumed, changes) = sessions::resumption(&session, None, self.platform.now())?;
        self.platform.commit(scope, changes).await?;
        slot.into_iter().for_each(Slot::keep);
        Ok(Some(resumed))
    }

    /// A turn that waited is retrieved for and planned only now: what it goes on from has just been said.
    async fn start_queued(
        self: &Arc<Self>,
        scope: Scope,
        session: &Session,
        turn: Turn,
    ) -> Result<(), Error> {
        let files = self.given_files(&scope, &turn).await?;
        let instruction: Arc<str> = Arc::from(self.instruction_of(&scope, &turn).await?);
        let agent = self.agents.resolve_bound(&self.platform, &scope, &session.binding).await?;
        let mut planned = match &agent {
            Some(agent) => {
                let files = &files;
                let unplanned = Unplanned { session, agent, turn, instruction, files };
                self.plan(&scope, unplanned, ProviderSays::Nothing).await?
            }
            None => Planned::without_agent(turn, instruction),
        };
        let now = self.platform.now();
        let Some(mut changes) = outcome::starting(session, &mut planned.turn, now) else {
            return Ok(());
        };
        if let Some(body) = planned.event() {
            changes.events.push(event(&planned.turn, now, body));
            changes.writes.push(Write::PlanTurn(Box::new(planned.turn.clone())));
        }
        let drafts = std::mem::take(&mut planned.drafts);
        let staged = self.stage(&scope, drafts).await?;
        changes.writes.extend(staged.into_iter().map(Write::PutPayload));
        let Some(control) = self.running.enter(planned.turn.id) else { return Ok(()) };
        let started = self.platform.commit(&scope, changes).await;
        let job = Job::new(scope, (session.id, planned), (agent, control)).with_files(files);
        match started {
            Ok(_) => self.spawn(job),
            Err(error) if error.is_unavailable() => {
                warn!(%error, "it is not known whether a queued turn has started");
                self.spawn_if_started(job);
            }
            Err(error) => {
                self.running.leave(job.turn.id);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs a turn if its start was kept; else looks for it in the queue again.
    fn spawn_if_started(self: &Arc<Self>, job: Job) {
        let orchestrator = Arc::clone(self);
        self.tasks.spawn(async move {
            match orchestrator.kept_after_all(&job.scope, &job.turn).await {
                Some(kept) if kept.started_at == job.turn.started_at => orchestrator.run(job).await,
                _ => {
                    orchestrator.running.leave(job.turn.id);
                    orchestrator.start_next(&job.scope, job.session).await;
                }
            }
        });
    }

    /// Whether a turn is in the store and pending, after the store did not say so. Asks until there is an answer; a
    /// process that ends before there is one leaves it to recovery.
    pub(super) async fn kept_after_all(&self, scope: &Scope, turn: &Turn) -> Option<Turn> {
        let mut pause = FIRST_RETRY;
        while self.running.check_open().is_ok() {
            let session = turn.request.conversation;
            match self.platform.store.find_turn(scope, session, turn.id).await {
                Ok(found) => {
                    return found.map(|record| record.turn).filter(|turn| !turn.status_is_final());
                }
                Err(error) => warn!(%error, "it is not known yet whether a turn was kept"),
            }
            tokio::time::sleep(pause).await;
            pause = LAST_RETRY.min(pause * 2);
        }
        None
    }

    /// Keeps what a turn that has to wait was given.
    pub(super) fn set_aside(
        &self,
        mut turn: Turn,
        agent: Option<&Agent>,
        given: &[GivenFile],
    ) -> Result<(Turn, Vec<Draft>), Error> {
        let need = agent.map_or(ContextNeed::Nothing, |agent| agent.runtime.context());
        if need == ContextNeed::Nothing {
            return Ok((turn, Vec::new()));
        }
        let waiting = turn.request.files.iter_mut().filter(|file| file.fate == FileFate::NotUsed);
        for file in waiting {
            file.fate = FileFate::Waiting;
            file.reason = "decided when the turn starts".to_owned();
        }
        let texts = given.iter().filter_map(|given| {
            let content = given.content.as_ref()?.as_ref().to_owned();
            Some(FileText { path: given.file.path.clone(), content })
        });
        let texts = SentTexts { files: texts.collect(), chunks: Vec::new() };
        if texts.files.is_empty() {
            return Ok((turn, Vec::new()));
        }
        let id = PayloadId::from_uuid(self.platform.new_id());
        turn.request.inputs = Some(id);
        let draft = Draft::json(id, turn.log, texts::encode(&texts)?);
        Ok((turn, vec![draft]))
    }

    /// The files of a turn that was set aside, with their contents.
    async fn given_files(&self, scope: &Scope, turn: &Turn) -> Result<Vec<GivenFile>, Error> {
        let mut contents: HashMap<String, String> = HashMap::new();
        if let Some(inputs) = turn.request.inputs {
            let body = self.platform.store.payload_body(scope, inputs).await?;
            let texts = texts::decode(&body)?;
            contents.extend(texts.files.into_iter().map(|file| (file.path, file.content)));
        }
        let given = |file: &TurnFile| {
            let content = contents.remove(&file.path).map(Arc::from);
            GivenFile { file: file.clone(), content }
        };
        Ok(turn.request.files.iter().map(given).collect())
    }
}
