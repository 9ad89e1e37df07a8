//! Puts a conversation together again from what is stored here, within a token budget.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::{Orchestrator, texts};
use crate::{
    Error,
    model::{
        ChainItem, ChainItemKind, ChunkFate, ChunkText, FileFate, FileText, HistoryForm, LiveChain,
        LogId, Manifest, ManifestItem, ManifestTurn, PayloadId, Scope, SentTexts, SessionId, Turn,
        TurnChunk, TurnFile, TurnState,
    },
    policy::{
        rehydration::HistoryBudget,
        tokens::{estimate, volume},
    },
    ports::{Passage, PastTurn, TurnPage},
};

/// Things that were shown before: more than this is never looked through.
const MAX_ITEMS: u32 = 2_000;
/// Earlier turns are read in pages of this many.
const TURN_PAGE: u32 = 32;
/// A conversation longer than this is cut, whatever the budget.
const MAX_TURNS: usize = 1_000;

/// What was said and shown before, as it is sent again.
#[derive(Debug, Default)]
pub(super) struct Rebuilt {
    /// Oldest first.
    pub(super) history: Vec<PastTurn>,
    pub(super) passages: Vec<Passage>,
    pub(super) files: Vec<FileText>,
    pub(super) manifest: Manifest,
}

impl Rebuilt {
    pub(super) fn history_bytes(&self) -> u64 {
        let bytes = self.history.iter().map(|past| past.instruction.len() + past.answer.len());
        bytes.sum::<usize>() as u64
    }
}

/// What the turn itself sends; it stands for what was shown before under the same name.
#[derive(Clone, Copy)]
pub(super) struct Fresh<'a> {
    pub(super) files: &'a [TurnFile],
    pub(super) chunks: &'a [TurnChunk],
}

impl Orchestrator {
    /// History, files and passages for a chain that begins anew.
    pub(super) async fn rebuild(
        &self,
        scope: &Scope,
        (session, log): (SessionId, LogId),
        live: &LiveChain,
        fresh: Fresh<'_>,
    ) -> Result<Rebuilt, Error> {
        let store = &self.platform.store;
        let items = store.chain_items(scope, log, live.number, MAX_ITEMS).await?;
        let mut rebuilt = Rebuilt::default();
        let (again, earlier): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| fresh.names(item));
        for item in again.iter().filter(|item| fresh.sends(item)) {
            rebuilt.manifest.list(item);
        }
        self.show_again(scope, earlier, &mut rebuilt).await?;
        self.tell_again(scope, session, &mut rebuilt).await?;
        let shown = rebuilt.files.iter().map(|file| file.content.len());
        let shown = shown.chain(rebuilt.passages.iter().map(|passage| passage.chunk.text.len()));
        let bytes = shown.sum::<usize>() as u64 + rebuilt.history_bytes();
        rebuilt.manifest.sent = volume(bytes);
        Ok(rebuilt)
    }

    /// Files and passages, the latest first for as long as they fit.
    async fn show_again(
        &self,
        scope: &Scope,
        earlier: Vec<ChainItem>,
        rebuilt: &mut Rebuilt,
    ) -> Result<(), Error> {
        let mut left = self.platform.context.live_tokens;
        let fits = |item: &ChainItem| {
            let tokens = estimate(item.size_bytes);
            let fits = tokens <= left;
            left -= if fits { tokens } else { 0 };
            fits
        };
        let (mut chosen, left_out): (Vec<ChainItem>, Vec<ChainItem>) =
            earlier.into_iter().partition(fits);
        left_out.iter().for_each(|item| rebuilt.manifest.leave_out(item));
        // In the order in which they were shown.
        chosen.reverse();
        let mut seen = HashSet::new();
        let ids: Vec<PayloadId> =
            chosen.iter().map(|item| item.texts).filter(|id| seen.insert(*id)).collect();
        let bodies = self.platform.store.payload_bodies(scope, &ids).await?;
        let texts = bodies
            .into_iter()
            .map(|(id, body)| Ok((id, texts::decode(&body)?)))
            .collect::<Result<HashMap<_, _>, Error>>()?;
        for item in chosen {
            if let Some(text) = texts.get(&item.texts).and_then(|texts| find(texts, &item)) {
                match text {
                    Shown::File(file) => rebuilt.files.push(file),
                    Shown::Chunk(chunk) => rebuilt.passages.push(Passage { chunk, score: 0.0 }),
                }
                rebuilt.manifest.list(&item);
            }
        }
        Ok(())
    }

    /// What was said: the newest turns whole, older ones as their summaries. Failed turns are left out.
    async fn tell_again(
        &self,
        scope: &Scope,
        session: SessionId,
        rebuilt: &mut Rebuilt,
    ) -> Result<(), Error> {
        let mut budget = HistoryBudget::new(self.platform.context.history_tokens);
        let mut page = TurnPage::Last;
        let mut read = 0;
        let mut newest_first = Vec::new();
        'pages: loop {
            let store = &self.platform.store;
            let turns = store.list_turns(scope, session, page, TURN_PAGE).await?;
            let Some(first) = turns.first().map(|record| record.turn.number) else { break };
            read += turns.len();
            let said: Vec<Turn> =
                turns.into_iter().map(|record| record.turn).filter(is_answered).collect();
            let texts = self.texts_of(scope, &said).await?;
            for turn in said.into_iter().rev() {
                let Some((listed, past)) = tell(turn, &texts, &mut budget) else { break 'pages };
                newest_first.push((listed, past));
            }
            if first <= 1 || read >= MAX_TURNS {
                break;
            }
            page = TurnPage::Before(first);
        }
        let oldest = newest_first.last().map_or(1, |(listed, _)| listed.sequence_number);
        rebuilt.manifest.turns_left_out = oldest.saturating_sub(1);
        for (listed, past) in newest_first.into_iter().rev() {
            rebuilt.manifest.turns.push(listed);
            rebuilt.history.push(past);
        }
        Ok(())
    }

    async fn texts_of(
        &self,
        scope: &Scope,
        turns: &[Turn],
    ) -> Result<HashMap<PayloadId, Bytes>, Error> {
        let mut ids = Vec::with_capacity(turns.len() * 2);
        for turn in turns {
            ids.push(turn.request.instruction);
            if let TurnState::Completed(answer) = &turn.state {
                ids.push(answer.text);
            }
        }
        Ok(self.platform.store.payload_bodies(scope, &ids).await?.into_iter().collect())
    }
}

