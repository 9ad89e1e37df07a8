//! Answers from the index, word for word: places, lines, and which words matched. No model is asked.

mod answer;
mod definition;
mod question;
mod quote;
mod rank;
mod whole;
mod words;

use futures::{StreamExt, stream, stream::BoxStream};
use skein_core::{
    model::Mode,
    ports::{
        AgentOutcome, AgentRuntime, AgentUpdate, Asked, ChainKeeping, Chunk, ContextNeed, LookFor,
        Lookup, Prompt, RunRequest,
    },
};

use question::{Question, Subject};

/// Instructions that are looked through for the one that a follow-up leans on.
const RECALLED: usize = 16;
/// A question is not longer than this; the rest is something to look at.
const MAX_QUESTION_BYTES: usize = 2 * 1024;
/// Passages that are looked through for those worth quoting.
const CANDIDATES: u32 = 24;

/// The agent that needs no key and no model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

impl AgentRuntime for Local {
    fn run(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate> {
        let mut updates = Vec::new();
        if request.prompt.mode == Mode::Edit {
            let warning = "the local agent quotes what is there; it proposes no changes";
            updates.push(AgentUpdate::Warning(warning.to_owned()));
        }
        let pieces = answer::answer(&request.prompt, &question_of(&request.prompt));
        updates.extend(pieces.into_iter().map(AgentUpdate::Text));
        updates.push(AgentUpdate::Finished(AgentOutcome::Answered));
        let cancel = request.cancel;
        stream::iter(updates)
            .then(|update| async move {
                // Lets the reader write what it has, as it would with a model that takes its time.
                tokio::task::yield_now().await;
                update
            })
            .take_until(cancel.cancelled_owned())
            .boxed()
    }

    fn context(&self) -> ContextNeed {
        ContextNeed::Conversation { provider: "local".to_owned(), keeping: ChainKeeping::Nobody }
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        Some(self)
    }
}

impl Lookup for Local {
    fn recalls(&self, instruction: &str) -> u32 {
        if question::is_follow_up(beginning(instruction)) { RECALLED as u32 } else { 0 }
    }

    fn look_for(&self, asked: Asked<'_>) -> LookFor {
        let question = asked_question(asked);
        match question.subject {
            Subject::Whole => whole::look_for(),
            Subject::Part => LookFor {
                text: question.search_text(beginning(asked.instruction)),
                paths: Vec::new(),
                limit: CANDIDATES,
            },
        }
    }

    fn choose(&self, asked: Asked<'_>, found: Vec<Chunk>) -> Vec<Chunk> {
        let question = asked_question(asked);
        match question.subject {
            Subject::Whole => whole::choose(found),
            Subject::Part => rank::choose(&question, found),
        }
    }
}

fn asked_question(asked: Asked<'_>) -> Question {
    let earlier: Vec<&str> = asked.earlier.iter().map(|text| beginning(text)).collect();
    Question::of(beginning(asked.instruction), &earlier)
}

fn question_of(prompt: &Prompt) -> Question {
    let history: Vec<&str> =
        prompt.history.iter().map(|past| beginning(&past.instruction)).collect();
    let earlier = &history[history.len().saturating_sub(RECALLED)..];
    Question::of(beginning(&prompt.instruction), earlier)
}

/// What is read of an instruction: one that pastes a whole log is asked about in its first words.
fn beginning(instruction: &str) -> &str {
    &instruction[..instruction.floor_char_boundary(MAX_QUESTION_BYTES)]
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
