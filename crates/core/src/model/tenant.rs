//! Organisations, people and the tokens they show.

use super::{OrgId, SessionId, Sha256Hash, Timestamp, TokenId, UserId, named_enum};

/// A tenant. Nothing crosses from one to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Org {
    pub id: OrgId,
    pub name: String,
}

/// A person or machine account inside one org.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub org: OrgId,
    pub name: String,
    pub role: UserRole,
    /// May create orgs; the first user of an installation.
    pub instance_owner: bool,
    /// A disabled user's tokens open nothing.
    pub disabled_at: Option<Timestamp>,
}

named_enum! {
    /// What a user may do, weakest first, so that roles compare.
    UserRole, "role" {
        Viewer = "viewer",
        Member = "member",
        Admin = "admin",
        Owner = "owner",
    }
}

/// An access token. Its secret is shown once and never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub org: OrgId,
    pub user: UserId,
    pub name: String,
    /// SHA-256 of the secret.
    pub hash: Sha256Hash,
    /// The most that this token may do, whatever its user may.
    pub role: UserRole,
    /// Limits the token to one session.
    pub session: Option<SessionId>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    /// Whether the token opens anything at this moment.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }
}
