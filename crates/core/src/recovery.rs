//! After a crash: every turn that nobody finished is classified before the server is ready.

use std::{collections::HashSet, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use tracing::{error, info};

use crate::{
    Error,
    model::{FailureCode, SERVER_RESTART, Scope, SessionId, SystemScope},
    orchestrator::{
        Orchestrator,
        outcome::{self, Orphan},
    },
    platform::Platform,
    ports::{PendingTurn, StoreError},
    sessions,
};

const PAGE: u32 = 500;
/// Enough to share commits, few enough to stay small.
const AT_ONCE: usize = 64;

/// What recovery found.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Turns that had started and are now failed as `interrupted`.
    pub interrupted: u64,
    /// Turns whose responses are to be fetched from their providers once the server is ready.
    pub to_fetch: Vec<PendingTurn>,
    /// Sessions whose queued turns are to be started once the server is ready.
    pub to_start: Vec<(Scope, SessionId)>,
    /// Sessions whose agent process is gone, and that go on with the next prompt.
    pub suspended: u64,
}

/// Ends the turns that a crash cut off and finds those that still wait.
pub async fn classify(orchestrator: &Arc<Orchestrator>) -> Result<Recovered, Error> {
    let platform = orchestrator.platform();
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
        let mut lost = Vec::new();
        for turn in started {
            match orchestrator.can_take_up(&turn).await? {
                true => recovered.to_fetch.push(turn),
                false => lost.push(turn),
            }
        }
        recovered.interrupted += lost.len() as u64;
        stream::iter(lost.into_iter().map(Ok))
            .try_for_each_concurrent(AT_ONCE, |turn| interrupt(platform, turn))
            .await?;
        for turn in queued {
            if waiting.insert(turn.session) {
                let scope = Scope::on_behalf_of(turn.org, turn.created_by);
                recovered.to_start.push((scope, turn.session));
            }
        }
    }
    recovered.suspended = suspend_resident(platform).await?;
    let Recovered { interrupted, to_fetch, to_start, suspended } = &recovered;
    if *suspended > 0 {
        info!(suspended, "agent processes are gone; their sessions wait to be resumed");
    }
    if *interrupted > 0 || !to_fetch.is_empty() || !to_start.is_empty() {
        info!(
            interrupted,
            responses_to_fetch = to_fetch.len(),
            sessions_with_queued_turns = to_start.len(),
            "recovered unfinished turns"
        );
    }
    Ok(recovered)
}

/// Takes up what goes on elsewhere and starts what waited. Called once the server is ready.
pub async fn go_on(orchestrator: &Arc<Orchestrator>, recovered: Recovered) {
    stream::iter(recovered.to_fetch)
        .for_each_concurrent(AT_ONCE, |turn| orchestrator.take_up(turn))
        .await;
    stream::iter(recovered.to_start)
        .for_each_concurrent(AT_ONCE, |(scope, session)| async move {
            orchestrator.start_next(&scope, session).await;
        })
        .await;
}

/// No agent process outlives Skein. Its session knows how to find its agent's own session again.
async fn suspend_resident(platform: &Arc<Platform>) -> Result<u64, Error> {
    let (mut after, mut suspended) = (None, 0);
    loop {
        let scope = SystemScope::for_purpose("recovery");
        let page = platform.store.list_resident(scope, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(suspended) };
        after = Some(last.session);
        for resident in page {
            let scope = Scope::on_behalf_of(resident.org, resident.owner);
            let found = platform.store.find_session(&scope, resident.session).await?;
            let Some(record) = found else { continue };
            let changes = sessions::suspension(platform, &record, SERVER_RESTART)?;
            platform.commit(&scope, changes).await?;
            suspended += 1;
        }
    }
}

async fn interrupt(platform: &Arc<Platform>, pending: PendingTurn) -> Result<(), Error> {
    let scope = Scope::on_behalf_of(pending.org, pending.created_by);
    let found = platform.store.find_turn(&scope, pending.session, pending.turn).await?;
    let Some(record) = found else { return Ok(()) };
    let cause = outcome::reason_for(FailureCode::Interrupted);
    let response_id = pending.response.map(|(id, _)| id);
    let orphan = Orphan { turn: record.turn, response_id };
    match outcome::fail_orphan(platform, &scope, pending.session, orphan, cause).await {
        // One damaged session must not keep all the others from being served.
        Err(Error::Store(StoreError::Corrupt { entity, reason })) => {
            error!(turn.id = %pending.turn, entity, reason, "a turn could not be recovered");
            Ok(())
        }
        recovered => recovered.map(drop),
    }
}
