//! The private homes of sessions, one directory each, and beside each whose it is.

use std::{
    io,
    path::{Path, PathBuf},
};

use skein_core::{
    model::{OrgId, SessionId, UserId},
    ports::StartAgent,
};

/// The name of the file that says whose a home is, after the session's id. Agents see neither it nor each other.
const OWNER: &str = "owner";

/// A home that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub session: SessionId,
    pub org: OrgId,
    pub owner: UserId,
}

/// Every home of which it is known whose it is, at most `limit`.
pub async fn list(homes: &Path, limit: usize) -> io::Result<Vec<Kept>> {
    let mut entries = match tokio::fs::read_dir(homes).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut kept = Vec::new();
    while kept.len() < limit
        && let Some(entry) = entries.next_entry().await?
    {
        kept.extend(read(&entry.path()).await);
    }
    Ok(kept)
}

/// Removes a home that nobody will use again.
pub async fn remove(homes: &Path, session: SessionId) {
    let removed = tokio::fs::remove_dir_all(homes.join(session.to_string())).await;
    let removed = match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        // Last, so that a home which is left is known.
        _ => tokio::fs::remove_file(owner_file(homes, session)).await,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(session.id = %session, %error, "an agent's home cannot be removed");
        }
        _ => {}
    }
}

/// Says whose home there will be.
pub(super) async fn note(homes: &Path, start: &StartAgent) {
    let text = format!("{} {}\n", start.org, start.owner);
    let noted = async {
        tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(homes).await?;
        tokio::fs::write(owner_file(homes, start.session), text).await
    };
    if let Err(error) = noted.await {
        tracing::warn!(session.id = %start.session, %error, "nobody will know whose home this is");
    }
}

async fn read(path: &Path) -> Option<Kept> {
    if path.extension()? != OWNER {
        return None;
    }
    let session = path.file_stem()?.to_str()?.parse().ok()?;
    let text = tokio::fs::read_to_string(path).await.ok()?;
    let (org, owner) = text.trim().split_once(' ')?;
    Some(Kept { session, org: org.parse().ok()?, owner: owner.parse().ok()? })
}

fn owner_file(homes: &Path, session: SessionId) -> PathBuf {
    homes.join(format!("{session}.{OWNER}"))
}