impl Fresh<'_> {
    /// Whether the turn brings the same file or passage, in whatever version.
    fn names(&self, item: &ChainItem) -> bool {
        match item.kind {
            ChainItemKind::File => self.files.iter().any(|file| file.path == item.item),
            ChainItemKind::Chunk => self.chunks.iter().any(|chunk| chunk.chunk_id == item.item),
        }
    }

    /// Whether the turn sends exactly this version.
    fn sends(&self, item: &ChainItem) -> bool {
        match item.kind {
            ChainItemKind::File => self.files.iter().any(|file| {
                file.fate == FileFate::Sent && file.path == item.item && file.sha256 == item.sha256
            }),
            ChainItemKind::Chunk => self.chunks.iter().any(|chunk| {
                chunk.fate == ChunkFate::New
                    && chunk.chunk_id == item.item
                    && chunk.sha256 == item.sha256
            }),
        }
    }
}

impl Manifest {
    fn leave_out(&mut self, item: &ChainItem) {
        match item.kind {
            ChainItemKind::File => self.files_left_out += 1,
            ChainItemKind::Chunk => self.chunks_left_out += 1,
        }
    }

    fn list(&mut self, item: &ChainItem) {
        let listed = ManifestItem {
            item: item.item.clone(),
            content_hash: item.sha256,
            size_bytes: item.size_bytes,
            texts: item.texts,
        };
        match item.kind {
            ChainItemKind::File => self.files.push(listed),
            ChainItemKind::Chunk => self.chunks.push(listed),
        }
    }
}

enum Shown {
    File(FileText),
    Chunk(ChunkText),
}

fn find(texts: &SentTexts, item: &ChainItem) -> Option<Shown> {
    match item.kind {
        ChainItemKind::File => {
            let found = texts.files.iter().find(|file| file.path == item.item);
            found.cloned().map(Shown::File)
        }
        ChainItemKind::Chunk => {
            let found = texts.chunks.iter().find(|chunk| chunk.chunk_id == item.item);
            found.cloned().map(Shown::Chunk)
        }
    }
}

fn is_answered(turn: &Turn) -> bool {
    matches!(turn.state, TurnState::Completed(_))
}

/// One earlier turn as it is sent again; `None` when nothing older fits either.
fn tell(
    turn: Turn,
    texts: &HashMap<PayloadId, Bytes>,
    budget: &mut HistoryBudget,
) -> Option<(ManifestTurn, PastTurn)> {
    let TurnState::Completed(answer) = &turn.state else { return None };
    let whole = |id: &PayloadId| texts.get(id).map(|body| String::from_utf8_lossy(body));
    let (instruction, text) = (whole(&turn.request.instruction)?, whole(&answer.text)?);
    let summary_bytes = turn.request.instruction_summary.len() + answer.summary.len();
    let form = budget.take(instruction.len() + text.len(), summary_bytes)?;
    let past = match form {
        HistoryForm::Whole => {
            PastTurn { instruction: instruction.into_owned(), answer: text.into_owned() }
        }
        HistoryForm::Summary => PastTurn {
            instruction: turn.request.instruction_summary.clone(),
            answer: answer.summary.clone(),
        },
    };
    let listed = ManifestTurn { turn_id: turn.id, sequence_number: turn.number, form };
    Some((listed, past))
}
