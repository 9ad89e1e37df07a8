//! Passages are found by their meaning where an endpoint gives vectors, and by their words meanwhile.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, also in its helpers"
)]

mod common;

use std::{sync::Arc, time::Duration};

use skein_core::{
    model::DocumentId,
    ports::{IndexDocument, IndexState, PassageIndex},
};
use skein_retrieval::{
    EmbeddedIndex, QdrantIndex,
    embed::{Embedder, EmbeddingOptions},
    qdrant::QdrantOptions,
};
use skein_testkit::{
    embeddings::{Endpoint, Manner},
    retrieval::{Shelf, Tree, log, query, repo, scope},
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A place that keeps its passages while indexes are opened on it.
struct Place {
    home: TempDir,
    endpoint: Endpoint,
    /// None: a file in the home.
    qdrant: Option<QdrantOptions>,
}

impl Place {
    async fn embedded() -> Option<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::tempdir().unwrap();
        Some(Self { home, endpoint: Endpoint::start().await, qdrant: None })
    }

    async fn qdrant() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let qdrant = common::qdrant(home.path());
        let qdrant = qdrant.inspect_err(|reason| eprintln!("skipped: {reason}")).ok()?;
        Some(Self { home, endpoint: Endpoint::start().await, qdrant: Some(qdrant) })
    }

    fn options(&self, model: &str) -> EmbeddingOptions {
        EmbeddingOptions {
            timeout: Duration::from_secs(5),
            ..EmbeddingOptions::new(self.endpoint.url(), model)
        }
    }

    fn open(&self, options: EmbeddingOptions) -> Shelf {
        let embedder = Embedder::new(options).unwrap();
        let index: Arc<dyn PassageIndex> = match &self.qdrant {
            Some(qdrant) => Arc::new(QdrantIndex::with(qdrant.clone(), Some(embedder)).unwrap()),
            None => {
                let index = EmbeddedIndex::open(&self.home.path().join("index.db")).unwrap();
                Arc::new(index.with_embedder(embedder))
            }
        };
        Shelf::new(index, self.home.path().join("trees"))
    }
}

/// Indexes the tree and waits for its vectors; what is missing then.
async fn update(shelf: &Shelf, tree: &Tree) -> Option<String> {
    shelf.update(&scope(1), repo(1), tree).await;
    shelf.catch_up().await;
    let status = shelf.index.index_status(&scope(1), repo(1)).await.unwrap().unwrap();
    assert_eq!(status.state, IndexState::Ready);
    status.error
}

async fn first(shelf: &Shelf, text: &str) -> Option<String> {
    shelf.paths(&scope(1), query(repo(1), text)).await.into_iter().next()
}

async fn a_passage_is_found_by_its_meaning(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sings\n");

    let missing = update(&shelf, &tree).await;

    assert_eq!(missing, None);
    assert_eq!(first(&shelf, "pinniped").await.unwrap(), "a.txt");
    assert_eq!(first(&shelf, "mollusc").await.unwrap(), "b.txt");
    assert_eq!(shelf.search(&scope(2), query(repo(1), "pinniped")).await, []);
}

async fn what_words_are_worth_does_not_depend_on_vectors(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sleeps\n");
    shelf.update(&scope(1), repo(1), &tree).await;
    let by_words = shelf.search(&scope(1), query(repo(1), "walrus sings")).await;
    shelf.catch_up().await;

    let by_both = shelf.search(&scope(1), query(repo(1), "walrus sings")).await;
    let by_meaning = shelf.search(&scope(1), query(repo(1), "pinniped sleeps")).await;

    assert_eq!((by_words.len(), by_both.len()), (1, 2));
    assert_eq!(by_both[0].lexical, by_words[0].lexical);
    assert!(by_words[0].lexical > 0.7, "{by_words:?}");
    assert_eq!(by_both[1].lexical, 0.0, "found by its meaning only");
    let lexical = |path: &str| by_meaning.iter().find(|hit| hit.path == path).unwrap().lexical;
    assert!(lexical("b.txt") > lexical("a.txt"), "{by_meaning:?}");
}

async fn a_text_is_sent_once_whatever_it_is_called(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sings\n");
    update(&shelf, &tree).await;
    assert_eq!(place.endpoint.sent().len(), 2);

    tree.rename("a.txt", "c.txt");
    tree.write("b.txt", "the carpenter sings\n");
    update(&shelf, &tree).await;

    assert_eq!(place.endpoint.sent(), ["the carpenter sings"]);
    assert_eq!(first(&shelf, "pinniped").await.unwrap(), "c.txt");
}

