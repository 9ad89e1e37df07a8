//! The use cases of a session's life.

mod changes;
mod edit;
mod ending;
mod supervision;

use std::sync::Arc;

use futures::future::BoxFuture;
use tracing::{instrument, warn};

use crate::{
    Error,
    agents::{AgentChoice, Agents},
    hosting::{Hosting, Slot},
    model::{
        ConversationContextId, EventBody, FailureCode, Interface, LogId, Profile, RepoId,
        SERVER_RESTART, Scope, SessionChange, SessionId, SessionStateName, UserId,
    },
    orchestrator::{Orchestrator, outcome},
    platform::{Created, IdempotencyKey, Platform, RACE_ATTEMPTS},
    policy::{
        access::{self, Action},
        text::check_optional,
    },
    ports::{
        ChangeSet, Conflict, Counting, Resource, ResourceKind, SessionFilter, SessionPage,
        SessionQuery, SessionRecord, SessionSort, StoreError, Write,
    },
};
pub(crate) use changes::{Housing, activation, housing, open, rebind, resumption, suspension};
use changes::{audit, change, check_profile, event, refuse_final, save};
pub use edit::SessionEdit;
use ending::Ending;

/// What a new session is made from.
#[derive(Debug, Clone)]
pub struct NewSession {
    pub agent: AgentChoice,
    pub conversation_context: Option<ConversationContextId>,
    pub profile: Profile,
    pub interface: Interface,
    pub workspace_id: Option<String>,
    pub repo: Option<String>,
    pub repo_id: Option<RepoId>,
    pub scope_paths: Vec<String>,
    pub default_language: Option<String>,
}

impl Default for NewSession {
    fn default() -> Self {
        Self {
            agent: AgentChoice::Default,
            conversation_context: None,
            profile: Profile::default(),
            interface: Interface::Api,
            workspace_id: None,
            repo: None,
            repo_id: None,
            scope_paths: Vec::new(),
            default_language: None,
        }
    }
}

/// What happens to a running turn when its session is put aside or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Busy {
    /// The request is refused.
    #[default]
    Refuse,
    /// The turn is ended first.
    Interrupt,
}

/// A page of sessions as a caller asks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListSessions {
    pub filter: SessionFilter,
    pub from: Option<SessionSort>,
    pub offset: u64,
    pub limit: u32,
}

/// Creates, lists, edits and ends sessions.
#[derive(Clone)]
pub struct Sessions {
    platform: Arc<Platform>,
    agents: Arc<Agents>,
    orchestrator: Arc<Orchestrator>,
    hosting: Arc<Hosting>,
}

/// One attempt at a change. Boxed, because the future of an async closure is not known to be `Send`.
type Decision<'a> = BoxFuture<'a, Result<(), Error>>;

impl Sessions {
    pub fn new(
        platform: Arc<Platform>,
        agents: Arc<Agents>,
        orchestrator: Arc<Orchestrator>,
    ) -> Self {
        let hosting = Arc::clone(orchestrator.hosting());
        Self { platform, agents, orchestrator, hosting }
    }

