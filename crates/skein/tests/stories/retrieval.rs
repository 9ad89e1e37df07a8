//! A repository becomes searchable, and the local agent answers from it with lines that are really there.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use skein_core::{
    model::{DocumentId, OrgId, Scope, UserId},
    ports::PassageIndex,
};
use skein_retrieval::EmbeddedIndex;
use skein_testkit::embeddings::{Endpoint, Manner};

use crate::{
    common::{TestHome, TestServer},
    harness::{Api, Reply, eventually},
};

const BERTH: &str = "/// A place for one ship.\npub struct Berth {\n    ship: Option<Ship>,\n}\n\nimpl Berth {\n    /// Refuses when another ship is there.\n    pub fn moor_ship(&mut self, ship: Ship) -> Result<(), Occupied> {\n        if self.ship.is_some() {\n            return Err(Occupied);\n        }\n        self.ship = Some(ship);\n        Ok(())\n    }\n}\n";

/// A server with an indexed repository, `harbour`.
struct Harbour {
    server: TestServer,
    api: Api,
    tree: PathBuf,
    repo: String,
}

impl Harbour {
    async fn open() -> Self {
        Self::open_with(&[]).await
    }

    /// With more environment variables.
    async fn open_with(settings: &[(&str, &str)]) -> Self {
        let home = TestHome::new();
        let root = home.path().canonicalize().unwrap().join("repos");
        let tree = root.join("harbour");
        write(&tree, "README.md", "# Harbour\n\nKeeps track of ships and their berths.\n");
        write(&tree, "package.json", "{\n  \"name\": \"harbour\"\n}\n");
        write(&tree, "src/berth.rs", BERTH);
        write(&tree, "src/tide.py", "def high_tide(day):\n    return day % 2 == 0\n");
        write(&tree, "secret.pem", "-----BEGIN PRIVATE KEY-----\n");
        git(&tree, &["init", "--quiet"]);
        git(&tree, &["add", "--all"]);
        git(&tree, &["commit", "--quiet", "-m", "work"]);
        let root = root.to_str().unwrap();
        let mut variables = vec![("AGENT_WORKSPACE_ROOT", root)];
        variables.extend(settings);
        let server = TestServer::on_with(home, &variables).await;
        let api = Api::of(&server);
        let body = json!({"name": "harbour", "path": tree.to_str().unwrap()});
        let repo = api.post("/api/repos", body).await.expect(201).text("id");
        let harbour = Self { server, api, tree, repo };
        harbour.index().await;
        harbour
    }

    /// Runs to the end.
    async fn index(&self) -> Value {
        let path = format!("/api/repos/{}/index", self.repo);
        self.api.post(&path, json!({})).await.expect(202);
        eventually("the run has ended", async || {
            let index = self.api.get(&path).await.expect(200).json();
            (index["state"] != "indexing").then_some(index)
        })
        .await
    }

    async fn search(&self, query: &str) -> Vec<String> {
        let path = format!("/api/repos/{}/search?{query}", self.repo);
        let found = self.api.get(&path).await.expect(200).json();
        let results = found["results"].as_array().unwrap().iter();
        results.map(|result| result["path"].as_str().unwrap().to_owned()).collect()
    }

    async fn ask(&self, body: Value) -> Value {
        self.api.post("/api/ai/agent/execute", body).await.expect(200).json()
    }

    /// A question in a session of its own.
    async fn about(&self, instruction: &str) -> Value {
        self.ask(json!({"instruction": instruction, "repoId": self.repo})).await
    }

    /// Every quoted line is where the answer says it is.
    #[track_caller]
    fn check_quotes(&self, answer: &Value) {
        let text = answer["text"].as_str().unwrap();
        let mut quotes = 0;
        for section in text.split("### ").skip(1) {
            let (place, rest) = section.split_once('\n').unwrap();
            let (path, lines) = place.rsplit_once(':').unwrap();
            let (first, last) = lines.split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            let quoted: Vec<&str> = rest
                .lines()
                .skip_while(|line| !line.starts_with("```"))
                .skip(1)
                .take_while(|line| !line.starts_with("```"))
                .collect();
            let file = fs::read_to_string(self.tree.join(path)).unwrap();
            let there: Vec<&str> = file.lines().skip(first - 1).take(last - first + 1).collect();
            assert_eq!(quoted, there, "{place}");
            quotes += 1;
        }
        assert_ne!(quotes, 0, "{text}");
    }
}

