//! On whose behalf something is read or written.

use super::{OrgId, SessionId, TokenId, UserId, UserRole, named_enum};

/// A caller: every read and write of tenant data needs one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub org: OrgId,
    pub user: UserId,
    /// What the caller may do: the weaker of the user's and the token's role.
    pub role: UserRole,
    /// A token made for one session sees that session only.
    pub only_session: Option<SessionId>,
    /// The token that was shown, if there was one; work that Skein does by itself has none.
    pub token: Option<TokenId>,
}

impl Scope {
    /// Skein itself, going on with work that `user` began.
    pub fn on_behalf_of(org: OrgId, user: UserId) -> Self {
        Self { org, user, role: UserRole::Owner, only_session: None, token: None }
    }
}

/// The right to look across tenants: authentication, recovery, sweeps and start-up only.
#[derive(Debug, Clone, Copy)]
pub struct SystemScope(());

impl SystemScope {
    /// Naming the purpose keeps each use visible in review and in traces.
    pub fn for_purpose(purpose: &'static str) -> Self {
        tracing::trace!(purpose, "system scope");
        Self(())
    }
}

named_enum! {
    /// Why a user may read a session.
    AccessVia, "way of access" {
        Owner = "owner",
        TookPart = "took_part",
        Shared = "shared",
    }
}