async fn many_texts_go_in_batches(place: Place) {
    let shelf = place.open(EmbeddingOptions { batch: 3, ..place.options("m1") });
    let tree = shelf.tree("a");
    for number in 0..10 {
        tree.write(&format!("{number}.txt"), &format!("song {number}\n"));
    }

    assert_eq!(update(&shelf, &tree).await, None);

    assert_eq!(place.endpoint.sent().len(), 10);
}

async fn an_endpoint_that_fails_leaves_words_and_is_asked_again(place: Place) {
    for (number, (manner, why)) in [
        (Manner::Down, "answered 503"),
        (Manner::TooFew, "vectors for"),
        (Manner::Ragged, "dimensions instead of"),
        (Manner::Nonsense, "not understood"),
    ]
    .into_iter()
    .enumerate()
    {
        let shelf = place.open(place.options(&format!("m{number}")));
        let tree = shelf.tree("a");
        tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sings\n");
        place.endpoint.set(manner);

        let missing = update(&shelf, &tree).await.unwrap();
        let meanwhile = first(&shelf, "walrus").await;
        place.endpoint.set(Manner::Good);
        // Without another run.
        shelf.catch_up().await;

        assert!(missing.starts_with("embeddings are missing: "), "{missing}");
        assert!(missing.contains(why), "{manner:?}: {missing}");
        assert_eq!(meanwhile.as_deref(), Some("a.txt"));
        let status = shelf.index.index_status(&scope(1), repo(1)).await.unwrap().unwrap();
        assert_eq!(status.error, None, "{manner:?}");
    }
}

async fn a_passage_that_the_endpoint_refuses_keeps_no_other_from_its_vector(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    for number in 0..6 {
        tree.write(&format!("{number}.txt"), &format!("song {number}\n"));
    }
    tree.write("a.txt", "the walrus sings\n").write("z.txt", "the oyster sings\n");
    tree.write("big.txt", "the leviathan sings\n");
    place.endpoint.set(Manner::Picky);

    let note = update(&shelf, &tree).await;
    let found = (first(&shelf, "pinniped").await.unwrap(), first(&shelf, "mollusc").await.unwrap());
    let by_words = first(&shelf, "leviathan").await.unwrap();
    place.endpoint.sent();
    drop(shelf);
    let shelf = place.open(place.options("m1"));
    tree.write("new.txt", "the carpenter sings\n");
    let later = update(&shelf, &tree).await;

    let refused = "1 passage is found by its words only: the embedding endpoint refused it";
    assert_eq!((note.as_deref(), later.as_deref()), (Some(refused), Some(refused)));
    assert_eq!(found, ("a.txt".to_owned(), "z.txt".to_owned()));
    assert_eq!(by_words, "big.txt");
    let sent = place.endpoint.sent();
    assert!(sent.contains(&"the carpenter sings".to_owned()), "{sent:?}");
    assert!(!sent.iter().any(|text| text.contains("leviathan")), "it is sent once: {sent:?}");
}

async fn an_endpoint_that_refuses_everything_is_asked_again(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n").write("b.txt", "the oyster sings\n");
    place.endpoint.set(Manner::Unwilling);

    let missing = update(&shelf, &tree).await.unwrap();
    place.endpoint.set(Manner::Good);
    shelf.catch_up().await;

    assert_eq!(missing, "embeddings are missing: the embedding endpoint answered 400 Bad Request");
    assert_eq!(first(&shelf, "pinniped").await.unwrap(), "a.txt");
}

async fn an_endpoint_that_is_not_there_or_never_answers_costs_little_time(place: Place) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = EmbeddingOptions { url: format!("http://{free}/v1"), ..place.options("m1") };
    let slow = EmbeddingOptions { timeout: Duration::from_millis(300), ..place.options("m1") };
    place.endpoint.set(Manner::Silent);
    for options in [away, slow] {
        let shelf = place.open(options);
        let tree = shelf.tree("a");
        tree.write("a.txt", "the walrus sings\n");

        let missing = update(&shelf, &tree).await.unwrap();
        let started = std::time::Instant::now();
        let found = first(&shelf, "walrus").await;
        for _ in 0..20 {
            shelf.search(&scope(1), query(repo(1), "walrus")).await;
        }

        assert!(missing.contains("unavailable"), "{missing}");
        assert_eq!(found.as_deref(), Some("a.txt"));
        // One question waits for the endpoint, the others do not.
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}

async fn searches_wait_for_the_endpoint_beside_each_other(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    update(&shelf, &tree).await;
    place.endpoint.set(Manner::InCompany);

    let searches = (0..Endpoint::TOGETHER).map(|_| first(&shelf, "pinniped"));
    let found = futures::future::join_all(searches).await;

    assert_eq!(found, vec![Some("a.txt".to_owned()); Endpoint::TOGETHER]);
}

