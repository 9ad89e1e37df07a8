//! A server that knows the scripted agent, and a repository for it to work in.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::follow::Follower;
use crate::{
    arguments::RunArguments,
    client::Connection,
    subject::{Home, Server},
};

/// Programs that the server needs, where its search path must not have bubblewrap.
const PROGRAMS: [&str; 3] = ["sh", "env", "git"];

/// What holds the agents in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walls {
    /// Everything that the machine offers.
    All,
    /// The same without bubblewrap.
    Bare,
}

pub(super) struct Desk {
    pub(super) server: Server,
    pub(super) connection: Connection,
    repo: String,
    /// Kept for as long as agents work in it.
    _workspace: TempDir,
    _home: Home,
}

#[derive(Debug, Deserialize)]
struct Created {
    id: String,
}

impl Desk {
    /// With room for so many agents at once.
    pub(super) async fn start(
        arguments: &RunArguments,
        walls: Walls,
        agents: usize,
    ) -> anyhow::Result<Self> {
        let workspace = tempfile::Builder::new().prefix("work-").tempdir_in(&arguments.data)?;
        let root = workspace.path().canonicalize()?;
        let tree = root.join("web");
        make_repository(&tree)?;
        let command = [scripted_agent(arguments)?];
        let settings = format!(
            "[workspace]\nroot = {root:?}\n\n[sessions]\nmax_active_agents = {agents}\n\n\
             [agents.scripted]\nruntime = \"acp\"\ncommand = {command:?}\n"
        );
        let mut home = Home::on(arguments, &settings)?;
        if walls == Walls::Bare {
            home = home.with_search_path(without_bubblewrap(&root)?);
        }
        let server = Server::start_skein(arguments, &home).await?;
        let mut connection = server.connect().await?;
        let body = json!({"name": "web", "path": tree}).to_string();
        let repo: Created = connection.post_json("/api/repos", body.as_bytes()).await?;
        Ok(Self { server, connection, repo: repo.id, _workspace: workspace, _home: home })
    }

    /// A new session whose agent can be prompted, and how long that took from the 201 on.
    pub(super) async fn open(&mut self) -> anyhow::Result<(Agent, std::time::Duration)> {
        let body = json!({"repoId": self.repo, "agent": "scripted"}).to_string();
        let created: Created = self.connection.post_json("/api/sessions", body.as_bytes()).await?;
        let created_at = Instant::now();
        let path = format!("/api/sessions/{}/events?after=0", created.id);
        let mut events = Follower::open(&self.server, &path).await?;
        loop {
            let event = events.next().await?;
            ensure!(event.kind != "session.failed", "no agent: {}", event.data);
            if event.json()?["data"]["state"] == "active" {
                return Ok((Agent { session: created.id, events }, created_at.elapsed()));
            }
        }
    }

    /// Sends an instruction to an agent.
    pub(super) async fn prompt(&mut self, session: &str, text: &str) -> anyhow::Result<()> {
        let path = format!("/api/sessions/{session}/prompt");
        let body = json!({"text": text}).to_string();
        self.connection.post(&path, body.as_bytes()).await?;
        Ok(())
    }

    /// Ends a session and its agent.
    pub(super) async fn cancel(&mut self, session: &str) -> anyhow::Result<()> {
        self.connection.delete(&format!("/api/sessions/{session}")).await?;
        Ok(())
    }

    /// Everything that the agent said in a session, as its messages tell it.
    pub(super) async fn said(&mut self, session: &str) -> anyhow::Result<String> {
        let path = format!("/api/sessions/{session}/messages");
        let messages: Vec<Value> = serde_json::from_slice(self.connection.get(&path).await?)?;
        let mut said = String::new();
        for message in messages.iter().filter(|message| message["role"] == "agent") {
            let content = &message["content"];
            match (content["text"].as_str(), content["payloadUrl"].as_str()) {
                (Some(text), _) => said.push_str(text),
                (None, Some(url)) => {
                    let text = self.connection.get(url).await?;
                    said.push_str(std::str::from_utf8(text)?);
                }
                (None, None) => {}
            }
        }
        Ok(said)
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        drop(self.connection);
        self.server.stop().await
    }
}

/// A session with an agent, and its log as it grows.
pub(super) struct Agent {
    pub(super) session: String,
    pub(super) events: Follower,
}

/// The absolute path of the agent's program.
pub(super) fn scripted_agent(arguments: &RunArguments) -> anyhow::Result<PathBuf> {
    let path = arguments.scripted_agent.as_ref();
    let path = path.context("the workload `agents` needs --scripted-agent")?;
    path.canonicalize().with_context(|| format!("no agent at {}", path.display()))
}

fn make_repository(tree: &Path) -> anyhow::Result<()> {
    let made = std::process::Command::new("git").args(["init", "-q"]).arg(tree).status()?;
    ensure!(made.success(), "the repository cannot be made");
    Ok(())
}

/// A search path with what the server needs.
fn without_bubblewrap(root: &Path) -> anyhow::Result<PathBuf> {
    let programs = root.join("programs");
    fs::create_dir(&programs)?;
    for program in PROGRAMS {
        let found = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(program));
        let real = found.iter().find(|path| path.exists());
        symlink(real.with_context(|| format!("no {program}"))?, programs.join(program))?;
    }
    Ok(programs)
}
