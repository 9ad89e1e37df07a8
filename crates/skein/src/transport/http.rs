//! The form that talks to a server.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};

use super::{Call, Reply};
use crate::{
    commands::Context,
    failure::{Exit, Failure},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Streams carry a sign of life more often than this.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// A server, and the token that it is shown.
pub(crate) struct Http {
    client: reqwest::Client,
    url: String,
    token: String,
    origin: Origin,
}

/// How the server became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Named,
    Found,
}

impl Http {
    /// The server in `SKEIN_URL`. The token of the home is not shown to it unasked: it may be anybody's.
    pub(super) fn named(context: &Context, url: &str) -> Result<Self, Failure> {
        let token = context.environment.get("SKEIN_TOKEN").ok_or_else(|| {
            Failure::new(Exit::Auth, "SKEIN_URL is set, but SKEIN_TOKEN is not")
                .hint("set SKEIN_TOKEN to a token of that server")
        })?;
        Self::new(url, token.to_owned(), Origin::Named)
    }

    /// The server that holds the home's lock.
    pub(super) fn found(context: &Context, url: &str) -> Result<Self, Failure> {
        Self::new(url, context.token()?, Origin::Found)
    }

    pub(super) fn own(token: String, url: &str) -> Result<Self, Failure> {
        Self::new(url, token, Origin::Found)
    }

    fn new(url: &str, token: String, origin: Origin) -> Result<Self, Failure> {
        let parsed = reqwest::Url::parse(url).ok().filter(|url| url.has_host());
        let parsed = parsed.filter(|url| matches!(url.scheme(), "http" | "https"));
        let parsed = parsed.ok_or_else(|| {
            Failure::new(Exit::Usage, format!("SKEIN_URL: {url:?} is not an address"))
                .hint("write it like http://127.0.0.1:7534")
        })?;
        let client = client(&parsed).map_err(|error| {
            Failure::new(Exit::Failed, "the HTTP client cannot be set up").because(error)
        })?;
        let url = parsed.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client, url, token, origin })
    }

    pub(super) fn was_found(&self) -> bool {
        self.origin == Origin::Found
    }

    pub(super) async fn send(&self, call: Call) -> Result<Reply, Failure> {
        let url = format!("{}{}", self.url, call.target);
        let headers = call.headers();
        let mut request = self.client.request(call.method, url).bearer_auth(&self.token);
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let server = self.url.clone();
        let response = request.send().await.map_err(|error| unreachable(&server, error))?;
        let status = response.status();
        let body = response.bytes_stream();
        let body = body.map_err(move |error| unreachable(&server, error)).boxed();
        Ok(Reply { status, body })
    }
}

/// Whether the server at this address takes work.
pub(crate) async fn is_ready(url: &str) -> Result<bool, reqwest::Error> {
    let parsed = reqwest::Url::parse(&format!("{url}/readyz"));
    let Ok(parsed) = parsed else { return Ok(false) };
    let request = client(&parsed)?.get(parsed).timeout(READY_TIMEOUT);
    Ok(request.send().await?.status().is_success())
}

/// The one place where HTTP clients are made.
fn client(url: &reqwest::Url) -> reqwest::Result<reqwest::Client> {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(SILENCE_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("skein/", env!("CARGO_PKG_VERSION")));
    // A proxy for the world outside cannot reach this machine's own addresses.
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if is_local { builder.no_proxy().build() } else { builder.build() }
}

/// Whether the server cannot have seen the request: there was no connection.
pub(crate) fn never_arrived(failure: &Failure) -> bool {
    let cause = failure.cause.as_ref().and_then(|cause| cause.downcast_ref::<reqwest::Error>());
    cause.is_some_and(reqwest::Error::is_connect)
}

fn unreachable(server: &str, error: reqwest::Error) -> Failure {
    let message = match error.is_timeout() {
        true => format!("{server} does not answer in time"),
        false => format!("the connection to {server} failed"),
    };
    Failure::new(Exit::Unavailable, message)
        .because(error.without_url())
        .hint("check that the server runs: skein doctor")
}
