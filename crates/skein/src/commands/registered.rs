//! The repositories that a server knows, as commands find them: by id, name or place.

use std::path::Path;

use serde_json::{Value, json};

use super::{place::Place, text};
use crate::{
    failure::{Exit, Failure},
    git,
    transport::{Answer, Call, Client, Target},
};

const PAGE: u32 = 200;
/// Whoever has more repositories names one by its id.
const MAX_PAGES: usize = 20;
/// Directories of the same name.
const MAX_NAMES: u32 = 1_000;

/// A repository as the server tells it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Registered(pub(super) Value);

impl Registered {
    pub(super) fn id(&self) -> &str {
        text(&self.0, "id")
    }

    pub(super) fn name(&self) -> &str {
        text(&self.0, "name")
    }

    pub(super) fn path(&self) -> &str {
        text(&self.0, "path")
    }
}

/// All of them, oldest first.
pub(super) async fn list(client: &Client) -> Result<Vec<Registered>, Failure> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let target = Target::new(&["api", "repos"]).query("limit", Some(PAGE));
        let Answer { mut value, .. } =
            client.call(Call::get(target.query("cursor", cursor))).await?;
        if let Value::Array(repos) = value["repos"].take() {
            found.extend(repos.into_iter().map(Registered));
        }
        cursor = value["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}

/// The one that is meant: by its name, id or path, else the one around the current directory.
pub(super) async fn find(client: &Client, named: Option<&str>) -> Result<Registered, Failure> {
    let repos = list(client).await?;
    if let Some(named) = named
        && let Some(repo) = repos.iter().find(|repo| repo.name() == named || repo.id() == named)
    {
        return Ok(repo.clone());
    }
    let root = match named {
        Some(path) => work_tree(Path::new(path)),
        None => Place::here()?.work_tree(),
    };
    if let Some(repo) = root.as_deref().and_then(|root| at(client, &repos, root)) {
        return Ok(repo.clone());
    }
    let what = named.map_or_else(|| "this directory".to_owned(), |named| format!("{named:?}"));
    Err(Failure::new(Exit::NotFound, format!("{what} is no registered repository"))
        .hint("skein index add PATH registers one; skein repo list shows those there are"))
}

/// By its path. Where the server sees other paths, as on another machine, by the name of the directory.
fn at<'a>(client: &Client, repos: &'a [Registered], root: &str) -> Option<&'a Registered> {
    let by_path = repos.iter().find(|repo| repo.path() == root);
    if by_path.is_some() || !client.is_elsewhere() {
        return by_path;
    }
    let name = Path::new(root).file_name()?.to_str()?;
    repos.iter().find(|repo| repo.name() == name)
}

/// The work tree around a path, by its real name.
pub(super) fn work_tree(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    Some(git::work_tree(&real)?.to_str()?.to_owned())
}

/// Registers a path, unless it is registered. A name that is taken gets a number.
pub(super) async fn register(
    client: &Client,
    path: &str,
    name: Option<&str>,
) -> Result<Registered, Failure> {
    if let Some(known) = list(client).await?.into_iter().find(|repo| repo.path() == path) {
        return Ok(known);
    }
    let own_name = || Path::new(path).file_name()?.to_str();
    let name = name.or_else(own_name).unwrap_or("repository");
    for number in 1..=MAX_NAMES {
        let tried = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let call = Call::post(Target::new(&["api", "repos"]), json!({"name": tried, "path": path}));
        match client.open(call).await? {
            Ok(reply) => {
                let value = serde_json::from_slice(&reply.read().await?).unwrap_or_default();
                return Ok(Registered(value));
            }
            Err(refusal) if refusal.code() == "already_exists" => {}
            Err(refusal) => return Err(refusal.failure()),
        }
    }
    Err(Failure::new(Exit::Conflict, format!("all names like {name:?} are taken"))
        .hint("name it with --name"))
}
