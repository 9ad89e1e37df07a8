//! `skein session …`

use serde_json::{Map, Value, json};
use skein_core::ports::Clock;

use super::{Context, Format, ids, permit, registered, text, watch, with_client};
use crate::{
    cli::{SessionCommand, SessionList, SessionNew},
    failure::{Exit, Failure},
    output,
    system::System,
    transport::{Call, Target},
};

pub(super) async fn run(context: &Context, command: SessionCommand) -> Result<(), Failure> {
    match command {
        SessionCommand::List(filter) => list(context, filter).await,
        SessionCommand::Show { id, include } => show(context, &id, include).await,
        SessionCommand::New(new) => create(context, new).await,
        SessionCommand::Cancel { id, reason } => cancel(context, &id, reason).await,
        SessionCommand::Delete { id, yes } => delete(context, &id, yes).await,
        SessionCommand::Permit(permit) => permit::run(context, permit).await,
        SessionCommand::Watch { id, after } => watch::run(context, &id, after).await,
    }
}

pub(super) async fn list(context: &Context, filter: SessionList) -> Result<(), Failure> {
    let target = Target::new(&["api", "sessions"])
        .query("status", filter.status)
        .query("state", filter.state)
        .query("agent", filter.agent)
        .query("interface", filter.interface)
        .query("q", filter.search)
        .query("limit", filter.limit)
        .query("cursor", filter.cursor);
    let answer = with_client(context, async |client| client.call(Call::get(target)).await).await?;
    context.print(&answer, || print_list(&answer.value))
}

async fn show(context: &Context, id: &str, include: Option<String>) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let id = ids::session(client, id).await?;
        client.call(Call::get(session(&id).query("include", include))).await
    })
    .await?;
    context.print(&answer, || print_session(&answer.value))
}

async fn create(context: &Context, new: SessionNew) -> Result<(), Failure> {
    let repo = new.repo.clone();
    let mut body = new_body(new)?;
    let answer = with_client(context, async |client| {
        if let Some(named) = &repo {
            let found = registered::find(client, Some(named)).await?;
            body["repoId"] = found.id().into();
        }
        client.call(Call::post(Target::new(&["api", "sessions"]), body.clone())).await
    })
    .await?;
    context.print(&answer, || output::line(text(&answer.value, "id")))
}

async fn cancel(context: &Context, id: &str, reason: Option<String>) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let id = ids::session(client, id).await?;
        client.call(Call::delete(session(&id).query("reason", reason))).await
    })
    .await?;
    context.print(&answer, || {
        output::line(&format!("{} {}", text(&answer.value, "id"), text(&answer.value, "state")))
    })
}

async fn delete(context: &Context, id: &str, yes: bool) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let id = ids::session(client, id).await?;
        let ask = !yes && context.format == Format::Text;
        if ask && !output::confirm(&format!("remove session {id} and its history for good?"))? {
            return Err(Failure::new(Exit::Failed, "nothing was removed"));
        }
        let answer = client.call(Call::delete(session(&id).query("purge", Some(true)))).await?;
        Ok((id, answer))
    })
    .await?;
    let (id, answer) = answer;
    if answer.raw.is_empty() && context.format == Format::Json {
        return Ok(());
    }
    context.print(&answer, || output::line(&format!("{id} removed")))
}

fn session(id: &str) -> Target {
    Target::new(&["api", "sessions", id])
}

fn new_body(new: SessionNew) -> Result<Value, Failure> {
    let mut body = Map::from_iter([("interface".to_owned(), json!("cli"))]);
    let texts = [
        ("agent", new.agent),
        ("name", new.name),
        ("key", new.key),
        ("description", new.description),
        ("category", new.category),
    ];
    for (field, value) in texts {
        if let Some(value) = value {
            body.insert(field.to_owned(), value.into());
        }
    }
    if new.public {
        body.insert("isPublic".to_owned(), true.into());
    }
    if let Some(metadata) = new.metadata {
        let metadata: Map<String, Value> = serde_json::from_str(&metadata).map_err(|error| {
            Failure::new(Exit::Usage, "--metadata is not a JSON object").because(error)
        })?;
        body.insert("metadata".to_owned(), metadata.into());
    }
    Ok(body.into())
}

fn print_list(page: &Value) -> Result<(), Failure> {
    let now = System.now();
    let sessions = page["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |session: &Value| {
        vec![
            text(session, "id").to_owned(),
            text(session, "state").to_owned(),
            text(session, "agentContextName").to_owned(),
            session["turnCount"].to_string(),
            output::time(text(session, "lastActiveAt"), now),
            text(session, "name").to_owned(),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    if rows.is_empty() {
        output::note("no sessions; open one with: skein session new");
        return Ok(());
    }
    output::table(&["id", "state", "agent", "turns", "active", "name"], &rows)?;
    if let Some(cursor) = page["nextCursor"].as_str() {
        output::aside(&format!("{} in all; go on with --cursor {cursor}", page["total"]));
    }
    Ok(())
}

fn print_session(session: &Value) -> Result<(), Failure> {
    let now = System.now();
    let facts = [
        ("id", text(session, "id").to_owned()),
        ("name", text(session, "name").to_owned()),
        ("state", text(session, "state").to_owned()),
        ("agent", text(session, "agentContextName").to_owned()),
        ("owner", text(&session["ownerUser"], "text").to_owned()),
        ("turns", session["turnCount"].to_string()),
        ("created", output::time(text(session, "createdAt"), now)),
        ("active", output::time(text(session, "lastActiveAt"), now)),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        output::line(&format!("{name:<8} {}", output::printable(value)))?;
    }
    for message in session["messages"].as_array().into_iter().flatten() {
        print_message(message)?;
    }
    Ok(())
}

fn print_message(message: &Value) -> Result<(), Failure> {
    let content = &message["content"];
    let said = match text(content, "type") {
        "text" => match content["text"].as_str() {
            Some(said) => output::printable_lines(said),
            None => format!("(long text: {})", text(content, "payloadUrl")),
        },
        "error" => output::printable_lines(text(content, "message")),
        "status" => output::printable(text(content, "reason")),
        _ => output::printable(&content.to_string()),
    };
    output::line(&format!("\n{}: {said}", text(message, "role")))
}
