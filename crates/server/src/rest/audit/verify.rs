//! `GET /api/audit/verify`

use axum::{Json, extract::State};
use skein_api::AuditReport;
use skein_core::model::AuditHead;

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Known, Parameters, invalid, position},
};

pub(crate) struct Seen;

impl Known for Seen {
    const NAMES: &'static [&'static str] = &["seen"];
}

/// Reads the whole log and checks its chain of hashes. For admins; the check is an entry itself.
#[utoipa::path(
    get,
    path = "/api/audit/verify",
    tag = "audit",
    params(("seen" = Option<String>, Query, description = "A head that was kept elsewhere, as NUMBER:HASH: the log must still contain it")),
    responses((status = 200, description = "What was found, also when the log was tampered with", body = AuditReport)),
)]
pub(crate) async fn verify_audit(
    caller: Caller,
    State(context): State<Context>,
    parameters: Parameters<Seen>,
) -> Result<Json<AuditReport>, Problem> {
    let seen = parameters.text("seen").map(parse_head).transpose()?;
    let report = context.app.auditing.verify(&caller.scope, seen).await?;
    Ok(Json(report.into()))
}

fn parse_head(text: &str) -> Result<AuditHead, Problem> {
    let head = text.split_once(':').and_then(|(number, hash)| {
        let number = position("seen", number).ok()?;
        Some(AuditHead { number, hash: hash.parse().ok()? })
    });
    head.ok_or_else(|| invalid("seen", "must be a number, a colon and a SHA-256 in hex"))
}

#[cfg(test)]
mod tests {
    use skein_core::model::Sha256Hash;

    use super::*;

    #[test]
    fn a_head_is_a_number_and_a_hash() {
        let hash = Sha256Hash::of(b"x");

        assert_eq!(parse_head(&format!("7:{hash}")).unwrap(), AuditHead { number: 7, hash });
        for bad in ["", "7", ":", "7:", "7:00", &format!("-7:{hash}"), &format!("+7:{hash}")] {
            assert!(parse_head(bad).is_err(), "{bad}");
        }
    }
}
