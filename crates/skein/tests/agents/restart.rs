//! The server goes away under its agents: nothing is left running, and every session goes on.

use std::time::Duration;

use rand::Rng as _;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    desk::{Desk, Setup},
    processes::Found,
    scale,
};

#[tokio::test]
async fn a_session_goes_on_with_the_next_prompt_and_nothing_is_stored_twice() {
    for (flags, method) in [
        (vec!["--load"], "session/load"),
        (vec!["--load", "--replay", "after"], "session/load"),
        (vec!["--load", "--replay", "none"], "session/load"),
        (vec!["--resume"], "session/resume"),
        (vec!["--resume", "--load", "--list", "--close"], "session/resume"),
    ] {
        let mut desk = Desk::start(&flags).await;
        let session = desk.active().await;
        desk.said(&session, "remember 7").await;
        let before = desk.session(&session).await;
        let messages = desk.messages(&session).await;

        desk.server.kill();
        desk.nothing_runs().await;
        desk.restart().await;
        let suspended = desk.session(&session).await;
        let told = desk.said(&session, "history").await;
        let after = desk.session(&session).await;

        assert_eq!(
            (&suspended["state"], &suspended["status"]),
            (&json!("suspended"), &json!("active"))
        );
        assert_eq!(suspended["metadata"]["suspend_reason"], "server_restart", "{suspended}");
        assert_eq!(suspended["providerSessionId"], before["providerSessionId"]);
        assert_eq!(told, "user: remember 7\nagent: I heard: remember 7", "{flags:?}");
        assert_eq!(after["state"], "active");
        assert_eq!(after["providerSessionId"], before["providerSessionId"]);
        let all = desk.messages(&session).await;
        assert_eq!(all[..messages.len()], messages, "{flags:?}");
        assert_eq!(all.len(), messages.len() + 2, "{flags:?}: {all:?}");
        let [taken_up] = &desk.received(method)[..] else {
            panic!("{flags:?}: {:?}", desk.journal())
        };
        assert_eq!(taken_up["sessionId"], before["providerSessionId"]);
        assert_eq!(desk.received("session/new").len(), 1, "{flags:?}");
        desk.assert_sound();
    }
}

#[tokio::test]
async fn a_session_can_be_resumed_without_a_prompt() {
    let mut desk = Desk::start(&["--load", "--replay", "after"]).await;
    let session = desk.active().await;
    desk.said(&session, "remember 7").await;
    desk.restart().await;

    let path = format!("/api/sessions/{session}");
    let resumed = desk.api.post(&format!("{path}/resume"), json!({})).await.expect(200).json();
    let told = desk.said(&session, "history").await;

    assert_eq!(resumed["state"], "active");
    assert_eq!(told, "user: remember 7\nagent: I heard: remember 7");
    assert_eq!(desk.messages(&session).await.len(), 4);
}

#[tokio::test]
async fn a_suspended_session_gives_up_its_agent_and_gets_it_back() {
    let desk = Desk::start(&["--load", "--detach", "1"]).await;
    let session = desk.active().await;
    desk.said(&session, "remember 7").await;

    let path = format!("/api/sessions/{session}");
    let suspended = desk.api.post(&format!("{path}/suspend"), json!({"reason": "lunch"})).await;
    let suspended = suspended.expect(200).json();
    desk.nothing_runs().await;
    let refused = desk.api.post(&format!("{path}/prompt"), json!({"text": "say a"})).await;
    desk.api.post(&format!("{path}/resume"), json!({})).await.expect(200);
    let told = desk.said(&session, "history").await;

    assert_eq!(suspended["state"], "suspended");
    assert_eq!(suspended["metadata"]["suspend_reason"], "lunch");
    assert!(suspended["checkpointId"].is_string(), "{suspended}");
    assert_eq!(refused.refusal(), (409, "session_suspended".to_owned()));
    assert_eq!(told, "user: remember 7\nagent: I heard: remember 7");
    assert_eq!(desk.messages(&session).await.len(), 4);
}

#[tokio::test]
async fn a_kill_with_five_agents_leaves_no_process_and_no_session_unusable() {
    kill_with_five_agents(Setup::default()).await;
}

#[tokio::test]
async fn without_bubblewrap_too() {
    // The search path of the server has no bwrap, but everything else.
    let path = tempfile::TempDir::new().unwrap();
    for program in ["sh", "env", "git"] {
        let found = ["/usr/bin", "/bin"].map(|place| format!("{place}/{program}"));
        let real = found.iter().find(|name| std::path::Path::new(name).exists()).unwrap();
        std::os::unix::fs::symlink(real, path.path().join(program)).unwrap();
    }
    let setup = Setup::default().environment("PATH", path.path().to_str().unwrap());

    kill_with_five_agents(setup).await;
}

