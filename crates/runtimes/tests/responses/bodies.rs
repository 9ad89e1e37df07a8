//! What is sent.

use skein_core::{
    model::{ChunkText, FileText, Mode},
    ports::{AgentRuntime, ChainKeeping, ContextNeed, Passage, PastTurn, Prompt},
};
use skein_runtimes::responses::{ProviderSettings, Responses, SecretString, preset};
use skein_testkit::responses::ResponsesServer;

use crate::support::{edit, prompt, run, runtime, settings, settings_at};

fn full() -> Prompt {
    let chunk = ChunkText {
        chunk_id: "c1".to_owned(),
        path: "src/a.rs".to_owned(),
        start_line: 3,
        end_line: 5,
        text: "let x = \"```\";".to_owned(),
    };
    Prompt {
        system_prompt: Some("Be brief.\n".to_owned()),
        temperature: Some(0.2),
        history: vec![PastTurn { instruction: "before".to_owned(), answer: "said".to_owned() }],
        passages: vec![Passage { chunk, score: 0.5 }],
        files: vec![FileText { path: "odd\nname.txt".to_owned(), content: "é\r\n".to_owned() }],
        mode: Mode::Edit,
        ..prompt("  do it\n")
    }
}

#[test]
fn the_body_is_the_same_for_the_same_prompt_byte_by_byte() {
    let settings = ProviderSettings { background: true, ..settings_at("http://127.0.0.1:1/v1") };

    let body = runtime(settings.clone()).compose(&full()).unwrap();
    let again = runtime(settings).compose(&full()).unwrap();

    assert_eq!(body, again);
    insta::assert_snapshot!(String::from_utf8(body.to_vec()).unwrap(), @r#"{"model":"gpt-5","instructions":"Be brief.\n","temperature":0.2,"stream":true,"store":true,"background":true,"tools":[{"type":"function","name":"propose_files","description":"Propose changes to the user's files. Call it once with every file that is to change: create and update need the whole new content of the file, delete needs null. Paths are relative to the workspace. Nothing is written before the user agrees.","strict":true,"parameters":{"type":"object","properties":{"files":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"action":{"type":"string","enum":["create","update","delete"]},"content":{"type":["string","null"]}},"required":["path","action","content"],"additionalProperties":false}}},"required":["files"],"additionalProperties":false}}],"tool_choice":"auto","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"before"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"said"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"Passage of src/a.rs, lines 3-5, chunk c1:\n````\nlet x = \"```\";\n````"},{"type":"input_text","text":"File odd\\nname.txt, 4 bytes, whole:\né\r\n"},{"type":"input_text","text":"  do it\n"}]}],"metadata":{"session":"00000000-0000-0000-0000-000000000001","turn":"00000000-0000-0000-0000-000000000002"}}"#);
}

#[test]
fn what_is_not_given_is_not_sent() {
    let settings =
        ProviderSettings { chain: ChainKeeping::Nobody, ..settings_at("http://127.0.0.1:1/v1") };
    let continued =
        Prompt { model: None, previous_response_id: Some("resp_1".to_owned()), ..prompt("hi") };

    let body = runtime(settings).compose(&continued).unwrap();

    insta::assert_snapshot!(String::from_utf8(body.to_vec()).unwrap(), @r#"{"stream":true,"store":false,"previous_response_id":"resp_1","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],"metadata":{"session":"00000000-0000-0000-0000-000000000001","turn":"00000000-0000-0000-0000-000000000002"}}"#);
}

#[tokio::test]
async fn the_strict_server_takes_everything_that_can_be_sent() {
    let server = ResponsesServer::start().await;

    let seen = run(settings(&server), full()).await;
    let next =
        Prompt { previous_response_id: Some(seen.response_id().to_owned()), ..edit("and now?") };
    let next = run(ProviderSettings { background: true, ..settings(&server) }, next).await;

    assert!(seen.is_answered() && next.is_answered());
    assert!(seen.text().starts_with("turn 2") && seen.text().ends_with(":   do it\n"));
    assert!(next.text().starts_with("turn 3") && next.text().ends_with(": and now?"));
}

#[tokio::test]
async fn the_given_bytes_are_sent_and_not_others() {
    let server = ResponsesServer::start().await;
    let runtime = runtime(settings(&server));
    let body = runtime.compose(&full()).unwrap();

    run(settings(&server), full()).await;

    let sent = &server.requests()[0];
    assert_eq!(sent.body, body);
    assert_eq!(sent.path, "/v1/responses");
    assert_eq!(sent.headers["accept"], "text/event-stream");
    assert_eq!(sent.headers["content-type"], "application/json");
    assert_eq!(sent.headers["authorization"], "Bearer [redacted]");
}

#[test]
fn a_runtime_says_what_it_needs() {
    let base = settings_at("http://127.0.0.1:1/v1");
    let forgetful =
        ProviderSettings { chain: ChainKeeping::Nobody, background: true, ..base.clone() };
    let background = ProviderSettings { background: true, ..base.clone() };

    let keeping = ChainKeeping::Server;
    let need = ContextNeed::Conversation { provider: "test".to_owned(), keeping };
    assert_eq!(runtime(base.clone()).context(), need);
    assert!(!runtime(base).outlives_connections());
    assert!(runtime(background).outlives_connections());
    // What is not kept cannot be taken up.
    assert!(!runtime(forgetful).outlives_connections());
}

#[test]
fn the_key_is_never_printed() {
    let key = SecretString::from("sk-very-secret-0123456789");
    let settings = ProviderSettings { key: Some(key), ..settings_at("http://127.0.0.1:1/v1") };

    let shown = format!("{settings:?} {:?}", runtime(settings.clone()));
    let bad = ProviderSettings { key: Some(SecretString::from("secret\n")), ..settings };
    let error = format!("{:?}", Responses::new(bad).unwrap_err());

    assert!(!shown.contains("secret-0123"), "{shown}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn addresses_that_cannot_be_used_are_refused_at_once() {
    let refusal =
        |url: &str| Responses::new(ProviderSettings::new("p", url)).unwrap_err().to_string();

    for url in ["", "nowhere", "ftp://h/v1", "file:///v1", "http://h/v1?x=1", "http://h/v1#x"] {
        assert!(refusal(url).contains("is not an http or https address"), "{url}");
    }
    let with_password = refusal("https://me:hunter2@h/v1");
    assert!(with_password.contains("user name") && !with_password.contains("hunter2"));
    for url in
        ["http://127.0.0.1/v1", "http://10.0.0.1/v1", "http://[::1]/v1", "http://2130706433/"]
    {
        assert!(refusal(url).contains("is a private address"), "{url}");
    }
}

#[test]
fn presets_are_known_by_name() {
    assert_eq!(preset("openai").map(|p| p.base_url), Some("https://api.openai.com/v1"));
    assert_eq!(preset("openai").and_then(|p| p.key_env), Some("OPENAI_API_KEY"));
    assert_eq!(preset("ollama").map(|p| p.chain), Some(ChainKeeping::Nobody));
    assert_eq!(preset("lmstudio").map(|p| p.chain), Some(ChainKeeping::Server));
    assert_eq!(preset("nobody"), None);
}
