//! Every endpoint: `<resource>/<verb>.rs`, and one line here.

mod agent;
mod agent_contexts;
mod audit;
mod conversation_contexts;
mod documents;
mod operations;
mod orgs;
pub(crate) mod paging;
mod payloads;
mod permissions;
mod repos;
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
        .routes(routes!(permissions::list::list_permissions))
        .routes(routes!(permissions::answer::answer_permission))
        .routes(routes!(turns::list::list_turns))
        .routes(routes!(turns::last::last_turn))
        .routes(routes!(turns::get::get_turn))
        .routes(routes!(turns::summary::summarize_turn))
        .routes(routes!(turns::context::turn_context))
        .routes(routes!(turns::rerun::rerun_turn))
        .routes(routes!(turns::cancel::cancel_turn))
        .routes(routes!(users::sessions::list_user_sessions))
        .routes(routes!(payloads::get::get_payload))
        .routes(routes!(turns::plan::plan_turn))
        .routes(routes!(agent::execute::execute))
        .routes(routes!(agent::plan::plan))
        .routes(routes!(tokens::create::create_token, tokens::list::list_tokens))
        .routes(routes!(tokens::revoke::revoke_token))
        .routes(routes!(repos::create::create_repo, repos::list::list_repos))
        .routes(routes!(repos::get::get_repo))
        .routes(routes!(
            repos::index::index_repo,
            repos::index_status::index_status,
            repos::index_remove::remove_index
        ))
        .routes(routes!(repos::search::search_repo))
        .routes(routes!(documents::create::add_document, documents::list::list_documents))
        .routes(routes!(
            agent_contexts::create::create_agent_context,
            agent_contexts::list::list_agent_contexts
        ))
        .routes(routes!(
            agent_contexts::get::get_agent_context,
            agent_contexts::change::change_agent_context
        ))
        .routes(routes!(
            conversation_contexts::create::create_conversation_context,
            conversation_contexts::list::list_conversation_contexts
        ))
        .routes(routes!(
            conversation_contexts::get::get_conversation_context,
            conversation_contexts::change::change_conversation_context
        ))
        .routes(routes!(orgs::create::create_org))
        .routes(routes!(orgs::create_user::create_user))
        .routes(routes!(users::list::list_users))
        .routes(routes!(users::get::get_user, users::edit::edit_user))
        .routes(routes!(audit::list::list_audit))
        .routes(routes!(audit::verify::verify_audit))
        .routes(routes!(operations::whoami::whoami))
        .routes(routes!(operations::health::healthz))
        .routes(routes!(operations::live::livez))
        .routes(routes!(operations::ready::readyz))
        .routes(routes!(operations::metrics::metrics))
}

/// Health checks: without a token, and never held up by anyone's limits.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz")
}

pub(crate) async fn not_found() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this path; /docs lists what there is")
}

/// The header `Allow` is added by the router, which knows the methods.
pub(crate) async fn method_not_allowed() -> Problem {
    Problem::new(Code::MethodNotAllowed, "the header Allow lists the methods of this path")
}
