//! `skein repo …`

use std::path::Path;

use serde_json::{Value, json};
use skein_core::ports::Clock;

use super::{Context, more, text, with_client};
use crate::{
    cli::RepoCommand,
    failure::{Exit, Failure},
    output,
    system::System,
    transport::{Call, Target},
};

pub(super) async fn run(context: &Context, command: RepoCommand) -> Result<(), Failure> {
    match command {
        RepoCommand::Add { path, name } => add(context, &path, name).await,
        RepoCommand::List { limit, cursor } => {
            list(context, repos().query("limit", limit).query("cursor", cursor)).await
        }
    }
}

/// The path is meant as the person sees it: from the directory they are in.
async fn add(context: &Context, path: &Path, name: Option<String>) -> Result<(), Failure> {
    let unusable = || Failure::new(Exit::Usage, format!("{path:?} is not a usable path"));
    let absolute = std::path::absolute(path).map_err(|error| unusable().because(error))?;
    let last = || Some(absolute.file_name()?.to_str()?.to_owned());
    let name = name.or_else(last).ok_or_else(|| {
        Failure::new(Exit::Usage, "this directory gives no name").hint("name it with --name")
    })?;
    let body = json!({"name": name, "path": absolute.to_str().ok_or_else(unusable)?});
    let call = Call::post(repos(), body);
    let answer = with_client(context, async |client| client.call(call).await).await?;
    context.print(&answer, || output::line(text(&answer.value, "id")))
}

async fn list(context: &Context, target: Target) -> Result<(), Failure> {
    let answer = with_client(context, async |client| client.call(Call::get(target)).await).await?;
    context.print(&answer, || print_list(&answer.value))
}

fn repos() -> Target {
    Target::new(&["api", "repos"])
}

fn print_list(page: &Value) -> Result<(), Failure> {
    let now = System.now();
    let row = |repo: &Value| {
        vec![
            text(repo, "id").to_owned(),
            output::time(text(repo, "createdAt"), now),
            text(repo, "name").to_owned(),
            text(repo, "path").to_owned(),
        ]
    };
    let rows: Vec<_> = page["repos"].as_array().into_iter().flatten().map(row).collect();
    output::table(&["id", "created", "name", "path"], &rows)?;
    more(page);
    Ok(())
}
