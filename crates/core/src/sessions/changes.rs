//! The change sets of a session's life: state, task, event and audit row always go together.

use serde_json::json;

use super::NewSession;
use crate::{
    Error,
    agents::{AgentChoice, Agents},
    intake::Rebind,
    model::{
        Binding, Checkpoint, CheckpointId, CheckpointState, ConversationContextId, EventBody,
        Interface, LogId, Profile, Scope, Session, SessionChange, SessionId, SessionState,
        SessionStateName, Ticket, TicketId, TicketKind, TicketStatus, Timestamp,
    },
    platform::Platform,
    policy::text::{check_metadata, check_optional, check_scope},
    ports::{AuditEntry, ChangeSet, Expectation, NewEvent, SessionRecord, Write},
    registry::check_registered,
};

/// Where a session's metadata says what confinement its agent lacks.
const CONFINEMENT: &str = "confinement";

/// A new session with the change set that opens it.
pub(crate) async fn open(
    platform: &Platform,
    agents: &Agents,
    scope: &Scope,
    new: &NewSession,
) -> Result<(Session, ChangeSet), Error> {
    let agent = match (&new.agent, new.repo_id, agents.for_repositories()) {
        (AgentChoice::Default, Some(_), Some(agent)) => agent.clone(),
        _ => agents.resolve(platform, scope, &new.agent).await?,
    };
    let is_resident = agent.runtime.residence().is_some();
    if is_resident && new.repo_id.is_none() {
        let name = &agent.context.name;
        let reason = format!("the agent {name:?} works in a repository, so one must be named");
        return Err(Error::Invalid { field: "repoId", reason });
    }
    let conversation_context = check_binding(platform, scope, new).await?;
    let profile = Profile { default_language: new.default_language.clone(), ..new.profile.clone() };
    check_profile(platform, &profile)?;
    let at = platform.now();
    let session = Session {
        id: SessionId::from_uuid(platform.new_id()),
        org: scope.org,
        log: LogId::from_uuid(platform.new_id()),
        owner: scope.user,
        created_by: scope.user,
        state: SessionState::Created,
        revision: 1,
        profile,
        binding: Binding {
            agent_context: agent.context.id,
            agent_context_version: agent.context.version,
            conversation_context,
            repo_id: new.repo_id,
            repo: new.repo.clone(),
            workspace_id: new.workspace_id.clone(),
            scope_paths: new.scope_paths.clone(),
            basket: None,
        },
        is_resident,
        interface: new.interface,
        task: TicketId::from_uuid(platform.new_id()),
        lineage: None,
        checkpoint: None,
        provider_session_id: None,
        agent_state: None,
        created_at: at,
        updated_at: at,
        deleted_at: None,
    };
    let changes = opening(&session, &agent.context.name);
    Ok((session, changes))
}

fn opening(session: &Session, agent_name: &str) -> ChangeSet {
    let task = Ticket {
        id: session.task,
        session: Some(session.id),
        kind: TicketKind::Task,
        task_type: format!("agent:{agent_name}"),
        task_intent: session.profile.name.clone(),
        source: session.interface.as_str().to_owned(),
        initiated_by: session.created_by,
        status: TicketStatus::from(session.state.name()),
        created_at: session.created_at,
    };
    let created = SessionChange { interface: Some(session.interface), ..change(session) };
    ChangeSet {
        writes: vec![
            Write::CreateSession(Box::new(session.clone())),
            Write::CreateTicket(Box::new(task)),
        ],
        events: vec![event(session, session.created_at, EventBody::SessionCreated(created))],
        audit: vec![audit(session, "session.created", session.created_at)],
        ..ChangeSet::default()
    }
}

/// What the session is to be bound to must exist; the conversation context's version is kept.
async fn check_binding(
    platform: &Platform,
    scope: &Scope,
    new: &NewSession,
) -> Result<Option<(ConversationContextId, u32)>, Error> {
    let max = platform.limits.field_bytes;
    check_optional("workspaceId", new.workspace_id.as_deref(), max)?;
    check_optional("repo", new.repo.as_deref(), max)?;
    check_scope(&new.scope_paths, max)?;
    if let Some(id) = new.repo_id {
        let repo = platform.store.find_repo(scope, id).await?;
        let unknown = || Error::UnknownReference { field: "repoId", value: id.to_string() };
        let registered = repo.ok_or_else(unknown)?.path;
        check_registered(platform, scope, &registered).await?;
    }
    match new.conversation_context {
        Some(id) => conversation_context(platform, scope, id).await.map(Some),
        None => Ok(None),
    }
}

