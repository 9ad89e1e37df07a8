//! `DELETE /api/sessions/{id}`

use axum::{extract::State, response::IntoResponse};
use skein_api::Session;
use skein_core::model::SessionId;

use super::shown;
use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Known, Parameters, PathId},
};

pub(crate) struct Ending;

impl Known for Ending {
    const NAMES: &'static [&'static str] = &["reason", "purge"];
}

/// Cancels the session and every pending turn in it; with `purge`, removes it for good.
#[utoipa::path(
    delete,
    path = "/api/sessions/{id}",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("reason" = Option<String>, Query, description = "Why, for whoever reads the session later"),
        ("purge" = Option<bool>, Query, description = "Remove the session and its history"),
    ),
    responses((status = 200, description = "The session as it ended", body = Session)),
)]
pub(crate) async fn delete_session(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    parameters: Parameters<Ending>,
) -> Result<impl IntoResponse, Problem> {
    let sessions = &context.app.sessions;
    let ended = if parameters.flag("purge")? {
        sessions.purge(&caller.scope, session).await?
    } else {
        let reason = parameters.text("reason").filter(|text| !text.is_empty());
        sessions.cancel(&caller.scope, session, reason.map(str::to_owned)).await?
    };
    Ok(shown(ended))
}
