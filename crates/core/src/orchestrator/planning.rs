//! What a turn gives to its agent: contexts, passages, files, and how it goes on from the turns before.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    Orchestrator,
    rehydrate::{Fresh, Rebuilt},
    texts,
};
use crate::{
    Error,
    agents::Agent,
    model::{
        ChainDecision, ChainItemKind, ChainPlan, ChainReason, ChunkFate, ChunkText, ContextPlanned,
        ConversationSpec, EventBody, FileFate, FileText, Manifest, PayloadId, Scope, SendPlan,
        SentTexts, Session, Timestamp, Turn, TurnChunk, TurnFile,
    },
    payloads::{self, Draft},
    policy::{
        chain::{self, Answerer, ProviderSays},
        delta::{self, GivenFile, Held},
        tokens::volume,
    },
    ports::{ChainKeeping, ChainView, Chunk, ContextNeed, NewPayload, Passage, Prompt},
};

/// A turn that is about to be dispatched, with what planning needs to know of it.
pub(super) struct Unplanned<'a> {
    pub(super) session: &'a Session,
    pub(super) agent: &'a Agent,
    pub(super) turn: Turn,
    pub(super) instruction: Arc<str>,
    pub(super) files: &'a [GivenFile],
}

/// A turn with its plan, ready to be made durable and sent.
pub(super) struct Planned {
    pub(super) turn: Turn,
    pub(super) prompt: Arc<Prompt>,
    /// The exact request, when the agent sends one.
    pub(super) body: Option<Bytes>,
    pub(super) drafts: Vec<Draft>,
}

/// What was found and decided before texts are put together.
struct Decided {
    chain: ChainPlan,
    files: Vec<TurnFile>,
    chunks: Vec<TurnChunk>,
    rebuilt: Rebuilt,
    /// What the ledger holds of this turn's files and chunks, whatever the decision.
    view: Option<ChainView>,
}

impl Orchestrator {
    /// Decides what the agent is given. Nothing is written; payloads are staged by [`Self::stage`].
    pub(super) async fn plan(
        &self,
        scope: &Scope,
        unplanned: Unplanned<'_>,
        said: ProviderSays,
    ) -> Result<Planned, Error> {
        let Unplanned { session, agent, mut turn, instruction, files } = unplanned;
        let spec = self.conversation_spec(scope, session).await?;
        settle_model(&mut turn, spec.as_ref(), agent);
        let (provider, keeping) = match agent.runtime.context() {
            ContextNeed::Conversation { provider, keeping } => (provider, keeping),
            ContextNeed::Nothing => return Ok(instruction_alone(turn, instruction, spec)),
        };
        let found = self.retrieve(scope, (session, agent), &mut turn, &instruction).await?;
        let view = self.chain_view(scope, &turn, files, &found).await?;
        let model = turn.request.model.as_deref();
        let answerer = Answerer { provider: &provider, model, keeping };
        let live = view.as_ref().map(|view| &view.chain);
        let mut chain = chain::decide(live, answerer, said, self.platform.now());
        let shown = view.as_ref().map_or(&[][..], |view| &view.held);
        let held = match chain.decision {
            ChainDecision::Continue => Held::live(shown),
            ChainDecision::Start | ChainDecision::Rehydrate => Held::given_up(shown),
        };
        let planned = delta::plan_files(files, &held);
        let budget = self.platform.context.passage_tokens;
        let chunks = delta::plan_chunks(&found, files, &held, budget);
        let mut rebuilt = Rebuilt::default();
        if let (ChainDecision::Rehydrate, Some(live)) = (chain.decision, live) {
            let fresh = Fresh { files: &planned, chunks: &chunks };
            rebuilt = self.rebuild(scope, (session.id, turn.log), live, fresh).await?;
            chain.history_bytes = rebuilt.history_bytes();
            turn.warnings.extend(warning_for(chain.reason));
            turn.warnings.extend(files_missing(&rebuilt.manifest));
        }
        let decided = Decided { chain, files: planned, chunks, rebuilt, view };
        let prompt = assemble(&turn, (instruction, spec), (files, &found), &decided);
        let body = agent.runtime.compose(&prompt);
        self.draft(turn, (prompt, body), decided)
    }

    /// Makes the plan's payloads ready for the change set that names them.
    pub(super) async fn stage(
        &self,
        scope: &Scope,
        drafts: Vec<Draft>,
    ) -> Result<Vec<NewPayload>, Error> {
        let mut staged = Vec::with_capacity(drafts.len());
        for draft in drafts {
            staged.push(payloads::stage(&self.platform, scope, draft).await?);
        }
        Ok(staged)
    }

