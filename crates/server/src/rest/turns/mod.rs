//! The turns of a session.

pub(crate) mod cancel;
pub(crate) mod context;
pub(crate) mod get;
pub(crate) mod last;
pub(crate) mod list;
pub(crate) mod plan;
pub(crate) mod rerun;
pub(crate) mod summary;

use axum::{Json, response::IntoResponse};
use http::{StatusCode, header};
use skein_api::AcceptedTurn;
use skein_core::orchestrator::Accepted;

use crate::extract::replayed;

/// The answer to an instruction that will be run.
pub(crate) fn accepted(turn: &Accepted) -> impl IntoResponse + use<> {
    let location = format!("/api/sessions/{}/turns/{}", turn.session, turn.turn);
    (
        StatusCode::ACCEPTED,
        replayed(turn.replayed),
        [(header::LOCATION, location)],
        Json(AcceptedTurn::from(turn)),
    )
}
