//! Any provider of the Responses API: asks, streams, takes up again what was cut off.
//!
//! `compose` makes the body; `exchange` makes the calls and reads what comes back; `reply` turns it into updates.

mod address;
mod compose;
mod exchange;
mod provider;
mod redact;
mod refusal;
mod repeats;
mod reply;
mod settings;
mod sse;
mod wire;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, future, future::BoxFuture, stream::BoxStream};
pub use secrecy::SecretString;
use serde_json::Value;
use skein_core::{
    model::FailureCode,
    ports::{AgentRuntime, AgentUpdate, ContextNeed, Prompt, Reattach, RunRequest, RuntimeFailure},
};
use tracing::debug;

use exchange::Exchange;
use provider::Provider;
use refusal::Refusal;
pub use settings::{PRESETS, Preset, ProviderSettings, SettingsError, Timeouts, preset};

/// How long a provider may take to hear that nobody waits any more.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a provider may take to name its models.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// As many models as are named.
const MAX_PROBED_MODELS: usize = 20;

/// An agent that asks a provider of the Responses API.
#[derive(Debug, Clone)]
pub struct Responses {
    provider: Arc<Provider>,
}

impl Responses {
    pub fn new(settings: ProviderSettings) -> Result<Self, SettingsError> {
        Ok(Self { provider: Arc::new(Provider::new(settings)?) })
    }

    /// Asks for the provider's models, to see that it can be reached and takes the key. Names at most 20.
    pub async fn probe(&self) -> Result<Vec<String>, RuntimeFailure> {
        let asked = tokio::time::timeout(PROBE_TIMEOUT, self.models()).await;
        asked.unwrap_or_else(|_| {
            Err(RuntimeFailure {
                code: FailureCode::ProviderTimeout,
                message: format!("no answer within {} s", PROBE_TIMEOUT.as_secs()),
            })
        })
    }

    async fn models(&self) -> Result<Vec<String>, RuntimeFailure> {
        let failed = |message: String| RuntimeFailure {
            code: FailureCode::ProviderError,
            message: self.provider.redacted(&message),
        };
        let sent = self.provider.models().send().await;
        let response = sent.map_err(|error| failed(exchange::unreachable(&error)))?;
        if response.status().is_redirection() {
            return Err(failed(exchange::REDIRECTED.to_owned()));
        }
        // The same limits suit lists and refusals.
        let reply = Refusal::read(response, PROBE_TIMEOUT).await;
        if !reply.status.is_success() {
            return Err(failed(reply.message()));
        }
        let list: Value = serde_json::from_slice(&reply.body)
            .map_err(|_| failed("the provider's list of models is not valid JSON".to_owned()))?;
        let models = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ids = models.iter().filter_map(|model| model["id"].as_str());
        Ok(ids.take(MAX_PROBED_MODELS).map(|id| self.provider.redacted(id)).collect())
    }
}

impl AgentRuntime for Responses {
    fn run(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate> {
        Exchange::create(Arc::clone(&self.provider), request).into_stream()
    }

    fn context(&self) -> ContextNeed {
        ContextNeed::Conversation {
            provider: self.provider.name.clone(),
            keeping: self.provider.manner.chain,
        }
    }

    fn compose(&self, prompt: &Prompt) -> Option<Bytes> {
        compose::compose(self.provider.manner, prompt)
    }

    fn outlives_connections(&self) -> bool {
        self.provider.manner.background
    }

    fn reattach(&self, request: Reattach) -> BoxStream<'static, AgentUpdate> {
        Exchange::take_up(Arc::clone(&self.provider), request).into_stream()
    }

    fn abandon(&self, response_id: String) -> BoxFuture<'static, ()> {
        if !self.provider.manner.background {
            return future::ready(()).boxed();
        }
        let provider = Arc::clone(&self.provider);
        async move {
            let cancel = provider.cancel(&response_id).timeout(ABANDON_TIMEOUT).send().await;
            let cancelled = cancel.and_then(reqwest::Response::error_for_status);
            if let Err(error) = cancelled {
                let error = error.without_url();
                debug!(provider = provider.name, %error, "a response could not be cancelled");
            }
        }
        .boxed()
    }
}