    /// The session's conversation context, in the version that it is bound to.
    async fn conversation_spec(
        &self,
        scope: &Scope,
        session: &Session,
    ) -> Result<Option<ConversationSpec>, Error> {
        let Some((id, version)) = session.binding.conversation_context else { return Ok(None) };
        let found = self.platform.store.find_conversation_context(scope, id, Some(version)).await?;
        Ok(found.map(|context| context.spec))
    }

    async fn chain_view(
        &self,
        scope: &Scope,
        turn: &Turn,
        files: &[GivenFile],
        found: &[Chunk],
    ) -> Result<Option<ChainView>, Error> {
        let mut paths: Vec<String> = files.iter().map(|given| given.file.path.clone()).collect();
        paths.extend(found.iter().map(|chunk| chunk.path.clone()));
        paths.sort_unstable();
        paths.dedup();
        let chunks: Vec<String> = found.iter().map(|chunk| chunk.id.clone()).collect();
        Ok(self.platform.store.chain_view(scope, turn.log, &paths, &chunks).await?)
    }

    /// Writes the plan into the turn, and puts aside what is kept apart from it.
    fn draft(
        &self,
        mut turn: Turn,
        (prompt, body): (Prompt, Option<Bytes>),
        decided: Decided,
    ) -> Result<Planned, Error> {
        let mut drafts = Vec::new();
        let texts = new_texts(&prompt, &decided);
        let texts_id = PayloadId::from_uuid(self.platform.new_id());
        let has_texts = !(texts.files.is_empty() && texts.chunks.is_empty());
        if has_texts {
            drafts.push(Draft::json(texts_id, turn.log, texts::encode(&texts)?));
        }
        if let Some(body) = &body {
            let id = PayloadId::from_uuid(self.platform.new_id());
            turn.request.request_payload = Some(id);
            drafts.push(Draft::json(id, turn.log, body.clone()));
        }
        let Decided { chain, files, chunks, rebuilt, view } = decided;
        let before = view.map(|view| view.last_chunks).unwrap_or_default();
        let saved = saved_bytes(&chain, &files, &chunks);
        turn.request.previous_response_id.clone_from(&chain.previous_response_id);
        turn.request.files = files;
        let manifest = (chain.decision == ChainDecision::Rehydrate).then_some(rebuilt.manifest);
        turn.plan = Some(Box::new(SendPlan {
            difference: delta::difference(&before, &chunks),
            chain,
            chunks,
            sent: volume(sent_bytes(&prompt)),
            saved: volume(saved),
            rehydrated: manifest,
            texts: has_texts.then_some(texts_id),
        }));
        Ok(Planned { turn, prompt: Arc::new(prompt), body, drafts })
    }
}

impl Planned {
    /// For a turn whose agent is no longer configured.
    pub(super) fn without_agent(turn: Turn, instruction: Arc<str>) -> Self {
        instruction_alone(turn, instruction, None)
    }

    /// The plan in numbers, for those who read along.
    pub(super) fn event(&self) -> Option<EventBody> {
        let plan = self.turn.plan.as_ref()?;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Some(EventBody::ContextPlanned(ContextPlanned {
            chain: plan.chain.decision,
            bytes_sent: plan.sent.bytes,
            bytes_saved: plan.saved.bytes,
            files: count(self.prompt.files.len()),
            chunks: count(self.prompt.passages.len()),
        }))
    }
}

/// Request, then conversation context, then agent context, then the agent's own configuration.
fn settle_model(turn: &mut Turn, spec: Option<&ConversationSpec>, agent: &Agent) {
    let request = &mut turn.request;
    let named = request.model.take().or_else(|| spec.and_then(|spec| spec.model.clone()));
    request.model = named.or_else(|| agent.model.clone());
    request.temperature = request.temperature.or(spec.and_then(|spec| spec.temperature));
}

/// An agent that takes no context gets no plan either.
fn instruction_alone(turn: Turn, instruction: Arc<str>, spec: Option<ConversationSpec>) -> Planned {
    let prompt = bare_prompt(&turn, instruction, spec);
    Planned { turn, prompt: Arc::new(prompt), body: None, drafts: Vec::new() }
}

fn bare_prompt(turn: &Turn, instruction: Arc<str>, spec: Option<ConversationSpec>) -> Prompt {
    Prompt {
        session: turn.request.conversation,
        turn: turn.id,
        system_prompt: spec.map(|spec| spec.system_prompt).filter(|text| !text.is_empty()),
        model: turn.request.model.clone(),
        temperature: turn.request.temperature,
        previous_response_id: None,
        open_calls: Vec::new(),
        history: Vec::new(),
        passages: Vec::new(),
        files: Vec::new(),
        instruction,
        mode: turn.request.mode,
    }
}

