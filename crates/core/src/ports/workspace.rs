//! The directories that agents may work in.

use async_trait::async_trait;

use crate::model::OrgId;

/// Checks paths by opening them, never by their text alone.
#[async_trait]
pub trait Workspaces: Send + Sync {
    /// The real path of a Git work tree under the organisation's workspace root.
    async fn resolve(&self, org: OrgId, path: &str) -> Result<String, WorkspaceError>;

    /// Files of a work tree as they are now, in the order of their paths. `None` for what is no text file of that tree.
    async fn read(
        &self,
        org: OrgId,
        work_tree: &str,
        paths: Vec<String>,
    ) -> Result<Vec<Option<String>>, WorkspaceError>;
}

/// Why a path cannot be a repository.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("no workspace root is configured")]
    NoRoot,
    /// It is outside the root, whichever way it is written.
    #[error("the path leads out of the workspace root")]
    Outside,
    #[error("the path is not a Git work tree")]
    NotARepository,
    #[error("the path cannot be read")]
    Unreadable(#[source] std::io::Error),
}
