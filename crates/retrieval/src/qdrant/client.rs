//! Qdrant's REST API, as far as it is used here.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::http::{self, Rest};

const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a write is tried, and how long to wait before the second try; four times as long before the third.
const TRIES: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// How long searches do not even ask after Qdrant did not answer.
const REST: Duration = Duration::from_secs(2);

/// Larger answers are to no question that is asked here.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Why Qdrant gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum QdrantError {
    #[error("Qdrant does not answer")]
    Away(#[source] reqwest::Error),
    #[error("Qdrant did not answer a moment ago")]
    Resting,
    #[error("Qdrant answered {status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("Qdrant gave an answer that is not understood: {0}")]
    NotUnderstood(String),
    /// Runs end faster than it can be searched.
    #[error("the repository changes too fast to be searched")]
    Restless,
}

impl QdrantError {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == StatusCode::NOT_FOUND)
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Away(_) => true,
            Self::Refused { status, .. } => status.is_server_error() || status.as_u16() == 429,
            Self::Resting | Self::NotUnderstood(_) | Self::Restless => false,
        }
    }
}

/// A client of one collection.
pub(super) struct Client {
    http: reqwest::Client,
    /// Up to and with the collection.
    url: String,
    api_key: Option<SecretString>,
    read_timeout: Duration,
    rest: Rest,
}

/// A point as it is read.
#[derive(Debug, Deserialize)]
pub(super) struct Point<P> {
    pub id: Uuid,
    pub payload: P,
    #[serde(default)]
    pub vector: Map<String, Value>,
    #[serde(default)]
    pub score: f64,
}

#[derive(Deserialize)]
struct Answer<T> {
    result: T,
}

#[derive(Deserialize)]
struct Page<P> {
    points: Vec<Point<P>>,
    #[serde(default)]
    next_page_offset: Option<Value>,
}

#[derive(Deserialize)]
struct Found<P> {
    points: Vec<Point<P>>,
}

/// What is read of points beside their ids.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub payload: &'a [&'a str],
    /// The name of a vector.
    pub vector: Option<&'a str>,
}

impl Client {
    pub(super) fn new(
        url: &str,
        collection: &str,
        api_key: Option<SecretString>,
        read_timeout: Duration,
    ) -> Result<Self, reqwest::Error> {
        let http = http::client(url)?;
        let url = format!("{}/collections/{collection}", url.trim_end_matches('/'));
        Ok(Self { http, url, api_key, read_timeout, rest: Rest::of(REST) })
    }

    /// The collection's description. None when it does not exist.
    pub(super) async fn describe(&self) -> Result<Option<Value>, QdrantError> {
        match self.read::<Value>(Method::GET, "", None).await {
            Ok(described) => Ok(Some(described)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create(&self, body: &Value) -> Result<(), QdrantError> {
        match self.request::<Value>(Method::PUT, "", Some(body), WRITE_TIMEOUT).await {
            // Somebody else was faster.
            Err(QdrantError::Refused { status: StatusCode::CONFLICT, .. }) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Every change may be repeated: it says how things are afterwards.
    pub(super) async fn change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(), QdrantError> {
        let path = format!("{path}?wait=true");
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES {
            match self.request::<Value>(method.clone(), &path, Some(body), WRITE_TIMEOUT).await {
                Err(error) if error.may_pass() => tokio::time::sleep(wait).await,
                done => return done.map(drop),
            }
            wait *= 4;
        }
        self.request::<Value>(method, &path, Some(body), WRITE_TIMEOUT).await.map(drop)
    }

    pub(super) async fn upsert(&self, points: &[Value]) -> Result<(), QdrantError> {
        if points.is_empty() {
            return Ok(());
        }
        self.change(Method::PUT, "/points", &json!({"points": points})).await
    }

    pub(super) async fn delete(&self, filter: &Value) -> Result<(), QdrantError> {
        self.change(Method::POST, "/points/delete", &json!({"filter": filter})).await
    }

    /// The points of these ids, in any order; those that do not exist are left out.
    pub(super) async fn retrieve<P: DeserializeOwned>(
        &self,
        ids: &[Uuid],
    ) -> Result<Vec<Point<P>>, QdrantError> {
        let body = json!({"ids": ids, "with_payload": true});
        match self.read(Method::POST, "/points", Some(&body)).await {
            Err(error) if error.is_missing() => Ok(Vec::new()),
            done => done,
        }
    }

    /// One page of the points that pass the filter, and where the next one begins.
    pub(super) async fn scroll<P: DeserializeOwned>(
        &self,
        filter: &Value,
        fields: Fields<'_>,
        (limit, offset): (usize, Option<Value>),
    ) -> Result<(Vec<Point<P>>, Option<Value>), QdrantError> {
        let mut body = json!({"filter": filter, "limit": limit, "with_payload": fields.payload});
        if let Some(offset) = offset {
            body["offset"] = offset;
        }
        if let Some(vector) = fields.vector {
            body["with_vector"] = json!([vector]);
        }
        match self.read::<Page<P>>(Method::POST, "/points/scroll", Some(&body)).await {
            Err(error) if error.is_missing() => Ok((Vec::new(), None)),
            done => done.map(|page| (page.points, page.next_page_offset)),
        }
    }

    pub(super) async fn count(&self, filter: &Value) -> Result<u64, QdrantError> {
        let body = json!({"filter": filter, "exact": true});
        let counted: Value = self.read(Method::POST, "/points/count", Some(&body)).await?;
        let missing = || QdrantError::NotUnderstood("there is no count in it".to_owned());
        counted["count"].as_u64().ok_or_else(missing)
    }

    /// Several searches at once, each with its own list.
    pub(super) async fn query<P: DeserializeOwned>(
        &self,
        searches: &[Value],
    ) -> Result<Vec<Vec<Point<P>>>, QdrantError> {
        let body = json!({"searches": searches});
        let found = self.read::<Vec<Found<P>>>(Method::POST, "/points/query/batch", Some(&body));
        let found = found.await?;
        if found.len() != searches.len() {
            let reason = format!("{} lists for {} searches", found.len(), searches.len());
            return Err(QdrantError::NotUnderstood(reason));
        }
        Ok(found.into_iter().map(|found| found.points).collect())
    }

    async fn read<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, QdrantError> {
        if self.rest.is_on() {
            return Err(QdrantError::Resting);
        }
        let outcome = self.request(method, path, body, self.read_timeout).await;
        match &outcome {
            Err(QdrantError::Away(_)) => self.rest.note(&outcome),
            _ => self.rest.note(&Ok::<(), ()>(())),
        }
        outcome
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<T, QdrantError> {
        // An address may have a password in it.
        let away = |error: reqwest::Error| QdrantError::Away(error.without_url());
        let mut request = self.http.request(method, format!("{}{path}", self.url)).timeout(timeout);
        if let Some(key) = &self.api_key {
            request = request.header("api-key", key.expose_secret());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(away)?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(away)? {
            if bytes.len() + part.len() > MAX_ANSWER_BYTES {
                return Err(QdrantError::NotUnderstood("it is too long".to_owned()));
            }
            bytes.extend_from_slice(&part);
        }
        if !status.is_success() {
            return Err(QdrantError::Refused { status, message: message(&bytes) });
        }
        let answer: Answer<T> = serde_json::from_slice(&bytes)
            .map_err(|error| QdrantError::NotUnderstood(error.to_string()))?;
        Ok(answer.result)
    }
}

/// What Qdrant says about a refusal.
fn message(body: &[u8]) -> String {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    let told = told["status"]["error"].as_str().unwrap_or("no reason was given");
    told.chars().take(500).collect()
}
