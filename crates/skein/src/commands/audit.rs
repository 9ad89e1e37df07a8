//! `skein audit …`

use serde_json::Value;

use super::{Context, text, with_client};
use crate::{
    cli::AuditCommand,
    failure::{Exit, Failure},
    output,
    transport::{Answer, Call, Target},
};

pub(super) async fn run(context: &Context, command: AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::List { after, limit } => list(context, after, limit).await,
        AuditCommand::Verify { seen } => verify(context, seen).await,
        AuditCommand::Head => head(context).await,
    }
}

async fn list(context: &Context, after: Option<u64>, limit: Option<u32>) -> Result<(), Failure> {
    let target = Target::new(&["api", "audit"]).query("after", after).query("limit", limit);
    let answer = with_client(context, async |client| client.call(Call::get(target)).await).await?;
    context.print(&answer, || print_list(&answer.value))
}

async fn verify(context: &Context, seen: Option<String>) -> Result<(), Failure> {
    let answer = check(context, seen).await?;
    context.print(&answer, || {
        let report = &answer.value;
        output::line(&format!("intact   {}", report["intact"]))?;
        output::line(&format!("unsealed {}", report["unsealed"]))?;
        output::line(&format!("head     {}", shown_head(report).as_deref().unwrap_or("none")))
    })?;
    refuse_broken(&answer.value)
}

async fn head(context: &Context) -> Result<(), Failure> {
    let answer = check(context, None).await?;
    // The head of a log that was tampered with would vouch for it.
    refuse_broken(&answer.value)?;
    let head = shown_head(&answer.value).ok_or_else(|| {
        Failure::new(Exit::Unavailable, "no line of the audit log is sealed yet")
            .hint("a running server seals them within a second")
    })?;
    context.print(&answer, || output::line(&head))
}

async fn check(context: &Context, seen: Option<String>) -> Result<Answer, Failure> {
    let target = Target::new(&["api", "audit", "verify"]).query("seen", seen);
    with_client(context, async |client| client.call(Call::get(target)).await).await
}

fn shown_head(report: &Value) -> Option<String> {
    let head = report["head"].as_object()?;
    Some(format!("{}:{}", head["number"], head["hash"].as_str()?))
}

fn refuse_broken(report: &Value) -> Result<(), Failure> {
    match report["problem"]["message"].as_str() {
        None => Ok(()),
        Some(message) => {
            Err(Failure::new(Exit::Failed, format!("the audit log was tampered with: {message}")))
        }
    }
}

fn print_list(page: &Value) -> Result<(), Failure> {
    let row = |entry: &Value| {
        vec![
            entry["number"].to_string(),
            text(entry, "at").to_owned(),
            text(entry, "actorId").to_owned(),
            text(entry, "action").to_owned(),
            text(entry, "target").to_owned(),
        ]
    };
    let rows: Vec<_> = page["entries"].as_array().into_iter().flatten().map(row).collect();
    output::table(&["number", "at", "actor", "action", "target"], &rows)?;
    if let Some(cursor) = page["nextCursor"].as_str() {
        output::aside(&format!("go on with --after {cursor}"));
    }
    Ok(())
}