/// A conversation context's newest version, which the session keeps.
async fn conversation_context(
    platform: &Platform,
    scope: &Scope,
    id: ConversationContextId,
) -> Result<(ConversationContextId, u32), Error> {
    match platform.store.find_conversation_context(scope, id, None).await? {
        Some(context) => Ok((id, context.version)),
        None => {
            let value = id.to_string();
            Err(Error::UnknownReference { field: "conversationContextId", value })
        }
    }
}

pub(super) fn check_profile(platform: &Platform, profile: &Profile) -> Result<(), Error> {
    let max = platform.limits.field_bytes;
    check_optional("name", profile.name.as_deref(), max)?;
    check_optional("key", profile.key.as_deref(), max)?;
    check_optional("description", profile.description.as_deref(), max)?;
    check_optional("category", profile.category.as_deref(), max)?;
    check_optional("defaultLanguage", profile.default_language.as_deref(), max)?;
    check_metadata(&profile.metadata, platform.limits.metadata_bytes)
}

/// What every change of a session's state or fields has in common: the task follows, and it is audited.
pub(crate) fn save(before: &Session, after: &Session, at: Timestamp) -> ChangeSet {
    let (was, is) = (before.state.name(), after.state.name());
    let mut writes = vec![Write::SaveSession(Box::new(after.clone()))];
    if TicketStatus::from(was) != TicketStatus::from(is) {
        writes.push(Write::SetTicketStatus { ticket: after.task, status: is.into() });
    }
    let action = if was == is { "session.updated" } else { state_action(is) };
    ChangeSet {
        expects: vec![Expectation::SessionRevision {
            session: after.id,
            revision: before.revision,
        }],
        writes,
        audit: vec![audit(after, action, at)],
        ..ChangeSet::default()
    }
}

fn state_action(state: SessionStateName) -> &'static str {
    match state {
        SessionStateName::Created => "session.created",
        SessionStateName::Active => "session.activated",
        SessionStateName::Suspended => "session.suspended",
        SessionStateName::Completed => "session.completed",
        SessionStateName::Cancelled => "session.cancelled",
        SessionStateName::Failed => "session.failed",
    }
}

/// A suspended session becomes active again.
pub(crate) fn resumption(
    session: &Session,
    interface: Option<Interface>,
    at: Timestamp,
) -> Result<(Session, ChangeSet), Error> {
    let resumed = session.clone().resume(interface, at)?;
    let mut changes = save(session, &resumed, at);
    let body = SessionChange { interface: Some(resumed.interface), ..change(&resumed) };
    changes.events.push(event(&resumed, at, EventBody::SessionResumed(body)));
    Ok((resumed, changes))
}

/// The first turn makes a created session active.
pub(crate) fn activation(session: &Session, at: Timestamp) -> Result<(Session, ChangeSet), Error> {
    let active = session.clone().activate(at)?;
    let mut changes = save(session, &active, at);
    changes.events.push(event(&active, at, EventBody::SessionUpdated(change(&active))));
    Ok((active, changes))
}

/// What an agent process that has come up changes in its session.
pub(crate) enum Housing {
    Changed(Box<ChangeSet>),
    /// Everything is known already.
    Same,
    /// The session is suspended or has ended.
    Unwanted,
}

/// The session becomes active, and knows how to find its agent's own session and what confinement is missing.
pub(crate) fn housing(
    session: &Session,
    provider_session_id: &str,
    shortcomings: &[String],
    at: Timestamp,
) -> Result<Housing, Error> {
    let housed = match session.state.name() {
        SessionStateName::Created => session.clone().activate(at)?,
        SessionStateName::Active => session.clone(),
        SessionStateName::Suspended
        | SessionStateName::Completed
        | SessionStateName::Cancelled
        | SessionStateName::Failed => return Ok(Housing::Unwanted),
    };
    let mut profile = housed.profile.clone();
    match shortcomings.is_empty() {
        true => profile.metadata.remove(CONFINEMENT),
        false => profile.metadata.insert(CONFINEMENT.to_owned(), json!({"missing": shortcomings})),
    };
    let housed = housed.house(provider_session_id, profile, at);
    if housed == *session {
        return Ok(Housing::Same);
    }
    let mut changes = save(session, &housed, at);
    changes.events.push(event(&housed, at, EventBody::SessionUpdated(change(&housed))));
    Ok(Housing::Changed(Box::new(changes)))
}

