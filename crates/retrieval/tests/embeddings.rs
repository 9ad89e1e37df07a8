//! Passages are found by their meaning where an endpoint gives vectors, and by their words meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde_json::{Value, json};
use skein_core::ports::{IndexState, PassageIndex};
use skein_retrieval::{
    EmbeddedIndex,
    embed::{Embedder, EmbeddingOptions},
};
use skein_testkit::retrieval::{Shelf, TestIndex, query, repo, scope};

/// Words of one line mean the same.
const MEANINGS: &[&[&str]] =
    &[&["walrus", "pinniped"], &["oyster", "mollusc"], &["carpenter", "joiner"]];

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Good,
    Down,
    TooFew,
    Ragged,
}

/// How to answer, and what was asked.
type Seen = Arc<Mutex<(Mode, Vec<String>)>>;

struct Endpoint {
    url: String,
    state: Seen,
}

impl Endpoint {
    async fn start() -> Self {
        let state = Arc::new(Mutex::new((Mode::Good, Vec::new())));
        let app =
            Router::new().route("/v1/embeddings", post(answer)).with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let tracker = tokio_util::task::TaskTracker::new();
        tracker.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, state }
    }

    fn set(&self, mode: Mode) {
        self.state.lock().unwrap().0 = mode;
    }

    /// The texts that were sent since the last time.
    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().1)
    }

    fn index(&self, home: &Path, model: &str) -> EmbeddedIndex {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().build().unwrap();
        let embedder = Embedder::new(client, EmbeddingOptions::new(&self.url, model));
        EmbeddedIndex::open(&home.join("index.db")).unwrap().with_embedder(embedder)
    }
}

async fn answer(
    State(state): State<Seen>,
    Json(body): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let texts: Vec<String> = serde_json::from_value(body["input"].clone()).unwrap();
    let mut state = state.lock().unwrap();
    let mut data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"index": index, "embedding": vector(text)}))
        .collect();
    match state.0 {
        Mode::Good => {}
        Mode::Down => return Err(StatusCode::SERVICE_UNAVAILABLE),
        Mode::TooFew => drop(data.pop()),
        Mode::Ragged => data.push(json!({"index": data.len(), "embedding": [1.0]})),
    }
    if state.0 == Mode::Ragged {
        data.remove(0);
        for (index, item) in data.iter_mut().enumerate() {
            item["index"] = json!(index);
        }
    }
    state.1.extend(texts);
    // Endpoints need not keep the order.
    data.reverse();
    Ok(Json(json!({"object": "list", "data": data, "model": body["model"]})))
}

fn vector(text: &str) -> Vec<f32> {
    let has = |words: &&[&str]| words.iter().any(|word| text.contains(word));
    MEANINGS.iter().map(|words| if has(words) { 1.0 } else { 0.01 }).collect()
}

async fn on(index: EmbeddedIndex, home: &Path, story: impl AsyncFnOnce(Shelf)) {
    let shelf = TestIndex::ready(Arc::new(index), home.join("trees"), ());
    shelf.run(async |shelf| story(shelf).await).await;
}

#[tokio::test]
async fn a_passage_is_found_by_its_meaning() {
    let (home, endpoint) = (tempfile::tempdir().unwrap(), Endpoint::start().await);

    on(endpoint.index(home.path(), "m1"), home.path(), async |shelf| {
        let tree = shelf.tree("a");
        tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sings\n");
        let status = shelf.update(&scope(1), repo(1), &tree).await;

        let found = shelf.search(&scope(1), query(repo(1), "pinniped")).await;
        let both = shelf.search(&scope(1), query(repo(1), "mollusc")).await;

        assert_eq!((status.state, status.error), (IndexState::Ready, None));
        assert_eq!(found[0].text, "the walrus sings");
        assert_eq!(both[0].text, "the oyster sings");
        assert_eq!(shelf.search(&scope(2), query(repo(1), "pinniped")).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_text_is_sent_once_whatever_it_is_called() {
    let (home, endpoint) = (tempfile::tempdir().unwrap(), Endpoint::start().await);

    on(endpoint.index(home.path(), "m1"), home.path(), async |shelf| {
        let tree = shelf.tree("a");
        tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sings\n");
        shelf.update(&scope(1), repo(1), &tree).await;
        assert_eq!(endpoint.sent().len(), 2);

        tree.rename("a.txt", "c.txt");
        tree.write("b.txt", "the carpenter sings\n");
        shelf.update(&scope(1), repo(1), &tree).await;

        assert_eq!(endpoint.sent(), ["the carpenter sings"]);
        assert_eq!(shelf.paths(&scope(1), query(repo(1), "pinniped")).await[0], "c.txt");
    })
    .await;
}

#[tokio::test]
async fn without_the_endpoint_words_must_do() {
    let (home, endpoint) = (tempfile::tempdir().unwrap(), Endpoint::start().await);

    on(endpoint.index(home.path(), "m1"), home.path(), async |shelf| {
        let tree = shelf.tree("a");
        tree.write("a.txt", "the walrus sings\n");
        for mode in [Mode::Down, Mode::TooFew, Mode::Ragged] {
            endpoint.set(mode);
            let status = shelf.update(&scope(1), repo(1), &tree).await;
            assert_eq!(status.state, IndexState::Ready);
            assert!(status.error.unwrap().starts_with("embeddings are missing: "));
            assert_eq!(shelf.paths(&scope(1), query(repo(1), "walrus")).await, ["a.txt"]);
            tree.write("b.txt", "the oyster sings\n");
        }

        endpoint.set(Mode::Good);
        let status = shelf.update(&scope(1), repo(1), &tree).await;

        assert_eq!(status.error, None);
    })
    .await;
}

#[tokio::test]
async fn another_model_means_other_vectors() {
    let (home, endpoint) = (tempfile::tempdir().unwrap(), Endpoint::start().await);
    on(endpoint.index(home.path(), "m1"), home.path(), async |shelf| {
        let tree = shelf.tree("a");
        tree.write("a.txt", "the walrus sings\n");
        shelf.update(&scope(1), repo(1), &tree).await;
    })
    .await;
    endpoint.sent();

    on(endpoint.index(home.path(), "m2"), home.path(), async |shelf| {
        let tree = shelf.tree("a");
        let before = shelf.search(&scope(1), query(repo(1), "pinniped")).await;
        endpoint.sent();
        shelf.update(&scope(1), repo(1), &tree).await;

        assert_eq!(before, []);
        assert_eq!(endpoint.sent(), ["the walrus sings"]);
        assert_eq!(shelf.paths(&scope(1), query(repo(1), "pinniped")).await, ["a.txt"]);
    })
    .await;
}

#[tokio::test]
async fn documents_are_found_by_their_meaning() {
    let (home, endpoint) = (tempfile::tempdir().unwrap(), Endpoint::start().await);
    let index = endpoint.index(home.path(), "m1");
    let log = skein_testkit::retrieval::log(1);
    let document = skein_core::ports::IndexDocument {
        id: skein_core::model::DocumentId::from_uuid(uuid::Uuid::from_u128(5)),
        log,
        name: "a.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        text: "the carpenter sings".to_owned(),
    };

    index.add_document(&scope(1), document).await.unwrap();

    on(index, home.path(), async |shelf| {
        let mut query = query(repo(1), "joiner");
        query.documents.push(log);
        assert_eq!(shelf.paths(&scope(1), query).await, ["a.txt"]);
    })
    .await;
}
