//! Who may do what: the one table behind every interface.

use crate::{
    Error,
    model::{AccessVia, Scope, SessionId, UserId, UserRole},
    ports::{SessionRecord, Visibility},
};

/// What somebody wants to do with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Read,
    RunTurn,
    Change,
    Delete,
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "reading this session",
            Self::RunTurn => "running a turn",
            Self::Change => "changing this session",
            Self::Delete => "deleting this session",
        }
    }
}

/// Refuses with `NotFound` what the caller may not even see, else with `Forbidden`.
pub fn check(scope: &Scope, record: &SessionRecord, action: Action) -> Result<(), Error> {
    if !may_read(scope, record) {
        return Err(Error::NotFound { entity: "session" });
    }
    let owns = record.session.owner == scope.user;
    let allowed = match action {
        Action::Read => true,
        Action::RunTurn => scope.role >= UserRole::Member,
        Action::Change | Action::Delete => {
            scope.role >= UserRole::Admin || (scope.role == UserRole::Member && owns)
        }
    };
    if allowed { Ok(()) } else { Err(Error::Forbidden { action: action.name() }) }
}

/// Owner, participants, those it is shared with, admins; everyone in the org if it is public.
fn may_read(scope: &Scope, record: &SessionRecord) -> bool {
    if record.session.org != scope.org {
        return false;
    }
    if scope.only_session.is_some_and(|only| only != record.session.id) {
        return false;
    }
    let related = match record.access {
        Some(AccessVia::Owner | AccessVia::TookPart | AccessVia::Shared) => true,
        None => record.session.owner == scope.user,
    };
    related || record.session.profile.is_public || scope.role >= UserRole::Admin
}

/// A token for one session creates no others, and viewers create none.
pub fn check_create(scope: &Scope) -> Result<(), Error> {
    if scope.role >= UserRole::Member && scope.only_session.is_none() {
        Ok(())
    } else {
        Err(Error::Forbidden { action: "creating a session" })
    }
}

/// What a list may contain.
pub fn visibility(scope: &Scope) -> Visibility {
    match scope.only_session {
        Some(session) => Visibility::Only(session),
        None if scope.role >= UserRole::Admin => Visibility::WholeOrg,
        None => Visibility::ReadableBy(scope.user),
    }
}

/// Everyone manages their own tokens, admins everyone's; nobody hands out more than they have.
pub fn check_token(scope: &Scope, of: UserId, grants: TokenGrant) -> Result<(), Error> {
    let forbidden = Err(Error::Forbidden { action: "managing this token" });
    if of != scope.user && scope.role < UserRole::Admin {
        return forbidden;
    }
    match (grants, scope.only_session) {
        (TokenGrant::Nothing, None) => Ok(()),
        (TokenGrant::Role { role, .. }, None) if role <= scope.role => Ok(()),
        (TokenGrant::Role { role, session: Some(session) }, Some(only))
            if session == only && role <= scope.role =>
        {
            Ok(())
        }
        _ => forbidden,
    }
}

/// What a token operation gives away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenGrant {
    /// Listing or revoking.
    Nothing,
    Role {
        role: UserRole,
        session: Option<SessionId>,
    },
}
