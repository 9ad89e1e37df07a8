//! Ctrl-C ends the turn that a command began.

use std::time::Duration;

use serde_json::json;

use super::{Context, follow::Known};
use crate::{
    failure::{Exit, Failure},
    output,
    transport::{Call, Client},
};

/// How long Ctrl-C waits to learn which turn it has to end.
const LEARN_TIMEOUT: Duration = Duration::from_secs(2);
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects and works. On Ctrl-C the turn that has become known by then is cancelled.
pub(super) async fn interruptible(
    context: &Context,
    work: impl AsyncFnOnce(&mut Client, &Known) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut client = tokio::select! {
        client = Client::connect(context) => client?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::interrupted()),
    };
    let known = Known::new(None);
    let ended = tokio::select! {
        result = work(&mut client, &known) => Some(result),
        () = interrupted(&known) => None,
    };
    if ended.is_none() {
        cancel(&client, &known).await;
    }
    client.close().await;
    ended.unwrap_or_else(|| Err(Failure::interrupted()))
}

/// Resolves with Ctrl-C, a moment later when the turn that it has to end is not known yet.
async fn interrupted(known: &Known) {
    // Without a handler for the signal it ends the process by itself.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    let mut known = known.subscribe();
    let learned = known.wait_for(Option::is_some);
    // Whoever cancels sees whether it was learned.
    let _learned = tokio::time::timeout(LEARN_TIMEOUT, learned).await.is_ok();
}

/// A second Ctrl-C does not wait for it.
async fn cancel(client: &Client, known: &Known) {
    let Some(turn) = known.borrow().clone() else { return };
    let call = Call::post(turn.target(&["cancel"]), json!({}));
    let cancelled = tokio::select! {
        cancelled = tokio::time::timeout(CANCEL_TIMEOUT, client.call(call)) => cancelled,
        _ = tokio::signal::ctrl_c() => return,
    };
    match cancelled {
        Ok(Ok(_)) => output::note("the turn was cancelled"),
        // It had ended by then.
        Ok(Err(failure)) if failure.exit == Exit::Conflict => {}
        Ok(Err(_)) | Err(_) => output::note("warning: the turn could not be cancelled"),
    }
}
