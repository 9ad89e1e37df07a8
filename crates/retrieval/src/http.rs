//! The one place where this crate's HTTP clients are made.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Who does not answer the telephone by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A client for the service at this address. It follows no redirects: a key is for the address that it was given for.
pub(crate) fn client(url: &str) -> reqwest::Result<reqwest::Client> {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .user_agent(concat!("skein/", env!("CARGO_PKG_VERSION")));
    // A proxy for the world outside cannot reach this machine's own addresses.
    if is_local(url) { builder.no_proxy().build() } else { builder.build() }
}

fn is_local(url: &str) -> bool {
    let host = reqwest::Url::parse(url).ok();
    let host = host.as_ref().and_then(reqwest::Url::host_str);
    matches!(host, Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// Keeps callers from waiting again and again for somebody who has just not answered.
#[derive(Debug)]
pub(crate) struct Rest {
    length: Duration,
    failed_at: Mutex<Option<Instant>>,
}

impl Rest {
    pub(crate) const fn of(length: Duration) -> Self {
        Self { length, failed_at: Mutex::new(None) }
    }

    pub(crate) fn is_on(&self) -> bool {
        let failed_at = *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|at| at.elapsed() < self.length)
    }

    pub(crate) fn note<T, E>(&self, outcome: &Result<T, E>) {
        let failed_at = outcome.is_err().then(Instant::now);
        *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = failed_at;
    }
}
