//! From creation to the end: what a caller sees of a session whose agent starts, works and stops.

use std::fs;

use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    desk::{Desk, Setup},
    harness::eventually,
};

#[tokio::test]
async fn a_session_is_there_at_once_and_its_agent_comes_up_behind_it() {
    let desk = Desk::start(&["--initialize-delay", "1500"]).await;

    let body = json!({"repoId": desk.repo});
    let created = desk.api.post("/api/sessions", body).await.expect(201).json();
    let session = created["id"].as_str().unwrap();
    let prompted = desk.api.prompt(session, "say hello").await;
    let meanwhile = desk.session(session).await;
    let turn = desk.api.finished(session, &prompted).await;
    let after = desk.session(session).await;

    assert_eq!((&created["state"], &created["status"]), (&json!("created"), &json!("active")));
    assert_eq!(created["repoId"], desk.repo);
    assert_eq!(created["providerSessionId"], json!(null));
    assert_eq!(meanwhile["state"], "created", "it is active when the agent has a session");
    assert_eq!(turn["status"]["key"], "completed", "{turn}");
    assert_eq!((&after["state"], &after["status"]), (&json!("active"), &json!("active")));
    assert!(after["providerSessionId"].is_string(), "{after}");
    assert_eq!(desk.said_in(session, &prompted).await, "hello");
}

#[tokio::test]
async fn an_agent_is_asked_as_the_protocol_says_and_runs_in_its_repository() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;

    let said = desk.said(&session, "pwd").await;

    let work_tree = desk.work_tree();
    assert_eq!(said, work_tree.to_str().unwrap());
    let [initialize] = &desk.received("initialize")[..] else { panic!("{:?}", desk.journal()) };
    assert_eq!(initialize["protocolVersion"], 1);
    // What is not advertised is not asked for: the system confines the process.
    assert_ne!(initialize["clientCapabilities"]["fs"]["writeTextFile"], true);
    assert_ne!(initialize["clientCapabilities"]["terminal"], true);
    let [new] = &desk.received("session/new")[..] else { panic!("{:?}", desk.journal()) };
    assert_eq!(new["cwd"], work_tree.to_str().unwrap());
    let [prompt] = &desk.received("session/prompt")[..] else { panic!("{:?}", desk.journal()) };
    let id = desk.session(&session).await["providerSessionId"].clone();
    assert_eq!(prompt["sessionId"], id);
    assert_eq!(prompt["prompt"].as_array().unwrap().last().unwrap()["text"], "pwd");
}

#[tokio::test]
async fn many_prompts_go_to_one_process() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;

    desk.said(&session, "remember 7").await;
    let told = desk.said(&session, "history").await;

    assert_eq!(told, "user: remember 7\nagent: I heard: remember 7");
    assert_eq!(desk.received("initialize").len(), 1);
}

#[tokio::test]
async fn an_agent_works_in_a_repository_so_one_must_be_named() {
    let desk = Desk::start(&[]).await;

    let refused = desk.api.post("/api/sessions", json!({"agent": "scripted"})).await;

    assert_eq!(refused.refusal(), (400, "invalid_request".to_owned()));
    assert_eq!(refused.json()["field"], "repoId");
}

#[tokio::test]
async fn an_unknown_repository_starts_nothing() {
    let desk = Desk::start(&[]).await;

    let unknown = json!({"repoId": "01890a5d-ac96-774b-bcce-b302099a8057"});
    let refused = desk.api.post("/api/sessions", unknown).await;

    assert_eq!(refused.refusal(), (422, "unknown_reference".to_owned()));
    assert_eq!(desk.processes(), []);
}

#[tokio::test]
async fn an_agent_that_never_answers_fails_its_session_when_its_time_is_up() {
    for point in ["initialize", "new"] {
        let setup = Setup::default().flags(&["--silent", point, "--ignore-sigterm"]);
        let mut desk = setup.sessions("agent_start_seconds = 1").start().await;
        let session = desk.create().await;
        let prompted = desk.api.prompt(&session, "say hello").await;

        let turn = desk.api.finished(&session, &prompted).await;
        let failed = desk.until_state(&session, "failed").await;

        assert_eq!(
            (&turn["status"]["key"], &turn["errorCode"]),
            (&json!("failed"), &json!("agent_init_timeout")),
            "{point}: {turn}"
        );
        assert_eq!(failed["status"], "error");
        let errors = desk.contents(&session, "error").await;
        let [error] = &errors[..] else { panic!("{point}: one message tells why: {errors:?}") };
        assert_eq!(error["code"], "agent_init_timeout");
        desk.nothing_runs().await;
        desk.assert_sound();
    }
}

