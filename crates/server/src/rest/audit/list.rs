//! `GET /api/audit`

use axum::{Json, extract::State};
use skein_api::{AuditEntry, AuditList};
use utoipa::IntoParams;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Known, Parameters},
};

/// The parameters of this list. Read from [`Parameters`]; this type names and documents them.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields document the parameters")]
pub(crate) struct AuditPage {
    /// Entries with a greater number: `nextCursor` of the page before.
    #[param(minimum = 0)]
    after: Option<u64>,
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

impl Known for AuditPage {
    const NAMES: &'static [&'static str] = &["after", "limit"];
}

/// Sealed entries, oldest first. For admins; reading the log is an entry itself.
#[utoipa::path(
    get,
    path = "/api/audit",
    tag = "audit",
    params(AuditPage),
    responses((status = 200, description = "A page of entries", body = AuditList)),
)]
pub(crate) async fn list_audit(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<AuditPage>,
) -> Result<Json<AuditList>, Problem> {
    let after = parameters.position("after")?.unwrap_or(0);
    let limit = parameters.number("limit", 1..=context.settings.page_max)?;
    let limit = limit.unwrap_or(context.settings.page_default);
    let rows = context.app.auditing.list(&caller.scope, after, limit).await?;
    let is_full = u32::try_from(rows.len()).is_ok_and(|count| count == limit);
    let next_cursor = rows.last().filter(|_| is_full).map(|last| last.number.to_string());
    Ok(Json(AuditList { entries: rows.into_iter().map(AuditEntry::from).collect(), next_cursor }))
}
