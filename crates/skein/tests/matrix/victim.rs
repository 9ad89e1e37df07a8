//! Whose data nobody else is to see: an organisation with a session, and marks in everything that has text.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde_json::{Value, json};

use crate::harness::{Api, Reply};

/// In the private session of one user.
pub(crate) const SESSION_MARK: &str = "quokka-session";
/// In what all of the organisation see.
pub(crate) const ORG_MARK: &str = "quokka-org";
/// In the user's own name.
pub(crate) const USER_MARK: &str = "quokka-user";

pub(crate) struct Victim {
    pub(crate) api: Api,
    pub(crate) admin: Api,
    pub(crate) org: String,
    /// What can be named in a request, by its kind in [`crate::table::KINDS`].
    pub(crate) named: BTreeMap<&'static str, String>,
}

impl Victim {
    pub(crate) async fn plant(owner: &Api, root: PathBuf) -> Self {
        let org = owner.post("/api/orgs", json!({"name": ORG_MARK})).await.expect(201).text("id");
        let (_, admin) = add_user(owner, &org, "admin", "admin").await;
        let (user, api) = add_user(&admin, &org, USER_MARK, "member").await;
        let mut victim = Self { api, admin, org, named: BTreeMap::new() };
        victim.named.insert("user", user);
        victim.named.insert("org", victim.org.clone());
        victim.register(root).await;
        victim.work().await;
        victim
    }

    /// What an admin sets up for everyone in the organisation.
    async fn register(&mut self, root: PathBuf) {
        // The second is there for the path that is not registered: see `attack::unknown`.
        let marked = format!("{ORG_MARK}-tree");
        for tree in ["tree-0", "tree-1", &marked] {
            let git = root.join(tree).join(".git");
            fs::create_dir_all(&git).unwrap();
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }
        let root = root.to_str().unwrap();
        let path = format!("{root}/tree-0");
        // Callers send these, and keep what they sent, so there are no marks in them.
        let (repo_name, agent_name, key) = ("repo-0", "agent-0", "key-0");

        let repo = json!({"name": repo_name, "path": path});
        let repo = Reply::to(self.admin.keyed("/api/repos", key, &repo)).await.expect(201);
        let agent = json!({"name": agent_name, "agent": "plain", "collection": ORG_MARK});
        let agent = self.admin.post("/api/agent-contexts", agent).await.expect(201);
        let prompt = json!({"name": format!("{ORG_MARK}-prompt"), "systemPrompt": ORG_MARK});
        let prompt = self.admin.post("/api/conversation-contexts", prompt).await.expect(201);
        let marked = [
            ("repos", json!({"name": ORG_MARK, "path": format!("{root}/{marked}")})),
            ("agent-contexts", json!({"name": ORG_MARK, "agent": "plain", "model": ORG_MARK})),
        ];
        for (list, body) in marked {
            self.admin.post(&format!("/api/{list}"), body).await.expect(201);
        }
        self.named.extend([
            ("repo", repo.text("id")),
            ("repoName", repo_name.to_owned()),
            ("repoPath", path),
            ("agentContext", agent.text("id")),
            ("agentName", agent_name.to_owned()),
            ("conversationContext", prompt.text("id")),
            ("key", key.to_owned()),
        ]);
    }

    /// A private session with a turn, and a token.
    async fn work(&mut self) {
        let name = "name-0";
        let body = json!({
            "name": name,
            "description": SESSION_MARK,
            "key": SESSION_MARK,
            "category": SESSION_MARK,
            "workspaceId": SESSION_MARK,
            "metadata": {"secret": SESSION_MARK},
            "repoId": self.named["repo"],
            "agentContextId": self.named["agentContext"],
            "conversationContextId": self.named["conversationContext"],
        });
        let key = &self.named["key"];
        let session = Reply::to(self.api.keyed("/api/sessions", key, &body)).await.expect(201);
        let session = session.text("id");
        let turn = self.api.prompt(&session, SESSION_MARK).await;
        let finished = self.api.finished(&session, &turn).await;
        assert_eq!(finished["status"]["key"], "completed", "{finished}");
        let payload = finished["fullAgentAnswerUrl"].as_str().unwrap();
        self.api.create(json!({"name": SESSION_MARK, "repo": SESSION_MARK})).await;
        let body = json!({"name": SESSION_MARK, "role": "member"});
        let token = self.api.post("/api/tokens", body).await.expect(201);
        let page = self.api.get("/api/sessions?limit=1").await.expect(200);
        self.named.extend([
            ("cursor", page.text("nextCursor")),
            ("session", session),
            ("sessionName", name.to_owned()),
            ("turn", turn),
            ("payload", payload.rsplit('/').next().unwrap().to_owned()),
            ("token", token.text("id")),
        ]);
    }

    /// Everything of the victim's that an attack could change.
    pub(crate) async fn snapshot(&self) -> Vec<Value> {
        let session = &self.named["session"];
        let mut all = Vec::new();
        for path in [
            "/api/sessions?limit=200".to_owned(),
            format!("/api/sessions/{session}?include=messages,turns,repository"),
            "/api/tokens".to_owned(),
        ] {
            all.push(self.api.get(&path).await.expect(200).json());
        }
        for list in ["users", "repos", "agent-contexts", "conversation-contexts"] {
            all.push(self.admin.get(&format!("/api/{list}?limit=200")).await.expect(200).json());
        }
        all.push(Value::Array(self.api.log(session).await.json()));
        all
    }
}

/// A new user's id, and that user.
pub(crate) async fn add_user(by: &Api, org: &str, name: &str, role: &str) -> (String, Api) {
    let body = json!({"name": name, "role": role});
    let made = by.post(&format!("/api/orgs/{org}/users"), body).await.expect(201);
    (made.text("id"), by.with_token(&made.text("token")))
}