#[tokio::test]
async fn a_slow_starter_is_waited_for() {
    let desk = Setup::default()
        .flags(&["--initialize-delay", "3000"])
        .sessions("agent_start_seconds = 30")
        .start()
        .await;
    let session = desk.create().await;

    assert_eq!(desk.said(&session, "say hello").await, "hello");
}

#[tokio::test]
async fn completing_a_session_ends_its_agent_gracefully() {
    let mut desk = Desk::start(&["--detach", "1"]).await;
    let session = desk.active().await;
    desk.said(&session, "say hello").await;

    let path = format!("/api/sessions/{session}");
    let completed = desk.api.post(&format!("{path}/complete"), json!({})).await.expect(200).json();
    let again = desk.api.post(&format!("{path}/complete"), json!({})).await.expect(200).json();
    let refused = desk.api.post(&format!("{path}/prompt"), json!({"text": "more"})).await;
    desk.nothing_runs().await;

    assert_eq!(
        (&completed["status"], &completed["state"]),
        (&json!("completed"), &json!("completed"))
    );
    assert_eq!(again["state"], "completed");
    assert_eq!(refused.refusal(), (409, "session_not_active".to_owned()));
    assert_eq!(desk.contents(&session, "error").await, Vec::<serde_json::Value>::new());
    desk.assert_sound();
}

#[tokio::test]
async fn completing_a_busy_session_needs_to_be_said_twice() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let turn = desk.api.prompt(&session, "say a\nstall").await;
    desk.until_event(&session, "message.delta").await;

    let path = format!("/api/sessions/{session}/complete");
    let refused = desk.api.post(&path, json!({})).await;
    let completed = desk.api.post(&path, json!({"interrupt": true})).await.expect(200).json();
    let turn = desk.api.finished(&session, &turn).await;
    desk.nothing_runs().await;

    assert_eq!(refused.refusal(), (409, "turn_in_progress".to_owned()));
    assert_eq!(completed["state"], "completed");
    assert_eq!(turn["errorCode"], "interrupted");
}

#[tokio::test]
async fn a_second_prompt_waits_its_turn_or_is_refused() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;
    let first = desk.api.prompt(&session, "wait-for go\nsay first").await;

    let path = format!("/api/sessions/{session}/prompt");
    let refused = desk.api.post(&path, json!({"text": "say no"})).await;
    let second = desk.api.enqueue(&session, "say second").await;
    std::fs::write(desk.file("go"), "").unwrap();
    desk.api.finished(&session, &second).await;

    assert_eq!(refused.refusal(), (409, "turn_in_progress".to_owned()));
    assert_eq!(desk.said_in(&session, &first).await, "first");
    assert_eq!(desk.said_in(&session, &second).await, "second");
}

#[tokio::test]
async fn an_agent_of_another_version_or_without_a_log_in_says_why_it_cannot_work() {
    for (flags, code) in [
        (["--protocol-version", "2"].as_slice(), "agent_protocol_error"),
        (["--auth-required"].as_slice(), "agent_auth_required"),
    ] {
        let mut desk = Desk::start(flags).await;
        let session = desk.create().await;
        let prompted = desk.api.prompt(&session, "say hello").await;

        let turn = desk.api.finished(&session, &prompted).await;
        let failed = desk.until_state(&session, "failed").await;

        assert_eq!(turn["errorCode"], code, "{turn}");
        assert_eq!(failed["status"], "error");
        let errors = desk.contents(&session, "error").await;
        let [error] = &errors[..] else { panic!("one message tells why: {errors:?}") };
        assert_eq!(error["code"], code);
        desk.nothing_runs().await;
        desk.assert_sound();
    }
}

