//! Organisations and the people in them.

use serde::{Deserialize, Serialize};
use skein_core::{
    model::{self, UserRole},
    people::{IssuedToken, NewUser, UserEdit},
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Time, common::present};

/// A tenant to be made.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateOrg {
    /// Unique on this server.
    pub name: String,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Org {
    pub id: Uuid,
    pub name: String,
}

/// A person or machine account to be added.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateUser {
    /// Unique in the org.
    pub name: String,
    #[schema(value_type = String, pattern = "^(viewer|member|admin|owner)$", example = "member")]
    pub role: UserRole,
}

/// A new user with the secret of their first token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatedUser {
    pub id: Uuid,
    pub name: String,
    pub role: &'static str,
    /// `skein_…`, shown once; null when a repeated request is answered.
    pub token: Option<String>,
}

/// What to change of a user; what is left out stays.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditUser {
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, nullable = false, pattern = "^(viewer|member|admin|owner)$", example = "member")]
    pub role: Option<UserRole>,
    /// A disabled user's tokens open nothing.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub disabled: Option<bool>,
}

/// A person or machine account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    pub id: Uuid,
    pub name: String,
    pub role: &'static str,
    /// May create orgs.
    pub instance_owner: bool,
    pub disabled: bool,
    pub disabled_at: Option<Time>,
}

/// A page of users, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserList {
    pub users: Vec<User>,
    /// The `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

impl From<model::Org> for Org {
    fn from(org: model::Org) -> Self {
        Self { id: *org.id.as_uuid(), name: org.name }
    }
}

impl From<CreateUser> for NewUser {
    fn from(request: CreateUser) -> Self {
        Self { name: request.name, role: request.role }
    }
}

impl From<EditUser> for UserEdit {
    fn from(request: EditUser) -> Self {
        Self { role: request.role, is_disabled: request.disabled }
    }
}

impl From<(model::User, IssuedToken)> for CreatedUser {
    fn from((user, issued): (model::User, IssuedToken)) -> Self {
        Self {
            id: *user.id.as_uuid(),
            name: user.name,
            role: user.role.as_str(),
            token: issued.secret,
        }
    }
}

impl From<model::User> for User {
    fn from(user: model::User) -> Self {
        Self {
            id: *user.id.as_uuid(),
            name: user.name,
            role: user.role.as_str(),
            instance_owner: user.instance_owner,
            disabled: user.disabled_at.is_some(),
            disabled_at: user.disabled_at.map(Time),
        }
    }
}
