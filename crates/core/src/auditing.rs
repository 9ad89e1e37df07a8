//! Reading and checking the audit log, and keeping refusals in it.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::{instrument, warn};

use crate::{
    Error,
    model::{AuditHead, AuditReport, AuditRow, Scope},
    platform::Platform,
    policy::access,
    ports::{AuditEntry, ChangeSet},
};

/// Refusals that wait to be written. More than this at once are counted, not kept: a flood of refused
/// requests must not become a flood of writes.
const WAITING_REFUSALS: usize = 256;

/// Of these, as many may be refused requests. The rest is for refused access, which matters more and is not to be crowded
/// out by what anybody can get wrong as often as they like.
const WAITING_REQUESTS: usize = WAITING_REFUSALS / 2;

/// As much of a reason as an entry keeps.
const MAX_REASON_CHARACTERS: usize = 256;

/// What a known caller was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// They may not do this.
    Access,
    /// What they asked for was understood, and is not to be had.
    Request {
        /// Names what was asked for, never what an agent was told.
        reason: String,
    },
}

/// The audit log of the caller's org.
#[derive(Clone)]
pub struct Auditing {
    platform: Arc<Platform>,
    refusals: mpsc::Sender<(Scope, AuditEntry)>,
}

impl Auditing {
    /// Refusals are written by a task of this tracker, which ends when the last `Auditing` is dropped.
    pub fn new(platform: Arc<Platform>, tasks: &TaskTracker) -> Self {
        let (refusals, waiting) = mpsc::channel(WAITING_REFUSALS);
        tasks.spawn(write_refusals(Arc::clone(&platform), waiting));
        Self { platform, refusals }
    }

    /// Sealed rows after a number. Reading the audit log is audited itself.
    #[instrument(skip_all)]
    pub async fn list(
        &self,
        scope: &Scope,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, Error> {
        access::check_administer(scope, "reading the audit log")?;
        self.record(scope, "audit.read", json!({"after": after, "limit": limit})).await?;
        Ok(self.platform.store.list_audit(scope, after, limit).await?)
    }

    /// Checks the whole chain; `seen` is a head that was kept elsewhere.
    #[instrument(skip_all)]
    pub async fn verify(
        &self,
        scope: &Scope,
        seen: Option<AuditHead>,
    ) -> Result<AuditReport, Error> {
        access::check_administer(scope, "checking the audit log")?;
        self.record(scope, "audit.verified", json!({})).await?;
        Ok(self.platform.store.verify_audit(scope, seen).await?)
    }

    /// Keeps a refusal without making the refused caller wait for a write. Returns whether it was kept.
    pub fn refused(
        &self,
        scope: &Scope,
        code: &'static str,
        request: String,
        refusal: Refusal,
    ) -> bool {
        let (action, detail) = match refusal {
            Refusal::Access => ("access.refused", json!({"code": code})),
            Refusal::Request { reason } => {
                if self.refusals.capacity() <= WAITING_REFUSALS - WAITING_REQUESTS {
                    return false;
                }
                let reason: String = reason.chars().take(MAX_REASON_CHARACTERS).collect();
                ("request.refused", json!({"code": code, "reason": reason}))
            }
        };
        let entry = AuditEntry { at: self.platform.now(), action, target: request, detail };
        self.refusals.try_send((scope.clone(), entry)).is_ok()
    }

    async fn record(
        &self,
        scope: &Scope,
        action: &'static str,
        detail: serde_json::Value,
    ) -> Result<(), Error> {
        let at = self.platform.now();
        let entry = AuditEntry { at, action, target: format!("org/{}", scope.org), detail };
        let changes = ChangeSet { audit: vec![entry], ..ChangeSet::default() };
        self.platform.commit(scope, changes).await.map(drop)
    }
}

async fn write_refusals(platform: Arc<Platform>, mut waiting: mpsc::Receiver<(Scope, AuditEntry)>) {
    while let Some((scope, entry)) = waiting.recv().await {
        let changes = ChangeSet { audit: vec![entry], ..ChangeSet::default() };
        if let Err(error) = platform.commit(&scope, changes).await {
            warn!(%error, "a refusal could not be audited");
        }
    }
}