async fn kill_with_five_agents(setup: Setup) {
    let mut desk = setup
        .flags(&[
            "--load",
            "--detach",
            "1",
            "--detach-holding",
            "1",
            "--ignore-sigterm",
            "--ignore-eof",
        ])
        .start()
        .await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(desk.active().await);
    }
    for (session, text) in
        sessions.iter().zip(["remember 1", "say a\nstall", "ask p1 edit a.txt", "flood 100000 500"])
    {
        desk.api.prompt(session, text).await;
    }
    desk.until_event(&sessions[1], "message.delta").await;
    desk.until_event(&sessions[2], "permission.requested").await;
    desk.until_event(&sessions[3], "message.delta").await;
    assert!(desk.processes().len() >= 15, "{:?}", desk.processes());

    desk.server.kill();
    let took = desk.time_until_nothing_runs().await;
    desk.restart().await;

    eprintln!("five agents and their descendants were gone after {took:?}");
    for session in &sessions {
        let suspended = desk.session(session).await;
        assert_eq!(suspended["state"], "suspended", "{suspended}");
        assert_eq!(suspended["metadata"]["suspend_reason"], "server_restart");
        assert!(suspended["providerSessionId"].is_string());
        let turns =
            desk.api.get(&format!("/api/sessions/{session}/turns")).await.expect(200).json();
        for turn in turns["turns"].as_array().unwrap() {
            assert_ne!(turn["status"]["key"], "pending", "{turn}");
        }
    }
    for session in &sessions {
        assert_eq!(desk.said(session, "say again").await, "again");
    }
    desk.assert_sound();
}

#[tokio::test]
async fn a_kill_at_any_moment_of_a_start_leaves_no_process() {
    let kills = scale::choose(15, 300);
    let mut random = scale::random("kill at a start");
    let setup = Setup::default().flags(&["--load"]).sessions("max_active_agents = 1000");
    let mut desk = setup.start().await;

    for kill in 1..=kills {
        let session = desk.create().await;
        // A cage is built in some milliseconds, and a program starts in some more.
        tokio::time::sleep(Duration::from_micros(random.random_range(0..40_000))).await;
        desk.server.kill();
        let since = Instant::now();
        let left = eventually_nothing(&desk).await;
        assert_eq!(left, [], "kill {kill} of {kills}, after {:?}", since.elapsed());
        desk.restart().await;
        desk.api.delete(&format!("/api/sessions/{session}")).await.expect(200);
    }
}

/// What is still there after longer than anything needs to end. A process that is just becoming another program cannot be seen, so
/// nothing has to be there several times in a row.
async fn eventually_nothing(desk: &Desk) -> Vec<Found> {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut empty = 0;
    loop {
        let left = desk.left_behind();
        empty = if left.is_empty() { empty + 1 } else { 0 };
        if empty == 10 || Instant::now() > deadline {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_session_whose_agent_had_not_come_up_goes_on_too() {
    let mut desk = Desk::start(&["--load", "--initialize-delay", "1500"]).await;
    let session = desk.create().await;

    desk.restart().await;
    let suspended = desk.session(&session).await;
    let said = desk.said(&session, "say hello").await;

    assert_eq!(suspended["state"], "suspended", "{suspended}");
    assert_eq!(said, "hello");
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_takes_its_agents_with_it() {
    let mut desk = Desk::start(&["--load", "--detach", "1"]).await;
    let session = desk.active().await;
    desk.said(&session, "remember 7").await;

    desk.server.signal(Signal::TERM);
    let status = desk.server.exited().await;
    let left = eventually_nothing(&desk).await;
    desk.restart().await;
    let suspended = desk.session(&session).await;
    let told = desk.said(&session, "history").await;

    assert_eq!(status.code(), Some(0));
    assert_eq!(left, []);
    assert_eq!(suspended["state"], "suspended");
    assert_eq!(suspended["metadata"]["suspend_reason"], "server_restart");
    assert_eq!(told, "user: remember 7\nagent: I heard: remember 7");
}

#[tokio::test]
async fn a_session_that_the_agent_has_lost_is_told_as_such() {
    let cases = [("-32002", true), ("-32602", true), ("-32603", true), ("", false)];
    for (code, can_load) in cases {
        let flags: &[&str] = match can_load {
            true => &["--load", "--forget", "--lost-code", code],
            // It never could.
            false => &[],
        };
        let mut desk = Desk::start(flags).await;
        let session = desk.active().await;
        desk.said(&session, "remember 7").await;
        desk.restart().await;

        let turn = desk.run(&session, "say hello").await;

        let told = format!("{} {}", turn["warnings"], turn["errors"]);
        assert_ne!(told, "[] []", "{code}: somebody has to know: {turn}");
        if turn["status"]["key"] == "completed" {
            assert_eq!(desk.said(&session, "say on").await, "on");
        }
        desk.assert_sound();
    }
}

#[tokio::test]
async fn files_and_homes_of_a_session_are_there_until_it_is_final() {
    let mut desk = Desk::start(&["--load"]).await;
    let session = desk.active().await;
    let seen: Value = serde_json::from_str(&desk.said(&session, "env").await).unwrap();
    let home = std::path::PathBuf::from(seen["HOME"].as_str().unwrap());

    desk.restart().await;
    let again: Value = serde_json::from_str(&desk.said(&session, "env").await).unwrap();
    let kept = home.exists();
    desk.api.delete(&format!("/api/sessions/{session}")).await.expect(200);
    desk.nothing_runs().await;

    assert_eq!(again["HOME"], seen["HOME"]);
    // Inside a mount namespace it may have another name.
    if kept {
        crate::harness::eventually("its home is removed", async || (!home.exists()).then_some(()))
            .await;
    }
}
