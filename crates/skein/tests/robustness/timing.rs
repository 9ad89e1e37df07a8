//! The time of an answer does not tell whether an id that is not the caller's is somebody's.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    common::TestServer,
    harness::{AGENTS, Api, Reply},
    scale,
};

/// Medians may differ by this factor; a look more or less into the store is more than that.
const TOLERANCE: f64 = 1.5;
/// Other work on the machine may hit one side more.
const ATTEMPTS: usize = 4;

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// One way to name something.
struct Route {
    method: Method,
    path: &'static str,
    body: Option<Value>,
}

/// What somebody has, and what nobody has.
#[derive(Clone)]
struct Ids {
    session: String,
    turn: String,
    payload: String,
}

#[tokio::test]
async fn an_id_that_is_not_the_callers_takes_as_long_as_one_that_nobody_has() {
    let requests = scale::choose(150, 500);
    let server = TestServer::with_config(AGENTS).await;
    let owner = Api::of(&server);
    let theirs = plant(&owner).await;
    let unknown = || UNKNOWN.to_owned();
    let nobodys = Ids { session: unknown(), turn: unknown(), payload: unknown() };
    let home = owner.get("/api/whoami").await.expect(200).json();
    let home = home["org"]["id"].as_str().unwrap().to_owned();
    let other = owner.post("/api/orgs", json!({"name": "other"})).await.expect(201).text("id");

    for (name, org) in [("another tenant", &other), ("a colleague without access", &home)] {
        let caller = member(&owner, org, name).await;
        for route in routes() {
            let even = is_even(&caller, name, &route, (&theirs, &nobodys), requests);
            assert!(even.await, "{} {} as {name}", route.method, route.path);
        }
    }
}

/// Whether the medians agree. Prints what was measured.
async fn is_even(
    caller: &Api,
    name: &str,
    route: &Route,
    ids: (&Ids, &Ids),
    requests: usize,
) -> bool {
    for _ in 0..ATTEMPTS {
        let (theirs, nobodys) = medians(caller, route, ids, requests).await;
        let ratio = theirs.as_secs_f64() / nobodys.as_secs_f64();
        eprintln!(
            "{name}, {} {}: {} µs for somebody's id, {} µs for nobody's, ratio {ratio:.2}",
            route.method,
            route.path,
            theirs.as_micros(),
            nobodys.as_micros()
        );
        if ratio < TOLERANCE && ratio > 1.0 / TOLERANCE {
            return true;
        }
    }
    false
}

/// Every kind of id, in reads and in writes.
fn routes() -> Vec<Route> {
    let read = |path| Route { method: Method::GET, path, body: None };
    let write = |method, path, body| Route { method, path, body: Some(body) };
    vec![
        read("/api/sessions/{session}"),
        read("/api/sessions/{session}/turns"),
        read("/api/sessions/{session}/turns/{turn}"),
        read("/api/sessions/{session}/messages"),
        read("/api/sessions/{session}/events"),
        read("/api/payloads/{payload}"),
        write(Method::PATCH, "/api/sessions/{session}", json!({"name": "mine"})),
        write(Method::POST, "/api/sessions/{session}/prompt", json!({"text": "hello"})),
    ]
}

impl Route {
    fn request(&self, api: &Api, ids: &Ids) -> RequestBuilder {
        let path = self.path.replace("{session}", &ids.session);
        let path = path.replace("{turn}", &ids.turn).replace("{payload}", &ids.payload);
        let request = api.request(self.method.clone(), &path);
        match &self.body {
            Some(body) => request.json(body),
            None => request,
        }
    }
}

/// Asks for both in turn, so that whatever else happens on the machine happens to both.
async fn medians(
    api: &Api,
    route: &Route,
    (theirs, nobodys): (&Ids, &Ids),
    requests: usize,
) -> (Duration, Duration) {
    let mut took = [Vec::new(), Vec::new()];
    for number in 0..requests * 2 {
        let side = number % 2;
        let request = route.request(api, if side == 0 { theirs } else { nobodys });
        let since = Instant::now();
        let reply = Reply::to(request).await;
        took[side].push(since.elapsed());
        assert_eq!(reply.refusal(), (404, "not_found".to_owned()));
    }
    let [foreign, unknown] = took.map(|mut side| {
        side.sort();
        side[side.len() / 2]
    });
    (foreign, unknown)
}

/// A session with a finished turn in the owner's organisation.
async fn plant(owner: &Api) -> Ids {
    let session = owner.create(json!({"name": "private"})).await;
    let turn = owner.prompt(&session, "hello").await;
    let finished = owner.finished(&session, &turn).await;
    let url = finished["fullInstructionUrl"].as_str().unwrap_or_else(|| panic!("{finished}"));
    let payload = url.rsplit('/').next().unwrap().to_owned();
    Ids { session, turn, payload }
}

/// Somebody of that organisation.
async fn member(owner: &Api, org: &str, name: &str) -> Api {
    let user = json!({"name": name, "role": "member"});
    let user = owner.post(&format!("/api/orgs/{org}/users"), user).await.expect(201);
    owner.with_token(&user.text("token"))
}
