//! `skein session permit`: what the agent of a session asks, and the answer.

use serde_json::{Value, json};

use super::{Context, ids, text, with_client};
use crate::{
    cli::SessionPermit,
    failure::{Exit, Failure},
    output,
    transport::{Answer, Call, Client, Target},
};

pub(super) async fn run(context: &Context, permit: SessionPermit) -> Result<(), Failure> {
    let SessionPermit { id, request, option, cancel } = permit;
    let reply = match (option, cancel) {
        (Some(option), false) => Some(json!({"optionId": option})),
        (None, true) => Some(json!({"cancel": true})),
        _ => None,
    };
    match (request, reply) {
        (Some(request), Some(reply)) => answer(context, &id, &request, reply).await,
        (request, _) => list(context, &id, request.as_deref()).await,
    }
}

async fn answer(
    context: &Context,
    session: &str,
    request: &str,
    reply: Value,
) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let session = ids::session(client, session).await?;
        let request = question(client, &session, request).await?;
        let target = Target::new(&["api", "sessions", &session, "permissions", &request]);
        client.call(Call::post(target, reply)).await
    })
    .await?;
    context.print(&answer, || {
        let (request, state) = (text(&answer.value, "requestId"), text(&answer.value, "state"));
        output::line(&format!("{} {state}", output::printable(request)))
    })
}

/// The question whose id begins or ends like this: what tells them apart is at the end.
async fn question(client: &Client, session: &str, named: &str) -> Result<String, Failure> {
    let asked = questions(client, session).await?;
    let is_meant = |request: &&str| {
        *request == named || request.starts_with(named) || request.ends_with(&format!(".{named}"))
    };
    let all: Vec<&str> = asked.value.as_array().into_iter().flatten().map(request_id).collect();
    let mut meant = all.iter().copied().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        (Some(_), Some(_)) => {
            Err(Failure::new(Exit::Usage, format!("more than one question is like {named:?}")))
        }
        (None, _) => Err(Failure::new(Exit::NotFound, format!("there is no question {named:?}"))),
    }
}

fn request_id(asked: &Value) -> &str {
    text(asked, "requestId")
}

async fn questions(client: &Client, session: &str) -> Result<Answer, Failure> {
    client.call(Call::get(Target::new(&["api", "sessions", session, "permissions"]))).await
}

async fn list(context: &Context, session: &str, named: Option<&str>) -> Result<(), Failure> {
    let (session, asked) = with_client(context, async |client| {
        let session = ids::session(client, session).await?;
        let asked = questions(client, &session).await?;
        Ok((session, asked))
    })
    .await?;
    context.print(&asked, || {
        let all = asked.value.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_shown = |asked: &&Value| match named {
            Some(named) => request_id(asked).contains(named),
            None => text(asked, "state") == "pending",
        };
        let shown: Vec<_> = all.iter().filter(is_shown).collect();
        if shown.is_empty() {
            output::note("nothing is asked");
        }
        shown.into_iter().try_for_each(|asked| {
            describe(&session, asked).iter().try_for_each(|line| output::line(line))
        })
    })
}

/// A question for people, with the commands that answer it.
pub(super) fn describe(session: &str, asked: &Value) -> Vec<String> {
    let call = &asked["toolCall"];
    let what = output::printable(text(call, "tool"));
    let mut lines =
        vec![format!("the agent asks: {what} ({})", output::printable(text(call, "kind")))];
    for option in asked["options"].as_array().into_iter().flatten() {
        let (name, kind) = (text(option, "name"), text(option, "kind"));
        lines.push(format!(
            "  {} ({}): skein session permit {session} {} {}",
            output::printable(name),
            output::printable(kind),
            output::shell_word(request_id(asked)),
            output::shell_word(text(option, "optionId")),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_calls_its_options_is_one_word_for_a_shell() {
        let asked = json!({
            "requestId": "t.1",
            "toolCall": {"tool": "Write", "kind": "edit"},
            "options": [
                {"optionId": "yes; touch it #", "name": "Reject", "kind": "allow_always"},
                {"optionId": "it's", "name": "No", "kind": "reject_once"},
                {"optionId": "", "name": "Nothing", "kind": "reject_once"},
            ],
        });

        let lines = describe("s", &asked);

        assert_eq!(
            lines[1],
            "  Reject (allow_always): skein session permit s t.1 'yes; touch it #'"
        );
        assert_eq!(lines[2], r"  No (reject_once): skein session permit s t.1 'it'\''s'");
        assert_eq!(lines[3], "  Nothing (reject_once): skein session permit s t.1 ''");
    }
}
