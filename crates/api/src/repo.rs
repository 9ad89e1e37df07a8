//! Repositories.

use serde::{Deserialize, Serialize};
use skein_core::model;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Time;

/// A Git work tree to be registered.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRepo {
    /// Unique in the org.
    pub name: String,
    /// A Git work tree under the server's workspace root; relative paths start there.
    #[schema(example = "/srv/repos/web")]
    pub path: String,
}

/// A registered Git work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repo {
    pub id: Uuid,
    pub name: String,
    /// Absolute and without links.
    pub path: String,
    pub created_at: Time,
}

/// A page of repositories, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepoList {
    pub repos: Vec<Repo>,
    /// The `cursor` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

impl From<model::Repo> for Repo {
    fn from(repo: model::Repo) -> Self {
        Self {
            id: *repo.id.as_uuid(),
            name: repo.name,
            path: repo.path,
            created_at: repo.created_at.into(),
        }
    }
}
