//! Organisations and the people in them: who may look after whom, and that nothing crosses over.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Api, Reply, eventually},
    redact::redact,
    start,
};

#[tokio::test]
async fn the_owner_makes_an_organisation_whose_admin_looks_after_its_people() {
    let (_server, owner) = start().await;

    let org = owner.post("/api/orgs", json!({"name": "acme"})).await.expect(201).json();
    let (admin_id, admin) = add(&owner, &org, "ada", "admin").await;
    let (member_id, member) = add(&admin, &org, "mel", "member").await;
    let listed = admin.get("/api/users").await.expect(200).json();
    let pages = [
        admin.get("/api/users?limit=1").await.expect(200).json(),
        admin.get(&format!("/api/users?limit=1&cursor={admin_id}")).await.expect(200).json(),
    ];
    let who = member.get("/api/whoami").await.expect(200).json();

    assert_eq!(redact(&org, &[]), json!({"id": "ID", "name": "acme"}));
    let user = |id: &str, name: &str, role: &str| json!({"id": id, "name": name, "role": role, "instanceOwner": false, "disabled": false, "disabledAt": null});
    let (ada, mel) = (user(&admin_id, "ada", "admin"), user(&member_id, "mel", "member"));
    assert_eq!(listed, json!({"users": [ada, mel], "nextCursor": null}));
    assert_eq!(pages[0], json!({"users": [ada], "nextCursor": admin_id}));
    assert_eq!(pages[1], json!({"users": [mel], "nextCursor": null}));
    assert_eq!((&who["org"], &who["role"]), (&org, &json!("member")));
    assert_eq!(member.get(&format!("/api/users/{member_id}")).await.expect(200).json(), mel);
    assert_eq!(code(&member.get(&format!("/api/users/{admin_id}")).await), (404, "not_found"));
}

#[tokio::test]
async fn another_organisations_ids_are_answered_like_unknown_ones() {
    let (_server, owner) = start().await;
    let home = owner.get("/api/whoami").await.json();
    let org = owner.post("/api/orgs", json!({"name": "acme"})).await.expect(201).json();
    let (_, admin) = add(&owner, &org, "ada", "admin").await;
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    let foreign = home["user"]["id"].as_str().unwrap();
    let foreign_org = home["org"]["id"].as_str().unwrap();
    let new = json!({"name": "x", "role": "viewer"});
    let off = json!({"disabled": true});

    let answers = [
        (
            admin.get(&format!("/api/users/{foreign}")).await,
            admin.get(&format!("/api/users/{unknown}")).await,
        ),
        (
            admin.patch(&format!("/api/users/{foreign}"), off.clone()).await,
            admin.patch(&format!("/api/users/{unknown}"), off).await,
        ),
        (
            admin.post(&format!("/api/orgs/{foreign_org}/users"), new.clone()).await,
            admin.post(&format!("/api/orgs/{unknown}/users"), new).await,
        ),
    ];

    for (foreign, unknown) in answers {
        assert_eq!(code(&foreign), (404, "not_found"));
        assert_eq!(without_id(&foreign), without_id(&unknown));
    }
}

