//! An endpoint for embeddings on a real socket, which a test can break.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::post,
};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio_util::{sync::DropGuard, task::TaskTracker};

/// Words of one line mean the same.
const MEANINGS: &[&[&str]] =
    &[&["walrus", "pinniped"], &["oyster", "mollusc"], &["carpenter", "joiner"]];

/// How the endpoint answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Good,
    /// 503.
    Down,
    /// Not before the test is over.
    Silent,
    /// One vector less than there are texts.
    TooFew,
    /// Vectors that are not equally long.
    Ragged,
    /// All vectors are one longer than they should be.
    Longer,
    /// Something else than embeddings.
    Nonsense,
    /// 413 for a request with a text that has "leviathan" in it.
    Picky,
    /// 400, whatever it is asked for.
    Unwilling,
    /// Only when [`Endpoint::TOGETHER`] requests are waiting.
    InCompany,
}

struct Seen {
    manner: Manner,
    texts: Vec<String>,
    /// The last `Authorization`.
    authorization: Option<String>,
    company: Arc<Barrier>,
}

/// Gives texts with the same meaning the same vector. It is gone when this is dropped.
pub struct Endpoint {
    url: String,
    seen: Arc<Mutex<Seen>>,
    _running: DropGuard,
}

impl Endpoint {
    pub const TOGETHER: usize = 8;

    pub async fn start() -> Self {
        let company = Arc::new(Barrier::new(Self::TOGETHER));
        let seen = Seen { manner: Manner::Good, texts: Vec::new(), authorization: None, company };
        let seen = Arc::new(Mutex::new(seen));
        let app = Router::new().route("/v1/embeddings", post(answer)).with_state(Arc::clone(&seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        let stop = tokio_util::sync::CancellationToken::new();
        let serving = stop.clone().run_until_cancelled_owned(async move {
            axum::serve(listener, app).await.expect("it serves");
        });
        TaskTracker::new().spawn(serving);
        Self { url, seen, _running: stop.drop_guard() }
    }

    /// Up to and with `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn set(&self, manner: Manner) {
        lock(&self.seen).manner = manner;
    }

    /// The texts that were sent since the last time.
    pub fn sent(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.seen).texts)
    }

    pub fn authorization(&self) -> Option<String> {
        lock(&self.seen).authorization.clone()
    }
}

async fn answer(
    State(state): State<Arc<Mutex<Seen>>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let texts: Vec<String> = serde_json::from_value(body["input"].clone()).expect("texts");
    let (manner, company) = {
        let mut seen = lock(&state);
        let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        seen.authorization = value.map(str::to_owned);
        seen.texts.extend(texts.iter().cloned());
        (seen.manner, Arc::clone(&seen.company))
    };
    let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| vector(text)).collect();
    match manner {
        Manner::Good => {}
        Manner::Down => return Err(StatusCode::SERVICE_UNAVAILABLE),
        Manner::Silent => tokio::time::sleep(Duration::from_secs(600)).await,
        Manner::TooFew => drop(vectors.pop()),
        Manner::Ragged => vectors.iter_mut().take(1).for_each(|vector| vector.push(1.0)),
        Manner::Longer => vectors.iter_mut().for_each(|vector| vector.push(1.0)),
        Manner::Picky if texts.iter().any(|text| text.contains("leviathan")) => {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        Manner::Picky => {}
        Manner::InCompany => {
            company.wait().await;
        }
        Manner::Unwilling => return Err(StatusCode::BAD_REQUEST),
        Manner::Nonsense => return Ok(Json(json!({"error": "no such model"}))),
    }
    let data = vectors.into_iter().enumerate();
    let mut data: Vec<Value> =
        data.map(|(index, embedding)| json!({"index": index, "embedding": embedding})).collect();
    // Endpoints need not keep the order.
    data.reverse();
    Ok(Json(json!({"object": "list", "data": data, "model": body["model"]})))
}

fn vector(text: &str) -> Vec<f32> {
    let has = |words: &&[&str]| words.iter().any(|word| text.contains(word));
    MEANINGS.iter().map(|words| if has(words) { 1.0 } else { 0.01 }).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