fn write(tree: &Path, name: &str, content: &str) {
    let file = tree.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

fn git(tree: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args(arguments)
        .current_dir(tree)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn sources(answer: &Value) -> Vec<&str> {
    let sources = answer["sources"].as_array().unwrap().iter();
    sources.map(|source| source["path"].as_str().unwrap()).collect()
}

/// What is left in the file when the server has stopped.
async fn indexed_documents(harbour: &mut Harbour, document: &Value) -> usize {
    let who = harbour.api.get("/api/whoami").await.expect(200).json();
    let id = |value: &Value| value.as_str().unwrap().parse::<uuid::Uuid>().unwrap();
    let (org, user) = (id(&who["org"]["id"]), id(&who["user"]["id"]));
    let scope = Scope::on_behalf_of(OrgId::from_uuid(org), UserId::from_uuid(user));
    harbour.server.terminate().await;
    let index = EmbeddedIndex::open(&harbour.server.home().file("index.db")).unwrap();
    let documents = [DocumentId::from_uuid(id(document))];
    index.document_passages(&scope, &documents).await.unwrap().len()
}

#[tokio::test]
async fn an_index_says_what_it_holds_and_what_it_left_out() {
    let harbour = Harbour::open().await;

    let index = harbour.index().await;
    write(&harbour.tree, "src/crane.rs", "pub fn lift_container() {}\n");
    let stale = harbour.search("q=lift_container").await;
    let grown = harbour.index().await;
    let fresh = harbour.search("q=lift_container").await;

    assert_eq!((&index["state"], &index["files"]), (&json!("ready"), &json!(4)));
    assert_eq!(index["commit"].as_str().unwrap().len(), 40);
    assert_eq!(index["skipped"]["secret"], 1, "{index}");
    assert!(index["updatedAt"].is_string() && index["error"].is_null(), "{index}");
    assert_eq!(grown["files"], 5);
    assert_eq!((stale, fresh), (vec![], vec!["src/crane.rs".to_owned()]));
}

#[tokio::test]
async fn a_search_can_be_narrowed_and_has_no_syntax() {
    let harbour = Harbour::open().await;

    assert_eq!(harbour.search("q=moor+ship&limit=1").await, ["src/berth.rs"]);
    assert_eq!(harbour.search("q=high+tide&path=src/*.py").await, ["src/tide.py"]);
    assert_eq!(harbour.search("q=high+tide&language=rust").await, [] as [&str; 0]);
    assert_eq!(harbour.search("q=%22*(tide)%20AND%20NEAR%20%5E").await, ["src/tide.py"]);
    let path = format!("/api/repos/{}/search?q=", harbour.repo);
    assert_eq!(harbour.api.get(&path).await.refusal(), (400, "invalid_filter".to_owned()));
}

#[tokio::test]
async fn without_being_told_the_local_agent_answers_with_lines_of_the_file() {
    let harbour = Harbour::open().await;

    let answer = harbour.about("Where is a ship moored?").await;
    let by_name = harbour.ask(json!({"instruction": "what is a Berth", "repo": "harbour"})).await;
    let whole = harbour.about("What is this?").await;

    let text = answer["text"].as_str().unwrap();
    assert!(text.starts_with("`moor_ship` is defined in `src/berth.rs:8`."), "{text}");
    assert!(text.contains("Matches `ship`, `moored`."), "{text}");
    assert!(text.contains("No language model wrote this"), "{text}");
    assert_eq!(sources(&answer)[0], "src/berth.rs");
    assert_eq!(answer["warnings"], json!([]));
    assert!(by_name["text"].as_str().unwrap().contains("pub struct Berth {"), "{by_name}");
    assert_eq!(sources(&whole), ["README.md", "package.json"]);
    for answer in [&answer, &by_name, &whole] {
        harbour.check_quotes(answer);
    }
    let session = answer["sessionId"].as_str().unwrap();
    let session = harbour.api.get(&format!("/api/sessions/{session}")).await.expect(200).json();
    assert_eq!(session["agentContextName"], "local");
}

#[tokio::test]
async fn an_answer_comes_in_pieces_as_a_models_does() {
    let harbour = Harbour::open().await;

    let answer = harbour.about("Where is a ship moored?").await;

    let log = harbour.api.log(answer["sessionId"].as_str().unwrap()).await;
    let deltas = log.0.iter().filter(|frame| frame.event == "message.delta");
    let deltas: String = deltas
        .map(|frame| serde_json::from_str::<Value>(&frame.data).unwrap())
        .map(|event| event["data"]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(deltas, answer["text"].as_str().unwrap());
}

#[tokio::test]
async fn nothing_found_is_an_answer_too() {
    let harbour = Harbour::open().await;

    let unknown = harbour.about("where is the quantum flux capacitor of a ship?").await;
    let nowhere = harbour.ask(json!({"instruction": "where is a ship moored?"})).await;

    let text = unknown["text"].as_str().unwrap();
    assert!(
        text.starts_with("Nothing found for `quantum`, `flux`, `capacitor`, `ship`."),
        "{text}"
    );
    assert!(text.contains("src/berth.rs:"), "the nearest: {text}");
    let text = nowhere["text"].as_str().unwrap();
    assert!(text.contains("skein index add ."), "{text}");
    assert_eq!((&nowhere["kind"], &nowhere["sources"]), (&json!("answer"), &json!([])));
}

#[tokio::test]
async fn a_follow_up_is_about_what_was_asked_before() {
    let harbour = Harbour::open().await;
    let first = harbour.about("where is a ship moored?").await;

    let next = json!({"instruction": "and when is it refused?", "sessionId": first["sessionId"]});
    let second = harbour.ask(next).await;

    let text = second["text"].as_str().unwrap();
    assert!(text.contains("Looked for `ship`, `moored` too"), "{text}");
    assert_eq!(sources(&second)[0], "src/berth.rs");
    harbour.check_quotes(&second);
}

#[tokio::test]
async fn a_local_version_of_a_file_is_quoted_instead_of_the_indexed_one() {
    let harbour = Harbour::open().await;
    let edited = BERTH.replace("/// Refuses when", "/// Gives the ship back when");
    write(&harbour.tree, "src/berth.rs", &edited);
    let file = json!({"path": "src/berth.rs", "content": edited, "isTouched": true});

    let body = json!({"instruction": "where is a ship moored?", "repoId": harbour.repo, "activeFiles": [file]});
    let answer = harbour.ask(body).await;

    let text = answer["text"].as_str().unwrap();
    assert!(text.contains("/// Gives the ship back when"), "{text}");
    assert!(!text.contains("/// Refuses when"), "{text}");
    harbour.check_quotes(&answer);
}

#[tokio::test]
async fn what_has_moved_is_quoted_where_it_is_now_and_what_is_gone_is_not_quoted() {
    let harbour = Harbour::open().await;
    write(&harbour.tree, "src/berth.rs", &format!("//! Berths.\n\n{BERTH}"));
    fs::remove_file(harbour.tree.join("src/tide.py")).unwrap();

    let moved = harbour.about("where is a ship moored?").await;
    let gone = harbour.about("where is high_tide?").await;

    let text = moved["text"].as_str().unwrap();
    assert!(text.starts_with("`moor_ship` is defined in `src/berth.rs:10`."), "{text}");
    assert_eq!(moved["warnings"], json!([]));
    harbour.check_quotes(&moved);
    assert!(!gone["text"].as_str().unwrap().contains("def high_tide"), "{gone}");
    let warning = gone["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("changed since it was indexed"), "{gone}");
}

#[tokio::test]
async fn an_indexed_commit_is_quoted_whatever_the_work_tree_holds() {
    let harbour = Harbour::open().await;
    let path = format!("/api/repos/{}/index", harbour.repo);
    let commit = harbour.api.get(&path).await.expect(200).text("commit");
    harbour.api.post(&path, json!({"commit": commit})).await.expect(202);
    eventually("the run has ended", async || {
        (harbour.api.get(&path).await.json()["state"] == "ready").then_some(())
    })
    .await;
    write(&harbour.tree, "src/tide.py", "def low_tide(day):\n    return day % 2\n");

    let answer = harbour.about("where is high_tide?").await;

    assert!(answer["text"].as_str().unwrap().contains("def high_tide(day):"), "{answer}");
    assert_eq!(answer["warnings"], json!([]));
}

#[tokio::test]
async fn only_texts_for_sessions_that_go_on_are_taken_as_documents() {
    let harbour = Harbour::open().await;
    let session = harbour.api.create(json!({"agent": "local"})).await;
    let path = format!("/api/sessions/{session}/documents");
    let document = |media_type: &str| json!({"name": "a", "mediaType": media_type, "content": "x"});

    for media_type in ["application/pdf", "image/png", "text/", "no type"] {
        let refused = harbour.api.post(&path, document(media_type)).await;
        assert_eq!(refused.refusal(), (400, "invalid_request".to_owned()), "{media_type}");
    }
    for media_type in ["text/markdown", "application/vnd.oai.openapi+json", "application/sql"] {
        harbour.api.post(&path, document(media_type)).await.expect(201);
    }
    let body = json!({"name": "b", "content": "kept"});
    let keyed = async || Reply::to(harbour.api.keyed(&path, "b", &body)).await;
    let kept = keyed().await.expect(201).json();
    harbour.api.post(&format!("/api/sessions/{session}/complete"), json!({})).await.expect(200);
    let late = harbour.api.post(&path, document("text/plain")).await;

    assert_eq!(late.refusal(), (409, "session_not_active".to_owned()));
    assert_eq!(keyed().await.expect(201).json(), kept, "what was taken is not refused afterwards");
}

#[tokio::test]
async fn a_document_is_found_in_its_own_session_only() {
    let harbour = Harbour::open().await;
    let session = harbour.api.create(json!({"agent": "local"})).await;
    let other = harbour.api.create(json!({"agent": "local"})).await;
    let document = json!({
        "name": "schema.sql",
        "mediaType": "application/sql",
        "content": "CREATE TABLE lighthouses (\n  id INTEGER PRIMARY KEY,\n  beam_metres REAL\n);\n",
    });

    let path = format!("/api/sessions/{session}/documents");
    let added = harbour.api.post(&path, document).await.expect(201).json();
    let ask = async |session: &str| {
        let body = json!({"instruction": "what is in lighthouses?", "sessionId": session});
        harbour.ask(body).await["text"].as_str().unwrap().to_owned()
    };

    assert_eq!((&added["name"], &added["chunks"]), (&json!("schema.sql"), &json!(1)));
    let (own, others) = (ask(&session).await, ask(&other).await);
    assert!(own.starts_with("`lighthouses` is defined in `schema.sql:1`."), "{own}");
    assert!(others.starts_with("Nothing found"), "{others}");
}

#[tokio::test]
async fn a_document_is_found_again_after_the_index_was_lost() {
    let mut harbour = Harbour::open().await;
    let session = harbour.api.create(json!({"agent": "local"})).await;
    let path = format!("/api/sessions/{session}/documents");
    let document = json!({"name": "lights.txt", "content": "the lighthouse keeper sleeps\n"});
    harbour.api.post(&path, document).await.expect(201);

    harbour.server.terminate().await;
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        drop(fs::remove_file(harbour.server.home().file(name)));
    }
    harbour.server.restart().await;
    let harbour = Harbour { api: Api::of(&harbour.server), ..harbour };
    let ask = json!({"instruction": "where is the lighthouse keeper?", "sessionId": session});
    let answer = harbour.ask(ask).await;

    assert_eq!(sources(&answer), ["lights.txt"], "{answer}");
}

#[tokio::test]
async fn a_repeated_upload_is_one_document_and_a_purged_session_leaves_none() {
    let mut harbour = Harbour::open().await;
    let session = harbour.api.create(json!({"agent": "local"})).await;
    let path = format!("/api/sessions/{session}/documents");
    let document = json!({"name": "lights.txt", "content": "the lighthouse keeper sleeps\n"});
    let upload =
        async || Reply::to(harbour.api.keyed(&path, "lights", &document)).await.expect(201).json();

    let (first, again) = (upload().await, upload().await);
    let listed = harbour.api.get(&path).await.expect(200).json();
    let purge = format!("/api/sessions/{session}?purge=true");
    harbour.api.delete(&purge).await.expect(200);

    assert_eq!(first, again);
    assert_eq!(listed["documents"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(indexed_documents(&mut harbour, &first["id"]).await, 0);
}

#[tokio::test]
async fn an_index_that_cannot_be_read_is_a_warning_and_no_failure() {
    let harbour = Harbour::open().await;
    for name in ["index.db", "index.db-wal"] {
        let Ok(content) = fs::read(harbour.server.home().file(name)) else { continue };
        // In place: the server has the file open, and mapped, with this length.
        let file = fs::File::options().write(true).open(harbour.server.home().file(name));
        file.unwrap().write_all(&vec![b'x'; content.len()]).unwrap();
    }

    let answer = harbour.about("where is a ship moored?").await;

    assert_eq!(answer["kind"], "answer", "{answer}");
    let warning = answer["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("no passages could be looked for"), "{answer}");
}

#[tokio::test]
async fn with_an_embedding_endpoint_passages_are_found_by_their_meaning_too() {
    let endpoint = Endpoint::start().await;
    let harbour = Harbour::open_with(&[
        ("SKEIN_RETRIEVAL__EMBEDDINGS__BASE_URL", endpoint.url()),
        ("SKEIN_RETRIEVAL__EMBEDDINGS__MODEL", "tiny"),
        ("SKEIN_RETRIEVAL__EMBEDDINGS__KEY_ENV", "TINY_KEY"),
        ("TINY_KEY", "s3cret"),
    ])
    .await;
    write(&harbour.tree, "notes/seals.md", "# Seals\n\nA walrus sleeps at the pier.\n");
    harbour.index().await;

    let found = eventually("the vectors are there", async || {
        let found = harbour.search("q=pinniped&limit=1").await;
        (!found.is_empty()).then_some(found)
    })
    .await;
    let by_words = harbour.about("where is a ship moored?").await;
    endpoint.set(Manner::Down);
    let meanwhile = harbour.about("where is a ship moored?").await;

    assert_eq!(found, ["notes/seals.md"]);
    assert_eq!(endpoint.authorization().as_deref(), Some("Bearer s3cret"));
    // What is quoted shows the words that were asked for, so the answer is the same with vectors and without.
    for answer in [&by_words, &meanwhile] {
        let text = answer["text"].as_str().unwrap();
        assert!(text.starts_with("`moor_ship` is defined in `src/berth.rs:8`."), "{text}");
        assert!(!text.contains("seals.md"), "{text}");
        harbour.check_quotes(answer);
    }
    assert_eq!(by_words["warnings"], json!([]));
    let warning = meanwhile["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("by their words only"), "{meanwhile}");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_holds_up_neither_a_run_nor_a_document() {
    let endpoint = Endpoint::start().await;
    endpoint.set(Manner::Silent);
    let harbour = Harbour::open_with(&[
        ("SKEIN_RETRIEVAL__EMBEDDINGS__BASE_URL", endpoint.url()),
        ("SKEIN_RETRIEVAL__EMBEDDINGS__MODEL", "tiny"),
    ])
    .await;
    let session = harbour.api.create(json!({"agent": "local"})).await;
    write(&harbour.tree, "src/crane.rs", "pub fn lift_container() {}\n");

    let index = harbour.index().await;
    let document = json!({"name": "tides.txt", "content": "the spring tide comes"});
    let path = format!("/api/sessions/{session}/documents");
    harbour.api.post(&path, document).await.expect(201);
    let found = harbour.search("q=lift_container&limit=1").await;
    let answer = harbour.about("where is a container lifted?").await;

    assert_eq!((&index["state"], &index["files"]), (&json!("ready"), &json!(5)));
    assert_eq!(found, ["src/crane.rs"]);
    let warning = answer["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("by their words only"), "{answer}");
    harbour.check_quotes(&answer);
}

#[tokio::test]
async fn passages_may_be_kept_in_qdrant() {
    let Some((_, url)) = std::env::vars().find(|(name, _)| name == "SKEIN_TEST_QDRANT") else {
        eprintln!("skipped: SKEIN_TEST_QDRANT names no endpoint; scripts/with-qdrant starts one");
        return;
    };
    let collection = format!("story-{}", std::process::id());
    let harbour = Harbour::open_with(&[
        ("SKEIN_RETRIEVAL__URL", &url),
        ("SKEIN_RETRIEVAL__COLLECTION", &collection),
    ])
    .await;

    let answer = harbour.about("where is a ship moored?").await;

    let text = answer["text"].as_str().unwrap();
    assert!(text.starts_with("`moor_ship` is defined in `src/berth.rs:8`."), "{text}");
    assert_eq!(answer["warnings"], json!([]));
    harbour.check_quotes(&answer);
    assert!(!harbour.server.home().file("index.db").exists());
}

#[tokio::test]
async fn a_qdrant_that_is_away_is_a_warning_on_the_turn_and_no_failure_of_it() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = TestServer::with_config(&format!("[retrieval]\nurl = 'http://{free}'\n")).await;
    let api = Api::of(&server);

    // A session may have documents, so the index is asked.
    let session = api.create(json!({"agent": "local"})).await;
    let body = json!({"instruction": "where is a ship moored?", "sessionId": session});
    let answer = api.post("/api/ai/agent/execute", body).await.expect(200).json();
    let document = json!({"name": "lights.txt", "content": "the lighthouse keeper sleeps"});
    let path = format!("/api/sessions/{session}/documents");
    let kept = api.post(&path, document).await.expect(201).json();
    let doctor = server.home().run(&["doctor"]);

    assert_eq!(answer["kind"], "answer", "{answer}");
    assert_eq!(kept["chunks"], 0, "it is durable, and indexed later");
    let warning = answer["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("no passages could be looked for"), "{answer}");
    assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("broken\tindex\tQdrant does not answer"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("start Qdrant or correct [retrieval] url"), "{}", doctor.stdout);
}
