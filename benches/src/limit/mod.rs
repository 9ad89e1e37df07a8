//! The limit program: what this machine allows a server that makes the same rows durable, and does nothing else.
//!
//! It has Skein's schema, its settings of SQLite, its group commit and two commits a turn; it has no
//! authentication, no checks, no savepoints, no orchestration, no hashing and no compression (texts are packed once,
//! at the start). It answers on the same paths with bodies of the same size.

mod commits;
mod http;
mod rows;
mod store;
mod writer;

pub(crate) use commits::Commits;
pub(crate) use rows::{EventData, SUMMARY_CHARS};

use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;

use crate::arguments::LimitArguments;

/// The file that it writes to: one that Skein has just made, with its schema and its settings.
pub(crate) const DATABASE: &str = "limit.db";

/// Serves until the process is asked to end.
pub(crate) fn serve(arguments: &LimitArguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the server's runtime cannot start")?;
    runtime.block_on(async {
        let database = arguments.home.join(DATABASE);
        let (writer, writing) = writer::start(&database)?;
        let app =
            http::App::new(Arc::new(writer), store::open_reader(&database)?, arguments.chunks);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let url = format!("http://{}", listener.local_addr()?);
        println!("{}", serde_json::json!({"url": url, "pid": std::process::id()}));
        let server = axum::serve(listener, http::router(app)).with_graceful_shutdown(async move {
            terminate.recv().await;
        });
        server.await?;
        writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?
    })
}
