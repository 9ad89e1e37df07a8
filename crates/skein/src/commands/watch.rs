//! `skein session watch`: follows the log of a session.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;

use super::{Context, Format, ids, text};
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
    let session = client
        .call(Call::get(Target::new(&["api", "sessions", &id]).query("include", Some(""))))
        .await?;
    let last_seq = session.value["lastSeq"].as_u64().unwrap_or_default();
    let mut watch = Watch {
        format: context.format,
        position: after.unwrap_or(last_seq),
        // In this process nothing happens that it does not do itself.
        end: client.is_in_process().then_some(last_seq),
        open_line: false,
    };
    let mut retry = FIRST_RETRY;
    loop {
        if watch.is_at_end() {
            output::aside("no server is running on this home: nothing new will come");
            return Ok(());
        }
        let events = Target::new(&["api", "sessions", &id, "events"]);
        let mut call = Call::get(events);
        call.last_event_id = Some(watch.position);
        let before = watch.position;
        let cut = match client.stream(call).await {
            Ok(reply) => match watch.print(reply).await {
                Ok(Ended::SessionIsFinal | Ended::NothingMoreCanCome) => return Ok(()),
                Ok(Ended::Cut) => None,
                Err(failure) => Some(failure),
            },
            Err(failure) => Some(failure),
        };
        if let Some(failure) = cut
            && failure.exit != Exit::Unavailable
        {
            return Err(failure);
        }
        if watch.position > before {
            retry = FIRST_RETRY;
        }
        output::aside("the connection was cut; going on where it ended");
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(LONGEST_RETRY);
        client.reconnect(context);
    }
}

/// What has been shown, and how to show the rest.
struct Watch {
    format: Format,
    /// The last event that was shown.
    position: u64,
    /// After this event nothing can come.
    end: Option<u64>,
    /// Text stands on stdout without an end of line.
    open_line: bool,
}

enum Ended {
    SessionIsFinal,
    NothingMoreCanCome,
    Cut,
}

impl Watch {
    fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.position >= end)
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
        self.position = seq;
        match self.format {
            Format::Json => output::line(&event.data)?,
            Format::Text => {
                let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
                self.text(text(&value, "type"), &value["data"])?;
            }
        }
        let ended = match event.name.as_deref() {
            Some("session.completed" | "session.cancelled" | "session.failed") => {
                Some(Ended::SessionIsFinal)
            }
            _ if self.is_at_end() => Some(Ended::NothingMoreCanCome),
            _ => None,
        };
        if ended.is_some() {
            self.end_line()?;
        }
        Ok(ended)
    }

    fn text(&mut self, kind: &str, data: &Value) -> Result<(), Failure> {
        match kind {
            "message.delta" => {
                self.open_line = true;
                output::data(output::printable_lines(text(data, "text")).as_bytes())
            }
            "message.completed" if text(data, "role") == "agent" => self.end_line(),
            "message.completed" | "thought.delta" | "context.planned" => Ok(()),
            "turn.started" | "turn.created" => self.aside(&format!(
                "{kind} {}: {}",
                data["sequenceNumber"],
                output::printable(text(data, "instruction"))
            )),
            "turn.completed" => self.aside(&format!("{kind} {}", data["sequenceNumber"])),
            "turn.failed" => self.aside(&format!(
                "{kind} {}: {}",
                data["sequenceNumber"],
                output::printable(text(data, "errorCode"))
            )),
            other => self.aside(&output::printable(other)),
        }
    }

    fn aside(&mut self, note: &str) -> Result<(), Failure> {
        self.end_line()?;
        output::aside(note);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.open_line) {
            true => output::line(""),
            false => Ok(()),
        }
    }
}
