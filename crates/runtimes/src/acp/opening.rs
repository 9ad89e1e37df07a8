//! From a command to an agent whose session is open.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol::{
    schema::ProtocolVersion,
    v1::schema::{
        AgentCapabilities, Implementation, InitializeRequest, InitializeResponse,
        LoadSessionRequest, NewSessionRequest, NewSessionResponse, ResumeSessionRequest,
    },
};
use serde_json::Value;
use skein_core::{
    model::FailureCode,
    ports::{RuntimeFailure, StartAgent},
};
use tokio_util::task::TaskTracker;

use super::{
    AcpSettings, AgentHome,
    agent::{AcpAgent, Shared},
    connection::{CallError, Connection, write_lines},
    homes,
    prompting::failure,
    redaction::Redaction,
};

/// Some agents replay history after they have answered. It has ended when nothing came for this long …
const QUIET: Duration = Duration::from_millis(300);
/// … and is not waited for longer than this.
const REPLAY: Duration = Duration::from_secs(5);

/// Agents name their sessions by UUIDs and the like.
const MAX_ID_BYTES: usize = 1_024;

/// Codes for a session that the agent does not know (any more); agents differ.
const LOST_SESSION: [i64; 3] = [-32_002, -32_602, -32_603];

/// What an agent tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Name and version, where it gives them.
    pub name: Option<String>,
    /// What it can do with sessions: `load`, `resume`.
    pub abilities: Vec<&'static str>,
    /// What confinement could not be had.
    pub shortcomings: Vec<String>,
}

/// A process that has been started. Unless its session is opened, it is ended again.
struct Started {
    shared: Arc<Shared>,
    shortcomings: Vec<String>,
    is_open: bool,
}

/// How a session was opened.
struct Opened {
    id: String,
    /// What was lost on the way.
    notice: Option<String>,
}

pub(super) async fn open(
    settings: Arc<AcpSettings>,
    tasks: TaskTracker,
    start: StartAgent,
) -> Result<AcpAgent, RuntimeFailure> {
    if start.stop.is_cancelled() {
        return Err(not_wanted());
    }
    let home = settings.home_of(start.session);
    if let AgentHome::Isolated(homes) = &settings.home {
        homes::note(homes, &start).await;
    }
    let mut started = launch(&settings, tasks, &start.workspace, &home).await?;
    let opened = tokio::select! {
        biased;
        () = start.stop.cancelled() => Err(not_wanted()),
        opened = started.open(&start) => opened,
    };
    let Opened { id, notice } = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            started.end().await;
            return Err(failure);
        }
    };
    let shared = Arc::clone(&started.shared);
    shared.session.get_or_init(|| id.clone());
    started.is_open = true;
    Ok(AcpAgent {
        shared,
        provider_session_id: id,
        shortcomings: std::mem::take(&mut started.shortcomings),
        notice: Mutex::new(notice),
        turn_timeout: settings.timeout,
    })
}

/// Starts an agent, lets it introduce itself and open a session, and ends it.
pub async fn probe(
    settings: AcpSettings,
    workspace: &str,
    home: &Path,
) -> Result<Introduction, RuntimeFailure> {
    let started = launch(&settings, TaskTracker::new(), workspace, home).await?;
    let introduced = started.initialize().await?;
    started.new_session(workspace).await?;
    let capabilities = &introduced.agent_capabilities;
    let abilities = [
        ("load", capabilities.load_session),
        ("resume", capabilities.session_capabilities.resume.is_some()),
    ];
    let name = introduced.agent_info.map(|info| format!("{} {}", info.name, info.version));
    started.shared.put_down().await;
    Ok(Introduction {
        name,
        abilities: abilities.into_iter().filter_map(|(name, can)| can.then_some(name)).collect(),
        shortcomings: started.shortcomings.clone(),
    })
}

async fn launch(
    settings: &AcpSettings,
    tasks: TaskTracker,
    workspace: &str,
    home: &Path,
) -> Result<Started, RuntimeFailure> {
    let caged = settings.launch(workspace, home).await?;
    let (connection, lines) = Connection::new();
    let redaction = Redaction::of(&settings.env);
    let shared = Arc::new(Shared::new((connection, caged.cage), tasks, redaction));
    shared.tasks.spawn(write_lines(caged.stdin, lines));
    shared.tasks.spawn(shared.last_words.clone().listen(caged.stderr));
    shared.tasks.spawn(Arc::clone(&shared).listen(caged.stdout));
    Ok(Started { shared, shortcomings: caged.shortcomings, is_open: false })
}

