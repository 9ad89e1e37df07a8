//! After a crash: every turn that nobody finished is classified before the server is ready.

use std::{collections::HashSet, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use tracing::{error, info};

use crate::{
    Error,
    model::{FailureCode, Scope, SessionId, SystemScope},
    orchestrator::{Orchestrator, outcome},
    platform::Platform,
    ports::{PendingTurn, StoreError},
};

const PAGE: u32 = 500;
/// Enough to share commits, few enough to stay small.
const AT_ONCE: usize = 64;

/// What recovery found.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Turns that had started and are now failed as `interrupted`.
    pub interrupted: u64,
    /// Sessions whose queued turns are to be started once the server is ready.
    pub to_start: Vec<(Scope, SessionId)>,
}

/// Ends the turns that a crash cut off and finds those that still wait.
pub async fn classify(platform: &Arc<Platform>) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    let mut waiting = HashSet::new();
    let mut after = None;
    loop {
        let scope = SystemScope::for_purpose("recovery");
        let page = platform.store.list_pending(scope, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.turn);
        let (started, queued): (Vec<_>, Vec<_>) =
            page.into_iter().partition(|turn| turn.started_at.is_some());
        recovered.interrupted += started.len() as u64;
        stream::iter(started.into_iter().map(Ok))
            .try_for_each_concurrent(AT_ONCE, |turn| interrupt(platform, turn))
            .await?;
        for turn in queued {
            if waiting.insert(turn.session) {
                let scope = Scope::on_behalf_of(turn.org, turn.created_by);
                recovered.to_start.push((scope, turn.session));
            }
        }
    }
    if recovered.interrupted > 0 || !recovered.to_start.is_empty() {
        info!(
            interrupted = recovered.interrupted,
            sessions_with_queued_turns = recovered.to_start.len(),
            "recovered unfinished turns"
        );
    }
    Ok(recovered)
}

/// Starts what waited. Called once the server is ready.
pub async fn start_queued(orchestrator: &Arc<Orchestrator>, recovered: Recovered) {
    stream::iter(recovered.to_start)
        .for_each_concurrent(AT_ONCE, |(scope, session)| async move {
            orchestrator.start_next(&scope, session).await;
        })
        .await;
}

async fn interrupt(platform: &Arc<Platform>, pending: PendingTurn) -> Result<(), Error> {
    let scope = Scope::on_behalf_of(pending.org, pending.created_by);
    let found = platform.store.find_turn(&scope, pending.session, pending.turn).await?;
    let Some(record) = found else { return Ok(()) };
    let code = FailureCode::Interrupted;
    match outcome::fail_orphan(platform, &scope, pending.session, record.turn, code).await {
        // One damaged session must not keep all the others from being served.
        Err(Error::Store(StoreError::Corrupt { entity, reason })) => {
            error!(turn.id = %pending.turn, entity, reason, "a turn could not be recovered");
            Ok(())
        }
        recovered => recovered.map(drop),
    }
}