#[tokio::test]
async fn what_the_table_of_roles_does_not_allow_is_forbidden_and_kept_on_record() {
    let (_server, owner) = start().await;
    let org = owner.post("/api/orgs", json!({"name": "acme"})).await.expect(201).json();
    let (admin_id, admin) = add(&owner, &org, "ada", "admin").await;
    let (member_id, member) = add(&admin, &org, "mel", "member").await;
    let users = format!("/api/orgs/{}/users", org["id"].as_str().unwrap());
    let self_path = format!("/api/users/{admin_id}");
    let other_path = format!("/api/users/{member_id}");

    let refusals = [
        admin.post("/api/orgs", json!({"name": "x"})).await,
        admin.post(&users, json!({"name": "x", "role": "owner"})).await,
        admin.patch(&self_path, json!({"disabled": true})).await,
        admin.patch(&other_path, json!({"role": "viewer"})).await,
        member.get("/api/users").await,
        member.post(&users, json!({"name": "x", "role": "viewer"})).await,
        member.get("/api/audit").await,
        member.get("/api/audit/verify").await,
        member.post("/api/repos", json!({"name": "x", "path": "/x"})).await,
    ];

    for (index, refused) in refusals.iter().enumerate() {
        assert_eq!(code(refused), (403, "forbidden"), "request {index}");
    }
    let kept = eventually("every refusal is kept", async || {
        let page = admin.get("/api/audit?limit=200").await.expect(200).json();
        let entries = page["entries"].as_array().unwrap().clone();
        let refused = entries.into_iter().filter(|entry| entry["action"] == "access.refused");
        let refused: Vec<Value> = refused.collect();
        (refused.len() == 9).then_some(refused)
    })
    .await;
    assert_eq!(kept[4]["target"], "GET /api/users");
    assert_eq!(kept[5]["target"], "POST /api/orgs/{org}/users");
    assert_eq!(
        (&kept[4]["actorId"], &kept[4]["detail"]),
        (&json!(member_id), &json!({"code": "forbidden"}))
    );
}

#[tokio::test]
async fn a_disabled_user_opens_nothing_until_they_are_let_in_again() {
    let (_server, owner) = start().await;
    let org = owner.get("/api/whoami").await.json()["org"].clone();
    let (id, user) = add(&owner, &org, "mel", "member").await;
    let path = format!("/api/users/{id}");

    let off = owner.patch(&path, json!({"disabled": true})).await.expect(200).json();
    let refused = user.get("/api/whoami").await;
    owner.patch(&path, json!({"disabled": false, "role": "viewer"})).await.expect(200);
    let back = user.get("/api/whoami").await.expect(200).json();

    assert_eq!((&off["disabled"], off["disabledAt"].is_string()), (&json!(true), true));
    assert_eq!(code(&refused), (401, "unauthenticated"));
    assert_eq!(back["role"], "viewer");
}

#[tokio::test]
async fn a_repeated_request_adds_nobody_twice_and_a_taken_name_is_a_conflict() {
    let (_server, owner) = start().await;
    let org = owner.get("/api/whoami").await.json()["org"]["id"].as_str().unwrap().to_owned();
    let users = format!("/api/orgs/{org}/users");
    let body = json!({"name": "mel", "role": "member"});

    let first = Reply::to(owner.keyed(&users, "k1", &body)).await.expect(201);
    let again = Reply::to(owner.keyed(&users, "k1", &body)).await.expect(201);
    let taken = owner.post(&users, body).await;
    let orgs = [
        owner.post("/api/orgs", json!({"name": "acme"})).await.status,
        owner.post("/api/orgs", json!({"name": "acme"})).await.status,
    ];

    assert_eq!(again.text("id"), first.text("id"));
    assert_eq!(again.json()["token"], Value::Null);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(code(&taken), (409, "already_exists"));
    assert_eq!(orgs, [201, 409]);
    let put = Reply::to(owner.request(Method::PUT, "/api/users")).await;
    assert_eq!(code(&put), (405, "method_not_allowed"));
}

async fn add(by: &Api, org: &Value, name: &str, role: &str) -> (String, Api) {
    let path = format!("/api/orgs/{}/users", org["id"].as_str().unwrap());
    let made = by.post(&path, json!({"name": name, "role": role})).await.expect(201);
    assert_eq!((made.text("name"), made.text("role")), (name.to_owned(), role.to_owned()));
    (made.text("id"), by.with_token(&made.text("token")))
}

fn code(reply: &Reply) -> (u16, &'static str) {
    let (status, code) = reply.refusal();
    (status, code.leak())
}

fn without_id(reply: &Reply) -> Value {
    let mut body = reply.json();
    body.as_object_mut().unwrap().remove("requestId");
    body
}
