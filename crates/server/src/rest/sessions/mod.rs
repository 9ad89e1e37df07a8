//! Sessions, and what is read and asked in one.

pub(crate) mod complete;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod events;
pub(crate) mod filters;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod messages;
pub(crate) mod prompt;
pub(crate) mod resume;
pub(crate) mod suspend;

use axum::{Json, response::IntoResponse};
use skein_api::Session;
use skein_core::ports::SessionRecord;

use crate::extract::ETag;

/// A session with its revision as `ETag`.
fn shown(record: SessionRecord) -> impl IntoResponse {
    (ETag::of_session(&record.session), Json(Session::from(record)))
}
