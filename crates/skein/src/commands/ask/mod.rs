//! `skein ask`: one instruction with everything that belongs to it, and the answer as it comes.

mod instruction;
mod report;

use serde_json::{Value, json};

use super::{
    Context, Format,
    active_files::{self, Search},
    apply,
    follow::{Begun, Follower, Known},
    ids,
    interrupt::interruptible,
    place::Place,
    printer::{Printer, Show},
    recent::Recent,
    registered, text, turn_context,
};
use crate::{
    cli::{Ask, Mode},
    failure::{Exit, Failure},
    output,
    transport::{Answer, Call, Client, Target},
};
use report::failed;
pub(super) use report::{footer, print_differences, print_sources, print_warnings};

pub(super) async fn run(context: &Context, ask: Ask) -> Result<(), Failure> {
    if ask.apply && ask.mode == Some(Mode::Ask) {
        return Err(Failure::new(Exit::Usage, "--apply writes files, and --mode ask has none"));
    }
    interruptible(context, async |client, known| to_end(context, client, known, &ask).await).await
}

async fn to_end(
    context: &Context,
    client: &mut Client,
    known: &Known,
    ask: &Ask,
) -> Result<(), Failure> {
    let place = Place::here()?;
    let recent = Recent::new(context, &place);
    let body = body(context, client, ask, &place, &recent).await?;
    if ask.dry_run {
        let call = Call::post(Target::new(&["api", "ai", "agent", "plan"]), body);
        let plan = client.call(call).await?;
        return context.print(&plan, || turn_context::print(&plan.value));
    }
    let show = match context.format {
        Format::Json => Show::Nothing,
        Format::Text if ask.verbose => Show::AnswerAndThoughts,
        Format::Text => Show::Answer,
    };
    if ask.detach && client.is_in_process() {
        return Err(no_server());
    }
    let mut follower = Follower::new(context, client, known, Printer::new(show)).noting(recent);
    if ask.detach {
        let begun = follower.begin(body).await?;
        // From here on Ctrl-C has nothing to end.
        known.send_replace(None);
        return print_begun(context, &begun);
    }
    let answer = follower.execute(body).await?;
    follower.printer.finish(answer.value["text"].as_str())?;
    finish(context, ask, &place, &follower.printer, &answer)
}

/// Everything after the answer's text.
fn finish(
    context: &Context,
    ask: &Ask,
    place: &Place,
    printer: &Printer,
    answer: &Answer,
) -> Result<(), Failure> {
    let bundle = &answer.value["fileBundle"];
    context.print(answer, || match bundle.is_object() && !ask.apply {
        true => {
            report::print_differences(bundle)?;
            output::note("nothing was written; --apply writes the files");
            Ok(())
        }
        false => Ok(()),
    })?;
    if context.format == Format::Text {
        report::print_notes(&answer.value);
    }
    if text(&answer.value, "kind") == "error" {
        return Err(failed(&answer.value));
    }
    let applied = match ask.apply && bundle.is_object() {
        true => apply::apply(place, bundle),
        false => Ok(()),
    };
    if context.format == Format::Text {
        output::aside(&footer(printer.times(), &answer.value["context"]));
    }
    applied
}

async fn body(
    context: &Context,
    client: &Client,
    ask: &Ask,
    place: &Place,
    recent: &Recent,
) -> Result<Value, Failure> {
    let instruction = instruction::read(&ask.words).await?;
    let session = match &ask.session {
        Some(id) => Some(ids::session(client, id).await?),
        None if ask.continues => Some(recent.find()?),
        None => None,
    };
    let search = if ask.no_git { Search::NamedOnly } else { Search::Modified };
    let files = active_files::gather(context, place, &ask.files, search).await?;
    let mut body = json!({
        "client": "cli",
        "instruction": instruction,
        "workspaceId": place.workspace_id(),
        "activeFiles": files,
    });
    let (agent, model) = agent_and_model(ask);
    let mode = if ask.apply { Some(Mode::Edit) } else { ask.mode };
    let (repo, repo_id) = match &session {
        // A session keeps its repository.
        Some(_) => (place.repo_name().map(str::to_owned), None),
        None => repository(client, place).await?,
    };
    let optional = [
        ("sessionId", session),
        ("agent", agent),
        ("model", model),
        ("mode", mode.map(|mode| mode.name().to_owned())),
        ("language", ask.lang.clone()),
        ("repo", repo),
        ("repoId", repo_id),
    ];
    for (field, value) in optional {
        if let Some(value) = value {
            body[field] = value.into();
        }
    }
    if !ask.scope.is_empty() {
        body["scope"] = json!({"paths": ask.scope});
    }
    Ok(body)
}

/// `-m PROVIDER/MODEL` names the agent that every provider has.
fn agent_and_model(ask: &Ask) -> (Option<String>, Option<String>) {
    let owned = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    match (&ask.agent, ask.model.as_deref()) {
        (None, Some(model)) => match model.split_once('/') {
            Some((provider, model)) => (owned(provider), owned(model)),
            None => (None, owned(model)),
        },
        (agent, model) => (agent.clone(), model.and_then(owned)),
    }
}

/// What the work tree is called, and its id when it is registered.
async fn repository(
    client: &Client,
    place: &Place,
) -> Result<(Option<String>, Option<String>), Failure> {
    let Some(root) = place.work_tree() else {
        return Ok((place.repo_name().map(str::to_owned), None));
    };
    let registered = registered::list(client).await?;
    Ok(match registered.iter().find(|repo| repo.path() == root) {
        Some(repo) => (Some(repo.name().to_owned()), Some(repo.id().to_owned())),
        None => {
            // On this machine a repository of that name elsewhere is another one.
            let name = place.repo_name().filter(|name| {
                client.is_elsewhere() || registered.iter().all(|repo| repo.name() != *name)
            });
            (name.map(str::to_owned), None)
        }
    })
}

/// Session and turn on one line, as the turn commands take them.
pub(super) fn print_begun(context: &Context, begun: &Begun) -> Result<(), Failure> {
    let Begun { address, number } = begun;
    match context.format {
        Format::Json => output::line(
            &json!({
                "sessionId": address.session,
                "turnId": address.turn,
                "sequenceNumber": number,
                "status": "pending",
            })
            .to_string(),
        ),
        Format::Text => output::line(&format!("{} {}", address.session, address.turn)),
    }
}

pub(super) fn no_server() -> Failure {
    let message = "--detach needs a server: without one the turn ends with this command";
    Failure::new(Exit::Unavailable, message).hint("start one: skein serve")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn chosen(arguments: &[&str]) -> (Option<String>, Option<String>) {
        let cli = Cli::try_parse_from([&["skein", "ask", "x"], arguments].concat()).unwrap();
        match cli.command {
            Some(Command::Ask(ask)) => agent_and_model(&ask),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_model_names_its_provider_before_the_first_slash() {
        let owned = |text: &str| Some(text.to_owned());

        assert_eq!(chosen(&["-m", "gpt-5"]), (None, owned("gpt-5")));
        assert_eq!(chosen(&["-m", "openai/gpt-5"]), (owned("openai"), owned("gpt-5")));
        assert_eq!(chosen(&["-m", "router/a/b"]), (owned("router"), owned("a/b")));
        assert_eq!(chosen(&["-m", "a/b", "-a", "router"]), (owned("router"), owned("a/b")));
        assert_eq!(chosen(&["-m", "openai/"]), (owned("openai"), None));
    }
}
