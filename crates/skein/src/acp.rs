//! From `[agents]` with the runtime `acp` to what starts them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use skein_core::{model::Scope, platform::Platform, policy::permission::PermissionPolicy};
use skein_runtimes::{
    acp::{
        Acp, AcpSettings, AgentHome, Preset,
        homes::{self, Kept},
    },
    confine::{self, Confinement, Launcher, ProcessLimits},
};

pub(crate) use skein_runtimes::acp::preset;

use crate::{
    config::{
        AgentSettings, Config, ConfinementChoice, HomeChoice, NetworkChoice, PermissionChoice,
        Runtime, Settings,
    },
    failure::{Exit, Failure},
    home::Home,
};

const MEBIBYTE: u64 = 1024 * 1024;

/// The runtime of a configured agent.
pub(crate) fn open(
    home: &Home,
    config: &Config,
    (name, agent): (&str, &AgentSettings),
) -> Result<Acp, Failure> {
    settings(home, config, (name, agent)).map(Acp::new)
}

/// How a configured agent is run.
pub(crate) fn settings(
    home: &Home,
    config: &Config,
    (name, agent): (&str, &AgentSettings),
) -> Result<AcpSettings, Failure> {
    let known = preset(name);
    let mut env = agent.env.clone();
    if let Some(variable) = known.and_then(|known| known.key_env)
        && let Some(key) = config.environment.get(variable)
    {
        env.entry(variable.to_owned()).or_insert_with(|| key.to_owned());
    }
    let minutes = |minutes: f64| Duration::from_secs_f64(minutes * 60.0);
    Ok(AcpSettings {
        command: command(agent, known),
        env,
        confinement: confinement(home, agent)?,
        home: agent_home(home, config, agent),
        permissions: policy(agent.permissions.unwrap_or_default()),
        repository_permissions: agent
            .repository_permissions
            .iter()
            .map(|(repository, choice)| (repository.clone(), policy(*choice)))
            .collect(),
        permission_timeout: agent.permission_timeout_minutes.map(minutes),
        timeout: minutes(agent.timeout_minutes.unwrap_or(DEFAULT_TIMEOUT_MINUTES)),
    })
}

/// For one turn of an agent that has a whole task to do.
const DEFAULT_TIMEOUT_MINUTES: f64 = 60.0;

/// The configured command, or the one that is known for the name.
pub(crate) fn command(agent: &AgentSettings, known: Option<&Preset>) -> Vec<String> {
    match (agent.command.is_empty(), known) {
        (true, Some(known)) => known.command.iter().map(|word| (*word).to_owned()).collect(),
        _ => agent.command.clone(),
    }
}

/// Who works in repositories when nobody is named: `gemini`, or the first one there is.
pub(crate) fn for_repositories(settings: &Settings) -> Option<&str> {
    let is_acp =
        |(name, agent): &(&String, &AgentSettings)| agent.runtime_of(name) == Some(Runtime::Acp);
    let mut names = settings.agents.iter().filter(is_acp).map(|(name, _)| name.as_str());
    let first = names.clone().next();
    names.find(|name| *name == "gemini").or(first)
}

/// Removes the homes of sessions that have ended or are not in the store: a crash can leave them behind.
pub(crate) async fn sweep_homes(platform: Arc<Platform>, homes: PathBuf) {
    let kept = match homes::list(&homes, SWEPT_AT_MOST).await {
        Ok(kept) => kept,
        Err(error) => return tracing::warn!(%error, "the homes of agents cannot be listed"),
    };
    for Kept { session, org, owner } in kept {
        let scope = Scope::on_behalf_of(org, owner);
        match platform.store.find_session(&scope, session).await {
            Ok(Some(record)) if !record.session.state.name().is_final() => {}
            Ok(_) => homes::remove(&homes, session).await,
            Err(error) => return tracing::warn!(%error, "the homes of agents cannot be swept"),
        }
    }
}

/// The next start takes the rest.
const SWEPT_AT_MOST: usize = 10_000;

fn confinement(home: &Home, agent: &AgentSettings) -> Result<Confinement, Failure> {
    let launcher = Launcher::find().map_err(|error| {
        Failure::new(Exit::Unavailable, "the program that runs cannot be found").because(error)
    })?;
    Ok(Confinement {
        requirement: match agent.confinement.unwrap_or_default() {
            ConfinementChoice::Prefer => confine::Requirement::Prefer,
            ConfinementChoice::Require => confine::Requirement::Require,
        },
        network: match agent.network.unwrap_or_default() {
            NetworkChoice::Allow => confine::Network::Allow,
            NetworkChoice::Deny => confine::Network::Deny,
        },
        read_paths: agent.read_paths.iter().map(PathBuf::from).collect(),
        hidden: vec![home.path().to_owned()],
        limits: ProcessLimits {
            memory_bytes: Some(
                agent.memory_mib.unwrap_or(DEFAULT_MEMORY_MIB).saturating_mul(MEBIBYTE),
            ),
            cpu_seconds: agent.cpu_seconds,
            open_files: Some(agent.open_files.unwrap_or(DEFAULT_OPEN_FILES)),
            processes: agent.processes,
        },
        ..Confinement::new(launcher)
    })
}

/// Agents on Bun do not start with half of it: they set more aside than they use.
const DEFAULT_MEMORY_MIB: u64 = 8_192;
/// More than any agent was seen to need, less than one that loses them would take.
const DEFAULT_OPEN_FILES: u64 = 4_096;

fn agent_home(home: &Home, config: &Config, agent: &AgentSettings) -> AgentHome {
    match (agent.home.unwrap_or_default(), config.environment.get("HOME")) {
        (HomeChoice::User, Some(user)) => AgentHome::User(PathBuf::from(user)),
        _ => AgentHome::Isolated(home.agent_homes()),
    }
}

fn policy(choice: PermissionChoice) -> PermissionPolicy {
    match choice {
        PermissionChoice::Ask => PermissionPolicy::Ask,
        PermissionChoice::AllowReads => PermissionPolicy::AllowReads,
        PermissionChoice::AllowAll => PermissionPolicy::AllowAll,
    }
}