#[tokio::test]
async fn a_command_that_is_not_there_fails_its_session() {
    let setup = Setup::default()
        .agent("[agents.missing]\nruntime = \"acp\"\ncommand = [\"skein-no-such-agent\"]");
    let mut desk = setup.start().await;
    let session = desk.api.create(json!({"repoId": desk.repo, "agent": "missing"})).await;
    let prompted = desk.api.prompt(&session, "say hello").await;

    let turn = desk.api.finished(&session, &prompted).await;
    desk.until_state(&session, "failed").await;

    assert_eq!(turn["errorCode"], "agent_unavailable", "{turn}");
    assert!(turn["errors"].to_string().contains("skein-no-such-agent"), "{turn}");
    desk.assert_sound();
}

#[tokio::test]
async fn an_agent_never_sees_the_secrets_of_the_server() {
    let setup = Setup::default().environment("OPENAI_API_KEY", "sk-secret-of-the-server");
    let desk = setup.agent("env = { SCRIPTED_KEY = \"key-of-the-agent\" }").start().await;
    let session = desk.active().await;

    let said = desk.said(&session, "env").await;

    let seen: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(seen["SCRIPTED_KEY"], "key-of-the-agent");
    assert!(!said.contains("sk-secret-of-the-server"), "{said}");
    assert!(seen["SKEIN_HOME"].is_null(), "{said}");
    assert!(!said.contains(desk.server.token()), "{said}");
    assert_ne!(seen["HOME"].as_str(), desk.server.home().path().to_str());
}

#[tokio::test]
async fn an_agent_has_limits_that_nobody_had_to_set() {
    let desk = Desk::start(&[]).await;
    let session = desk.active().await;

    let limits = desk.said(&session, "read /proc/self/limits").await;

    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_ascii_whitespace().map(str::to_owned).take(2).collect::<Vec<_>>()
    };
    let memory = (8_u64 << 30).to_string();
    assert_eq!(limit("Max data size"), [memory.clone(), memory]);
    assert_eq!(limit("Max open files"), ["4096", "4096"]);
    assert_eq!(limit("Max cpu time")[0], "unlimited");
}

/// However early a session ends, nothing of its agent's home is left, and nothing is made later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_while_its_agent_starts_leaves_no_home() {
    let mut desk = Setup::default().sessions("max_active_agents = 100").start().await;
    for _ in 0..5 {
        let mut ending = JoinSet::new();
        for _ in 0..16 {
            let (api, body) = (desk.api.clone(), json!({"repoId": desk.repo}));
            ending.spawn(async move {
                let session = api.create(body).await;
                api.delete(&format!("/api/sessions/{session}")).await.expect(200);
            });
        }
        ending.join_all().await;
    }

    // Stopping waits for what is under way, so what is there afterwards is left for good.
    assert!(desk.server.terminate().await.success());

    let homes = desk.server.home().file("agents");
    let left: Vec<_> = fs::read_dir(homes).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn homes_of_sessions_that_are_over_are_removed_at_the_next_start() {
    let mut desk = Desk::start(&["--resume"]).await;
    let (ended, alive) = (desk.active().await, desk.active().await);
    desk.said(&alive, "say first").await;
    desk.api.delete(&format!("/api/sessions/{ended}")).await.expect(200);
    let home = desk.server.home().file("agents");
    let unknown = "01900000-0000-7000-8000-000000000000";
    eventually("its home is gone", async || (!home.join(&ended).exists()).then_some(())).await;

    // As a crash leaves them.
    for session in [ended.as_str(), unknown] {
        fs::create_dir(home.join(session)).unwrap();
        fs::write(home.join(session).join("secret"), "left").unwrap();
        let owner = home.join(format!("{session}.owner"));
        fs::copy(home.join(format!("{alive}.owner")), owner).unwrap();
    }
    desk.restart().await;
    let over = [ended.as_str(), unknown];
    eventually("they are gone", async || {
        over.iter().all(|session| !home.join(session).exists()).then_some(())
    })
    .await;

    assert!(home.join(&alive).exists());
    assert_eq!(desk.said(&alive, "history").await, "user: say first\nagent: first");
}