async fn whoever_waits_for_an_endpoint_can_be_stopped(place: Place) {
    let shelf = place.open(EmbeddingOptions::new(place.endpoint.url(), "m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    place.endpoint.set(Manner::Silent);
    shelf.update(&scope(1), repo(1), &tree).await;

    let stop = CancellationToken::new();
    let (caught_up, ()) = tokio::join!(shelf.index.catch_up(stop.clone()), async { stop.cancel() });

    assert!(caught_up.is_ok(), "{caught_up:?}");
}

async fn another_model_means_other_vectors(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    update(&shelf, &tree).await;
    drop(shelf);

    let shelf = place.open(place.options("m2"));
    let before = shelf.search(&scope(1), query(repo(1), "pinniped")).await;
    let words = first(&shelf, "walrus").await;
    place.endpoint.sent();
    // Without another run.
    shelf.catch_up().await;

    assert_eq!(before, []);
    assert_eq!(words.as_deref(), Some("a.txt"));
    assert_eq!(place.endpoint.sent(), ["the walrus sings"]);
    assert_eq!(first(&shelf, "pinniped").await.unwrap(), "a.txt");
}

async fn a_model_that_has_grown_under_its_name_means_other_vectors(place: Place) {
    let shelf = place.open(place.options("m1"));
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    update(&shelf, &tree).await;
    place.endpoint.set(Manner::Longer);
    tree.write("b.txt", "the oyster sings\n");
    let refused = update(&shelf, &tree).await.unwrap();
    drop(shelf);

    let shelf = place.open(place.options("m1"));
    shelf.catch_up().await;

    assert!(refused.contains("a vector of 4 dimensions instead of 3"), "{refused}");
    assert_eq!(first(&shelf, "pinniped").await.unwrap(), "a.txt");
    assert_eq!(first(&shelf, "mollusc").await.unwrap(), "b.txt");
}

async fn vectors_of_another_length_than_configured_are_refused(place: Place) {
    let shelf = place.open(EmbeddingOptions { dimensions: Some(384), ..place.options("m1") });
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");

    let missing = update(&shelf, &tree).await.unwrap();

    assert!(missing.contains("a vector of 3 dimensions instead of 384"), "{missing}");
    assert_eq!(shelf.search(&scope(1), query(repo(1), "pinniped")).await, []);
}

async fn a_key_goes_to_the_endpoint_and_nowhere_else(place: Place) {
    let options =
        EmbeddingOptions { api_key: Some("s3cret".to_owned().into()), ..place.options("m1") };
    let shown = format!("{options:?}");
    let shelf = place.open(options);
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n");
    update(&shelf, &tree).await;
    place.endpoint.set(Manner::Down);
    tree.write("b.txt", "the oyster sings\n");

    let missing = update(&shelf, &tree).await.unwrap();

    assert_eq!(place.endpoint.authorization().as_deref(), Some("Bearer s3cret"));
    assert!(!shown.contains("s3cret") && !missing.contains("s3cret"), "{shown} {missing}");
}

async fn documents_are_found_by_their_meaning(place: Place) {
    let shelf = place.open(place.options("m1"));
    let document = IndexDocument {
        id: DocumentId::from_uuid(Uuid::from_u128(5)),
        log: log(1),
        name: "a.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        text: "the carpenter sings".to_owned(),
    };

    shelf.index.add_document(&scope(1), document).await.unwrap();
    shelf.catch_up().await;

    let mut query = query(repo(1), "joiner");
    query.documents.push(log(1));
    assert_eq!(shelf.paths(&scope(1), query).await, ["a.txt"]);
}

/// Makes one test of every story, for each engine.
macro_rules! stories {
    ($($story:ident)*) => {
        mod embedded {
            $(
                #[tokio::test]
                async fn $story() {
                    super::$story(super::Place::embedded().await.unwrap()).await;
                }
            )*
        }
        mod qdrant {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if let Some(place) = super::Place::qdrant().await {
                        super::$story(place).await;
                    }
                }
            )*
        }
    };
}

stories! {
    a_passage_is_found_by_its_meaning
    what_words_are_worth_does_not_depend_on_vectors
    a_text_is_sent_once_whatever_it_is_called
    many_texts_go_in_batches
    an_endpoint_that_fails_leaves_words_and_is_asked_again
    a_passage_that_the_endpoint_refuses_keeps_no_other_from_its_vector
    an_endpoint_that_refuses_everything_is_asked_again
    an_endpoint_that_is_not_there_or_never_answers_costs_little_time
    searches_wait_for_the_endpoint_beside_each_other
    whoever_waits_for_an_endpoint_can_be_stopped
    another_model_means_other_vectors
    a_model_that_has_grown_under_its_name_means_other_vectors
    vectors_of_another_length_than_configured_are_refused
    a_key_goes_to_the_endpoint_and_nowhere_else
    documents_are_found_by_their_meaning
}
