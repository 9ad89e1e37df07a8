//! Full texts behind URLs.

use serde_json::json;
use skein_core::model::Sha256Hash;

use crate::start;

#[tokio::test]
async fn a_payload_is_the_exact_bytes_with_their_hash_as_etag() {
    let (_server, api) = start().await;
    // In the log, apart from it, and in several parts.
    for size in [1, 60_000, 100_000, 400_000] {
        let text: String = "aé😀\u{7f}\n\t\"\\".chars().cycle().take(size).collect();
        let session = api.create(json!({})).await;
        let turn = api.prompt(&session, &text).await;
        let finished = api.finished(&session, &turn).await;

        for member in ["fullInstructionUrl", "fullAgentAnswerUrl"] {
            let reply = api.get(finished[member].as_str().unwrap()).await.expect(200);

            assert!(reply.body == text.as_bytes(), "{member} of {size} characters");
            let etag = format!("\"{}\"", Sha256Hash::of(text.as_bytes()));
            assert_eq!(reply.header("etag"), Some(etag.as_str()));
            assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
            assert_eq!(reply.header("content-length"), Some(text.len().to_string().as_str()));
        }
    }
}

#[tokio::test]
async fn a_payload_of_a_session_that_the_caller_may_not_read_is_not_found() {
    let (_server, api) = start().await;
    let secret = api.create(json!({})).await;
    let turn = api.prompt(&secret, "secret").await;
    let url = api.finished(&secret, &turn).await["fullInstructionUrl"].as_str().unwrap().to_owned();
    let other = api.create(json!({})).await;
    let body = json!({"name": "t", "role": "member", "sessionId": other});
    let scoped = api.with_token(&api.post("/api/tokens", body).await.expect(201).text("token"));

    let refused = scoped.get(&url).await;
    let unknown = scoped.get("/api/payloads/01890a5d-ac96-774b-bcce-b302099a8057").await;

    assert_eq!(refused.refusal(), (404, "not_found".to_owned()));
    let without_id = |reply: &crate::harness::Reply| {
        let mut body = reply.json();
        body["requestId"].take();
        body
    };
    assert_eq!(without_id(&refused), without_id(&unknown));
    api.get(&url).await.expect(200);
}