    /// Opens a session with its log and its task, in one commit.
    #[instrument(skip_all, fields(session.id))]
    pub async fn create(
        &self,
        scope: &Scope,
        new: NewSession,
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<SessionRecord>, Error> {
        access::check_create(scope)?;
        for _ in 0..RACE_ATTEMPTS {
            if let Some(resource) = self.platform.find_replay(scope, key).await? {
                let session = SessionId::from_uuid(resource.id);
                let value = self.platform.session_for(scope, session, Action::Read).await?;
                return Ok(Created { value, replayed: true });
            }
            let (session, mut changes) = open(&self.platform, &self.agents, scope, &new).await?;
            let slot = self.hosting.reserve(&session)?;
            let resource = Resource { kind: ResourceKind::Session, id: *session.id.as_uuid() };
            changes.idempotency = self.platform.idempotency_record(key, resource);
            match self.platform.commit(scope, changes).await {
                Ok(_) => {
                    slot.into_iter().for_each(Slot::keep);
                    self.hosting.launch(&session);
                    let value = self.get(scope, session.id).await?;
                    return Ok(Created { value, replayed: false });
                }
                Err(error) if error.is_lost_race() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Draining)
    }

    pub async fn get(&self, scope: &Scope, session: SessionId) -> Result<SessionRecord, Error> {
        self.platform.session_for(scope, session, Action::Read).await
    }

    /// Newest first, only what the caller may read.
    pub async fn list(&self, scope: &Scope, list: ListSessions) -> Result<SessionPage, Error> {
        let counting = counting(&list.filter);
        let query = SessionQuery {
            visibility: access::visibility(scope),
            filter: list.filter,
            from: list.from,
            offset: list.offset,
            limit: list.limit,
            counting,
        };
        Ok(self.platform.store.list_sessions(scope, &query).await?)
    }

    /// Sessions that a user owns or took part in, as far as the caller may read them.
    ///
    /// Only admins learn whether there is such a user: for everyone else a colleague with nothing to show, a stranger
    /// and nobody at all have the same empty list.
    pub async fn list_of_user(
        &self,
        scope: &Scope,
        user: UserId,
        list: ListSessions,
    ) -> Result<SessionPage, Error> {
        let administers = access::check_administer(scope, "looking up users").is_ok();
        if administers && self.platform.store.find_user(scope, user).await?.is_none() {
            return Err(Error::NotFound { entity: "user" });
        }
        let filter = SessionFilter { user: Some(user), ..list.filter };
        self.list(scope, ListSessions { filter, ..list }).await
    }

    /// Replaces the given fields. `revision` is the one that the caller saw, if it says so.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn edit(
        &self,
        scope: &Scope,
        session: SessionId,
        edit: SessionEdit,
        revision: Option<u64>,
    ) -> Result<SessionRecord, Error> {
        let edit = &edit;
        let decide = |record: SessionRecord| -> Decision<'_> {
            Box::pin(async move {
                let current = record.session.revision;
                if revision.is_some_and(|wanted| wanted != current) {
                    return Err(Error::PreconditionFailed { revision: current });
                }
                let (profile, fields) = edit.apply(record.session.profile.clone());
                if fields.is_empty() {
                    return Ok(());
                }
                check_profile(&self.platform, &profile)?;
                let edited = record.session.clone().edit(profile, self.platform.now());
                let mut changes = save(&record.session, &edited, self.platform.now());
                let body = EventBody::SessionUpdated(SessionChange { fields, ..change(&edited) });
                changes.events.push(event(&edited, edited.updated_at, body));
                self.platform.commit(scope, changes).await.map(drop)
            })
        };
        self.retry(scope, session, Action::Change, decide).await
    }

