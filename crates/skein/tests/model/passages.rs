//! A model is shown passages of an indexed repository, and the answer names them.

use std::{fs, path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use skein_core::model::Sha256Hash;

use crate::{
    common::Ran,
    desk::{Desk, file},
};

const WEAVE: &str = "/// Weaves threads into cloth.\npub fn weave_threads(threads: &[Thread]) -> Cloth {\n    Cloth::of(threads)\n}\n";
const DYE: &str = "def dye_threads(threads, colour):\n    return [colour for _ in threads]\n";

/// A work tree that the desk's server has indexed.
struct Loom {
    desk: Desk,
    tree: PathBuf,
    repo: String,
}

impl Loom {
    async fn new() -> Self {
        let desk = Desk::new().await;
        let tree = desk.server.home().path().canonicalize().unwrap().join("loom");
        fs::create_dir_all(tree.join("src")).unwrap();
        fs::write(tree.join("src/weave.rs"), WEAVE).unwrap();
        fs::write(tree.join("dye.py"), DYE).unwrap();
        let mut git = std::process::Command::new("git");
        git.args(["init", "--quiet"]).current_dir(&tree).stdin(Stdio::null());
        assert!(git.env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap().success());
        let mut loom = Self { desk, tree, repo: String::new() };
        let added = loom.run(&["index", "add", ".", "--json"]).json();
        loom.repo = added["id"].as_str().unwrap().to_owned();
        loom
    }

    /// The binary in the work tree. It finds the server.
    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.desk.server.home().command(arguments);
        Ran::of(command.current_dir(&self.tree))
    }

    async fn ask(&self, mut body: Value) -> Value {
        body["instruction"] = json!("how are threads woven?");
        body["repoId"] = json!(self.repo);
        self.desk.execute(body).await.expect(200).json()
    }

    /// The requests that the provider got, without the ids that every turn has of its own.
    fn bodies(&self) -> Vec<String> {
        let without_ids = |body: &[u8]| {
            let text = std::str::from_utf8(body).unwrap();
            let metadata = serde_json::from_str::<Value>(text).unwrap()["metadata"].take();
            let ids = metadata.as_object().unwrap().values();
            ids.fold(text.to_owned(), |text, id| text.replace(id.as_str().unwrap(), "id"))
        };
        let requests = self.desk.provider.requests();
        requests.iter().map(|request| without_ids(&request.body)).collect()
    }
}

fn paths(answer: &Value) -> Vec<&str> {
    let sources = answer["sources"].as_array().unwrap().iter();
    sources.map(|source| source["path"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_says_where_its_passage_stands_and_what_it_was() {
    let loom = Loom::new().await;

    let answer = loom.ask(json!({})).await;

    let path = format!("/api/repos/{}/search?q=weave_threads&limit=1", loom.repo);
    let found = loom.desk.api.get(&path).await.expect(200).json()["results"][0].take();
    let sources = answer["sources"].as_array().unwrap();
    let source = sources.iter().find(|source| source["path"] == "src/weave.rs").unwrap();
    let score = source["score"].as_f64().unwrap();
    assert_eq!(
        *source,
        json!({
            "chunkId": found["chunkId"], "path": "src/weave.rs", "startLine": 1, "endLine": 4,
            "contentHash": Sha256Hash::of(found["text"].as_str().unwrap().as_bytes()).to_string(),
            "score": score,
        })
    );
    assert!(score > 0.0, "{source}");
    assert_eq!(found["text"].as_str().unwrap().trim_end(), WEAVE.trim_end());
    assert!(loom.bodies()[0].contains("Weaves threads into cloth."), "{}", loom.bodies()[0]);
    let turn = loom.desk.turn_of(&answer).await;
    let mut kept = source.clone();
    kept.as_object_mut().unwrap().remove("score");
    assert!(turn["chunkRefs"].as_array().unwrap().contains(&kept), "{}", turn["chunkRefs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_keeps_the_scope_that_its_passages_were_looked_for_in() {
    let loom = Loom::new().await;

    let everywhere = loom.ask(json!({})).await;
    let confined = loom.ask(json!({"scope": {"paths": [".//src/"]}})).await;

    let (whole, part) = (loom.desk.turn_of(&everywhere).await, loom.desk.turn_of(&confined).await);
    assert_eq!(whole["ragScope"], Value::Null);
    assert!(paths(&everywhere).contains(&"dye.py"), "{everywhere}");
    assert_eq!(part["ragScope"], json!({"paths": [".//src/"]}));
    assert_eq!(paths(&confined), ["src/weave.rs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_and_a_rest_client_send_the_same_request() {
    let loom = Loom::new().await;
    fs::write(loom.tree.join("notes.md"), "threads are woven tightly\n").unwrap();
    let words = "how are threads woven?";

    let asked = loom.run(&["ask", words, "-f", "notes.md", "--no-git", "--lang", "rust"]);
    let files = json!([file("notes.md", "threads are woven tightly\n")]);
    loom.ask(json!({"client": "thick", "language": "rust", "activeFiles": files})).await;

    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    let bodies = loom.bodies();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[0].contains("Weaves threads") && bodies[0].contains("woven tightly"));
    assert_eq!(bodies[0], bodies[1]);
}
