//! Vectors of texts, from any endpoint that speaks `/v1/embeddings`.

mod vectors;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

pub use self::vectors::{Matrix, packed};
use crate::http::{self, Rest};

/// How often a request is tried, and how long to wait before the second try; four times as long before the third.
const TRIES: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// A question cannot wait long, also for others to be done; without its vector the search goes by words.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Questions that are sent at the same time.
const QUESTIONS: usize = 32;

/// How long questions are not sent after one failed.
const REST: Duration = Duration::from_secs(10);

/// Larger answers are no embeddings of one batch.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Longer texts than this are cut: models take only so much.
const MAX_TEXT_BYTES: usize = 6_000;

/// A text that every model takes.
pub(crate) const HARMLESS: &str = "length";

/// Where vectors come from.
#[derive(Debug, Clone)]
pub struct EmbeddingOptions {
    /// Up to and with `/v1`; `/embeddings` is added.
    pub url: String,
    pub model: String,
    pub api_key: Option<SecretString>,
    /// What every vector must have; without it, what the first one has.
    pub dimensions: Option<usize>,
    /// Texts in one request.
    pub batch: usize,
    /// For one request.
    pub timeout: Duration,
}

impl EmbeddingOptions {
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            model: model.into(),
            api_key: None,
            dimensions: None,
            batch: 64,
            timeout: Duration::from_secs(60),
        }
    }
}

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error("the embedding endpoint is unavailable")]
    Unavailable(#[source] reqwest::Error),
    #[error("the embedding endpoint answered {0}")]
    Refused(reqwest::StatusCode),
    #[error("the embedding endpoint gave an answer that is not understood: {0}")]
    NotUnderstood(String),
    #[error("the embedding endpoint gave {actual} vectors for {expected} texts")]
    Count { expected: usize, actual: usize },
    #[error("the embedding endpoint gave a vector of {actual} dimensions instead of {expected}")]
    Dimension { expected: usize, actual: usize },
    #[error("the embedding endpoint failed a moment ago")]
    Resting,
    #[error("the embedding endpoint takes longer than a question can wait")]
    Slow,
}

impl EmbedError {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Refused(status) => status.is_server_error() || status.as_u16() == 429,
            _ => false,
        }
    }

    /// Whether fewer or other texts may be taken: the endpoint understood the request and does not want what is in it.
    fn is_about_the_texts(&self) -> bool {
        match self {
            Self::Refused(status) => {
                status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 404 | 408 | 429)
            }
            _ => false,
        }
    }
}