/// The change set that puts a session aside, with a checkpoint at the end of its log.
pub(crate) fn suspension(
    platform: &Platform,
    record: &SessionRecord,
    reason: &str,
) -> Result<ChangeSet, Error> {
    let at = platform.now();
    let checkpoint = Checkpoint {
        id: CheckpointId::from_uuid(platform.new_id()),
        session: record.session.id,
        seq: record.log.last_seq,
        reason: reason.to_owned(),
        state: CheckpointState {
            agent_state: record.session.agent_state.clone(),
            suspension_data: None,
        },
        at,
    };
    let suspended = record.session.clone().suspend(checkpoint.id, reason.to_owned(), at)?;
    let mut changes = save(&record.session, &suspended, at);
    changes.expects.push(Expectation::NoTurnRunning { log: suspended.log });
    changes.writes.insert(0, Write::PutCheckpoint(Box::new(checkpoint)));
    changes.events.push(event(&suspended, at, EventBody::SessionSuspended(change(&suspended))));
    Ok(changes)
}

/// Contexts that are named with a session apply from that turn on.
pub(crate) async fn rebind(
    platform: &Platform,
    agents: &Agents,
    scope: &Scope,
    (session, mut changes): (Session, ChangeSet),
    wanted: &Rebind,
) -> Result<(Session, ChangeSet), Error> {
    let mut binding = session.binding.clone();
    let mut fields = Vec::new();
    if wanted.agent != AgentChoice::Default {
        let found = agents.resolve(platform, scope, &wanted.agent).await?;
        let (agent, is_resident) = (found.context, found.runtime.residence().is_some());
        if agent.id != binding.agent_context {
            if session.is_resident || is_resident {
                let reason = "a session keeps the agent whose process it has, and gets none later";
                return Err(Error::Invalid { field: "agent", reason: reason.to_owned() });
            }
            (binding.agent_context, binding.agent_context_version) = (agent.id, agent.version);
            fields.push("agentContextId".to_owned());
        }
    }
    if let Some(id) = wanted.conversation_context {
        let context = conversation_context(platform, scope, id).await?;
        if binding.conversation_context.is_none_or(|(bound, _)| bound != id) {
            binding.conversation_context = Some(context);
            fields.push("conversationContextId".to_owned());
        }
    }
    if wanted.repo_id.is_some() && wanted.repo_id != binding.repo_id {
        let reason = "the session is bound to another repository, or to none".to_owned();
        return Err(Error::Invalid { field: "repoId", reason });
    }
    if fields.is_empty() {
        return Ok((session, changes));
    }
    let at = platform.now();
    let rebound = session.clone().rebind(binding, at);
    // What was expected of the session stands already.
    let saved = save(&session, &rebound, at);
    changes.writes.extend(saved.writes);
    changes.audit.extend(saved.audit);
    let body = EventBody::SessionUpdated(SessionChange { fields, ..change(&rebound) });
    changes.events.push(event(&rebound, at, body));
    Ok((rebound, changes))
}

pub(super) fn change(session: &Session) -> SessionChange {
    let checkpoint_id = match &session.state {
        SessionState::Suspended { checkpoint, .. } => Some(*checkpoint),
        SessionState::Created
        | SessionState::Active
        | SessionState::Completed { .. }
        | SessionState::Cancelled { .. }
        | SessionState::Failed { .. } => None,
    };
    SessionChange {
        state: session.state.name(),
        revision: session.revision,
        reason: session.state.reason().map(str::to_owned),
        interface: None,
        checkpoint_id,
        fields: Vec::new(),
    }
}

pub(super) fn event(session: &Session, at: Timestamp, body: EventBody) -> NewEvent {
    NewEvent { log: session.log, turn: None, at, body }
}

pub(super) fn audit(session: &Session, action: &'static str, at: Timestamp) -> AuditEntry {
    let detail = json!({"state": session.state.name(), "revision": session.revision});
    AuditEntry { at, action, target: format!("session/{}", session.id), detail }
}

/// Final sessions take no more orders.
pub(super) fn refuse_final(session: &Session, wanted: &'static str) -> Result<(), Error> {
    let state = session.state.name();
    if state.is_final() { Err(Error::SessionNotActive { state, wanted }) } else { Ok(()) }
}
