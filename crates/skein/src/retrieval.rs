//! From `[retrieval]` to what keeps and finds passages.

use std::{sync::Arc, time::Duration};

use skein_core::ports::PassageIndex;
use skein_retrieval::{
    EmbeddedIndex, QdrantIndex,
    embed::{EmbedError, Embedder, EmbeddingOptions},
    qdrant::QdrantOptions,
};

use crate::{
    config::{Config, Embeddings},
    failure::{Exit, Failure},
    home::Home,
};

/// How long a look at an endpoint may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The passages of repositories and documents. Whatever it is kept in can be made again.
pub(crate) async fn open(home: &Home, config: &Config) -> Result<Arc<dyn PassageIndex>, Failure> {
    let embedder = config.settings.retrieval.embeddings.as_ref();
    let embedder = embedder.map(|embeddings| embedder_of(config, embeddings)).transpose()?;
    if !config.settings.retrieval.is_embedded() {
        return Ok(Arc::new(qdrant(home, config, embedder)?));
    }
    let index = open_file(home).await?;
    Ok(match embedder {
        Some(embedder) => Arc::new(index.with_embedder(embedder)),
        None => Arc::new(index),
    })
}

/// An index in Qdrant, which need not be there yet.
pub(crate) fn qdrant(
    home: &Home,
    config: &Config,
    embedder: Option<Embedder>,
) -> Result<QdrantIndex, Failure> {
    let retrieval = &config.settings.retrieval;
    let key = retrieval.key_env.as_deref().and_then(|name| config.environment.get(name));
    let options = QdrantOptions {
        url: retrieval.url.clone(),
        collection: retrieval.collection.clone(),
        api_key: key.map(|key| key.to_owned().into()),
        clock_file: home.index_file(),
        read_timeout: QdrantOptions::READ_TIMEOUT,
    };
    QdrantIndex::with(options, embedder).map_err(|error| {
        Failure::new(Exit::Usage, "[retrieval] cannot be used").because(error.without_url())
    })
}

/// Asks the endpoint for one vector, and says how long it is.
pub(crate) async fn probe(config: &Config, embeddings: &Embeddings) -> Result<usize, EmbedError> {
    let mut options = options(config, embeddings);
    options.timeout = options.timeout.min(PROBE_TIMEOUT);
    let embedder = Embedder::new(options).map_err(EmbedError::Unavailable)?;
    Ok(embedder.question("is anybody there?").await?.len())
}

async fn open_file(home: &Home) -> Result<EmbeddedIndex, Failure> {
    let file = home.index_file();
    let shown = file.display().to_string();
    let opened = tokio::task::spawn_blocking(move || EmbeddedIndex::open(&file)).await;
    let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
        Failure::new(Exit::Unavailable, format!("cannot open {shown}"))
            .because(error)
            .hint("the index can be made again: remove the file and run `skein index update`")
    };
    match opened {
        Ok(Ok(index)) => Ok(index),
        Ok(Err(error)) => Err(unusable(Box::new(error))),
        Err(error) => Err(unusable(Box::new(error))),
    }
}

fn embedder_of(config: &Config, embeddings: &Embeddings) -> Result<Embedder, Failure> {
    Embedder::new(options(config, embeddings)).map_err(|error| {
        Failure::new(Exit::Usage, "[retrieval.embeddings] cannot be used")
            .because(error.without_url())
    })
}

/// The key is taken from the environment, and stays in memory.
fn options(config: &Config, embeddings: &Embeddings) -> EmbeddingOptions {
    let defaults = EmbeddingOptions::new(&embeddings.base_url, &embeddings.model);
    let key = embeddings.key_env.as_deref().and_then(|name| config.environment.get(name));
    EmbeddingOptions {
        api_key: key.map(|key| key.to_owned().into()),
        dimensions: embeddings.dimensions,
        batch: embeddings.batch.unwrap_or(defaults.batch),
        timeout: embeddings.timeout_seconds.map_or(defaults.timeout, Duration::from_secs_f64),
        ..defaults
    }
}
