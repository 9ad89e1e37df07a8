//! Conversations with a server that this project did not write: `@copilotkit/aimock`, which `scripts/aimock/check` starts
//! with `scripts/aimock/fixture.json`. Without it these tests say that they are skipped.

use serde_json::{Value, json};

use crate::{
    common::{TestHome, TestServer, http_client},
    desk::EXECUTE,
    harness::Api,
};

/// As the script sets it.
const KEY: &str = "sk-aimock-0123456789";
const KEY_VARIABLE: &str = "AIMOCK_TEST_KEY";

#[tokio::test]
async fn a_conversation_of_two_turns_is_held_with_an_independent_server() {
    let Some(aimock) = address() else { return };
    for (chain, messages) in [("server", vec![1, 1]), ("none", vec![1, 3])] {
        let (_server, api) = serve(&aimock, chain, KEY).await;
        let before = journal(&aimock).await.len();

        let first = ask(&api, json!({"instruction": "What is a skein?"})).await;
        let next = json!({"sessionId": first["sessionId"], "instruction": "And how long is it?"});
        let second = ask(&api, next).await;

        let text = "A length of yarn, wound and knotted; also geese in flight. 🪿🪿";
        assert_eq!(first["text"], text, "{first}");
        assert_eq!(second["text"], "About eighty metres.", "{second}");
        assert_eq!((&first["warnings"], &second["warnings"]), (&json!([]), &json!([])));
        let heard = journal(&aimock).await.split_off(before);
        assert_eq!(heard, messages, "{chain}");
        let log = api.log(first["sessionId"].as_str().unwrap()).await;
        assert!(log.types().contains(&"thought.delta"), "{:?}", log.types());
    }
}

#[tokio::test]
async fn an_independent_server_is_understood_when_it_proposes_files_and_when_it_fails() {
    let Some(aimock) = address() else { return };
    let (_server, api) = serve(&aimock, "none", KEY).await;

    let edited = ask(&api, json!({"instruction": "Write it down.", "mode": "edit"})).await;
    let failed = ask(&api, json!({"instruction": "Fail."})).await;
    let unknown = ask(&api, json!({"instruction": "Something else."})).await;
    let (_other, other) = serve(&aimock, "none", "sk-wrong-0123456789").await;
    let refused = ask(&other, json!({"instruction": "What is a skein?"})).await;

    assert_eq!(edited["text"], "Here it is.", "{edited}");
    let files = &edited["fileBundle"]["files"];
    assert_eq!((&files[0]["path"], &files[0]["content"]), (&json!("skein.md"), &json!("yarn\n")));
    for (answer, said) in [(&failed, "no yarn today"), (&unknown, "503"), (&refused, "401")] {
        assert_eq!(answer["errorCode"], "provider_error", "{answer}");
        assert!(answer["errorMessage"].as_str().unwrap().contains(said), "{answer}");
    }
}

#[expect(clippy::disallowed_methods, reason = "this setting is the tests' own")]
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn address() -> Option<String> {
    let address = std::env::var("SKEIN_TEST_AIMOCK").ok();
    if address.is_none() {
        eprintln!("skipped: SKEIN_TEST_AIMOCK is not set; scripts/aimock/check sets it");
    }
    address
}

async fn serve(aimock: &str, chain: &str, key: &str) -> (TestServer, Api) {
    let home = TestHome::with_config(&format!(
        "[sessions]\ndefault_agent = \"aimock\"\n[providers.aimock]\nbase_url = \"{aimock}/v1\"\n\
         key_env = \"{KEY_VARIABLE}\"\nchain = \"{chain}\"\nmodel = \"gpt-test\"\n"
    ));
    let server = TestServer::on_with(home, &[(KEY_VARIABLE, key)]).await;
    let api = Api::of(&server);
    (server, api)
}

async fn ask(api: &Api, body: Value) -> Value {
    api.post(EXECUTE, body).await.expect(200).json()
}

/// How many messages the independent server has heard in each call about a skein that it answered, oldest first.
async fn journal(aimock: &str) -> Vec<usize> {
    let url = format!("{aimock}/__aimock/journal?path=/v1/responses");
    let read = http_client().get(url).bearer_auth(KEY).send().await.unwrap();
    let calls: Vec<Value> = serde_json::from_slice(&read.bytes().await.unwrap()).unwrap();
    let messages = |call: &Value| call["body"]["messages"].as_array().cloned();
    let about_a_skein = |messages: &Vec<Value>| {
        let last = messages.last().and_then(|message| message["content"].as_str());
        matches!(last, Some("What is a skein?" | "And how long is it?"))
    };
    let answered = calls.iter().filter(|call| call["response"]["status"] == 200);
    answered.filter_map(messages).filter(about_a_skein).map(|messages| messages.len()).collect()
}
