//! What an agent asks while somebody follows its turn: answered at the terminal, or with the commands that are shown.

use std::{collections::VecDeque, thread};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Context, Format, permit, text};
use crate::{
    failure::Failure,
    output,
    transport::{Call, Client, Target},
};

/// Questions in the order in which they were asked.
#[derive(Default)]
pub(super) struct Questions {
    /// Whether somebody sits at the terminal.
    is_interactive: bool,
    open: VecDeque<Question>,
    /// What is typed. One thread reads for the life of the command: two would take each other's lines.
    lines: Option<mpsc::Receiver<String>>,
}

struct Question {
    session: String,
    request: String,
    /// Ids, in the order in which they are shown.
    options: Vec<String>,
}

impl Questions {
    pub(super) fn new(context: &Context) -> Self {
        let is_interactive = context.format == Format::Text && output::somebody_is_there();
        Self { is_interactive, ..Self::default() }
    }

    /// Takes in an event of the turn.
    pub(super) fn event(&mut self, session: &str, kind: &str, data: &Value) {
        match kind {
            "permission.requested" => self.ask(session, data),
            "permission.resolved" => {
                let request = text(data, "requestId");
                self.open.retain(|question| question.request != request);
            }
            _ => {}
        }
    }

    /// Resolves when the oldest question has been answered here; never while nothing is asked.
    pub(super) async fn answered(&mut self, client: &Client) -> Result<(), Failure> {
        let (Some(lines), Some(question)) = (&mut self.lines, self.open.front()) else {
            return std::future::pending().await;
        };
        let Some(line) = lines.recv().await else {
            // The input has ended: others may still answer.
            self.lines = None;
            return Ok(());
        };
        let number = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let Some(option) = number.and_then(|index| question.options.get(index)) else {
            output::note(&format!("a number from 1 to {}:", question.options.len()));
            return Ok(());
        };
        let path = ["api", "sessions", &question.session, "permissions", &question.request];
        let answer = Call::post(Target::new(&path), json!({"optionId": option}));
        self.open.pop_front();
        match client.call(answer).await {
            Ok(_) => Ok(()),
            // Somebody else was faster.
            Err(failure) if failure.exit == crate::failure::Exit::Conflict => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    fn ask(&mut self, session: &str, asked: &Value) {
        if !self.is_interactive {
            return permit::describe(session, asked).iter().for_each(|line| output::note(line));
        }
        let call = &asked["toolCall"];
        let (what, kind) =
            (output::printable(text(call, "tool")), output::printable(text(call, "kind")));
        output::note(&format!("the agent asks: {what} ({kind})"));
        let options: Vec<_> = asked["options"].as_array().into_iter().flatten().collect();
        let shown = (1..).zip(&options).map(|(number, option)| {
            format!("{number} {}", output::printable(text(option, "name")))
        });
        output::note(&format!("  {}", shown.collect::<Vec<_>>().join("   ")));
        self.open.push_back(Question {
            session: session.to_owned(),
            request: text(asked, "requestId").to_owned(),
            options: options.iter().map(|option| text(option, "optionId").to_owned()).collect(),
        });
        self.lines.get_or_insert_with(typed);
    }
}

/// Lines from the terminal. The thread ends with the process.
fn typed() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(8);
    let read = move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // Without a thread nobody is listened to, and the commands still work.
    drop(thread::Builder::new().name("typed".to_owned()).spawn(read));
    lines
}