/// A client of one endpoint and one model.
pub struct Embedder {
    client: reqwest::Client,
    options: EmbeddingOptions,
    /// 0 until the first answer.
    dimensions: AtomicUsize,
    questions: Semaphore,
    rest: Rest,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: Vec<&'a str>,
    encoding_format: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder {
    pub fn new(options: EmbeddingOptions) -> Result<Self, reqwest::Error> {
        let client = http::client(&options.url)?;
        let dimensions = AtomicUsize::new(options.dimensions.unwrap_or(0));
        let questions = Semaphore::new(QUESTIONS);
        Ok(Self { client, options, dimensions, questions, rest: Rest::of(REST) })
    }

    pub fn model(&self) -> &str {
        &self.options.model
    }

    /// None until the endpoint has answered, unless it was told before.
    pub fn dimensions(&self) -> Option<usize> {
        Some(self.dimensions.load(Ordering::Acquire)).filter(|known| *known > 0)
    }

    pub fn batch(&self) -> usize {
        self.options.batch.max(1)
    }

    /// One vector of length 1 per text. Tries again when that may help.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES {
            match self.passages(texts).await {
                Err(error) if error.may_pass() => tokio::time::sleep(wait).await,
                done => return done,
            }
            wait *= 4;
        }
        self.passages(texts).await
    }

    /// Like [`Self::embed`], with `None` for each text that the endpoint does not take even by itself, e.g. because it is
    /// too long. One that takes nothing at all has an error instead.
    pub async fn embed_each(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        let mut takes_some = false;
        // The next part is the last.
        let mut parts = vec![texts];
        while let Some(part) = parts.pop() {
            match self.embed(part).await {
                Ok(some) => {
                    takes_some = true;
                    vectors.extend(some.into_iter().map(Some));
                }
                Err(error) if error.is_about_the_texts() => match part.split_at(part.len() / 2) {
                    ([], _) => {
                        if !takes_some {
                            self.embed(&[HARMLESS]).await?;
                            takes_some = true;
                        }
                        vectors.push(None);
                    }
                    (first, second) => parts.extend([second, first]),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(vectors)
    }

    /// What the first answer's vectors have is what every later one must have.
    async fn passages(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = self.request(texts, self.options.timeout).await?;
        let dimensions = vectors.first().map_or(0, Vec::len);
        let _ =
            self.dimensions.compare_exchange(0, dimensions, Ordering::AcqRel, Ordering::Acquire);
        Ok(vectors)
    }

    /// The vector of a question, at once or not at all.
    pub async fn question(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        if self.rest.is_on() {
            return Err(EmbedError::Resting);
        }
        let limit = QUESTION_TIMEOUT.min(self.options.timeout);
        let asked = tokio::time::timeout(limit, async {
            let _turn = self.questions.acquire().await;
            self.request(&[text], limit).await
        });
        let outcome = asked.await.unwrap_or(Err(EmbedError::Slow));
        self.rest.note(&outcome);
        outcome?.pop().ok_or(EmbedError::Count { expected: 1, actual: 0 })
    }

    async fn request(
        &self,
        texts: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let input = texts.iter().map(|text| head(text)).collect();
        let body = Request { model: &self.options.model, input, encoding_format: "float" };
        let url = format!("{}/embeddings", self.options.url.trim_end_matches('/'));
        let mut request = self.client.post(url).timeout(timeout).json(&body);
        if let Some(key) = &self.options.api_key {
            request = request.bearer_auth(key.expose_secret());
        }
        // An address may have a password in it.
        let away = |error: reqwest::Error| EmbedError::Unavailable(error.without_url());
        let mut response = request.send().await.map_err(away)?;
        if !response.status().is_success() {
            return Err(EmbedError::Refused(response.status()));
        }
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(away)? {
            if bytes.len() + part.len() > MAX_ANSWER_BYTES {
                return Err(EmbedError::NotUnderstood("it is too long".to_owned()));
            }
            bytes.extend_from_slice(&part);
        }
        let answer: Answer = serde_json::from_slice(&bytes)
            .map_err(|error| EmbedError::NotUnderstood(error.to_string()))?;
        self.checked(answer, texts.len())
    }

    fn checked(&self, answer: Answer, expected: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut items = answer.data;
        items.sort_by_key(|item| item.index);
        let is_whole = items.iter().enumerate().all(|(at, item)| item.index == at);
        if items.len() != expected || !is_whole {
            return Err(EmbedError::Count { expected, actual: items.len() });
        }
        let actual = items.first().map_or(0, |item| item.embedding.len());
        if let Some(other) = items.iter().find(|item| item.embedding.len() != actual) {
            let (expected, actual) = (actual, other.embedding.len());
            return Err(EmbedError::Dimension { expected, actual });
        }
        match self.dimensions() {
            Some(expected) if expected != actual => Err(EmbedError::Dimension { expected, actual }),
            _ if actual == 0 => Err(EmbedError::NotUnderstood("a vector is empty".to_owned())),
            _ => items.into_iter().map(|item| unit(item.embedding)).collect(),
        }
    }
}

/// The vector with length 1.
fn unit(mut vector: Vec<f32>) -> Result<Vec<f32>, EmbedError> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !length.is_finite() {
        return Err(EmbedError::NotUnderstood("a vector is not finite".to_owned()));
    }
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    Ok(vector)
}

/// What people are told of passages that stay without a vector.
pub(crate) fn refused_note(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some(
            "1 passage is found by its words only: the embedding endpoint refused it".to_owned(),
        ),
        count => Some(format!(
            "{count} passages are found by their words only: the embedding endpoint refused them"
        )),
    }
}

fn head(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
