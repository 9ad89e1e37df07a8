//! `skein index …`

pub(super) mod progress;
pub(super) mod trust;

use std::path::Path;

use serde_json::{Value, json};
use skein_core::ports::Clock;

use super::{
    Context, Format,
    registered::{self, Registered},
    text, with_client,
};
use crate::{
    cli::{IndexCommand, IndexSearch},
    failure::{Exit, Failure},
    output,
    system::System,
    transport::{Call, Client, Target},
};
use progress::Progress;

pub(super) async fn run(context: &Context, command: IndexCommand) -> Result<(), Failure> {
    match command {
        IndexCommand::Add { path, name } => add(context, &path, name.as_deref()).await,
        IndexCommand::Update { repo, commit } => {
            with_client(context, async |client| {
                let repo = registered::find(client, repo.as_deref()).await?;
                bring_up(context, client, &repo, commit.as_deref()).await
            })
            .await
        }
        IndexCommand::Status { repo } => status(context, repo.as_deref()).await,
        IndexCommand::Search(search) => find(context, search).await,
        IndexCommand::Remove { repo } => remove(context, repo.as_deref()).await,
    }
}

/// Whoever can write into the home vouches for what they name. Another server decides for itself.
async fn add(context: &Context, path: &Path, name: Option<&str>) -> Result<(), Failure> {
    let path = match context.environment.get("SKEIN_URL") {
        Some(_) => elsewhere(path)?,
        None => {
            let root = here(path)?;
            trust::trust(&context.home, &root)?;
            root
        }
    };
    with_client(context, async |client| {
        let repo = registered::register(client, &path, name).await?;
        bring_up(context, client, &repo, None).await
    })
    .await
}

/// The root of the work tree around a path of this machine.
fn here(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let real = path.canonicalize().map_err(|error| {
        Failure::new(Exit::Usage, format!("{shown} cannot be read")).because(error)
    })?;
    // Here, so that a directory that cannot be read says so.
    std::fs::read_dir(&real).map_err(|error| {
        Failure::new(Exit::Usage, format!("{shown} cannot be read")).because(error)
    })?;
    registered::work_tree(&real).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{shown} is not in a Git work tree"))
            .hint("name the directory of a repository; git init makes one")
    })
}

/// A path of another machine is what it is there; one that is here too is told by its work tree.
fn elsewhere(path: &Path) -> Result<String, Failure> {
    if let Some(root) = registered::work_tree(path) {
        return Ok(root);
    }
    let unusable = || Failure::new(Exit::Usage, format!("{path:?} is not a usable path"));
    let absolute = std::path::absolute(path).map_err(|error| unusable().because(error))?;
    absolute.to_str().map(str::to_owned).ok_or_else(unusable)
}

/// Runs to the end, and says what is there then: the repository and its index in one body.
async fn bring_up(
    context: &Context,
    client: &Client,
    repo: &Registered,
    commit: Option<&str>,
) -> Result<(), Failure> {
    let status = progress::run(client, repo, commit, Progress::new(repo.name())).await?;
    match context.format {
        Format::Json => output::line(&together(repo, &status).to_string())?,
        Format::Text if status["state"] == "ready" => {
            output::line(&format!("{}: {}", repo.name(), progress::summary(&status)))?;
        }
        Format::Text => {}
    }
    progress::check(repo, &status)
}

async fn status(context: &Context, named: Option<&str>) -> Result<(), Failure> {
    let (repos, is_one) = with_client(context, async |client| {
        let (repos, is_one) = match registered::find(client, named).await {
            Ok(repo) => (vec![repo], true),
            Err(failure) if named.is_some() || failure.exit != Exit::NotFound => {
                return Err(failure);
            }
            Err(_) => (registered::list(client).await?, false),
        };
        let mut told = Vec::with_capacity(repos.len());
        for repo in repos {
            let target = Target::new(&["api", "repos", repo.id(), "index"]);
            let status = client.call(Call::get(target)).await?.value;
            told.push(together(&repo, &status));
        }
        Ok((told, is_one))
    })
    .await?;
    match (context.format, repos.as_slice()) {
        (Format::Json, [repo]) if is_one => output::line(&repo.to_string()),
        (Format::Json, repos) => output::line(&json!({"repos": repos}).to_string()),
        (Format::Text, []) => {
            output::aside("no repository is registered; skein index add PATH does that");
            Ok(())
        }
        (Format::Text, repos) => print_states(repos),
    }
}

fn print_states(repos: &[Value]) -> Result<(), Failure> {
    let now = System.now();
    let row = |repo: &Value| {
        let about = match repo["state"].as_str() {
            Some("failed") => text(repo, "error").to_owned(),
            _ => progress::summary(repo),
        };
        vec![
            text(repo, "name").to_owned(),
            text(repo, "state").to_owned(),
            output::time(text(repo, "updatedAt"), now),
            about,
            text(repo, "path").to_owned(),
        ]
    };
    let rows: Vec<_> = repos.iter().map(row).collect();
    output::table(&["name", "state", "updated", "index", "path"], &rows)
}

async fn find(context: &Context, search: IndexSearch) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let repo = registered::find(client, search.repo.as_deref()).await?;
        let target = Target::new(&["api", "repos", repo.id(), "search"])
            .query("q", Some(search.text.join(" ")))
            .query("path", search.path)
            .query("language", search.language)
            .query("limit", search.limit);
        client.call(Call::get(target)).await
    })
    .await?;
    context.print(&answer, || {
        let found = answer.value["results"].as_array().map(Vec::as_slice).unwrap_or_default();
        if found.is_empty() {
            output::aside("nothing found");
        }
        found.iter().try_for_each(print_passage)
    })
}

/// Where it is, what it defines, how good it is, and the text.
fn print_passage(passage: &Value) -> Result<(), Failure> {
    let lines = format!("{}-{}", passage["startLine"], passage["endLine"]);
    let score = passage["score"].as_f64().unwrap_or_default();
    let symbol = passage["symbol"].as_str().map(|symbol| format!("  {symbol}")).unwrap_or_default();
    let head = format!("{}:{lines}{symbol}  {score:.3}", text(passage, "path"));
    output::line(&output::printable(&head))?;
    let body = text(passage, "text");
    output::prose(&format!("{}\n\n", body.trim_end_matches('\n')))
}

async fn remove(context: &Context, named: Option<&str>) -> Result<(), Failure> {
    let repo = with_client(context, async |client| {
        let repo = registered::find(client, named).await?;
        let target = Target::new(&["api", "repos", repo.id(), "index"]);
        client.call(Call::delete(target)).await?;
        Ok(repo)
    })
    .await?;
    output::aside(&format!(
        "the index of {} is gone; skein index update makes it again",
        repo.name()
    ));
    Ok(())
}

/// The repository with where its index stands.
fn together(repo: &Registered, status: &Value) -> Value {
    let mut body = repo.0.clone();
    if let (Some(body), Some(status)) = (body.as_object_mut(), status.as_object()) {
        body.extend(status.iter().map(|(field, value)| (field.clone(), value.clone())));
    }
    body
}
