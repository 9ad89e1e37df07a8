//! `skein session watch`: follows the log of a session.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;

use super::{Context, Format, ids, permit, printer::Prose, text};
use crate::{
    failure::{Exit, Failure},
    output,
    transport::{Call, Client, Reply, SseEvent, SseParser, Target},
};

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

pub(super) async fn run(context: &Context, id: &str, after: Option<u64>) -> Result<(), Failure> {
    let mut client = Client::connect(context).await?;
    let result = follow(context, &mut client, id, after).await;
    client.close().await;
    result
}

async fn follow(
    context: &Context,
    client: &mut Client,
    id: &str,
    after: Option<u64>,
) -> Result<(), Failure> {
    let id = ids::session(client, id).await?;
    let end = client.last_event(&id).await?;
    let mut watch = Watch {
        session: id.clone(),
        format: context.format,
        position: after.or(end),
        end,
        prose: Prose::default(),
    };
    if watch.is_at_end() {
        output::aside("no server is running on this home: nothing new will come");
        return Ok(());
    }
    let mut retry = FIRST_RETRY;
    loop {
        let mut call = Call::get(Target::new(&["api", "sessions", &id, "events"]));
        call.last_event_id = watch.position;
        match client.stream(call).await {
            Ok(reply) => {
                retry = FIRST_RETRY;
                match watch.print(reply).await {
                    Ok(Ended::Whole) => return Ok(()),
                    Ok(Ended::Cut) => output::aside("the connection ended; taking it up again"),
                    Err(failure) if failure.exit == Exit::Unavailable => {
                        output::aside("the connection was cut; taking it up again");
                    }
                    Err(failure) => return Err(failure),
                }
            }
            // The server is gone or too busy for now.
            Err(failure) if failure.exit == Exit::Unavailable => {}
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(LONGEST_RETRY);
        client.reconnect(context);
    }
}

/// What has been shown, and how to show the rest.
struct Watch {
    session: String,
    format: Format,
    /// The last event that was shown; none before the first one when only new ones are wanted.
    position: Option<u64>,
    /// After this event nothing can come.
    end: Option<u64>,
    prose: Prose,
}

enum Ended {
    /// The session is final, or nothing more can come.
    Whole,
    Cut,
}

impl Watch {
    fn is_at_end(&self) -> bool {
        self.end.is_some() && self.position >= self.end
    }

    async fn print(&mut self, mut reply: Reply) -> Result<Ended, Failure> {
        let mut parser = SseParser::default();
        while let Some(piece) = reply.body.next().await {
            for event in parser.push(&piece?) {
                if let Some(ended) = self.event(&event)? {
                    return Ok(ended);
                }
            }
        }
        Ok(Ended::Cut)
    }

    fn event(&mut self, event: &SseEvent) -> Result<Option<Ended>, Failure> {
        let Some(seq) = event.id.as_deref().and_then(|id| id.parse::<u64>().ok()) else {
            return Ok(None);
        };
        self.position = Some(seq);
        match self.format {
            Format::Json => output::line(&event.data)?,
            Format::Text => {
                let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
                self.text(text(&value, "type"), &value["data"])?;
            }
        }
        let is_final = matches!(
            event.name.as_deref(),
            Some("session.completed" | "session.cancelled" | "session.failed")
        );
        if is_final || self.is_at_end() {
            self.prose.end_line()?;
            return Ok(Some(Ended::Whole));
        }
        Ok(None)
    }

    fn text(&mut self, kind: &str, data: &Value) -> Result<(), Failure> {
        match kind {
            "message.delta" => self.prose.delta(data),
            "message.completed" if text(data, "role") == "agent" => self.completed(data),
            "message.completed" | "thought.delta" | "context.planned" => Ok(()),
            "turn.started" | "turn.created" => self.aside(&format!(
                "{kind} {}: {}",
                data["sequenceNumber"],
                output::printable(text(data, "instruction"))
            )),
            "permission.requested" => {
                let lines = permit::describe(&self.session, data);
                lines.iter().try_for_each(|line| self.aside(line))
            }
            "turn.completed" => self.aside(&format!("{kind} {}", data["sequenceNumber"])),
            "turn.failed" => self.aside(&format!(
                "{kind} {}: {}",
                data["sequenceNumber"],
                output::printable(text(data, "errorCode"))
            )),
            other => self.aside(&output::printable(other)),
        }
    }

    fn completed(&mut self, data: &Value) -> Result<(), Failure> {
        match self.prose.completed(data)? {
            Some(url) => self.aside(&format!("a long message: {url}")),
            None => Ok(()),
        }
    }

    fn aside(&mut self, note: &str) -> Result<(), Failure> {
        self.prose.end_line()?;
        output::aside(note);
        Ok(())
    }
}
