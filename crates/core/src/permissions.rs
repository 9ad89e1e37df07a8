//! The answers to what agents ask.

use std::sync::Arc;

use serde_json::json;
use tracing::instrument;

use crate::{
    Error,
    hosting::Hosting,
    model::{
        EventBody, Permission, PermissionResolved, PermissionState, Scope, SessionId, Timestamp,
        TurnId,
    },
    platform::Platform,
    policy::access::Action,
    ports::{AuditEntry, ChangeSet, Conflict, NewEvent, StoreError, Write},
};

/// Questions of one session that are shown.
const SHOWN: u32 = 1_000;

/// Lists and answers questions.
#[derive(Clone)]
pub struct Permissions {
    platform: Arc<Platform>,
    hosting: Arc<Hosting>,
}

/// What somebody says to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Option(String),
    Cancel,
}

/// How a question ends.
pub(crate) struct Settlement<'a> {
    pub(crate) state: PermissionState,
    pub(crate) option_id: Option<String>,
    pub(crate) by: By<'a>,
}

/// Who ended it.
pub(crate) enum By<'a> {
    Person(&'a Scope),
    Timeout,
    /// The turn has ended, and with it every question.
    Skein,
}

impl Permissions {
    pub fn new(platform: Arc<Platform>, hosting: Arc<Hosting>) -> Self {
        Self { platform, hosting }
    }

    /// The newest questions of a session and all that wait for an answer, oldest first.
    pub async fn list(&self, scope: &Scope, session: SessionId) -> Result<Vec<Permission>, Error> {
        self.platform.session_for(scope, session, Action::Read).await?;
        let newest = self.platform.store.list_permissions(scope, session, SHOWN).await?;
        if newest.len() < SHOWN as usize {
            return Ok(newest);
        }
        let mut shown = self.platform.store.list_pending_permissions(scope, session).await?;
        shown.retain(|asked| newest.iter().all(|other| other.request_id != asked.request_id));
        shown.extend(newest);
        Ok(shown)
    }

    /// Answers a question or calls it off. The agent is told once the answer is durable.
    #[instrument(skip_all, fields(session.id = %session))]
    pub async fn answer(
        &self,
        scope: &Scope,
        session: SessionId,
        request_id: &str,
        reply: Reply,
    ) -> Result<Permission, Error> {
        let record = self.platform.session_for(scope, session, Action::RunTurn).await?;
        let asked = self.platform.store.find_permission(scope, session, request_id).await?;
        let asked = asked.ok_or(Error::NotFound { entity: "permission" })?;
        if asked.state != PermissionState::Pending {
            return Err(Error::PermissionSettled);
        }
        let (state, option_id) = match reply {
            Reply::Cancel => (PermissionState::Cancelled, None),
            Reply::Option(id) => {
                if !asked.options.iter().any(|option| option.option_id == id) {
                    let known: Vec<_> =
                        asked.options.iter().map(|option| option.option_id.as_str()).collect();
                    let reason = format!("{id:?} is not one of: {}", known.join(", "));
                    return Err(Error::Invalid { field: "optionId", reason });
                }
                (PermissionState::Answered, Some(id))
            }
        };
        let settlement = Settlement { state, option_id: option_id.clone(), by: By::Person(scope) };
        let mut changes = ChangeSet::default();
        settle(&mut changes, &asked, &settlement, (record.session.log, self.platform.now()));
        match self.platform.commit(scope, changes).await {
            Ok(_) => {}
            Err(Error::Store(StoreError::Conflict(Conflict::PermissionSettled(_)))) => {
                return Err(Error::PermissionSettled);
            }
            Err(error) => return Err(error),
        }
        self.hosting.answer(session, request_id, option_id);
        Ok(Permission { state, answered_by: Some(scope.user), ..asked })
    }
}

/// Nobody has answered in time. A question that is settled by now stays as it is.
pub(crate) async fn time_out(
    platform: &Platform,
    hosting: &Hosting,
    scope: &Scope,
    (session, request_id): (SessionId, &str),
) -> Result<(), Error> {
    let Some(record) = platform.store.find_session(scope, session).await? else { return Ok(()) };
    let asked = platform.store.find_permission(scope, session, request_id).await?;
    let Some(asked) = asked.filter(|asked| asked.state == PermissionState::Pending) else {
        return Ok(());
    };
    let settlement =
        Settlement { state: PermissionState::TimedOut, option_id: None, by: By::Timeout };
    let mut changes = ChangeSet::default();
    settle(&mut changes, &asked, &settlement, (record.session.log, platform.now()));
    match platform.commit(scope, changes).await {
        Ok(_) => hosting.answer(session, request_id, None),
        Err(Error::Store(StoreError::Conflict(Conflict::PermissionSettled(_)))) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Adds the end of every question that a turn leaves open to the change set that ends the turn.
pub(crate) async fn call_off(
    platform: &Platform,
    scope: &Scope,
    changes: &mut ChangeSet,
    (session, turn, log): (SessionId, TurnId, crate::model::LogId),
) -> Result<(), Error> {
    let open = platform.store.list_pending_permissions(scope, session).await?;
    for asked in open.iter().filter(|asked| asked.turn == turn) {
        let settlement =
            Settlement { state: PermissionState::Cancelled, option_id: None, by: By::Skein };
        settle(changes, asked, &settlement, (log, platform.now()));
    }
    Ok(())
}

/// Row, event and audit line of an answer.
fn settle(
    changes: &mut ChangeSet,
    asked: &Permission,
    settlement: &Settlement<'_>,
    (log, at): (crate::model::LogId, Timestamp),
) {
    let (answered_by, by) = match settlement.by {
        By::Person(scope) => (Some(scope.user), scope.user.to_string()),
        By::Timeout => (None, "timeout".to_owned()),
        By::Skein => (None, "skein".to_owned()),
    };
    let (request_id, option_id) = (asked.request_id.clone(), settlement.option_id.clone());
    changes.writes.push(Write::SettlePermission {
        session: asked.session,
        request_id: request_id.clone(),
        state: settlement.state,
        answered_by,
    });
    let detail = json!({
        "requestId": request_id, "tool": asked.tool_call.tool, "optionId": option_id, "by": by,
        "state": settlement.state,
    });
    let resolved = PermissionResolved { request_id, option_id, by };
    let body = EventBody::PermissionResolved(resolved);
    changes.events.push(NewEvent { log, turn: Some(asked.turn), at, body });
    let target = format!("session/{}", asked.session);
    changes.audit.push(AuditEntry { at, action: "permission.settled", target, detail });
}
