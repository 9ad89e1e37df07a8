//! One provider's address and the client that talks to it.

use std::{fmt, time::Duration};

use bytes::Bytes;
use reqwest::{
    Client, RequestBuilder, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
    redirect::Policy,
};
use secrecy::{ExposeSecret, SecretString};
use skein_core::ports::ChainKeeping;

use super::{
    address::{self, PublicOnly},
    compose::Manner,
    redact,
    settings::{ProviderSettings, SettingsError, Timeouts},
};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Providers close idle connections too, and a call that crosses with that is lost.
const POOL_IDLE: Duration = Duration::from_secs(15);

pub(super) struct Provider {
    pub(super) name: String,
    pub(super) manner: Manner,
    pub(super) timeouts: Timeouts,
    pub(super) key: Option<SecretString>,
    base: Url,
    client: Client,
}

impl Provider {
    pub(super) fn new(settings: ProviderSettings) -> Result<Self, SettingsError> {
        let base = base_url(&settings)?;
        let client = client(&settings, &base)?;
        // Only what is kept can be taken up.
        let background = settings.background && settings.chain == ChainKeeping::Server;
        Ok(Self {
            name: settings.name,
            manner: Manner { chain: settings.chain, background },
            timeouts: settings.timeouts.bounded(),
            key: settings.key,
            base,
            client,
        })
    }

    pub(super) fn create(&self, body: Bytes) -> RequestBuilder {
        let request = self.client.post(self.url(&["responses"]));
        request.header(CONTENT_TYPE, JSON).header(ACCEPT, EVENT_STREAM).body(body)
    }

    pub(super) fn retrieve(&self, response_id: &str, after: Option<u64>) -> RequestBuilder {
        let mut url = self.url(&["responses", response_id]);
        url.query_pairs_mut().append_pair("stream", "true");
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("starting_after", &after.to_string());
        }
        self.client.get(url).header(ACCEPT, EVENT_STREAM)
    }

    pub(super) fn inspect(&self, response_id: &str) -> RequestBuilder {
        self.client.get(self.url(&["responses", response_id])).header(ACCEPT, JSON)
    }

    pub(super) fn cancel(&self, response_id: &str) -> RequestBuilder {
        self.client.post(self.url(&["responses", response_id, "cancel"]))
    }

    pub(super) fn models(&self) -> RequestBuilder {
        self.client.get(self.url(&["models"])).header(ACCEPT, JSON)
    }

    /// A text without the key, for people and logs.
    pub(super) fn redacted(&self, text: &str) -> String {
        redact::without_key(self.key.as_ref(), text)
    }

    fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Cannot fail: the base is an http address.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("base", &self.base.as_str())
            .field("manner", &self.manner)
            .finish_non_exhaustive()
    }
}

fn base_url(settings: &ProviderSettings) -> Result<Url, SettingsError> {
    let refused = |reason: &str| SettingsError::BaseUrl {
        provider: settings.name.clone(),
        url: settings.base_url.clone(),
        reason: reason.to_owned(),
    };
    let url = Url::parse(&settings.base_url).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("its scheme is another"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The address is shown; a password in it would be too.
        return Err(SettingsError::BaseUrl {
            provider: settings.name.clone(),
            url: format!("{}://…", url.scheme()),
            reason: "it holds a user name or password".to_owned(),
        });
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("it has a query or a fragment"));
    }
    let is_private = address::literal(&url).is_some_and(|address| !address::is_public(address));
    if is_private && !settings.allow_private {
        let (provider, url) = (settings.name.clone(), settings.base_url.clone());
        return Err(SettingsError::PrivateAddress { provider, url });
    }
    Ok(url)
}

/// The one place where clients of providers are made.
fn client(settings: &ProviderSettings, base: &Url) -> Result<Client, SettingsError> {
    crate::install_tls();
    let mut headers = HeaderMap::new();
    if let Some(key) = &settings.key {
        let bearer = format!("Bearer {}", key.expose_secret());
        let mut bearer = HeaderValue::try_from(bearer)
            .map_err(|_| SettingsError::Key { provider: settings.name.clone() })?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    let mut builder = Client::builder()
        .default_headers(headers)
        .user_agent(concat!("skein/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(settings.timeouts.connect)
        .pool_idle_timeout(POOL_IDLE)
        .tcp_nodelay(true);
    if !settings.allow_private {
        // A proxy would look the name up itself, and what it finds could not be checked.
        builder = builder.dns_resolver(PublicOnly).no_proxy();
    } else if is_local(base) {
        // A proxy for the world outside cannot reach this machine's own addresses.
        builder = builder.no_proxy();
    }
    let failed = |source| SettingsError::Client { provider: settings.name.clone(), source };
    builder.build().map_err(failed)
}

fn is_local(url: &Url) -> bool {
    url.host_str() == Some("localhost") || address::literal(url).is_some_and(|ip| ip.is_loopback())
}
