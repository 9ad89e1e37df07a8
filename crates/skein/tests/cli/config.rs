//! Settings: where they come from and how they are refused.

use std::path::Path;

use serde_json::Value;

use crate::common::{Ran, TestHome};

fn value<'a>(shown: &'a Value, key: &str) -> (&'a Value, &'a str) {
    let values = shown["values"].as_array().unwrap();
    let found = values.iter().find(|value| value["key"] == key).unwrap();
    (&found["value"], found["origin"].as_str().unwrap())
}

#[test]
fn config_show_tells_every_value_its_origin_and_no_secret() {
    let home = TestHome::with_config(
        "[server]\ndrain_seconds = 3\n[sessions]\nidle_timeout_minutes = 1\n[redis]\nurl = 'redis://:hunter2@db'\n",
    );
    let mut command = home.command(&["config", "show", "--json"]);
    command.env("SKEIN_LIMITS__QUEUED_TURNS", "7").env("AGENT_SESSION_IDLE_TIMEOUT", "0.5");

    let ran = Ran::of(&mut command);

    let shown = ran.json();
    let file = home.file("config.toml").display().to_string();
    assert_eq!(Path::new(shown["home"].as_str().unwrap()), home.path());
    assert_eq!(value(&shown, "server.drain_seconds"), (&3.into(), file.as_str()));
    assert_eq!(
        value(&shown, "limits.queued_turns"),
        (&7.into(), "environment variable SKEIN_LIMITS__QUEUED_TURNS")
    );
    assert_eq!(
        value(&shown, "sessions.idle_timeout_minutes"),
        (&0.5.into(), "environment variable AGENT_SESSION_IDLE_TIMEOUT")
    );
    assert_eq!(value(&shown, "store.url"), (&"sqlite".into(), "default"));
    assert!(!ran.stdout.contains("hunter2"));
}

#[test]
fn a_wrong_setting_refuses_every_command_with_file_key_and_hint() {
    let home = TestHome::with_config("[server]\nlisten = 'everywhere'\n");
    let file = home.file("config.toml").display().to_string();

    for arguments in [&["serve"][..], &["session", "list"], &["migrate", "status"]] {
        let ran = home.run(arguments);

        assert_eq!(ran.code, Some(2), "{arguments:?}");
        assert_eq!(
            ran.stderr,
            format!(
                "error: {file}: server.listen: \"everywhere\" is not an address and a port\n\
                 hint: write it like 127.0.0.1:7534 or [::1]:7534; port 0 takes a free one\n"
            )
        );
    }
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_place() {
    let home = TestHome::with_config("[server\nlisten = 1\n");

    let ran = home.run(&["serve"]);

    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("config.toml"), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 1"), "{}", ran.stderr);
}

#[test]
fn no_time_to_be_idle_refuses_to_start() {
    let home = TestHome::new();

    let ran = Ran::of(home.command(&["serve"]).env("AGENT_SESSION_IDLE_TIMEOUT", "0"));

    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("AGENT_SESSION_IDLE_TIMEOUT"), "{}", ran.stderr);
}

#[test]
fn the_home_flag_beats_the_variable() {
    let (named, other) = (TestHome::new(), TestHome::new());
    let flag = named.path().to_str().unwrap();

    let shown = other.run(&["--home", flag, "config", "show", "--json"]).json();

    assert_eq!(shown["home"], flag);
}
