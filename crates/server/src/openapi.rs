//! The description of the interface, at `/openapi.json` and, for people, at `/docs`.

use std::sync::OnceLock;

use axum::{Router, response::Redirect, routing::get};
use bytes::Bytes;
use http::header;
use utoipa::{
    OpenApi,
    openapi::{
        Content, Ref, RefOr, Response, Schema, SecurityRequirement,
        path::{HttpMethod, Operation, PathItem},
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::{app::Context, rest};

const BEARER: &str = "bearer";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Skein",
        description = "Durable sessions for AI agents: one thread per piece of work, reachable from every interface, with nothing lost.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(skein_api::Problem, skein_api::Event)),
    tags(
        (name = "sessions", description = "Durable threads of work"),
        (name = "turns", description = "Instructions and their outcomes"),
        (name = "agent", description = "One call from instruction to answer"),
        (name = "payloads", description = "Full texts and raw bodies"),
        (name = "repositories", description = "Git work trees that agents may work in"),
        (name = "contexts", description = "What answers, and how it is asked to"),
        (name = "tokens", description = "Access"),
        (name = "administration", description = "Organisations and the people in them"),
        (name = "audit", description = "What was done, and whether the record is whole"),
        (name = "operations", description = "Health and metrics"),
    ),
)]
pub(crate) struct Description;

/// The whole description as pretty JSON; the same every time.
pub fn openapi_json() -> String {
    let (_, mut api) = rest::routes().split_for_parts();
    let components = api.components.get_or_insert_default();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(BEARER, scheme);
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations(item) {
            complete(path, &method, operation);
        }
    }
    let mut text = api.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The description, its page, and the way there.
pub(crate) fn docs() -> Router<Context> {
    let page = SwaggerUi::new("/docs").config(Config::from("/openapi.json"));
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/docs") }))
        .route("/openapi.json", get(description))
        .merge(Router::from(page))
}

async fn description() -> ([(header::HeaderName, &'static str); 1], Bytes) {
    static TEXT: OnceLock<Bytes> = OnceLock::new();

    let text = TEXT.get_or_init(|| openapi_json().into());
    ([(header::CONTENT_TYPE, "application/json")], text.clone())
}

fn operations(item: &mut PathItem) -> Vec<(HttpMethod, &mut Operation)> {
    let all = [
        (HttpMethod::Get, &mut item.get),
        (HttpMethod::Post, &mut item.post),
        (HttpMethod::Put, &mut item.put),
        (HttpMethod::Patch, &mut item.patch),
        (HttpMethod::Delete, &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?))).collect()
}

/// Adds what every endpoint of a kind may answer, so that handlers name only what is their own.
fn complete(path: &str, method: &HttpMethod, operation: &mut Operation) {
    let mut statuses = vec![403, 421, 500, 503];
    if !rest::is_open(path) {
        statuses.extend([400, 401, 429]);
        let requirement = SecurityRequirement::new(BEARER, [""; 0]);
        operation.security = Some(vec![requirement]);
    }
    if path.contains('{') {
        statuses.push(404);
    }
    if let Some(body) = &mut operation.request_body {
        if let RefOr::T(body) = body {
            body.content.values_mut().for_each(leave_out_not_null);
        }
        statuses.extend([413, 415, 422]);
    }
    match method {
        HttpMethod::Post => statuses.extend([404, 409, 413, 422, 507]),
        HttpMethod::Put => statuses.extend([409, 413, 507]),
        HttpMethod::Patch => statuses.extend([409, 412, 413, 507]),
        HttpMethod::Delete => statuses.extend([409, 413, 507]),
        // A check or a page of the audit log is written down in it.
        HttpMethod::Get if path.starts_with("/api/audit") => statuses.push(507),
        _ => {}
    }
    for status in statuses {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_string()).or_insert_with(|| problem(status).into());
    }
}

/// A body that need not be there is left out; `null` in its place is refused.
fn leave_out_not_null(content: &mut RefOr<Content>) {
    let RefOr::T(content) = content else { return };
    if let Some(RefOr::T(Schema::OneOf(either))) = &content.schema {
        let named = either.items.iter().find(|item| matches!(item, RefOr::Ref(_))).cloned();
        content.schema = named.or_else(|| content.schema.take());
    }
}

fn problem(status: u16) -> Response {
    let status = http::StatusCode::from_u16(status).unwrap_or_default();
    let schema = Ref::from_schema_name("Problem");
    let mut response = Response::new(status.canonical_reason().unwrap_or_default());
    let content = Content::new(Some(schema));
    response.content.insert("application/problem+json".to_owned(), content.into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

    #[expect(clippy::disallowed_methods, reason = "the only switch of this test")]
    fn is_update() -> bool {
        std::env::var_os("UPDATE_DOCS").is_some()
    }

    #[test]
    fn the_checked_in_description_is_fresh() {
        let current = openapi_json();
        if is_update() {
            std::fs::write(CHECKED_IN, &current).unwrap();
        }

        let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();

        assert!(
            checked_in == current,
            "docs/openapi.json is stale; refresh it with: UPDATE_DOCS=1 cargo test -p skein-server openapi"
        );
    }

    #[test]
    fn every_operation_has_its_own_id_and_says_how_it_refuses() {
        let api: serde_json::Value = serde_json::from_str(&openapi_json()).unwrap();
        let mut ids = Vec::new();
        for (path, item) in api["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                ids.push(operation["operationId"].as_str().unwrap().to_owned());
                let refusal = &operation["responses"]["421"]["content"]["application/problem+json"];
                assert!(refusal.is_object(), "{method} {path}");
            }
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert_eq!(api["openapi"], "3.1.0");
    }
}
