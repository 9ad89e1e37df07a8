//! `POST /api/sessions/{id}/turns:plan`

use axum::{Json, extract::State};
use skein_api::{Context, Execute};
use skein_core::{
    Error,
    intake::{self, ExecuteRequest},
    model::SessionId,
};

use crate::{
    app::Context as Shared,
    auth::Caller,
    error::Problem,
    extract::{Parameters, PathId, Strict},
};

/// What the session's next turn would give to its agent. Nothing is written and nothing is sent.
#[utoipa::path(
    post,
    path = "/api/sessions/{id}/turns:plan",
    tag = "turns",
    params(("id" = Uuid, Path, description = "The session")),
    request_body = Execute,
    responses((status = 200, description = "What would be given", body = Context)),
)]
pub(crate) async fn plan_turn(
    caller: Caller,
    State(context): State<Shared>,
    PathId(session): PathId<SessionId>,
    _: Parameters<()>,
    Strict(request): Strict<Execute>,
) -> Result<Json<Context>, Problem> {
    let mut wanted = ExecuteRequest::try_from(request)?;
    if wanted.session.is_some_and(|named| named != session) {
        let reason = "is not the session of the path".to_owned();
        return Err(Error::Invalid { field: "sessionId", reason }.into());
    }
    wanted.session = Some(session);
    let command = intake::normalize(wanted, &context.app.platform.limits)?;
    Ok(Json(context.app.orchestrator.dry_run(&caller.scope, &command).await?.into()))
}
