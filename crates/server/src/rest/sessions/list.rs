//! `GET /api/sessions`

use axum::{Json, extract::State};
use skein_api::SessionList;

use super::filters::{Filters, ListRequest};
use crate::{app::Context, auth::Caller, error::Problem, extract::Parameters};

/// Sessions that the caller may read, newest first.
#[utoipa::path(
    get,
    path = "/api/sessions",
    tag = "sessions",
    params(Filters),
    responses((status = 200, description = "A page of sessions", body = SessionList)),
)]
pub(crate) async fn list_sessions(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<Filters>,
) -> Result<Json<SessionList>, Problem> {
    let request = ListRequest::new(&parameters, &context.settings)?;
    let page = match &request.list {
        Some(list) => Some(context.app.sessions.list(&caller.scope, list.clone()).await?),
        None => None,
    };
    Ok(Json(request.answer(page)))
}
