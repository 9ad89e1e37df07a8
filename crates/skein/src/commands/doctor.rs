//! `skein doctor`: looks at everything that a Skein stands on, and changes nothing.

use std::{fs, io::ErrorKind, os::unix::fs::PermissionsExt, path::Path};

use serde::Serialize;
use serde_json::json;
use skein_retrieval::{EmbeddedIndex, embedded::Condition};
use skein_runtimes::confine::{Bubblewrap, Confinement, Launcher, Support};

use super::{Context, Format, index::trust, migrate, up};
use crate::{
    config::{Config, Flags},
    failure::{Exit, Failure},
    home::{Holder, LockState},
    output, providers, retrieval, transport,
};

const MEBIBYTE: u64 = 1024 * 1024;
const LITTLE_SPACE: u64 = 1024 * MEBIBYTE;
const NO_SPACE: u64 = 64 * MEBIBYTE;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Broken,
}

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let mut checks = check_config(context);
    if context.home.path().is_dir() {
        checks.push(check_directory(context));
        checks.push(check_token(context));
        checks.push(check_lock(context).await);
        checks.push(check_schema(context).await);
        checks.push(check_space(context.home.path()));
        checks.push(check_index(context).await);
        checks.extend(check_trusted(context));
    } else {
        let detail = format!("{} does not exist yet", context.home.path().display());
        checks.push(Check::warn("home", detail, "skein serve makes it"));
    }
    checks.extend(check_embeddings(context).await);
    checks.extend(check_git(context));
    checks.extend(check_confinement());
    print(context, &checks)?;
    match checks.iter().filter(|check| check.state == State::Broken).count() {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Failed, "one thing is broken")),
        count => Err(Failure::new(Exit::Failed, format!("{count} things are broken"))),
    }
}

fn check_config(context: &Context) -> Vec<Check> {
    let loaded = Config::load(context.home.path(), &context.environment, &Flags::default());
    let config = match loaded.and_then(|config| config.check().map(|()| config)) {
        Ok(config) => config,
        Err(problem) => {
            let remedy = problem.hint.clone().unwrap_or_else(|| "correct the setting".to_owned());
            return vec![Check::broken("config", problem.to_string(), remedy)];
        }
    };
    let file = match config.file.exists() {
        true => config.file.display().to_string(),
        false => "built-in settings; there is no config.toml".to_owned(),
    };
    let mut checks = vec![Check::ok("config", file)];
    for section in config.unused_sections() {
        let detail = format!("[{section}] is not used by this version");
        checks.push(Check::warn("config", detail, "it may stay for a later one"));
    }
    checks.extend(check_providers(&config));
    checks.extend(check_root(&config));
    checks
}

fn check_providers(config: &Config) -> Vec<Check> {
    let missing = config.settings.providers.iter().filter_map(|(name, provider)| {
        let key = providers::key_variable(name, provider)?;
        config.environment.get(&key).is_none().then(|| {
            let detail = format!("{name}: {key} is not set here");
            let remedy =
                format!("export {key} before the server is started, or remove [providers.{name}]");
            Check::warn("provider", detail, remedy)
        })
    });
    missing.collect()
}

fn check_root(config: &Config) -> Option<Check> {
    let root = config.settings.workspace.root.as_deref()?;
    // Each organisation's directory is below this one.
    let common = root.split("{org}").next().unwrap_or(root);
    Some(match Path::new(common).is_dir() {
        true => Check::ok("workspace", root.to_owned()),
        false => Check::warn(
            "workspace",
            format!("{root} is not a directory"),
            "make or mount it, or change [workspace] root: nothing can be registered there",
        ),
    })
}

/// Wherever passages are kept.
async fn check_index(context: &Context) -> Check {
    match context.load_config() {
        Ok(config) if !config.settings.retrieval.is_embedded() => {
            check_qdrant(context, &config).await
        }
        _ => check_index_file(context),
    }
}

async fn check_qdrant(context: &Context, config: &Config) -> Check {
    let collection = &config.settings.retrieval.collection;
    let key = config.settings.retrieval.key_env.as_deref();
    if let Some(key) = key.filter(|key| config.environment.get(key).is_none()) {
        let remedy = format!("export {key} before the server is started");
        return Check::warn("index", format!("Qdrant: {key} is not set here"), remedy);
    }
    let probed = match retrieval::qdrant(&context.home, config, None) {
        Ok(index) => index.probe().await.map_err(|error| causes(&error)),
        Err(failure) => Err(failure.causes().join(": ")),
    };
    match probed {
        Ok(Some(points)) => {
            Check::ok("index", format!("Qdrant, collection {collection:?} with {points} points"))
        }
        Ok(None) => {
            let remedy = "skein index add PATH makes it";
            Check::warn("index", format!("Qdrant has no collection {collection:?} yet"), remedy)
        }
        Err(why) => Check::broken(
            "index",
            why,
            "start Qdrant or correct [retrieval] url; turns go on without passages meanwhile",
        ),
    }
}

