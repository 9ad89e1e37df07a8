//! `GET /api/sessions/{id}/turns`

use axum::{Json, extract::State};
use skein_api::{TurnList, TurnSummary};
use skein_core::{
    model::SessionId,
    ports::{TurnPage, TurnRecord},
};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{Known, Parameters, PathId},
};

pub(crate) struct Page;

impl Known for Page {
    const NAMES: &'static [&'static str] = &["limit", "before", "after"];
}

/// Turns in the order of their numbers.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}/turns",
    tag = "turns",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("limit" = Option<u32>, Query, description = "At most so many", minimum = 1, maximum = 200),
        ("after" = Option<u32>, Query, description = "Only turns above this number"),
        ("before" = Option<u32>, Query, description = "Only turns below this number; without `after`, the nearest ones"),
    ),
    responses((status = 200, description = "A page of turns", body = TurnList)),
)]
pub(crate) async fn list_turns(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    parameters: Parameters<Page>,
) -> Result<Json<TurnList>, Problem> {
    let limit = parameters.number("limit", 1..=context.settings.page_max)?;
    let limit = limit.unwrap_or(context.settings.page_default);
    let (after, before) = (parameters.position("after")?, parameters.position("before")?);
    let page = match (after, before) {
        (None, Some(before)) => TurnPage::Before(before),
        (after, _) => TurnPage::After(after.unwrap_or(0)),
    };
    // One more than is shown tells whether there is another page.
    let mut turns = context.app.history.turns(&caller.scope, session, page, limit + 1).await?;
    turns.retain(|record| before.is_none_or(|before| record.turn.number < before));
    Ok(Json(answer(turns, page, limit as usize)))
}

fn answer(mut turns: Vec<TurnRecord>, page: TurnPage, limit: usize) -> TurnList {
    let more = turns.len() > limit;
    match page {
        TurnPage::After(_) => turns.truncate(limit),
        TurnPage::Before(_) | TurnPage::Last => {
            turns.drain(..turns.len().saturating_sub(limit));
        }
    }
    let edge = match page {
        TurnPage::After(_) => turns.last(),
        TurnPage::Before(_) | TurnPage::Last => turns.first(),
    };
    let next_cursor = edge.map(|record| record.turn.number).filter(|_| more);
    TurnList { turns: turns.into_iter().map(TurnSummary::from).collect(), next_cursor }
}
