//! `skein index`: a work tree becomes searchable, and stays what it is.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    common::{Ran, TestHome, TestServer},
    desk::WorkTree,
};

const LOOM: &str = "/// Weaves threads into cloth.\npub fn weave_threads(threads: &[Thread]) -> Cloth {\n    Cloth::of(threads)\n}\n";

/// A small repository with one commit.
fn loom() -> WorkTree {
    let tree = WorkTree::new();
    tree.write("README.md", "# Loom\n\nLoom weaves threads into cloth, one at a time.\n");
    tree.write("src/weave.rs", LOOM);
    tree.write("src/dye.py", "def dye_wool(colour):\n    return colour\n");
    tree.write(".gitignore", "ignored.rs\n");
    tree.write("ignored.rs", "fn ignored_thing() {}\n");
    tree.commit();
    tree
}

fn run_in(tree: &WorkTree, home: &TestHome, arguments: &[&str]) -> Ran {
    Ran::of(home.command(arguments).current_dir(tree.path()))
}

fn paths(found: &Value) -> Vec<&str> {
    let results = found["results"].as_array().unwrap();
    results.iter().map(|result| result["path"].as_str().unwrap()).collect()
}

fn listing(tree: &WorkTree) -> Vec<String> {
    let entries = fs::read_dir(tree.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_work_tree_is_added_searched_and_removed_without_a_server() {
    let (home, tree) = (TestHome::new(), loom());
    let before = listing(&tree);

    let added = run_in(&tree, &home, &["index", "add", ".", "--json"]).json();
    let again = run_in(&tree, &home, &["index", "add", "src"]);
    let status = run_in(&tree, &home, &["index", "status", "--json"]).json();
    let found = run_in(&tree, &home, &["index", "search", "weave", "threads", "--json"]).json();
    let removed = run_in(&tree, &home, &["index", "remove"]);
    let gone = run_in(&tree, &home, &["index", "search", "weave threads", "--json"]).json();

    let real = tree.path().canonicalize().unwrap();
    assert_eq!(added["path"], real.to_str().unwrap());
    assert_eq!(added["state"], "ready");
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(again.stdout.contains(" files, "), "{}", again.stdout);
    assert_eq!((&status["id"], &status["files"]), (&added["id"], &added["files"]));
    assert_eq!(paths(&found)[0], "src/weave.rs");
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_eq!(gone, json!({"results": []}));
    assert_eq!(listing(&tree), before, "something was written into the repository");
}

#[test]
fn a_found_passage_is_printed_with_its_place_symbol_score_and_text() {
    let (home, tree) = (TestHome::new(), loom());
    run_in(&tree, &home, &["index", "add"]);

    let ran = run_in(&tree, &home, &["index", "search", "dye_wool", "--limit", "1"]);
    let filtered = run_in(&tree, &home, &["index", "search", "dye_wool", "--language", "rust"]);

    let (head, text) = ran.stdout.split_once('\n').unwrap();
    assert!(head.starts_with("src/dye.py:1-2  dye_wool  "), "{head}");
    assert_eq!(text, "def dye_wool(colour):\n    return colour\n\n");
    assert!(!filtered.stdout.contains("dye.py"), "{}", filtered.stdout);
}

#[tokio::test]
async fn a_server_takes_the_operators_word_for_exactly_that_work_tree() {
    let server = TestServer::start().await;
    let (named, other) = (loom(), loom());

    let added = run_in(&named, server.home(), &["index", "add"]);
    let refused = server
        .post("/api/repos", json!({"name": "other", "path": other.path().to_str().unwrap()}))
        .await;

    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert_eq!(refused.0, 422);
    let trusted = fs::read_to_string(server.home().file("trusted")).unwrap();
    assert_eq!(trusted, format!("{}\n", named.path().canonicalize().unwrap().display()));
}

#[tokio::test]
async fn another_server_keeps_its_own_rules() {
    let server = TestServer::start().await;
    let (here, tree) = (TestHome::new(), loom());
    let mut command = here.command(&["index", "add"]);
    command.current_dir(tree.path());
    command.env("SKEIN_URL", server.url()).env("SKEIN_TOKEN", server.token());

    let refused = Ran::of(&mut command);

    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("(path_outside_workspace)"), "{}", refused.stderr);
    assert!(!here.file("trusted").exists());
}

#[test]
fn an_update_follows_the_work_tree_or_a_commit() {
    let (home, tree) = (TestHome::new(), loom());
    run_in(&tree, &home, &["index", "add"]);
    tree.write("src/spin.rs", "pub fn spin_wheel() {}\n");

    let updated = run_in(&tree, &home, &["index", "update", "--json"]).json();
    let as_it_is = run_in(&tree, &home, &["index", "search", "spin_wheel", "--json"]).json();
    let head = updated["commit"].as_str().unwrap();
    let committed = run_in(&tree, &home, &["index", "update", "--commit", head]);
    let as_committed = run_in(&tree, &home, &["index", "search", "spin_wheel", "--json"]).json();
    let unknown = run_in(&tree, &home, &["index", "update", "--commit", &"ab".repeat(20)]);
    let nonsense = run_in(&tree, &home, &["index", "update", "--commit", "HEAD"]);

    assert_eq!(paths(&as_it_is), ["src/spin.rs"]);
    assert_eq!(committed.code, Some(0), "{}", committed.stderr);
    assert_eq!(paths(&as_committed), [] as [&str; 0]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no commit"), "{}", unknown.stderr);
    assert_eq!(nonsense.code, Some(2), "{}", nonsense.stderr);
}

#[test]
fn two_directories_of_one_name_get_names_of_their_own() {
    let (home, one, other) = (TestHome::new(), loom(), loom());

    let first = run_in(&one, &home, &["index", "add", "--name", "loom", "--json"]).json();
    let second = run_in(&other, &home, &["index", "add", "--name", "loom", "--json"]).json();
    let by_name = run_in(&one, &home, &["index", "status", "loom-2", "--json"]).json();

    assert_eq!((&first["name"], &second["name"]), (&json!("loom"), &json!("loom-2")));
    assert_eq!(by_name["id"], second["id"]);
}

#[test]
fn what_is_no_repository_is_refused_with_a_reason() {
    let home = TestHome::new();
    let plain = tempfile::tempdir().unwrap();
    let closed = plain.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();

    let not_git = home.run(&["index", "add", &text(plain.path())]);
    let missing = home.run(&["index", "add", &text(&plain.path().join("missing"))]);
    let unreadable = home.run(&["index", "add", &text(&closed)]);
    let unknown = Ran::of(home.command(&["index", "update"]).current_dir(plain.path()));

    assert_eq!(not_git.code, Some(2));
    assert!(not_git.stderr.contains("is not in a Git work tree"), "{}", not_git.stderr);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("cannot be read"), "{}", missing.stderr);
    assert_eq!(unreadable.code, Some(2));
    assert_eq!(unknown.code, Some(3));
    assert!(!home.file("trusted").exists());
}

#[test]
fn progress_is_json_lines_for_programs() {
    let (home, tree) = (TestHome::new(), loom());

    let ran = run_in(&tree, &home, &["index", "add"]);

    let lines = ran.stderr.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    for line in lines {
        assert!(line["filesDone"].is_u64() && line["chunks"].is_u64(), "{line}");
    }
}

#[test]
fn a_directory_of_the_same_name_elsewhere_is_another_repository() {
    let home = TestHome::new();
    let (tree, other) = (loom(), loom());
    let (inside, elsewhere) = (tree.path().join("loom"), other.path().join("loom"));
    for directory in [&inside, &elsewhere] {
        fs::create_dir_all(directory).unwrap();
        let made = Command::new("git").args(["init", "--quiet"]).current_dir(directory).status();
        assert!(made.unwrap().success());
    }
    fs::write(inside.join("warp.py"), "def warp_thread():\n    pass\n").unwrap();
    let run = |directory: &Path, arguments: &[&str]| {
        Ran::of(home.command(arguments).current_dir(directory))
    };
    assert_eq!(run(&inside, &["index", "add", "."]).code, Some(0));

    let (asked, updated, removed) = (
        run(&elsewhere, &["ask", "where is warp_thread?"]),
        run(&elsewhere, &["index", "update"]),
        run(&elsewhere, &["index", "remove"]),
    );

    assert!(asked.stdout.starts_with("Nothing found"), "{}", asked.stdout);
    assert_eq!((updated.code, removed.code), (Some(3), Some(3)), "{}", removed.stderr);
    let found = run(&inside, &["ask", "where is warp_thread?"]);
    assert!(found.stdout.contains("def warp_thread():"), "{}", found.stdout);
}
