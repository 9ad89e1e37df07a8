//! `skein turn …`

pub(super) mod rerun;

use bytes::Bytes;
use serde_json::{Value, json};
use skein_core::{model::TurnId, ports::Clock};

use super::{
    Context, Format, ask,
    follow::{Follower, Known, TurnAddress},
    ids,
    place::Place,
    printer::{Printer, Show},
    recent::Recent,
    text, turn_context, with_client,
};
use crate::{
    cli::{TurnCommand, TurnName},
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
                let session = find_session(context, client, &session).await?;
                let target = turns(&session)
                    .query("limit", limit)
                    .query("before", before)
                    .query("after", after);
                client.call(Call::get(target)).await
            })
            .await?;
            context.print(&answer, || print_list(&answer.value))
        }
        TurnCommand::Show(name) => show(context, &name).await,
        TurnCommand::Context(name) => sent(context, &name).await,
        TurnCommand::Wait(name) => wait(context, &name).await,
        TurnCommand::Cancel(name) => cancel(context, &name).await,
        TurnCommand::Rerun(rerun) => rerun::run(context, rerun).await,
    }
}

async fn show(context: &Context, name: &TurnName) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let turn = find(context, client, name).await?;
        client.call(Call::get(turn.target(&[]))).await
    })
    .await?;
    context.print(&answer, || print_turn(&answer.value))?;
    outcome(&answer.value)
}

async fn sent(context: &Context, name: &TurnName) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let turn = find(context, client, name).await?;
        client.call(Call::get(turn.target(&["context"]))).await
    })
    .await?;
    context.print(&answer, || turn_context::print(&answer.value))
}

async fn cancel(context: &Context, name: &TurnName) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let turn = find(context, client, name).await?;
        client.call(Call::post(turn.target(&["cancel"]), json!({}))).await
    })
    .await?;
    context.print(&answer, || output::line(text(&answer.value, "id")))
}

async fn wait(context: &Context, name: &TurnName) -> Result<(), Failure> {
    let mut client = Client::connect(context).await?;
    let result = wait_with(context, &mut client, name).await;
    client.close().await;
    result
}

async fn wait_with(context: &Context, client: &mut Client, name: &TurnName) -> Result<(), Failure> {
    let turn = find(context, client, name).await?;
    let known = Known::new(Some(turn.clone()));
    let mut follower = Follower::new(context, client, &known, Printer::new(Show::Nothing));
    follower.follow().await?;
    if context.format == Format::Json {
        let answer = client.call(Call::get(turn.target(&[]))).await?;
        context.print(&answer, || Ok(()))?;
        return outcome(&answer.value);
    }
    let ended = client.call(Call::get(turn.target(&[]))).await?;
    if let Some(said) = payload(client, &ended.value["fullAgentAnswerUrl"]).await? {
        output::prose(&String::from_utf8_lossy(&said))?;
        output::line("")?;
    }
    report(client, &ended.value).await
}

/// What is said after the answer of a turn that has ended: proposed files, sources, warnings and failure.
async fn report(client: &Client, turn: &Value) -> Result<(), Failure> {
    if let Some(bundle) = payload(client, &turn["fileBundleUrl"]).await? {
        let bundle = serde_json::from_slice(&bundle).unwrap_or_default();
        ask::print_differences(&bundle)?;
        output::note("nothing was written; git apply takes the differences");
    }
    ask::print_sources(&turn["chunkRefs"]);
    ask::print_warnings(turn);
    outcome(turn)
}

async fn payload(client: &Client, url: &Value) -> Result<Option<Bytes>, Failure> {
    let Some(id) = url.as_str().and_then(|url| url.rsplit('/').next()) else { return Ok(None) };
    Ok(Some(client.bytes(Call::get(Target::new(&["api", "payloads", id]))).await?))
}

fn outcome(turn: &Value) -> Result<(), Failure> {
    match text(&turn["status"], "key") {
        "failed" => Err(Failure::new(Exit::Failed, failed(turn))),
        _ => Ok(()),
    }
}

/// `last` is the last session of this directory.
async fn find_session(context: &Context, client: &Client, name: &str) -> Result<String, Failure> {
    match name {
        "last" => Recent::new(context, &Place::here()?).find(),
        id => ids::session(client, id).await,
    }
}

/// A turn by number, by id, by the beginning of one, or `last`.
async fn find(context: &Context, client: &Client, name: &TurnName) -> Result<TurnAddress, Failure> {
    let session = find_session(context, client, &name.session).await?;
    let turn = resolve(client, &session, &name.turn).await?;
    Ok(TurnAddress { session, turn })
}

async fn resolve(client: &Client, session: &str, turn: &str) -> Result<String, Failure> {
    if turn == "last" {
        let target = Target::new(&["api", "sessions", session, "turns", "last"]);
        let last = client.call(Call::get(target)).await?;
        return Ok(text(&last.value, "id").to_owned());
    }
    if turn.parse::<TurnId>().is_ok() {
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
        ("model", text(turn, "openAIModel").to_owned()),
        ("asked", text(turn, "instructionSummary").to_owned()),
        ("answer", text(turn, "agentAnswerSummary").to_owned()),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        output::line(&format!("{name:<8} {}", output::printable(value)))?;
    }
    for file in turn["skippedFiles"].as_array().into_iter().flatten() {
        let (path, reason) = (text(file, "path"), text(file, "reason"));
        output::line(&format!("skipped  {}", output::printable(&format!("{path}: {reason}"))))?;
    }
    ask::print_warnings(turn);
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
