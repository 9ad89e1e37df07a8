//! Tokens, and who is calling.

use serde::{Deserialize, Serialize};
use skein_core::{
    model::{self, SessionId, UserId, UserRole},
    people::{self, Caller, NewToken},
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Id, Time};

/// A token to be made.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    pub name: String,
    pub role: TokenRole,
    pub expires_at: Option<Time>,
    /// Limits the token to one session.
    #[schema(value_type = Option<Uuid>)]
    pub session_id: Option<Id<SessionId>>,
    /// Whose token; the caller's own when left out.
    #[schema(value_type = Option<Uuid>)]
    pub user_id: Option<Id<UserId>>,
}

/// The most that a token may do, whatever its user may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRole {
    Viewer,
    Member,
    Admin,
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    pub id: Uuid,
    pub name: String,
    pub role: &'static str,
    pub user_id: Uuid,
    pub session_id: Option<Uuid>,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// A new token with its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedToken {
    pub id: Uuid,
    /// `skein_…`, shown once; null when a repeated request is answered.
    pub token: Option<String>,
    pub name: String,
    pub role: &'static str,
    pub user_id: Uuid,
    pub session_id: Option<Uuid>,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// A page of tokens, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenList {
    pub tokens: Vec<Token>,
    /// The `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// Who is calling, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WhoAmI {
    pub org: WhoAmIOrg,
    pub user: WhoAmIUser,
    pub token: WhoAmIToken,
    /// The weaker of the user's and the token's role.
    pub role: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WhoAmIOrg {
    pub id: Uuid,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoAmIUser {
    pub id: Uuid,
    pub name: String,
    pub role: &'static str,
    /// May create orgs.
    pub instance_owner: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoAmIToken {
    pub id: Uuid,
    pub name: String,
    pub session_id: Option<Uuid>,
    pub expires_at: Option<Time>,
}

impl From<TokenRole> for UserRole {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::Viewer => Self::Viewer,
            TokenRole::Member => Self::Member,
            TokenRole::Admin => Self::Admin,
        }
    }
}

impl From<CreateToken> for NewToken {
    fn from(request: CreateToken) -> Self {
        Self {
            name: request.name,
            role: request.role.into(),
            expires_at: request.expires_at.map(|at| at.0),
            session: request.session_id.map(|id| id.0),
            user: request.user_id.map(|id| id.0),
        }
    }
}

impl From<model::Token> for Token {
    fn from(token: model::Token) -> Self {
        Self {
            id: *token.id.as_uuid(),
            name: token.name,
            role: token.role.as_str(),
            user_id: *token.user.as_uuid(),
            session_id: token.session.map(|id| *id.as_uuid()),
            created_at: token.created_at.into(),
            expires_at: token.expires_at.map(Time),
            revoked_at: token.revoked_at.map(Time),
        }
    }
}

impl From<people::IssuedToken> for IssuedToken {
    fn from(issued: people::IssuedToken) -> Self {
        let token = Token::from(issued.token);
        Self {
            id: token.id,
            token: issued.secret,
            name: token.name,
            role: token.role,
            user_id: token.user_id,
            session_id: token.session_id,
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
        }
    }
}

impl From<&Caller> for WhoAmI {
    fn from(caller: &Caller) -> Self {
        let identity = &caller.identity;
        Self {
            org: WhoAmIOrg { id: *identity.org.id.as_uuid(), name: identity.org.name.clone() },
            user: WhoAmIUser {
                id: *identity.user.id.as_uuid(),
                name: identity.user.name.clone(),
                role: identity.user.role.as_str(),
                instance_owner: identity.user.instance_owner,
            },
            token: WhoAmIToken {
                id: *identity.token.id.as_uuid(),
                name: identity.token.name.clone(),
                session_id: identity.token.session.map(|id| *id.as_uuid()),
                expires_at: identity.token.expires_at.map(Time),
            },
            role: caller.scope.role.as_str(),
        }
    }
}
