//! Who asks without having a right to.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use skein_core::model::Timestamp;

use crate::{
    harness::{Api, eventually},
    table::IDS,
    victim::{ORG_MARK, SESSION_MARK, USER_MARK, Victim, add_user},
};

pub(crate) struct Caller {
    pub(crate) name: &'static str,
    pub(crate) api: Api,
    pub(crate) standing: Standing,
    /// What the caller names as somebody else's.
    pub(crate) theirs: BTreeMap<&'static str, String>,
    /// What the caller has of the same kinds, where there is a choice.
    own: BTreeMap<&'static str, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    NoToken,
    BadToken,
    /// In the victim's organisation, without access to the session.
    Colleague,
    /// The victim, with a token for another session.
    OtherSession,
    OtherOrg,
    /// Not an attacker, but the one to compare with.
    Admin,
}

impl Caller {
    pub(crate) async fn all(owner: &Api, victim: &Victim) -> Vec<Self> {
        let expiring = expiring(victim).await;
        let other = owner.post("/api/orgs", json!({"name": "other"})).await.expect(201).text("id");
        let (other_admin_id, other_admin) = add_user(owner, &other, "admin", "admin").await;
        let (other_member_id, other_member) =
            add_user(&other_admin, &other, "member", "member").await;
        let (viewer_id, viewer) = add_user(&victim.admin, &victim.org, "viewer", "member").await;
        let (member_id, member) = add_user(&victim.admin, &victim.org, "member", "member").await;
        let viewer = Self::new("a viewer", viewer, Standing::Colleague, victim);
        let viewer = viewer.with_own(&viewer_id).await.only_reading().await;
        let bound_session = victim.api.create(json!({})).await;
        let body = json!({"name": "bound", "role": "member", "sessionId": bound_session});
        let bound = victim.api.post("/api/tokens", body).await.expect(201).text("token");

        let mut all = vec![
            Self::new("no token", victim.api.clone(), Standing::NoToken, victim),
            Self::new("a garbage token", garbage(owner), Standing::BadToken, victim),
            Self::new("a revoked token", revoked(victim).await, Standing::BadToken, victim),
            viewer,
            Self::new("a member", member, Standing::Colleague, victim).with_own(&member_id).await,
            Self::new("another org's member", other_member, Standing::OtherOrg, victim)
                .with_own(&other_member_id)
                .await,
            Self::new("another org's admin", other_admin, Standing::OtherOrg, victim)
                .with_own(&other_admin_id)
                .await,
        ];
        let bound = victim.api.with_token(&bound);
        let mut bound = Self::new("another session's token", bound, Standing::OtherSession, victim);
        bound.own_turn(bound_session).await;
        all.push(bound);
        let home = owner.get("/api/whoami").await.expect(200).json();
        for caller in &mut all {
            if matches!(caller.standing, Standing::Colleague | Standing::OtherSession) {
                let home = home["org"]["id"].as_str().unwrap();
                caller.theirs.insert("org", home.to_owned());
            }
        }
        let expired = eventually("the token has expired", async || {
            (expiring.get("/api/whoami").await.status == 401).then(|| expiring.clone())
        });
        all.push(Self::new("an expired token", expired.await, Standing::BadToken, victim));
        all
    }

    /// Who may see and do everything in the victim's organisation.
    pub(crate) fn admin(victim: &Victim) -> Self {
        Self::new("an admin", victim.admin.clone(), Standing::Admin, victim)
    }

    fn new(name: &'static str, api: Api, standing: Standing, victim: &Victim) -> Self {
        let (theirs, own) = (victim.named.clone(), BTreeMap::new());
        Self { name, api, standing, theirs, own }
    }

    async fn with_own(mut self, user: &str) -> Self {
        let session = self.api.create(json!({"agent": "plain"})).await;
        self.own_turn(session).await;
        self.own.insert("user", user.to_owned());
        self
    }

    /// With a token that only reads; a viewer could not have made a session.
    async fn only_reading(mut self) -> Self {
        let body = json!({"name": "reader", "role": "viewer"});
        let token = self.api.post("/api/tokens", body).await.expect(201).text("token");
        self.api = self.api.with_token(&token);
        self
    }

    async fn own_turn(&mut self, session: String) {
        let turn = self.api.prompt(&session, "mine").await;
        self.api.finished(&session, &turn).await;
        self.own.extend([("session", session), ("turn", turn)]);
    }

    /// Something of this kind that the caller may use.
    pub(crate) fn own(&self, kind: &str) -> Option<&String> {
        match self.is_foreign(kind) {
            true => self.own.get(kind),
            false => self.theirs.get(kind),
        }
    }

    /// Whether what the victim has of this kind is to be hidden from the caller.
    pub(crate) fn is_foreign(&self, kind: &str) -> bool {
        let private = ["session", "turn", "payload", "token", "org", "sessionName", "key"];
        match self.standing {
            // A place in a list, which names nothing; one that nobody was given is refused as such.
            _ if kind == "cursor" => false,
            Standing::NoToken | Standing::BadToken | Standing::OtherOrg => true,
            Standing::Colleague => private.contains(&kind) || kind == "user",
            Standing::OtherSession => private.contains(&kind),
            Standing::Admin => false,
        }
    }

    /// Texts that must not be in any answer to this caller; to an admin, those that have to be.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let marks: &[&str] = match self.standing {
            Standing::NoToken | Standing::BadToken | Standing::OtherOrg | Standing::Admin => {
                &[SESSION_MARK, USER_MARK, ORG_MARK]
            }
            Standing::Colleague => &[SESSION_MARK, USER_MARK],
            Standing::OtherSession => &[SESSION_MARK],
        };
        let foreign = IDS.iter().filter(|kind| self.is_foreign(kind));
        marks.iter().copied().chain(foreign.map(|kind| self.theirs[kind].as_str())).collect()
    }
}

fn garbage(owner: &Api) -> Api {
    owner.with_token(&format!("skein_{}", "0".repeat(64)))
}

async fn revoked(victim: &Victim) -> Api {
    let body = json!({"name": "revoked", "role": "member"});
    let made = victim.api.post("/api/tokens", body).await.expect(201);
    victim.api.delete(&format!("/api/tokens/{}", made.text("id"))).await.expect(204);
    victim.api.with_token(&made.text("token"))
}

/// The victim's, for one second by the server's clock.
async fn expiring(victim: &Victim) -> Api {
    let tokens = victim.api.get("/api/tokens").await.expect(200).json();
    let made_at = |token: &Value| token["createdAt"].as_str().map(str::to_owned);
    let newest = tokens["tokens"].as_array().unwrap().iter().filter_map(made_at).max().unwrap();
    let newest: Timestamp = newest.parse().unwrap();
    let expires_at = newest.saturating_add(Duration::from_secs(2));
    let body = json!({"name": "expiring", "role": "member", "expiresAt": expires_at});
    let made = victim.api.post("/api/tokens", body).await.expect(201);
    victim.api.with_token(&made.text("token"))
}
