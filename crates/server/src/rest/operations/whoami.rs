//! `GET /api/whoami`

use axum::Json;
use skein_api::WhoAmI;

use crate::{auth::Caller, error::Problem, extract::Parameters};

/// Who is calling, and what they may do.
#[utoipa::path(
    get,
    path = "/api/whoami",
    tag = "tokens",
    responses((status = 200, description = "The caller", body = WhoAmI)),
)]
pub(crate) async fn whoami(caller: Caller, _: Parameters<()>) -> Result<Json<WhoAmI>, Problem> {
    Ok(Json(WhoAmI::from(&caller.0)))
}
