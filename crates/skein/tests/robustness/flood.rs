//! One tenant asks for far more than it may have; another does not notice.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    common::TestServer,
    harness::{AGENTS, Api, Reply},
    scale,
};

/// A flood is many times of this, what the quiet tenant does is half.
const LIMITS: &str = "[limits]\nrequests_per_second_per_org = 50\n";
const PACE: Duration = Duration::from_millis(40);
/// Over all connections 24 times what is allowed; without a pace the client would take the machine from the server.
const CONNECTIONS: usize = 6;
const FLOOD_PACE: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenants_flood_is_refused_and_another_tenants_requests_all_succeed() {
    let requests = scale::choose(75, 1_000);
    let server = TestServer::with_config(&format!("{AGENTS}\n{LIMITS}")).await;
    let owner = Api::of(&server);
    let (quiet, loud) = (tenant(&owner, "quiet").await, tenant(&owner, "loud").await);

    let before = ask(&quiet, requests).await;
    let (stop, stopped) = watch::channel(false);
    let mut flood = JoinSet::new();
    for _ in 0..CONNECTIONS {
        flood.spawn(press(loud.clone(), stopped.clone()));
    }
    let during = ask(&quiet, requests).await;
    stop.send_replace(true);
    let answers = flood.join_all().await;

    let served: usize = answers.iter().map(|(served, _)| served).sum();
    let refused: usize = answers.iter().map(|(_, refused)| refused).sum();
    eprintln!(
        "a quiet tenant's p50 and p99: {} alone; {} beside {served} requests of another and {refused} that were refused",
        shown(before),
        shown(during)
    );
    assert!(served > 0, "the loud tenant has its share");
    assert!(refused > served, "this was no flood");
}

/// A member of an organisation, with a session.
async fn tenant(owner: &Api, name: &str) -> Tenant {
    let org = owner.post("/api/orgs", json!({"name": name})).await.expect(201).text("id");
    let user = json!({"name": name, "role": "member"});
    let user = owner.post(&format!("/api/orgs/{org}/users"), user).await.expect(201);
    let api = owner.with_token(&user.text("token"));
    let session = api.create(json!({})).await;
    Tenant { api, session }
}

#[derive(Clone)]
struct Tenant {
    api: Api,
    session: String,
}

impl Tenant {
    /// Reads and writes, one after the other.
    async fn request(&self, number: usize) -> Reply {
        let session = format!("/api/sessions/{}", self.session);
        match number % 3 {
            0 => self.api.get(&session).await,
            1 => self.api.get("/api/sessions").await,
            _ => {
                let body = json!({"name": format!("request {number}")});
                Reply::to(self.api.request(Method::PATCH, &session).json(&body)).await
            }
        }
    }
}

/// Sends at a steady pace; each request must succeed. Gives back how long they took.
async fn ask(tenant: &Tenant, requests: usize) -> Vec<Duration> {
    let mut ticks = interval(PACE);
    let mut took = Vec::new();
    for number in 0..requests {
        ticks.tick().await;
        let since = Instant::now();
        let reply = tenant.request(number).await;
        took.push(since.elapsed());
        assert_eq!(reply.status, 200, "{}", reply.json());
    }
    took
}

/// Sends far too much until it is told to stop; counts what was served and what was refused.
async fn press(tenant: Tenant, stop: watch::Receiver<bool>) -> (usize, usize) {
    let (mut served, mut refused) = (0, 0);
    let mut ticks = interval(FLOOD_PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !*stop.borrow() {
        ticks.tick().await;
        let reply = tenant.request(served + refused).await;
        match reply.status {
            200 => served += 1,
            _ => {
                assert_eq!(reply.refusal(), (429, "rate_limited".to_owned()));
                assert!(reply.header("retry-after").is_some());
                refused += 1;
            }
        }
    }
    (served, refused)
}

fn shown(mut took: Vec<Duration>) -> String {
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1_000.0;
    format!("{:.2} and {:.2} ms", at(0.5), at(0.99))
}