impl Started {
    async fn open(&self, start: &StartAgent) -> Result<Opened, RuntimeFailure> {
        let introduced = self.initialize().await?;
        self.open_session(&introduced.agent_capabilities, start).await
    }

    /// Ends all of it, and waits for that.
    async fn end(&self) {
        self.shared.cage.kill();
        self.shared.cage.exited().await;
    }

    /// Version and abilities. We offer neither files nor terminals: the operating system confines the agent.
    async fn initialize(&self) -> Result<InitializeResponse, RuntimeFailure> {
        let ourselves = Implementation::new("skein", env!("CARGO_PKG_VERSION"));
        let request = InitializeRequest::new(ProtocolVersion::V1).client_info(ourselves);
        let introduced: InitializeResponse = self.call("initialize", &request).await?;
        if introduced.protocol_version != ProtocolVersion::V1 {
            let version = introduced.protocol_version;
            return Err(RuntimeFailure {
                code: FailureCode::AgentProtocolError,
                message: format!("the agent speaks version {version} of the protocol, not 1"),
            });
        }
        Ok(introduced)
    }

    /// Takes up the session that the agent had, where it can; else begins a new one and says so.
    async fn open_session(
        &self,
        abilities: &AgentCapabilities,
        start: &StartAgent,
    ) -> Result<Opened, RuntimeFailure> {
        let Some(known) = &start.provider_session_id else {
            let id = self.new_session(&start.workspace).await?;
            return Ok(Opened { id, notice: None });
        };
        if self.take_up(abilities, known, &start.workspace).await? {
            return Ok(Opened { id: known.clone(), notice: None });
        }
        let id = self.new_session(&start.workspace).await?;
        let notice = "the agent could not take up its earlier session, and began a new one without what was said before";
        Ok(Opened { id, notice: Some(notice.to_owned()) })
    }

    /// `false` when the agent cannot, or does not know the session any more.
    async fn take_up(
        &self,
        abilities: &AgentCapabilities,
        session: &str,
        workspace: &str,
    ) -> Result<bool, RuntimeFailure> {
        let connection = &self.shared.connection;
        let taken_up = if abilities.session_capabilities.resume.is_some() {
            let request = ResumeSessionRequest::new(session.to_owned(), workspace);
            connection.call::<Value>("session/resume", &request).await
        } else if abilities.load_session {
            let request = LoadSessionRequest::new(session.to_owned(), workspace);
            let loaded = connection.call::<Value>("session/load", &request).await;
            if loaded.is_ok() {
                self.wait_for_replay().await;
            }
            loaded
        } else {
            return Ok(false);
        };
        match taken_up {
            Ok(_) => Ok(true),
            Err(CallError::Refused(refusal)) if LOST_SESSION.contains(&refusal.code) => Ok(false),
            Err(error) => Err(failure(&self.shared, error).await),
        }
    }

    /// What is replayed now must not be taken for an answer to the next prompt.
    async fn wait_for_replay(&self) {
        let quiet = async {
            loop {
                let seen = self.shared.updates_seen();
                tokio::time::sleep(QUIET).await;
                if self.shared.updates_seen() == seen {
                    return;
                }
            }
        };
        drop(tokio::time::timeout(REPLAY, quiet).await);
    }

    async fn new_session(&self, workspace: &str) -> Result<String, RuntimeFailure> {
        let request = NewSessionRequest::new(workspace);
        let opened: NewSessionResponse = self.call("session/new", &request).await?;
        let id = opened.session_id.to_string();
        match unusable(&id) {
            None => Ok(id),
            Some(reason) => Err(RuntimeFailure {
                code: FailureCode::AgentProtocolError,
                message: format!("the agent gave its session a name that {reason}"),
            }),
        }
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl serde::Serialize,
    ) -> Result<T, RuntimeFailure> {
        match self.shared.connection.call(method, params).await {
            Ok(result) => Ok(result),
            Err(error) => Err(failure(&self.shared, error).await),
        }
    }
}

/// What is wrong with an agent's name of its session, which is kept, shown and given back to the agent.
fn unusable(id: &str) -> Option<String> {
    if id.is_empty() {
        return Some("is empty".to_owned());
    }
    if id.len() > MAX_ID_BYTES {
        return Some(format!("has {} bytes, more than {MAX_ID_BYTES}", id.len()));
    }
    id.chars().any(char::is_control).then(|| "has control characters in it".to_owned())
}

fn not_wanted() -> RuntimeFailure {
    let message = "the agent was stopped while it started".to_owned();
    RuntimeFailure { code: FailureCode::Interrupted, message }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.is_open {
            self.shared.cage.kill();
        }
    }
}
