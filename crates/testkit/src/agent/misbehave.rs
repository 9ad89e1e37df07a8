//! What no agent should do.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use tokio::{
    task::yield_now,
    time::{Instant, sleep_until},
};

use super::{
    options::{End, Garbage},
    output::{Output, fresh_id},
};

const MEGABYTE: usize = 1024 * 1024;

/// Ends the process at once, without a word.
pub(super) fn end(how: End) -> ! {
    match how {
        End::Exit(code) => std::process::exit(code),
        End::Signal(number) => {
            // Twice, because the first SIGSEGV is for the handler that looks for an overflown stack.
            for _ in 0..2 {
                if let Some(signal) = Signal::from_named_raw(number) {
                    let _sent = kill_process(getpid(), signal);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            std::process::exit(128 + number)
        }
    }
}

/// Sends one thing that breaks the protocol, or that nobody knows.
pub(super) fn garbage(output: &Output, session: &str, kind: Garbage) {
    let update = |session: &str, update: Value| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}});
    let message = match kind {
        Garbage::Text => return output.raw(b"Loaded cached credentials. {not json\n"),
        Garbage::Binary => return output.raw(b"\xff\xfe\x00 not text\n"),
        // Answers are what is doubled.
        Garbage::Twice => return,
        Garbage::Json => json!(42),
        Garbage::UnknownId => json!({"jsonrpc": "2.0", "id": "nobody-asked", "result": {}}),
        Garbage::UnknownMethod => json!({"jsonrpc": "2.0", "method": "session/sing", "params": {}}),
        Garbage::UnknownRequest => {
            json!({"jsonrpc": "2.0", "id": fresh_id(), "method": "session/dance", "params": {}})
        }
        Garbage::UnknownUpdate => update(session, json!({"sessionUpdate": "mood", "mood": "blue"})),
        Garbage::BadUpdate => update(session, json!({"sessionUpdate": "agent_message_chunk"})),
        Garbage::WrongSession => {
            let content = json!({"type": "text", "text": "of another session"});
            update(
                "not-a-session",
                json!({"sessionUpdate": "agent_message_chunk", "content": content}),
            )
        }
    };
    output.message(&message);
}

/// A chunk of text in a line of so many megabytes.
pub(super) fn long_line(output: &Output, session: &str, mb: usize) {
    let content = json!({"type": "text", "text": "x".repeat(mb * MEGABYTE)});
    output.update(session, json!({"sessionUpdate": "agent_message_chunk", "content": content}));
}

/// Numbered chunks, so many a second; with a rate of 0 as fast as the client takes them.
pub(super) async fn flood(output: &Output, session: &str, count: usize, rate: u64) {
    // In pieces of a few milliseconds, because no timer is finer.
    let piece = usize::try_from(rate / 200).unwrap_or(usize::MAX).clamp(1, 1_000);
    let begun = Instant::now();
    for first in (1..=count).step_by(piece) {
        let numbers = first..=count.min(first + piece - 1);
        let lines: String = numbers
            .map(|number| {
                let content = json!({"type": "text", "text": format!("{number} ")});
                let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
                let params = json!({"sessionId": session, "update": update});
                let message =
                    json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
                format!("{message}\n")
            })
            .collect();
        if let Some(micros) = (first as u64 * 1_000_000).checked_div(rate) {
            sleep_until(begun + Duration::from_micros(micros)).await;
        }
        output.raw(lines.as_bytes());
        // A cancelled turn ends here.
        yield_now().await;
    }
}

/// What agents say of themselves, and nobody needs.
pub(super) fn chatter(output: &Output, session: &str) {
    let command = json!({"name": "help", "description": "says what there is"});
    for update in [
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [command]}),
        json!({"sessionUpdate": "usage_update", "used": 10, "size": 200_000}),
        json!({"sessionUpdate": "session_info_update", "title": "a title", "updatedAt": null}),
    ] {
        output.update(session, update);
    }
    output.notify("_scripted/hello", json!({"sessionId": session}));
}
