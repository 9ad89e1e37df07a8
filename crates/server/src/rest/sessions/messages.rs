//! `GET /api/sessions/{id}/messages`

use axum::{extract::State, response::Response};
use futures::TryStreamExt;
use skein_api::Message;
use skein_core::{
    history::MessagesQuery,
    model::SessionId,
    ports::{MessagePage, MessageRange},
};

use crate::{
    ServerSettings,
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Known, Parameters, PathId, invalid},
    json,
};

pub(crate) struct Range;

impl Known for Range {
    const NAMES: &'static [&'static str] = &["since", "after", "before", "limit", "last"];
}

/// What people read, always ascending; all of it unless `limit` or `last` is given.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/messages",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("since" = Option<String>, Query, description = "Only messages later than this moment; RFC 3339", example = "2026-11-15T18:10:34.499Z"),
        ("after" = Option<u64>, Query, description = "Only messages after this seq"),
        ("before" = Option<u64>, Query, description = "Only messages before this seq; with `limit` and without `after`, the nearest ones"),
        ("limit" = Option<u32>, Query, description = "At most so many", minimum = 1, maximum = 200),
        ("last" = Option<u32>, Query, description = "The newest ones", minimum = 1, maximum = 200),
    ),
    responses((status = 200, description = "The messages", body = Vec<Message>)),
)]
pub(crate) async fn list_messages(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    parameters: Parameters<Range>,
) -> Result<Response, Problem> {
    let query = query(&parameters, &context.settings)?;
    let pages = context.app.history.messages(&caller.scope, session, query).await?;
    let pages = pages.map_ok(move |page| {
        page.into_iter().map(|message| Message::new(session, message)).collect::<Vec<_>>()
    });
    Ok(json::respond(json::array("[", pages)).await?)
}

fn query(
    parameters: &Parameters<Range>,
    settings: &ServerSettings,
) -> Result<MessagesQuery, Problem> {
    let after = parameters.position("after")?;
    let before = parameters.position("before")?;
    let limit = parameters.number("limit", 1..=settings.page_max)?;
    let last = parameters.number("last", 1..=settings.page_max)?;
    let page = match (limit, last) {
        (Some(_), Some(_)) => return Err(invalid("last", "give limit or last, not both")),
        (None, None) => None,
        (None, Some(last)) => Some(MessagePage::Last(last)),
        // Going back from a position means the messages next to it.
        (Some(limit), None) if before.is_some() && after.is_none() => {
            Some(MessagePage::Last(limit))
        }
        (Some(limit), None) => Some(MessagePage::First(limit)),
    };
    let since = parameters.filter("since")?;
    Ok(MessagesQuery { range: MessageRange { after: after.unwrap_or(0), before, since }, page })
}
