//! HTTP: REST and server-sent events over the core's services.
//!
//! `rest/<resource>/<verb>.rs` has one endpoint per file. Handlers are thin: `extract` and `auth` turn a
//! request into checked values, a service of the core decides, `skein_api` shapes the answer, `error` is
//! the one map of refusals, `admission` says who is let in, and `edge` is what every request passes through.

mod admission;
mod answer;
mod app;
mod auth;
mod edge;
mod error;
mod extract;
mod hosts;
mod json;
mod limits;
mod metrics;
mod openapi;
mod rate;
mod refusals;
mod rest;
mod serve;
mod settings;
mod sse;
mod stall;

use axum::{Router, middleware::from_fn_with_state};
use tower_http::catch_panic::CatchPanicLayer;

use app::Shared;
pub use app::{App, Lifecycle};
pub use metrics::install_metrics;
pub use openapi::openapi_json;
pub use rate::Rate;
pub use serve::serve;
pub use settings::ServerSettings;

/// Every route, ready to be served or called in-process.
///
/// A caller in this process names a host like everyone else, e.g. `Host: localhost`.
pub fn router(app: App, settings: ServerSettings) -> Router {
    let context = Shared::new(app, settings);
    let (routes, _) = rest::routes().split_for_parts();
    routes
        .merge(openapi::docs())
        .fallback(rest::not_found)
        .method_not_allowed_fallback(rest::method_not_allowed)
        .layer(CatchPanicLayer::custom(edge::panicked))
        .layer(from_fn_with_state(context.clone(), admission::admit))
        .layer(from_fn_with_state(context.clone(), edge::edge))
        .with_state(context)
}
