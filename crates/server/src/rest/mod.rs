//! Every endpoint: `<resource>/<verb>.rs`, and one line here.

mod agent;
mod operations;
mod payloads;
mod sessions;
mod tokens;
mod turns;
mod users;

use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::Context,
    error::{Code, Problem},
    openapi::Description,
};

/// The routes with their description.
pub(crate) fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(sessions::create::create_session, sessions::list::list_sessions))
        .routes(routes!(
            sessions::get::get_session,
            sessions::edit::edit_session,
            sessions::delete::delete_session
        ))
        .routes(routes!(sessions::complete::complete_session))
        .routes(routes!(sessions::suspend::suspend_session))
        .routes(routes!(sessions::resume::resume_session))
        .routes(routes!(sessions::prompt::prompt_session))
        .routes(routes!(sessions::messages::list_messages))
        .routes(routes!(sessions::events::follow_events))
        .routes(routes!(turns::list::list_turns))
        .routes(routes!(turns::last::last_turn))
        .routes(routes!(turns::get::get_turn))
        .routes(routes!(turns::summary::summarize_turn))
        .routes(routes!(turns::context::turn_context))
        .routes(routes!(turns::rerun::rerun_turn))
        .routes(routes!(turns::cancel::cancel_turn))
        .routes(routes!(users::sessions::list_user_sessions))
        .routes(routes!(payloads::get::get_payload))
        .routes(routes!(agent::execute::execute))
        .routes(routes!(tokens::create::create_token, tokens::list::list_tokens))
        .routes(routes!(tokens::revoke::revoke_token))
        .routes(routes!(operations::whoami::whoami))
        .routes(routes!(operations::health::healthz))
        .routes(routes!(operations::live::livez))
        .routes(routes!(operations::ready::readyz))
        .routes(routes!(operations::metrics::metrics))
}

pub(crate) async fn not_found() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this path; /docs lists what there is")
}

/// The header `Allow` is added by the router, which knows the methods.
pub(crate) async fn method_not_allowed() -> Problem {
    Problem::new(Code::MethodNotAllowed, "the header Allow lists the methods of this path")
}
