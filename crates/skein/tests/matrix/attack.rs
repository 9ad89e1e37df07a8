//! Sends a request with what is somebody else's, and again with what nobody has, and compares.

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use skein_core::model::Timestamp;

use crate::{
    callers::{Caller, Standing},
    document::Operation,
    table::{IDS, KINDS, Request},
};

#[derive(Default)]
pub(crate) struct Attack {
    pub(crate) sent: usize,
    pub(crate) findings: Vec<String>,
}

type Values = BTreeMap<&'static str, String>;

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    headers: Vec<String>,
    body: String,
}

impl Attack {
    /// All ways to put what is not the caller's into one request.
    pub(crate) async fn run(&mut self, caller: &Caller, operation: &Operation, request: &Request) {
        let positions = positions(operation, request);
        self.pair(caller, operation, request, &positions).await;
        if positions.len() < 2 {
            return;
        }
        for position in &positions {
            self.pair(caller, operation, request, &[position]).await;
        }
    }

    /// What is at these positions is the victim's, and then nobody's; at the others it is the caller's own.
    async fn pair(
        &mut self,
        caller: &Caller,
        operation: &Operation,
        request: &Request,
        at: &[&'static str],
    ) {
        let (mut foreign, mut unknown) = (Values::new(), Values::new());
        for kind in positions(operation, request) {
            if at.contains(&kind) {
                let value = &caller.theirs[kind];
                let is_foreign = caller.is_foreign(kind);
                let other = if is_foreign { self::unknown(value) } else { value.clone() };
                foreign.insert(kind, value.clone());
                unknown.insert(kind, other);
            } else if let Some(own) = caller.own(kind) {
                foreign.insert(kind, own.clone());
                unknown.insert(kind, own.clone());
            } else {
                return;
            }
        }
        let refers = at.iter().any(|kind| {
            let place = format!("{{{kind}}}");
            let body = request.body.as_ref().map(Value::to_string).unwrap_or_default();
            let is_reference = operation.path.contains(&place) || body.contains(&place);
            // Whose sessions are listed is a filter: what is not there to be read is an empty list.
            let is_reference = is_reference && operation.id != "list_user_sessions";
            IDS.contains(kind) && caller.is_foreign(kind) && is_reference
        });
        let label = format!("{} → {} {request:?} at {at:?}", caller.name, operation.id);

        let answer = self.send(caller, operation, request, &foreign).await;
        let problems = judge(caller, operation, &answer, &foreign, refers);
        self.findings.extend(problems.iter().map(|problem| format!("{label}: {problem}")));
        if foreign != unknown {
            let other = self.send(caller, operation, request, &unknown).await;
            let (answer, other) = (normal(answer, &foreign), normal(other, &unknown));
            if answer != other {
                self.findings.push(format!("{label}: {answer:?}, but unknown: {other:?}"));
            }
        }
    }

    /// The same request by somebody who may: it is understood, or the refusals would prove nothing.
    ///
    /// Says whether a mark came back.
    pub(crate) async fn control(
        &mut self,
        admin: &Caller,
        operation: &Operation,
        request: &Request,
    ) -> bool {
        let answer = self.send(admin, operation, request, &admin.theirs).await;
        // Beyond the end of the log on purpose.
        let is_understood = request.query.contains("after=9007199254740991")
            || !matches!(answer.status, 400 | 401 | 415);
        if !is_understood {
            let label = format!("an admin → {} {request:?}", operation.id);
            self.findings.push(format!("{label}: not understood: {}", answer.body));
        }
        admin.secrets().iter().any(|secret| answer.body.contains(secret))
    }

    async fn send(
        &mut self,
        caller: &Caller,
        operation: &Operation,
        request: &Request,
        values: &Values,
    ) -> Answer {
        self.sent += 1;
        let mut path = fill(&operation.path, values);
        if !request.query.is_empty() {
            path = format!("{path}?{}", fill(request.query, values));
        }
        let mut sending = prepare(caller, operation.method.clone(), &path);
        for (name, value) in request.headers {
            sending = sending.header(*name, fill(value, values));
        }
        if let Some(body) = &request.body {
            let body = fill(&body.to_string(), values);
            sending = sending.header("content-type", "application/json").body(body);
        }
        Answer::to(sending).await
    }

    pub(crate) fn report(&self) -> String {
        let shown: Vec<&str> = self.findings.iter().take(40).map(String::as_str).collect();
        format!("{} findings, of which:\n{}", self.findings.len(), shown.join("\n"))
    }
}

impl Answer {
    /// Of a stream, which would not end, only as much as has an event in it.
    async fn to(request: RequestBuilder) -> Self {
        let mut response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let mut headers: Vec<String> =
            response.headers().keys().map(|name| name.as_str().to_owned()).collect();
        headers.sort();
        let media_type = response.headers().get("content-type").cloned();
        let media_type = media_type.and_then(|value| value.to_str().ok().map(str::to_owned));
        let is_stream = media_type.iter().any(|name| name.starts_with("text/event-stream"));
        headers.extend(media_type);
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.unwrap() {
            body.extend_from_slice(&piece);
            if is_stream && body.windows(5).any(|bytes| bytes == b"data:") {
                break;
            }
        }
        Self { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }
}

fn prepare(caller: &Caller, method: Method, path: &str) -> RequestBuilder {
    match caller.standing {
        Standing::NoToken => caller.api.anonymous(method, path),
        _ => caller.api.request(method, path),
    }
}

/// What is wrong with an answer by itself.
fn judge(
    caller: &Caller,
    operation: &Operation,
    answer: &Answer,
    sent: &Values,
    refers: bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    let status = answer.status;
    let is_unknown_caller = matches!(caller.standing, Standing::NoToken | Standing::BadToken);
    if is_unknown_caller && operation.needs_token && status != 401 {
        problems.push(format!("{status} instead of 401"));
    }
    if refers && !(400..500).contains(&status) {
        problems.push(format!("not refused, but {status}: {}", answer.body));
    }
    if !operation.statuses.contains(&status) {
        problems.push(format!("undocumented status {status}: {}", answer.body));
    }
    let body = match operation.id.as_str() {
        "list_audit" => without_reasons(&answer.body),
        _ => answer.body.clone(),
    };
    let rest = sent.values().fold(body, |body, value| body.replace(value, ""));
    for secret in caller.secrets() {
        if rest.contains(secret) {
            problems.push(format!("shows {secret:?}: {}", answer.body));
        }
    }
    problems
}

/// Why requests of one's own org were refused is what their callers were told, with the ids that they had sent; it was
/// judged when they were told.
fn without_reasons(audit: &str) -> String {
    let Ok(mut page) = serde_json::from_str::<Value>(audit) else { return audit.to_owned() };
    for entry in page["entries"].as_array_mut().into_iter().flatten() {
        if entry["action"] == "request.refused" {
            entry["detail"]["reason"].take();
        }
    }
    page.to_string()
}

/// The kinds of what a request names, wherever in it.
fn positions(operation: &Operation, request: &Request) -> Vec<&'static str> {
    let text = format!("{} {request:?}", operation.path);
    KINDS.into_iter().filter(|kind| text.contains(&format!("{{{kind}}}"))).collect()
}

fn fill(template: &str, values: &Values) -> String {
    values.iter().fold(template.to_owned(), |text, (kind, value)| {
        text.replace(&format!("{{{kind}}}"), value)
    })
}

/// What nobody has, and would stand beside it in any order.
fn unknown(value: &str) -> String {
    let (rest, last) = value.split_at(value.len() - 1);
    format!("{rest}{}", if last == "0" { "1" } else { "0" })
}

/// Without what differs between any two answers: what was sent, new ids and times.
fn normal(answer: Answer, sent: &Values) -> Answer {
    let body = sent.iter().fold(answer.body, |body, (kind, value)| body.replace(value, kind));
    let body = match serde_json::from_str::<Value>(&body) {
        Ok(mut json) => {
            redact(&mut json);
            json.to_string()
        }
        Err(_) => body,
    };
    Answer { body, ..answer }
}

fn redact(json: &mut Value) {
    match json {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(members) => {
            members.remove("requestId");
            members.values_mut().for_each(redact);
        }
        Value::String(text) => {
            let is_new = text.parse::<uuid::Uuid>().is_ok()
                || text.parse::<Timestamp>().is_ok()
                || text.starts_with("skein_");
            if is_new {
                *text = "NEW".to_owned();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
