//! Bytes that go to the provider over a session, beside a client that sends everything each time.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use skein_core::{
    model::{ChunkText, FileText, Mode, SessionId, TurnId, TurnState},
    ports::{Chunk, Passage, PastTurn, Prompt},
};
use skein_testkit::responses::Answer;
use uuid::Uuid;

use super::{
    desk::{Desk, command},
    source::{Source, chunk, source},
};
use crate::{
    arguments::RunArguments,
    report::{Report, Target},
    subject::{INSTRUCTION_BYTES, REPLY_BYTES},
    text::Noise,
};

const TURNS: usize = 20;
const FILES: usize = 8;
const EDITED: usize = 2;
const CHUNKS: usize = 8;

/// A session as it goes on.
struct Conversation {
    noise: Noise,
    files: Vec<Source>,
    /// All passages so far; the last ones are those of the turn.
    chunks: Vec<Chunk>,
    said: Vec<PastTurn>,
}

/// Bytes of request bodies, all turns together.
#[derive(Debug, Default)]
struct Sent {
    skein: usize,
    /// A client that sends everything each time: instructions, answers, all files as they are now, and all passages
    /// that it has used, because they stand in the messages that it sends again.
    everything: usize,
    /// A client that throws away the passages of the turns before, and so forgets what was shown to the model.
    without_old_chunks: usize,
}

pub(super) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let desk = Desk::new(arguments).await?;
    let mut conversation = Conversation::new();
    let mut sent = Sent::default();
    let mut session = None;
    for turn in 0..TURNS {
        conversation.move_on(turn);
        session = Some(conversation.ask(&desk, session, &mut sent).await?);
    }
    let bodies: Vec<_> = desk.provider.requests().into_iter().map(|request| request.body).collect();
    ensure!(bodies.len() == TURNS, "{} requests for {TURNS} turns", bodies.len());
    sent.skein = bodies.iter().map(|body| body.len()).sum();
    let (counted, _) = desk.orchestrator.bytes_sent_and_saved();
    eprintln!("Context: {sent:?}, {counted} B of texts by Skein's own count");
    report.plain("Context", "KB sent in 20 turns, 8 files, 8 passages", sent.skein as f64 / 1e3);
    let share = |everything: usize| sent.skein as f64 / everything as f64;
    let (target, name) = (Target::AtMost(0.25), "of what a client sends that sends everything");
    report.ratio("Context", name, share(sent.everything), target);
    let name = "% of that without the passages of earlier turns";
    report.plain("Context", name, 100.0 * share(sent.without_old_chunks));
    Ok(())
}

impl Conversation {
    fn new() -> Self {
        let mut noise = Noise::new(41);
        let files = Source::files(&mut noise, FILES);
        Self { noise, files, chunks: Vec::new(), said: Vec::new() }
    }

    /// Two files are edited, each in its turn, and half of the passages are new.
    fn move_on(&mut self, turn: usize) {
        if turn > 0 {
            for edit in 0..EDITED {
                let file = (turn * EDITED + edit) % FILES;
                self.files[file].edit(&mut self.noise);
            }
        }
        let new = if turn == 0 { CHUNKS } else { CHUNKS / 2 };
        for _ in 0..new {
            let number = self.chunks.len();
            self.chunks.push(chunk(&mut self.noise, number));
        }
    }

    fn found(&self) -> &[Chunk] {
        &self.chunks[self.chunks.len() - CHUNKS..]
    }

    async fn ask(
        &mut self,
        desk: &Desk,
        session: Option<SessionId>,
        sent: &mut Sent,
    ) -> anyhow::Result<SessionId> {
        let instruction = self.noise.text(INSTRUCTION_BYTES);
        let answer = source(&mut self.noise, REPLY_BYTES);
        desk.provider.script(Answer::text(&answer));
        desk.retriever.find_next(self.found());
        sent.everything += self.whole_request(desk, &instruction, &self.chunks)?;
        sent.without_old_chunks += self.whole_request(desk, &instruction, self.found())?;
        let files = self.files.iter().map(Source::as_active).collect();
        let command = command(session, &instruction, files)?;
        let executed = desk.orchestrator.execute(&desk.scope(), command, None).await?;
        let state = &executed.turn.state;
        ensure!(matches!(state, TurnState::Completed(_)), "the turn did not complete: {state:?}");
        self.said.push(PastTurn { instruction, answer });
        Ok(executed.session)
    }

    /// The request of a client without a memory, in the same form as Skein's.
    fn whole_request(
        &self,
        desk: &Desk,
        instruction: &str,
        chunks: &[Chunk],
    ) -> anyhow::Result<usize> {
        let prompt = Prompt {
            session: SessionId::from_uuid(Uuid::nil()),
            turn: TurnId::from_uuid(Uuid::nil()),
            system_prompt: None,
            model: Some("test-model".to_owned()),
            temperature: None,
            previous_response_id: None,
            open_calls: Vec::new(),
            history: self.said.clone(),
            passages: chunks.iter().map(as_passage).collect(),
            files: self.files.iter().map(as_text).collect(),
            instruction: Arc::from(instruction),
            mode: Mode::Ask,
        };
        Ok(desk.runtime.compose(&prompt).context("the runtime composes no request")?.len())
    }
}

fn as_passage(chunk: &Chunk) -> Passage {
    Passage {
        score: chunk.score,
        chunk: ChunkText {
            chunk_id: chunk.id.clone(),
            path: chunk.path.clone(),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            text: chunk.text.clone(),
        },
    }
}

fn as_text(file: &Source) -> FileText {
    FileText { path: file.path().to_owned(), content: file.content().to_owned() }
}