/// The order is always the same: history as it happened, passages and files as they were first shown, then the new.
fn assemble(
    turn: &Turn,
    (instruction, spec): (Arc<str>, Option<ConversationSpec>),
    (files, found): (&[GivenFile], &[Chunk]),
    decided: &Decided,
) -> Prompt {
    let mut prompt = bare_prompt(turn, instruction, spec);
    prompt.previous_response_id.clone_from(&decided.chain.previous_response_id);
    if let (ChainDecision::Continue, Some(view)) = (decided.chain.decision, &decided.view) {
        prompt.open_calls.clone_from(&view.chain.open_calls);
    }
    prompt.history.clone_from(&decided.rebuilt.history);
    prompt.passages.clone_from(&decided.rebuilt.passages);
    prompt.files.clone_from(&decided.rebuilt.files);
    let new = found.iter().zip(&decided.chunks).filter(|(_, plan)| plan.fate == ChunkFate::New);
    prompt.passages.extend(new.map(|(chunk, _)| Passage {
        score: chunk.score,
        chunk: ChunkText {
            chunk_id: chunk.id.clone(),
            path: chunk.path.clone(),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            text: chunk.text.clone(),
        },
    }));
    let sent = files.iter().zip(&decided.files).filter(|(_, plan)| plan.fate == FileFate::Sent);
    prompt.files.extend(sent.filter_map(|(given, plan)| {
        let content = given.content.as_ref()?.as_ref().to_owned();
        Some(FileText { path: plan.path.clone(), content })
    }));
    prompt
}

/// What the ledger cannot give back yet.
fn new_texts(prompt: &Prompt, decided: &Decided) -> SentTexts {
    let known = Held::given_up(decided.view.as_ref().map_or(&[], |view| &view.held));
    let file_plans = &decided.files;
    let is_new_file = |text: &&FileText| {
        let plan = file_plans.iter().find(|file| file.path == text.path);
        plan.is_some_and(|file| {
            known.shown_same(ChainItemKind::File, &file.path, file.sha256).is_none()
        })
    };
    let is_new_chunk = |text: &&ChunkText| {
        let plan = decided.chunks.iter().find(|chunk| chunk.chunk_id == text.chunk_id);
        plan.is_some_and(|chunk| {
            known.shown_same(ChainItemKind::Chunk, &chunk.chunk_id, chunk.sha256).is_none()
        })
    };
    let passages = prompt.passages.iter().map(|passage| &passage.chunk);
    SentTexts {
        files: prompt.files.iter().filter(is_new_file).cloned().collect(),
        chunks: passages.filter(is_new_chunk).cloned().collect(),
    }
}

fn sent_bytes(prompt: &Prompt) -> u64 {
    let history = prompt.history.iter().map(|past| past.instruction.len() + past.answer.len());
    let passages = prompt.passages.iter().map(|passage| passage.chunk.text.len());
    let files = prompt.files.iter().map(|file| file.content.len());
    let bytes: usize = history.chain(passages).chain(files).sum();
    (bytes + prompt.instruction.len()) as u64
}

fn saved_bytes(chain: &ChainPlan, files: &[TurnFile], chunks: &[TurnChunk]) -> u64 {
    if chain.decision != ChainDecision::Continue {
        return 0;
    }
    let unchanged = files.iter().filter(|file| file.fate == FileFate::Unchanged);
    let held = chunks.iter().filter(|chunk| chunk.fate == ChunkFate::AlreadyInChain);
    let bytes = unchanged.map(|file| file.size_bytes).chain(held.map(|chunk| chunk.size_bytes));
    chain.history_bytes + bytes.sum::<u64>()
}

/// Only what nobody asked for is worth a warning.
fn warning_for(reason: ChainReason) -> Option<String> {
    match reason {
        ChainReason::Expired | ChainReason::Lost => {
            Some(format!("{}; it was started anew with what is stored here", reason.text()))
        }
        ChainReason::FirstTurn
        | ChainReason::HeldByProvider
        | ChainReason::ModelChanged
        | ChainReason::ProviderKeepsNothing => None,
    }
}

/// Whoever made a file active expects the agent to know it.
fn files_missing(manifest: &Manifest) -> Option<String> {
    match manifest.files_left_out {
        0 => None,
        1 => {
            Some("a file that was shown earlier does not fit any more and was left out".to_owned())
        }
        many => Some(format!(
            "{many} files that were shown earlier do not fit any more and were left out"
        )),
    }
}

/// When a chain that grows now can no longer be relied on.
pub(super) fn expiry(keeping: ChainKeeping, now: Timestamp, days: u32) -> Option<Timestamp> {
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    match keeping {
        ChainKeeping::Server => Some(now.saturating_add(day * days)),
        ChainKeeping::Nobody => None,
    }
}
