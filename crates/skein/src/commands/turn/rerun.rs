//! `skein turn rerun`: an earlier instruction again, with the files as they are now.

use serde_json::{Map, Value};

use crate::{
    cli::Rerun,
    commands::{
        Context, Format,
        active_files::{self, Search},
        ask,
        follow::{Begun, Follower, Known, TurnAddress},
        interrupt::interruptible,
        place::Place,
        printer::{Printer, Show},
        text,
    },
    failure::Failure,
    output,
    transport::{Answer, Call, Client},
};

pub(in crate::commands) async fn run(context: &Context, rerun: Rerun) -> Result<(), Failure> {
    interruptible(context, async |client, known| to_end(context, client, known, &rerun).await).await
}

async fn to_end(
    context: &Context,
    client: &mut Client,
    known: &Known,
    rerun: &Rerun,
) -> Result<(), Failure> {
    if rerun.detach && client.is_in_process() {
        return Err(ask::no_server());
    }
    let old = super::find(context, client, &rerun.name).await?;
    let call = Call::post(old.target(&["rerun"]), body(context, rerun).await?);
    if rerun.detach {
        let answer = client.call(call).await?;
        let begun = Begun {
            address: new_turn(&old, &answer),
            number: answer.value["sequenceNumber"].clone(),
        };
        return match context.format {
            Format::Json => context.print(&answer, || Ok(())),
            Format::Text => ask::print_begun(context, &begun),
        };
    }
    let show = match context.format {
        Format::Json => Show::Nothing,
        Format::Text if rerun.verbose => Show::AnswerAndThoughts,
        Format::Text => Show::Answer,
    };
    let mut follower = Follower::new(context, client, known, Printer::new(show));
    // Before the turn exists, so that none of its events is missed.
    let events = follower.subscribe(&old.session).await?;
    let answer = follower.client().call(call).await?;
    let new = new_turn(&old, &answer);
    follower.is_about(new.clone());
    follower.follow_from(events).await?;
    follower.printer.end_line()?;
    let times = follower.printer.times();
    let ended = client.call(Call::get(new.target(&[]))).await?;
    if context.format == Format::Json {
        context.print(&ended, || Ok(()))?;
        return super::outcome(&ended.value);
    }
    super::report(client, &ended.value).await?;
    let sent = client.call(Call::get(new.target(&["context"]))).await?;
    output::aside(&ask::footer(times, &sent.value));
    Ok(())
}

fn new_turn(old: &TurnAddress, answer: &Answer) -> TurnAddress {
    TurnAddress { session: old.session.clone(), turn: text(&answer.value, "turnId").to_owned() }
}

async fn body(context: &Context, rerun: &Rerun) -> Result<Value, Failure> {
    let place = Place::here()?;
    let search = if rerun.no_git { Search::NamedOnly } else { Search::Modified };
    let files = active_files::gather(context, &place, &rerun.files, search).await?;
    let mut body = Map::new();
    body.insert("workspaceId".to_owned(), place.workspace_id().into());
    body.insert("activeFiles".to_owned(), files.into());
    if let Some(instruction) = &rerun.instruction {
        body.insert("instruction".to_owned(), instruction.as_str().into());
    }
    Ok(body.into())
}
