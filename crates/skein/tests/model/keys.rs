//! A provider's key is in the requests to it, and nowhere else.

use std::{fs, path::Path};

use serde_json::{Value, json};
use skein_testkit::responses::{Answer, Refusal};

use crate::desk::Desk;

#[tokio::test]
async fn a_key_that_the_provider_repeats_is_kept_and_shown_nowhere() {
    let mut desk = Desk::new().await;
    let key = desk.provider.key().to_owned();
    desk.provider.script(Refusal::text(401, &format!("the key {key} is not known")));
    desk.provider.script(Answer::text(&format!("your key is {key}.")).chunk_chars(40));
    desk.provider.script(Refusal::status(429).header("x-key", &key).retry_after("0"));
    desk.provider.script(Answer::tool_call("leak", &json!({"key": key}).to_string()));

    let failed = desk.ask(&Value::Null, "one").await;
    let session = &failed["sessionId"];
    let told = desk.ask(session, "two").await;
    let called = desk.ask(session, "three").await;

    assert_eq!(failed["errorMessage"], "the provider answered 401: the key [key] is not known");
    assert_eq!(told["text"], "your key is [key].");
    assert_eq!(called["kind"], "answer", "{called}");
    let mut shown = format!("{failed}{told}{called}");
    for answer in [&failed, &told, &called] {
        let turn = desk.turn_of(answer).await;
        for member in ["openAIRequestPayloadUrl", "openAIResponsePayloadUrl"] {
            let payload = desk.api.get(turn[member].as_str().unwrap()).await.expect(200);
            shown.push_str(&String::from_utf8_lossy(&payload.body));
        }
        shown.push_str(&turn.to_string());
    }
    shown.push_str(&desk.api.log(session.as_str().unwrap()).await.raw());
    shown.push_str(&desk.api.get("/api/audit?limit=200").await.expect(200).json().to_string());
    assert!(!shown.contains(&key), "{shown}");
    desk.server.terminate().await;
    assert!(!desk.server.log().contains(&key), "{}", desk.server.log());
    assert_eq!(files_with(desk.server.home().path(), &key), Vec::<String>::new());
}

fn files_with(directory: &Path, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, key));
        } else {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(key.len()).any(|window| window == key.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
