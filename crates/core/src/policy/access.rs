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

/// Repositories, contexts, users and the audit log are the admins' business.
pub fn check_administer(scope: &Scope, action: &'static str) -> Result<(), Error> {
    if scope.role >= UserRole::Admin && scope.only_session.is_none() {
        Ok(())
    } else {
        Err(Error::Forbidden { action })
    }
}

/// A token for one session opens nothing beside it.
pub fn check_not_bound(scope: &Scope, action: &'static str) -> Result<(), Error> {
    if scope.only_session.is_none() { Ok(()) } else { Err(Error::Forbidden { action }) }
}

/// Admins look after users, but only an owner makes or changes those above members.
pub fn check_user_role(scope: &Scope, role: UserRole) -> Result<(), Error> {
    check_administer(scope, "managing users")?;
    if role < UserRole::Admin || scope.role == UserRole::Owner {
        Ok(())
    } else {
        Err(Error::Forbidden { action: "giving this role" })
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        model::{
            AgentContextId, Binding, Interface, LogId, OrgId, Profile, Session, SessionState,
            TicketId, Timestamp,
        },
        ports::LogStats,
    };

    const ORG: OrgId = OrgId::from_uuid(Uuid::from_u128(1));
    const OTHER_ORG: OrgId = OrgId::from_uuid(Uuid::from_u128(2));
    const OWNER: UserId = UserId::from_uuid(Uuid::from_u128(3));
    const OTHER: UserId = UserId::from_uuid(Uuid::from_u128(4));
    const SESSION: SessionId = SessionId::from_uuid(Uuid::from_u128(5));

    fn record(access: Option<AccessVia>, is_public: bool) -> SessionRecord {
        let at = Timestamp::from_millis(0);
        let session = Session {
            id: SESSION,
            org: ORG,
            log: LogId::from_uuid(Uuid::nil()),
            owner: OWNER,
            created_by: OWNER,
            state: SessionState::Active,
            revision: 1,
            profile: Profile { is_public, ..Profile::default() },
            binding: Binding {
                agent_context: AgentContextId::from_uuid(Uuid::nil()),
                agent_context_version: 1,
                conversation_context: None,
                repo_id: None,
                repo: None,
                workspace_id: None,
                scope_paths: Vec::new(),
                basket: None,
            },
            is_resident: false,
            interface: Interface::Api,
            task: TicketId::from_uuid(Uuid::nil()),
            lineage: None,
            checkpoint: None,
            provider_session_id: None,
            agent_state: None,
            created_at: at,
            updated_at: at,
            deleted_at: None,
        };
        SessionRecord {
            session,
            org_name: String::new(),
            owner_name: String::new(),
            created_by_name: String::new(),
            agent_context_name: String::new(),
            conversation_context_name: None,
            repository: None,
            log: LogStats::default(),
            chain_expires_at: None,
            access,
        }
    }

    fn scope(org: OrgId, user: UserId, role: UserRole) -> Scope {
        Scope { org, user, role, only_session: None, token: None }
    }

    /// `r` read, `t` run turns, `c` change, `d` delete, `-` refused, `?` as if it were not there.
    fn may(scope: &Scope, record: &SessionRecord) -> String {
        [(Action::Read, 'r'), (Action::RunTurn, 't'), (Action::Change, 'c'), (Action::Delete, 'd')]
            .map(|(action, letter)| match check(scope, record, action) {
                Ok(()) => letter,
                Err(Error::Forbidden { .. }) => '-',
                Err(_) => '?',
            })
            .iter()
            .collect()
    }

    #[test]
    fn the_table_of_who_may_what() {
        use UserRole::{Admin, Member, Owner, Viewer};
        let private = record(None, false);
        let public = record(None, true);
        let took_part = record(Some(AccessVia::TookPart), false);
        let owned = record(Some(AccessVia::Owner), false);

        let table = [
            (ORG, OWNER, Viewer, &owned, "r---"),
            (ORG, OWNER, Member, &owned, "rtcd"),
            (ORG, OTHER, Viewer, &private, "????"),
            (ORG, OTHER, Member, &private, "????"),
            (ORG, OTHER, Member, &public, "rt--"),
            (ORG, OTHER, Viewer, &public, "r---"),
            (ORG, OTHER, Member, &took_part, "rt--"),
            (ORG, OTHER, Admin, &private, "rtcd"),
            (ORG, OTHER, Owner, &private, "rtcd"),
            (OTHER_ORG, OTHER, Owner, &public, "????"),
        ];

        for (org, user, role, record, expected) in table {
            assert_eq!(may(&scope(org, user, role), record), expected, "{role} {org} {user}");
        }
    }

    #[test]
    fn a_token_for_one_session_reaches_no_other_and_creates_none() {
        let mut only = scope(ORG, OWNER, UserRole::Owner);
        only.only_session = Some(SESSION);
        assert_eq!(may(&only, &record(None, false)), "rtcd");

        only.only_session = Some(SessionId::from_uuid(Uuid::from_u128(99)));
        assert_eq!(may(&only, &record(None, true)), "????");
        assert!(check_create(&only).is_err());
    }

    #[test]
    fn nobody_hands_out_more_than_they_have() {
        let member = scope(ORG, OTHER, UserRole::Member);
        let admin = scope(ORG, OTHER, UserRole::Admin);
        let grant = |role| TokenGrant::Role { role, session: None };

        assert!(check_token(&member, OTHER, grant(UserRole::Member)).is_ok());
        assert!(check_token(&member, OTHER, grant(UserRole::Admin)).is_err());
        assert!(check_token(&member, OWNER, TokenGrant::Nothing).is_err());
        assert!(check_token(&admin, OWNER, grant(UserRole::Admin)).is_ok());
        assert!(check_token(&admin, OWNER, grant(UserRole::Owner)).is_err());
    }
}