/// Only looks: opening the index would bring it to this version, or make it anew.
fn check_index_file(context: &Context) -> Check {
    let file = context.home.index_file();
    let place = file.display();
    match fs::File::open(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let remedy = "skein index add PATH makes it";
            return Check::warn("index", "nothing is indexed yet".to_owned(), remedy);
        }
        Err(error) => {
            return Check::broken("index", format!("{place}: {error}"), "check who owns it");
        }
        Ok(_) => {}
    }
    match EmbeddedIndex::examine(&file) {
        Ok(Condition::Whole) => Check::ok("index", place.to_string()),
        Ok(Condition::Damaged(why)) => Check::broken(
            "index",
            format!("{place} is damaged: {why}"),
            "remove it; it is made anew: stop the server, remove the file, and run skein index update",
        ),
        Err(error) => Check::broken("index", causes(&error), "check who owns it"),
    }
}

/// Without vectors passages are found by their words, so nothing of this is broken.
async fn check_embeddings(context: &Context) -> Option<Check> {
    let config = context.load_config().ok()?;
    let embeddings = config.settings.retrieval.embeddings.as_ref()?;
    let model = &embeddings.model;
    if let Some(key) = embeddings.key_env.as_deref()
        && config.environment.get(key).is_none()
    {
        let detail = format!("{model}: {key} is not set here");
        let remedy = format!("export {key} before the server is started");
        return Some(Check::warn("embeddings", detail, remedy));
    }
    Some(match retrieval::probe(&config, embeddings).await {
        Ok(dimensions) => {
            Check::ok("embeddings", format!("{model} gives vectors of {dimensions} dimensions"))
        }
        Err(error) => {
            let detail = format!("{model}: {}", causes(&error));
            let remedy = "passages are found by their words meanwhile; check [retrieval.embeddings] and the endpoint";
            Check::warn("embeddings", detail, remedy)
        }
    })
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn check_trusted(context: &Context) -> Vec<Check> {
    let file = context.home.trusted_file();
    let listed = match trust::trusted(&context.home) {
        Ok(listed) => listed,
        Err(error) => {
            let detail = format!("{}: {error}", file.display());
            return vec![Check::broken("trusted", detail, "check who owns it")];
        }
    };
    let gone = listed.iter().filter(|root| !trust::is_there(root)).map(|root| {
        let remedy = format!("remove the line from {}", file.display());
        Check::warn("trusted", format!("{root} is no Git work tree any more"), remedy)
    });
    gone.collect()
}

fn check_git(context: &Context) -> Option<Check> {
    (!up::is_in_path(&context.environment, "git")).then(|| {
        let detail = "git is not installed".to_owned();
        let remedy =
            "install it: without it modified files are not sent and commits cannot be indexed";
        Check::warn("git", detail, remedy)
    })
}

fn check_directory(context: &Context) -> Check {
    let path = context.home.path();
    match fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777) {
        Ok(mode) if mode & 0o077 == 0 => Check::ok("home", path.display().to_string()),
        Ok(mode) => {
            let detail = format!("{} is open to others (mode {mode:o})", path.display());
            Check::warn("home", detail, format!("chmod 700 {}", path.display()))
        }
        Err(error) => Check::broken("home", error.to_string(), "check who owns the directory"),
    }
}

fn check_token(context: &Context) -> Check {
    let file = context.home.token_file();
    let place = file.display();
    let Ok(metadata) = fs::metadata(&file) else {
        let detail = format!("{place} is not there");
        return Check::warn("token", detail, "start the server: it leaves a new token there");
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let detail = format!("{place} can be read by others (mode {mode:o})");
        let remedy = format!("chmod 600 {place}; if others use this machine, revoke the token too");
        return Check::broken("token", detail, remedy);
    }
    match context.home.read_token() {
        Ok(Some(_)) => Check::ok("token", place.to_string()),
        Ok(None) => Check::warn(
            "token",
            format!("{place} is empty"),
            "remove it and restart the server: it leaves a new token there",
        ),
        Err(error) => Check::broken("token", format!("{place}: {error}"), "check who owns it"),
    }
}

