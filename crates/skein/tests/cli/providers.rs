//! `skein provider …` on a home of its own and a strict provider on a real socket.

use std::fs;

use serde_json::json;
use skein_testkit::responses::ResponsesServer;

use crate::common::{Ran, TestHome, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_added_tested_and_asked() {
    let provider = ResponsesServer::start().await;
    let home = TestHome::with_config("# mine\n[log]\nformat = \"json\" # as I like it");
    let url = provider.base_url();

    let added = home.run(&[
        "provider",
        "add",
        "mine",
        "--base-url",
        &url,
        "--key-env",
        "MINE_KEY",
        "--chain",
        "none",
        "--background",
        "--model",
        "a \"quoted\\model\"",
    ]);
    let with_key = |arguments: &[&str]| {
        Ran::of(home.command(arguments).env("MINE_KEY", provider.key()).current_dir(home.path()))
    };
    let tested = with_key(&["provider", "test", "mine"]);
    let without_key = home.run(&["provider", "test", "mine"]);
    let asked = with_key(&["ask", "-m", "mine/m-1", "hello"]);

    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert_eq!(
        fs::read_to_string(home.file("config.toml")).unwrap(),
        format!(
            "# mine\n[log]\nformat = \"json\" # as I like it\n\n[providers.mine]\n\
             base_url = \"{url}\"\nkey_env = \"MINE_KEY\"\nchain = \"none\"\nbackground = \"on\"\n\
             model = \"a \\\"quoted\\\\model\\\"\"\n"
        )
    );
    assert_eq!(tested.code, Some(0), "{}", tested.stderr);
    assert!(!tested.stdout.is_empty(), "its models are listed");
    assert_eq!(without_key.code, Some(6), "{}", without_key.stderr);
    assert!(without_key.stderr.contains("hint: MINE_KEY is not set"), "{}", without_key.stderr);
    assert!(asked.stdout.ends_with(": hello\n"), "{}", asked.stderr);
}

#[test]
fn providers_are_listed_without_secrets() {
    let home = TestHome::with_config(
        "[providers.ollama]\nmodel = \"qwen\"\n[providers.openai]\nbackground = \"on\"\n\
         [providers.own]\nbase_url = \"https://me:hunter2@example.org/v1\"\nkey_env = \"OWN_KEY\"\n",
    );

    let text = Ran::of(home.command(&["provider", "list"]).env("OWN_KEY", "hunter3"));
    let json = Ran::of(home.command(&["provider", "list", "--json"]).env("OWN_KEY", "hunter3"));

    assert_eq!(
        text.stdout,
        "ollama\thttp://127.0.0.1:11434/v1\tnone\tnone needed\toff\tqwen\n\
         openai\thttps://api.openai.com/v1\tserver\tmissing OPENAI_API_KEY\ton\t\n\
         own\thttps://example.org/v1\tserver\tset\toff\t\n",
        "{}",
        text.stderr
    );
    assert_eq!(
        json.json()["providers"][2],
        json!({
            "name": "own", "baseUrl": "https://example.org/v1", "chain": "server", "key": "set",
            "keyEnv": "OWN_KEY", "background": "off", "model": null,
        })
    );
}

#[test]
fn an_added_provider_is_printed_as_the_list_has_it() {
    let home = TestHome::with_config("");
    let url = "https://example.org/v1";
    let add = ["provider", "add", "own", "--base-url", url, "--key-env", "OWN_KEY", "--json"];

    let added = Ran::of(home.command(&add).env("OWN_KEY", "hunter3"));
    let listed = Ran::of(home.command(&["provider", "list", "--json"]).env("OWN_KEY", "hunter3"));

    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert_eq!(
        added.json(),
        json!({
            "name": "own", "baseUrl": "https://example.org/v1", "chain": "server", "key": "set",
            "keyEnv": "OWN_KEY", "background": "off", "model": null,
        })
    );
    assert_eq!(listed.json()["providers"], json!([added.json()]));
    assert!(!added.stderr.contains("hunter3"), "{}", added.stderr);
}

#[test]
fn a_provider_that_cannot_be_added_changes_nothing() {
    let before = "[providers.openai]\n";
    let home = TestHome::with_config(before);
    let refusals = [
        (5, &["openai"][..]),
        (2, &["unknown"]),
        (2, &["a.b", "--base-url", "http://x/v1"]),
        (2, &["own", "--base-url", "not an address"]),
        (2, &["own", "--base-url", "ftp://x/v1"]),
        (2, &["own", "--base-url", "http://x/v1", "--key-env", "sk-123"]),
        (2, &["own", "--base-url", "http://x/v1", "--model", "a\nb"]),
    ];

    for (code, arguments) in refusals {
        let ran = home.run(&[&["provider", "add"], arguments].concat());

        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("sk-123"));
        assert_eq!(fs::read_to_string(home.file("config.toml")).unwrap(), before);
    }
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn settings_that_are_broken_or_closed_are_not_appended_to() {
    for (before, code) in [("[server", 2), ("providers = { openai = {} }\n", 2)] {
        let home = TestHome::with_config(before);

        let ran = home.run(&["provider", "add", "ollama"]);

        assert_eq!(ran.code, Some(code), "{before}: {}", ran.stderr);
        assert_eq!(fs::read_to_string(home.file("config.toml")).unwrap(), before);
        assert!(!ran.stderr.contains("trial-"), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn a_running_server_has_to_be_restarted_for_a_new_provider() {
    let server = TestServer::start().await;

    let first = server.home().run(&["provider", "add", "ollama"]);

    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(first.stderr.contains("must be restarted"), "{}", first.stderr);
}

#[tokio::test]
async fn a_provider_that_is_not_there_exits_with_6_and_an_unknown_one_with_3() {
    let provider = ResponsesServer::start().await;
    let url = provider.base_url();
    provider.stop().await;
    let home = TestHome::with_config(&format!("[providers.gone]\nbase_url = \"{url}\"\n"));

    let gone = home.run(&["provider", "test", "gone"]);
    let unknown = home.run(&["provider", "test", "nobody"]);

    assert_eq!((gone.code, unknown.code), (Some(6), Some(3)), "{}", gone.stderr);
}
