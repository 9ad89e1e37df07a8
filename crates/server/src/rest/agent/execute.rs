//! `POST /api/ai/agent/execute`

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use http::HeaderMap;
use skein_api::{Execute, ExecuteResponse};
use skein_core::{
    Error,
    intake::{self, ExecuteCommand, ExecuteRequest},
    orchestrator::Accepted,
    platform::IdempotencyKey,
};

use crate::{
    answer::Answer,
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Creating, Parameters, accepts_event_stream, replayed},
    json,
    sse::{EventStream, Progress, TurnStream},
};

/// Runs an instruction and answers with its outcome; with `Accept: text/event-stream`, as it happens.
#[utoipa::path(
    post,
    path = "/api/ai/agent/execute",
    tag = "agent",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to send the request again")),
    request_body = Execute,
    responses((status = 200, description = "What came of it, also when the turn failed", content(
        (ExecuteResponse = "application/json"),
        (String = "text/event-stream"),
    ))),
)]
pub(crate) async fn execute(
    caller: Caller,
    State(context): State<Context>,
    headers: HeaderMap,
    _: Parameters<()>,
    request: Creating<Execute>,
) -> Result<Response, Problem> {
    let wanted = ExecuteRequest::try_from(request.body)?;
    let command = intake::normalize(wanted, &context.app.platform.limits)?;
    if accepts_event_stream(&headers) {
        stream(context, caller, command, request.key).await
    } else {
        whole(&context, &caller, command, request.key).await
    }
}

async fn whole(
    context: &Context,
    caller: &Caller,
    command: ExecuteCommand,
    key: Option<IdempotencyKey>,
) -> Result<Response, Problem> {
    let instruction_bytes = command.instruction.len() as u64;
    let executing = context.app.orchestrator.execute(&caller.scope, command, key.as_ref());
    let executed = tokio::select! {
        executed = executing => executed?,
        // The turn goes on, or is recovered; only this wait ends.
        () = context.app.lifecycle.closing().cancelled() => return Err(Error::Draining.into()),
    };
    let replay = replayed(executed.replayed);
    let answer = Answer::new(executed, instruction_bytes);
    let answer = json::respond(answer.into_pieces()).await?;
    Ok((replay, answer).into_response())
}

async fn stream(
    context: Context,
    caller: Caller,
    command: ExecuteCommand,
    key: Option<IdempotencyKey>,
) -> Result<Response, Problem> {
    let instruction_bytes = command.instruction.len() as u64;
    // Before the turn exists, so that a caller without room for a stream changes nothing.
    let slot = context.streams.enter(caller.scope.user)?;
    let orchestrator = context.app.orchestrator.clone();
    let accepted = orchestrator.accept(&caller.scope, command, key.as_ref()).await?;
    let Accepted { session, turn, replayed: is_replay, .. } = accepted;
    let history = &context.app.history;
    let (reader, progress) = if is_replay {
        let executed = orchestrator.outcome_of(&caller.scope, accepted).await?;
        let before = history.position_before(&caller.scope, session, turn).await?;
        let reader = history.follow(&caller.scope, session, Some(before)).await?;
        (reader, Progress::Known(Box::new(executed)))
    } else {
        let (reader, scope) =
            (history.follow_accepted(&caller.scope, &accepted), caller.scope.clone());
        let outcome = async move { orchestrator.outcome_of(&scope, accepted).await };
        (reader, Progress::Running(outcome.boxed()))
    };
    let events = EventStream::new(context, caller.0, slot, session, reader);
    let answer = TurnStream { events, turn, instruction_bytes, progress };
    Ok((replayed(is_replay), answer.into_response()).into_response())
}
