//! `skein turn …`

use serde_json::Value;
use skein_core::{model::TurnId, ports::Clock};

use super::{Context, ids, text, with_client};
use crate::{
    cli::TurnCommand,
    failure::{Exit, Failure},
    output,
    system::System,
    transport::{Call, Client, Target},
};

/// An id by its beginning is looked for among this many of the newest turns.
const SEARCHED_TURNS: u32 = 200;

pub(super) async fn run(context: &Context, command: TurnCommand) -> Result<(), Failure> {
    match command {
        TurnCommand::List { session, limit, before, after } => {
            let answer = with_client(context, async |client| {
                let session = ids::session(client, &session).await?;
                let target = turns(&session)
                    .query("limit", limit)
                    .query("before", before)
                    .query("after", after);
                client.call(Call::get(target)).await
            })
            .await?;
            context.print(&answer, || print_list(&answer.value))
        }
        TurnCommand::Show { session, turn } => show(context, &session, &turn).await,
    }
}

async fn show(context: &Context, session: &str, turn: &str) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let session = ids::session(client, session).await?;
        let turn = resolve(client, &session, turn).await?;
        client.call(Call::get(Target::new(&["api", "sessions", &session, "turns", &turn]))).await
    })
    .await?;
    context.print(&answer, || print_turn(&answer.value))?;
    match text(&answer.value["status"], "key") {
        "failed" => Err(Failure::new(Exit::Failed, failed(&answer.value))),
        _ => Ok(()),
    }
}

/// A turn by number, by id, by the beginning of one, or `last`.
async fn resolve(client: &Client, session: &str, turn: &str) -> Result<String, Failure> {
    if turn == "last" || turn.parse::<TurnId>().is_ok() {
        return Ok(turn.to_owned());
    }
    // Ids of our time begin with a zero, numbers do not.
    if let Ok(number) = turn.parse::<u32>()
        && !turn.starts_with('0')
    {
        return by_number(client, session, number).await;
    }
    let newest =
        turns(session).query("limit", Some(SEARCHED_TURNS)).query("before", Some(u32::MAX));
    let answer = client.call(Call::get(newest)).await?;
    ids::among("turn", &answer.value["turns"], turn)
}

async fn by_number(client: &Client, session: &str, number: u32) -> Result<String, Failure> {
    let page = turns(session).query("after", Some(number - 1)).query("limit", Some(1));
    let answer = client.call(Call::get(page)).await?;
    let found = &answer.value["turns"][0];
    match found["sequenceNumber"] == number {
        true => Ok(text(found, "id").to_owned()),
        false => Err(Failure::new(Exit::NotFound, format!("the session has no turn {number}"))),
    }
}

fn turns(session: &str) -> Target {
    Target::new(&["api", "sessions", session, "turns"])
}

fn print_list(page: &Value) -> Result<(), Failure> {
    let now = System.now();
    let row = |turn: &Value| {
        vec![
            turn["sequenceNumber"].to_string(),
            text(turn, "id").to_owned(),
            text(&turn["status"], "key").to_owned(),
            output::time(text(turn, "creationDate"), now),
            text(turn, "instructionSummary").to_owned(),
        ]
    };
    let rows: Vec<_> = page["turns"].as_array().into_iter().flatten().map(row).collect();
    output::table(&["number", "id", "status", "created", "instruction"], &rows)
}

fn print_turn(turn: &Value) -> Result<(), Failure> {
    let now = System.now();
    let facts = [
        ("id", text(turn, "id").to_owned()),
        ("number", turn["sequenceNumber"].to_string()),
        ("status", text(&turn["status"], "key").to_owned()),
        ("created", output::time(text(turn, "creationDate"), now)),
        ("asked", text(turn, "instructionSummary").to_owned()),
        ("answer", text(turn, "agentAnswerSummary").to_owned()),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        output::line(&format!("{name:<8} {}", output::printable(value)))?;
    }
    for warning in turn["warnings"].as_array().into_iter().flatten() {
        output::note(&format!("warning: {}", output::printable(warning.as_str().unwrap_or(""))));
    }
    Ok(())
}

fn failed(turn: &Value) -> String {
    let errors = turn["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let errors: Vec<_> = errors.collect();
    let code = text(turn, "errorCode");
    match errors.is_empty() {
        true => format!("the turn failed ({code})"),
        false => format!("the turn failed: {} ({code})", errors.join("; ")),
    }
}
