//! Requests with a token, and whole replies.

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, header::HeaderMap};
use serde_json::{Value, json};

use super::{EventStream, eventually};
use crate::common::{TestServer, http_client};

/// A caller of one server.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) http: reqwest::Client,
}

/// Everything that came back.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Api {
    /// With the token of the server's home.
    pub(crate) fn of(server: &TestServer) -> Self {
        Self { url: server.url().to_owned(), token: server.token().to_owned(), http: http_client() }
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }

    /// Without a token.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        Reply::to(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        Reply::to(self.request(Method::POST, path).json(&body)).await
    }

    /// A POST that may be sent twice.
    pub(crate) fn keyed(&self, path: &str, key: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, path).header("idempotency-key", key).json(body)
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Reply {
        Reply::to(self.request(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        Reply::to(self.request(Method::DELETE, path)).await
    }

    /// A new session's id.
    pub(crate) async fn create(&self, body: Value) -> String {
        self.post("/api/sessions", body).await.expect(201).text("id")
    }

    /// Sends an instruction and gives back the turn's id.
    pub(crate) async fn prompt(&self, session: &str, text: &str) -> String {
        let path = format!("/api/sessions/{session}/prompt");
        self.post(&path, json!({"text": text})).await.expect(202).text("turnId")
    }

    /// As [`Self::prompt`], behind the turns that are pending.
    pub(crate) async fn enqueue(&self, session: &str, text: &str) -> String {
        let path = format!("/api/sessions/{session}/prompt");
        let body = json!({"text": text, "onBusy": "enqueue"});
        self.post(&path, body).await.expect(202).text("turnId")
    }

    pub(crate) async fn turn(&self, session: &str, turn: &str) -> Value {
        self.get(&format!("/api/sessions/{session}/turns/{turn}")).await.expect(200).json()
    }

    /// The turn once it has its outcome.
    pub(crate) async fn finished(&self, session: &str, turn: &str) -> Value {
        eventually("the turn is finished", async || {
            let found = self.turn(session, turn).await;
            (found["status"]["key"] != "pending").then_some(found)
        })
        .await
    }

    /// Follows the session's log. `after` is the position to start from.
    pub(crate) async fn follow(&self, session: &str, after: u64) -> EventStream {
        let path = format!("/api/sessions/{session}/events?after={after}");
        EventStream::open(self.request(Method::GET, &path)).await
    }

    /// The whole log as far as it is written now.
    pub(crate) async fn log(&self, session: &str) -> super::Frames {
        let last = self.last_seq(session).await;
        let mut stream = self.follow(session, 0).await;
        stream.through(last).await
    }

    /// The newest position of the log, asked for by naming one far beyond it.
    pub(crate) async fn last_seq(&self, session: &str) -> u64 {
        let path = format!("/api/sessions/{session}/events?after=9007199254740991");
        let refusal = self.get(&path).await.expect(400).json();
        let detail = refusal["detail"].as_str().unwrap_or_default();
        let last = detail.rsplit(' ').next().unwrap_or_default();
        last.parse().unwrap_or_else(|_| panic!("no position in {refusal}"))
    }
}

impl Reply {
    pub(crate) async fn to(request: RequestBuilder) -> Self {
        Self::try_to(request).await.unwrap_or_else(|error| panic!("no reply: {error:?}"))
    }

    /// An error when the reply did not come, or not whole.
    pub(crate) async fn try_to(request: RequestBuilder) -> reqwest::Result<Self> {
        let response = request.send().await?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        Ok(Self { status, headers, body: response.bytes().await? })
    }

    /// This reply, if it has that status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            let body = String::from_utf8_lossy(&self.body);
            panic!("{} with a body that is not JSON ({error}): {body:?}", self.status)
        })
    }

    /// A member of the body that is a string.
    #[track_caller]
    pub(crate) fn text(&self, member: &str) -> String {
        let body = self.json();
        let text = body[member].as_str();
        text.unwrap_or_else(|| panic!("no text {member:?} in {body}")).to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Status and code: what a refusal is known by. The media type and members are checked on the way.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, String) {
        let body = self.json();
        let code = body["code"].as_str().unwrap_or_else(|| panic!("{} {body}", self.status));
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{body}");
        assert_eq!(body["status"], self.status, "{body}");
        assert_eq!(body["type"], format!("/problems/{code}"), "{body}");
        for member in ["title", "detail", "requestId"] {
            assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {body}");
        }
        assert!(body["retryable"].is_boolean(), "{body}");
        (self.status, code.to_owned())
    }
}