    /// Ends the session as its owner wanted. Completing it again changes nothing.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn complete(
        &self,
        scope: &Scope,
        session: SessionId,
        busy: Busy,
    ) -> Result<SessionRecord, Error> {
        self.end(scope, session, &Ending::Complete { busy, reason: None }).await
    }

    /// Ends the session and every pending turn in it. A session that has ended stays as it is.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn cancel(
        &self,
        scope: &Scope,
        session: SessionId,
        reason: Option<String>,
    ) -> Result<SessionRecord, Error> {
        check_optional("reason", reason.as_deref(), self.platform.limits.field_bytes)?;
        self.end(scope, session, &Ending::Cancel { reason }).await
    }

    /// Puts the session aside with a checkpoint; queued turns wait until it is resumed.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn suspend(
        &self,
        scope: &Scope,
        session: SessionId,
        reason: Option<String>,
        busy: Busy,
    ) -> Result<SessionRecord, Error> {
        check_optional("reason", reason.as_deref(), self.platform.limits.field_bytes)?;
        let reason = &reason.unwrap_or_else(|| "user_requested".to_owned());
        if reason == SERVER_RESTART {
            let reason = format!("{SERVER_RESTART:?} is kept for Skein itself");
            return Err(Error::Invalid { field: "reason", reason });
        }
        let decide = |record: SessionRecord| -> Decision<'_> {
            Box::pin(async move {
                refuse_final(&record.session, "be suspended")?;
                if record.session.state.name() == SessionStateName::Suspended {
                    return Err(Error::SessionSuspended);
                }
                let failure = outcome::reason_for(FailureCode::Interrupted);
                self.clear_running(scope, &record, busy, &failure).await?;
                // Read again: the checkpoint covers what the interrupted turn left behind.
                let record = self.get(scope, session).await?;
                let changes = suspension(&self.platform, &record, reason)?;
                self.platform.commit(scope, changes).await?;
                self.hosting.vacate(session);
                Ok(())
            })
        };
        let suspended = self.while_queue_waits(scope, session, decide).await?;
        self.hosting.release(&suspended.session);
        Ok(suspended)
    }

    /// Takes a suspended session up again, and with it the turns that waited.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn resume(
        &self,
        scope: &Scope,
        session: SessionId,
        interface: Option<Interface>,
    ) -> Result<SessionRecord, Error> {
        let decide = |record: SessionRecord| -> Decision<'_> {
            Box::pin(async move {
                refuse_final(&record.session, "be resumed")?;
                if record.session.state.name() != SessionStateName::Suspended {
                    return Err(Error::SessionNotSuspended { state: record.session.state.name() });
                }
                let slot = self.hosting.reserve(&record.session)?;
                let changes = resumption(&record.session, interface, self.platform.now())?.1;
                self.platform.commit(scope, changes).await?;
                slot.into_iter().for_each(Slot::keep);
                Ok(())
            })
        };
        let resumed = self.retry(scope, session, Action::Change, decide).await?;
        self.hosting.launch(&resumed.session);
        self.orchestrator.start_next(scope, session).await;
        Ok(resumed)
    }

    /// Removes the session and its history for good.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn purge(&self, scope: &Scope, session: SessionId) -> Result<SessionRecord, Error> {
        let record = self.platform.session_for(scope, session, Action::Delete).await?;
        let ended = match record.session.state.name().is_final() {
            true => record,
            false => self.cancel(scope, session, Some("purged".to_owned())).await?,
        };
        let logs = self.platform.store.logs_of(scope, session).await?;
        let changes = ChangeSet {
            writes: vec![Write::PurgeSession { session }],
            audit: vec![audit(&ended.session, "session.purged", self.platform.now())],
            ..ChangeSet::default()
        };
        self.platform.commit(scope, changes).await?;
        self.platform.feed.close(ended.session.log);
        self.forget_documents(scope, &logs).await;
        Ok(ended)
    }

    /// A log that a fork still reads keeps its documents. What cannot be removed now is found by nobody all the same:
    /// searches look at logs that a session reads.
    async fn forget_documents(&self, scope: &Scope, logs: &[LogId]) {
        for log in logs {
            match self.platform.store.list_documents(scope, &[*log], None, 1).await {
                Ok(left) if left.is_empty() => {}
                Ok(_) => continue,
                Err(error) => {
                    warn!(%error, "the documents of a purged session stay in the index");
                    return;
                }
            }
            if let Err(error) = self.platform.retriever.forget_documents(scope, *log).await {
                warn!(%error, "the documents of a purged session stay in the index");
            }
        }
    }

    /// As [`Self::retry`], while no turn of the session starts. If the session goes on after all, so does its queue.
    async fn while_queue_waits<'a>(
        &'a self,
        scope: &'a Scope,
        session: SessionId,
        decide: impl Fn(SessionRecord) -> Decision<'a> + Send + Sync,
    ) -> Result<SessionRecord, Error> {
        // Whoever may not change the session must not hold it up either.
        self.platform.session_for(scope, session, Action::Change).await?;
        let hold = self.orchestrator.hold_queue(session);
        let changed = self.retry(scope, session, Action::Change, decide).await;
        drop(hold);
        self.orchestrator.start_next(scope, session).await;
        changed
    }

    /// Loads, decides and commits, again when somebody else was faster; returns the session as it is then.
    async fn retry<'a>(
        &'a self,
        scope: &'a Scope,
        session: SessionId,
        action: Action,
        decide: impl Fn(SessionRecord) -> Decision<'a> + Send + Sync,
    ) -> Result<SessionRecord, Error> {
        let mut lost = Error::NotFound { entity: "session" };
        for _ in 0..RACE_ATTEMPTS {
            let record = self.platform.session_for(scope, session, action).await?;
            match decide(record).await {
                Ok(()) => return self.get(scope, session).await,
                Err(error) if error.is_lost_race() => lost = error,
                Err(error) => return Err(error),
            }
        }
        let is_busy = matches!(
            lost,
            Error::Store(StoreError::Conflict(Conflict::LimitReached(_) | Conflict::TurnRunning))
        );
        Err(if is_busy { Error::TurnInProgress { turn: None } } else { lost })
    }
}

/// Who looks for words, an agent or a repository wants to know about how many there are; up to here it is exact.
const COUNTED_UP_TO: u64 = 10_000;

fn counting(filter: &SessionFilter) -> Counting {
    let is_search = filter.text.is_some() || filter.agent.is_some() || filter.repo.is_some();
    if is_search { Counting::UpTo(COUNTED_UP_TO) } else { Counting::Exact }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_searches_are_counted_to_a_limit() {
        let none = SessionFilter::default;
        let words = SessionFilter { text: Some("wool".to_owned()), ..none() };
        let agent = SessionFilter { agent: Some("echo".to_owned()), ..none() };
        let states = SessionFilter { states: vec![SessionStateName::Active], ..none() };

        assert_eq!([words, agent].map(|filter| counting(&filter)), [Counting::UpTo(10_000); 2]);
        assert_eq!([none(), states].map(|filter| counting(&filter)), [Counting::Exact; 2]);
    }
}
