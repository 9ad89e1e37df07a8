//! An agent's text on stdout as it comes, each message on lines of its own.

use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::text;
use crate::{failure::Failure, output};

/// The agent's messages, as far as they were printed.
#[derive(Debug, Default)]
pub(super) struct Prose {
    /// The message whose text stands on stdout without an end of line.
    open_message: Option<String>,
}

impl Prose {
    pub(super) fn delta(&mut self, data: &Value) -> Result<(), Failure> {
        let message = text(data, "messageId");
        if self.open_message.as_deref() != Some(message) {
            self.end_line()?;
            self.open_message = Some(message.to_owned());
        }
        output::prose(text(data, "text"))
    }

    /// A message that came in one piece has not been shown yet. Gives its address when only that came.
    pub(super) fn completed<'a>(&mut self, data: &'a Value) -> Result<Option<&'a str>, Failure> {
        if self.open_message.as_deref() == Some(text(data, "messageId")) {
            return self.end_line().map(|()| None);
        }
        self.end_line()?;
        match data["content"]["text"].as_str() {
            Some(said) => self.whole(said).map(|()| None),
            None => Ok(data["content"]["payloadUrl"].as_str()),
        }
    }

    pub(super) fn whole(&self, said: &str) -> Result<(), Failure> {
        output::prose(said)?;
        output::line("")
    }

    pub(super) fn end_line(&mut self) -> Result<(), Failure> {
        match self.open_message.take() {
            Some(_) => output::line(""),
            None => Ok(()),
        }
    }
}

/// What of a turn is shown while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    Nothing,
    Answer,
    AnswerAndThoughts,
}

/// One turn as it happens.
#[derive(Debug)]
pub(super) struct Printer {
    show: Show,
    prose: Prose,
    /// Thoughts stand on stderr without an end of line.
    is_thinking: bool,
    /// Something of the answer was printed.
    has_spoken: bool,
    started: Instant,
    first_text: Option<Duration>,
}

impl Printer {
    pub(super) fn new(show: Show) -> Self {
        Self {
            show,
            prose: Prose::default(),
            is_thinking: false,
            has_spoken: false,
            started: Instant::now(),
            first_text: None,
        }
    }

    /// How long it has taken until now, and until the first text.
    pub(super) fn times(&self) -> (Duration, Option<Duration>) {
        (self.started.elapsed(), self.first_text)
    }

    pub(super) fn event(&mut self, kind: &str, data: &Value) -> Result<(), Failure> {
        match kind {
            "message.delta" => {
                self.first_text.get_or_insert_with(|| self.started.elapsed());
                self.say(|prose| prose.delta(data))
            }
            "message.completed" if text(data, "role") == "agent" => {
                // What only has an address is printed at the end.
                self.say(|prose| prose.completed(data).map(drop))
            }
            "thought.delta" if self.show == Show::AnswerAndThoughts => {
                self.prose.end_line()?;
                self.is_thinking = true;
                output::murmur(&output::printable_lines(text(data, "text")));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The whole answer, unless it was printed while it came.
    pub(super) fn finish(&mut self, answer: Option<&str>) -> Result<(), Failure> {
        let answer = answer.filter(|answer| !self.has_spoken && !answer.is_empty());
        if let Some(answer) = answer {
            self.say(|prose| prose.whole(answer))?;
        }
        self.end_line()
    }

    pub(super) fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_thinking) {
            output::note("");
        }
        self.prose.end_line()
    }

    fn say(
        &mut self,
        print: impl FnOnce(&mut Prose) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.show == Show::Nothing {
            return Ok(());
        }
        if std::mem::take(&mut self.is_thinking) {
            output::note("");
        }
        self.has_spoken = true;
        print(&mut self.prose)
    }
}
