//! `GET /api/sessions/{id}`

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, TryStreamExt, stream};
use skein_api::{Message, Repository, Session, SessionDetail, TurnSummary};
use skein_core::{
    Error,
    history::{History, MessagesQuery},
    model::{Scope, SessionId},
    ports::{MessageRange, SessionRecord, TurnPage},
};

use crate::{
    app::Context,
    auth::Caller,
    error::Problem,
    extract::{ETag, Known, Parameters, PathId, invalid},
    json::{self, Pieces},
};

/// Turns per read when all of them are wanted.
const TURN_PAGE: u32 = 200;

pub(crate) struct Detail;

impl Known for Detail {
    const NAMES: &'static [&'static str] = &["include"];
}

/// What goes along with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Include {
    repository: bool,
    messages: bool,
    turns: bool,
}

/// One session, with what `include` asks for.
#[utoipa::path(
    get,
    path = "/api/sessions/{id}",
    tag = "sessions",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("include" = Option<String>, Query, description = "Any of messages, turns, repository, comma-separated; left out: messages, repository", example = "messages,turns"),
    ),
    responses((status = 200, description = "The session", body = SessionDetail)),
)]
pub(crate) async fn get_session(
    caller: Caller,
    State(context): State<Context>,
    PathId(session): PathId<SessionId>,
    parameters: Parameters<Detail>,
) -> Result<Response, Problem> {
    let include = Include::parse(&parameters)?;
    let record = context.app.sessions.get(&caller.scope, session).await?;
    let etag = ETag::of_session(&record.session);
    let body = json::respond(pieces(&context.app.history, &caller.scope, record, include)).await?;
    Ok((etag, body).into_response())
}

impl Include {
    fn parse(parameters: &Parameters<Detail>) -> Result<Self, Problem> {
        let Some(text) = parameters.text("include") else {
            return Ok(Self { repository: true, messages: true, turns: false });
        };
        let mut include = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "repository" => include.repository = true,
                "messages" => include.messages = true,
                "turns" => include.turns = true,
                _ => return Err(invalid("include", "use messages, turns or repository")),
            }
        }
        Ok(include)
    }
}

/// The session's object, left open for what goes along.
fn pieces(history: &History, scope: &Scope, record: SessionRecord, include: Include) -> Pieces {
    let id = record.session.id;
    let repository = record.repository.clone().map(Repository::from);
    let messages = include.messages.then(|| {
        let all = MessageRange { after: 0, before: None, since: None };
        let query = MessagesQuery { range: all, page: None };
        let pages = history.messages_of(scope, &record, query);
        let pages = pages.map_ok(move |page| {
            page.into_iter().map(|message| Message::new(id, message)).collect::<Vec<_>>()
        });
        json::array(",\"messages\":[", pages)
    });
    let turns = include
        .turns
        .then(|| json::array(",\"turns\":[", all_turns(history.clone(), scope.clone(), id)));

    let mut head = Vec::new();
    json::write(&mut head, &Session::from(record));
    head.pop();
    if include.repository {
        head.extend_from_slice(b",\"repository\":");
        json::write(&mut head, &repository);
    }
    let included = stream::iter([messages, turns].into_iter().flatten()).flatten();
    json::piece(head).chain(included).chain(json::piece("}")).boxed()
}

fn all_turns(
    history: History,
    scope: Scope,
    session: SessionId,
) -> impl futures::Stream<Item = Result<Vec<TurnSummary>, Error>> {
    stream::try_unfold(Some(0), move |after| {
        let (history, scope) = (history.clone(), scope.clone());
        async move {
            let Some(after) = after else { return Ok(None) };
            let page = history.turns(&scope, session, TurnPage::After(after), TURN_PAGE).await?;
            let next = page.last().map(|last| last.turn.number);
            let next = next.filter(|_| page.len() == TURN_PAGE as usize);
            Ok(Some((page.into_iter().map(TurnSummary::from).collect(), next)))
        }
    })
}