async fn check_lock(context: &Context) -> Check {
    let holder = match context.home.lock_state() {
        Ok(LockState::Free) => return Check::ok("server", "none is running".to_owned()),
        Ok(LockState::Held(holder)) => holder,
        Err(error) => {
            return Check::broken("server", error.to_string(), "check who owns the lock file");
        }
    };
    let pid = holder.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
    let Holder { url: Some(url), .. } = holder else {
        let detail = format!("process {pid} works on this home and is no server (yet)");
        return Check::warn("server", detail, "look again when it has ended");
    };
    match transport::is_ready(&url).await {
        Ok(true) => Check::ok("server", format!("{url} is ready, process {pid}")),
        Ok(false) => Check::warn(
            "server",
            format!("{url} answers, but takes no work, process {pid}"),
            "it may be shutting down, or its disk may be full: see its log",
        ),
        Err(error) => Check::broken(
            "server",
            format!("{url} does not answer, process {pid}: {}", error.without_url()),
            format!("if it hangs, end process {pid} and start the server again"),
        ),
    }
}

async fn check_schema(context: &Context) -> Check {
    let Ok(config) = context.load_config() else {
        let remedy = "correct the settings first";
        return Check::warn("schema", "not known without usable settings".to_owned(), remedy);
    };
    let schema = migrate::Schema::of(&context.home, &config);
    let status = match schema.status().await {
        Ok(status) => status,
        Err(failure) => {
            let causes = failure.causes().join(": ");
            let remedy = failure.hint.unwrap_or_else(|| "check the database".to_owned());
            return Check::broken("schema", causes, remedy);
        }
    };
    let newest = schema.newest();
    let applied = status.iter().filter(|step| step.applied_at.is_some());
    let current = applied.map(|step| step.version).max().unwrap_or_default();
    match current.cmp(&newest) {
        std::cmp::Ordering::Equal => Check::ok("schema", format!("version {current}")),
        std::cmp::Ordering::Less => Check::warn(
            "schema",
            format!("version {current}; this program wants {newest}"),
            "skein migrate up, or start the server: it does the same",
        ),
        std::cmp::Ordering::Greater => Check::broken(
            "schema",
            format!("version {current}; this program knows only {newest}"),
            format!("use the newer skein, or let it go back: skein migrate down --to {newest}"),
        ),
    }
}

fn check_space(path: &Path) -> Check {
    let free = match rustix::fs::statvfs(path) {
        Ok(space) => space.f_bavail.saturating_mul(space.f_frsize),
        Err(error) => {
            return Check::broken("disk", error.to_string(), "check the disk of the home");
        }
    };
    let detail = format!("{} MiB are free", free / MEBIBYTE);
    match free {
        0..NO_SPACE => Check::broken("disk", detail, "free some space"),
        NO_SPACE..LITTLE_SPACE => Check::warn("disk", detail, "free some space soon"),
        LITTLE_SPACE.. => Check::ok("disk", detail),
    }
}

/// What holds agent processes in, and what is missing for it.
fn check_confinement() -> Vec<Check> {
    const NAME: &str = "confinement";
    let launcher = match Launcher::find() {
        Ok(launcher) => launcher,
        Err(error) => {
            let remedy = "start skein by its path";
            return vec![Check::warn(NAME, format!("skein does not find itself: {error}"), remedy)];
        }
    };
    let support = Support::of(&launcher);
    let shortcomings = Confinement::new(launcher).inspect();
    let warn = |detail| Check::warn(NAME, detail, support.remedy());
    let mut checks: Vec<_> = shortcomings.into_iter().map(warn).collect();
    if let Bubblewrap::Works { version, .. } = &support.bubblewrap {
        checks.push(Check::ok(NAME, format!("bubblewrap {version}")));
    }
    if let Some(version) = support.landlock {
        checks.push(Check::ok(NAME, format!("Landlock, version {version}")));
    }
    checks
}

impl Check {
    fn ok(name: &'static str, detail: String) -> Self {
        Self { name, state: State::Ok, detail, remedy: None }
    }

    fn warn(name: &'static str, detail: String, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Warn, detail, remedy: Some(remedy.into()) }
    }

    fn broken(name: &'static str, detail: String, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Broken, detail, remedy: Some(remedy.into()) }
    }
}

fn print(context: &Context, checks: &[Check]) -> Result<(), Failure> {
    match context.format {
        Format::Json => output::line(&json!({"checks": checks}).to_string()),
        Format::Text => {
            let row = |check: &Check| {
                let state = match check.state {
                    State::Ok => "ok",
                    State::Warn => "warn",
                    State::Broken => "broken",
                };
                let remedy = check.remedy.clone().unwrap_or_default();
                vec![state.to_owned(), check.name.to_owned(), check.detail.clone(), remedy]
            };
            let rows: Vec<_> = checks.iter().map(row).collect();
            output::table(&["state", "what", "found", "to do"], &rows)
        }
    }
}
