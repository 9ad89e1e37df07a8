//! `skein doctor` finds what is broken and changes nothing.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::Value;
use skein_testkit::embeddings::{Endpoint, Manner};

use crate::{
    common::{Ran, TestHome, TestServer},
    desk::WorkTree,
};

fn states(report: &Value) -> Vec<(String, String)> {
    let text = |check: &Value, field: &str| check[field].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().map(|check| (text(check, "name"), text(check, "state"))).collect()
}

fn pair(name: &str, state: &str) -> (String, String) {
    (name.to_owned(), state.to_owned())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_running_server_is_found_healthy() {
    let server = TestServer::start().await;

    let report = server.home().run(&["doctor", "--json"]).json();

    for name in ["config", "home", "token", "server", "schema"] {
        assert!(states(&report).contains(&pair(name, "ok")), "{name}: {report}");
    }
}

#[test]
fn a_home_that_does_not_exist_is_no_fault_and_is_not_made() {
    let home = TestHome::new();
    let missing = home.file("later");

    let ran = home.run(&["--home", missing.to_str().unwrap(), "doctor", "--json"]);

    let (confinement, others): (Vec<_>, Vec<_>) =
        states(&ran.json()).into_iter().partition(|(name, _)| name == "confinement");
    assert_eq!(others, [pair("config", "ok"), pair("home", "warn")]);
    assert!(!confinement.is_empty());
    assert!(!missing.exists());
}

#[test]
fn what_holds_agents_in_is_named_and_so_is_what_is_missing() {
    let home = TestHome::new();
    let nothing = home.file("empty");
    fs::create_dir(&nothing).unwrap();

    let with = home.run(&["doctor"]);
    let without = Ran::of(home.command(&["doctor"]).env("PATH", &nothing));

    let line = |ran: &Ran, start: &str| ran.stdout.lines().any(|line| line.starts_with(start));
    assert!(line(&with, "ok\tconfinement\tbubblewrap "), "{}", with.stdout);
    assert!(line(&with, "ok\tconfinement\tLandlock, version "), "{}", with.stdout);
    let missing = "warn\tconfinement\tbubblewrap is not installed: ";
    assert!(line(&without, missing), "{}", without.stdout);
    assert!(without.stdout.contains("apt install bubblewrap"), "{}", without.stdout);
}

#[tokio::test]
async fn an_open_token_file_is_broken_and_exits_with_1() {
    let mut server = TestServer::start().await;
    server.terminate().await;
    set_mode(&server.home().file("token"), 0o644);

    let ran = server.home().run(&["doctor", "--json"]);

    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, Some(1));
    assert!(states(&report).contains(&pair("token", "broken")), "{report}");
    assert_eq!(ran.stderr, "error: one thing is broken\n");
}

#[test]
fn settings_for_later_versions_are_named_and_wrong_ones_are_broken() {
    let later =
        TestHome::with_config("[redis]\nurl = 'redis://db'\n[retrieval]\nurl = 'embedded'\n");
    let wrong = TestHome::with_config("[agents.mine]\nruntime = 'acp'\n");

    let text = later.run(&["doctor"]).stdout;
    let ran: Ran = wrong.run(&["doctor"]);

    assert!(text.contains("warn\tconfig\t[redis] is not used by this version"), "{text}");
    assert!(!text.contains("[retrieval]"), "{text}");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("agent \"mine\" has no command"), "{}", ran.stdout);
    assert!(ran.stdout.contains("known without one: gemini"), "{}", ran.stdout);
}

#[test]
fn missing_pieces_of_retrieval_are_named_with_what_to_do() {
    let home = TestHome::with_config("[providers.openai]\n[workspace]\nroot = '/nowhere/at/all'\n");
    let tree = WorkTree::new();
    let root = tree.path().canonicalize().unwrap();
    let added = home.run(&["index", "add", root.to_str().unwrap()]);
    drop(tree);

    let ran = home.run(&["doctor"]);

    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert_eq!(ran.code, Some(0), "nothing of this is broken: {}", ran.stdout);
    for line in [
        "warn\tprovider\topenai: OPENAI_API_KEY is not set here\texport OPENAI_API_KEY".to_owned(),
        "warn\tworkspace\t/nowhere/at/all is not a directory\t".to_owned(),
        format!("warn\ttrusted\t{} is no Git work tree any more\tremove the line", root.display()),
        format!("ok\tindex\t{}", home.file("index.db").display()),
    ] {
        assert!(ran.stdout.contains(&line), "{line}: {}", ran.stdout);
    }
}

#[test]
fn a_damaged_index_is_broken_and_can_be_made_again() {
    let home = TestHome::new();
    home.run(&["session", "list"]);
    fs::write(home.file("index.db"), "this is no index at all").unwrap();

    let ran = home.run(&["doctor"]);

    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("broken\tindex\t"), "{}", ran.stdout);
    assert!(ran.stdout.contains("remove the file, and run skein index update"), "{}", ran.stdout);
}

#[test]
fn an_index_with_a_good_beginning_is_read_to_its_end_and_replaced_when_it_is_needed() {
    let home = TestHome::new();
    let tree = WorkTree::new();
    let root = tree.path().canonicalize().unwrap();
    let add = || home.run(&["index", "add", root.to_str().unwrap()]);
    add();
    let index = home.file("index.db");
    let mut damaged = fs::read(&index).unwrap();
    damaged[4_096..45_056].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(&index, &damaged).unwrap();

    let ran = home.run(&["doctor"]);
    let added = add();

    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stdout.contains("broken\tindex\t"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\tremove it; it is made anew"), "{}", ran.stdout);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert_eq!(fs::read(home.file("index.db.damaged")).unwrap(), damaged);
    assert_eq!(home.run(&["doctor"]).code, Some(0));
}

#[tokio::test]
async fn the_embedding_endpoint_is_asked_and_its_key_is_not_shown() {
    let endpoint = Endpoint::start().await;
    let config = format!(
        "[retrieval.embeddings]\nbase_url = '{}'\nmodel = 'tiny'\nkey_env = 'TINY_KEY'\n",
        endpoint.url()
    );
    let home = TestHome::with_config(&config);
    let look = async |key: Option<&str>| {
        let mut command = home.command(&["doctor"]);
        command.env_remove("TINY_KEY").envs(key.map(|key| ("TINY_KEY", key)));
        // Beside the endpoint, which lives in this runtime.
        let ran = tokio::task::spawn_blocking(move || Ran::of(&mut command)).await.unwrap();
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"));
        ran.stdout
    };

    let good = look(Some("s3cret")).await;
    let without_key = look(None).await;
    endpoint.set(Manner::Down);
    let down = look(Some("s3cret")).await;

    assert!(good.contains("ok\tembeddings\ttiny gives vectors of 3 dimensions"), "{good}");
    let missing = "warn\tembeddings\ttiny: TINY_KEY is not set here\texport TINY_KEY";
    assert!(without_key.contains(missing), "{without_key}");
    let answered = "warn\tembeddings\ttiny: the embedding endpoint answered 503";
    assert!(down.contains(answered), "{down}");
}
