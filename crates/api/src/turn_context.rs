//! What a turn sent, kept back and why.

use serde::Serialize;
use skein_core::{
    history::TurnContext,
    model::{self, ChainDecision},
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{ChunkRef, SentContext, Time};

/// What an agent was given for a turn, or would be given.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// None for a turn that was only planned.
    pub turn_id: Option<Uuid>,
    pub chain: Chain,
    pub files: Vec<ContextFile>,
    pub chunks: Vec<ContextChunk>,
    pub difference: Difference,
    pub bytes_sent: u64,
    pub bytes_saved: u64,
    /// Estimated.
    pub tokens_sent: u64,
    /// Estimated.
    pub tokens_saved: u64,
    pub rehydrated: Option<Rehydrated>,
}

/// How the turn continues what the provider holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// start, continue or rehydrate.
    pub decision: &'static str,
    /// first_turn, held_by_provider, expired, lost, model_changed or provider_keeps_nothing; not_planned for a turn that
    /// never started or whose agent is given the instruction alone.
    pub reason: &'static str,
    /// The reason for people.
    pub detail: &'static str,
    pub previous_response_id: Option<String>,
    pub expires_at: Option<Time>,
}

/// What became of an active file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextFile {
    pub path: String,
    /// Null when the file is too large to send and the caller did not tell it.
    pub content_hash: Option<String>,
    pub size_bytes: u64,
    /// sent, unchanged, too_large or binary; not_used by agents that take no files, waiting before the turn starts.
    pub fate: &'static str,
    pub reason: String,
}

/// What became of a passage.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextChunk {
    #[serde(flatten)]
    pub chunk: ChunkRef,
    pub size_bytes: u64,
    pub score: f64,
    /// new, already_in_chain, stale_local_version or over_budget.
    pub fate: &'static str,
    pub reason: String,
}

/// Chunk ids against the turn before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct Difference {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub kept: Vec<String>,
}

/// What was sent again because a new chain began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rehydrated {
    pub turns: Vec<RehydratedTurn>,
    pub files: Vec<RehydratedItem>,
    pub chunks: Vec<RehydratedItem>,
    /// Older turns that did not fit.
    pub turns_left_out: u32,
    /// Files and passages that were shown earlier and did not fit.
    pub files_left_out: u32,
    pub chunks_left_out: u32,
    pub bytes_sent: u64,
    /// Estimated.
    pub tokens_sent: u64,
}

/// An earlier turn that was told again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RehydratedTurn {
    pub turn_id: Uuid,
    pub sequence_number: u32,
    /// whole or summary.
    pub form: &'static str,
}

/// A file or passage that was shown again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RehydratedItem {
    /// A path, or a chunk id.
    pub item: String,
    pub content_hash: String,
    pub size_bytes: u64,
}

impl From<TurnContext> for Context {
    fn from(context: TurnContext) -> Self {
        let turn = context.turn;
        let sent = SentContext::new(&turn, context.instruction_bytes);
        let chain = Chain::of(&turn);
        let plan = turn.plan.map(|plan| *plan);
        let (chunks, difference, rehydrated) = match &plan {
            Some(plan) => (
                plan.chunks.iter().map(ContextChunk::from).collect(),
                Difference::from(&plan.difference),
                plan.rehydrated.as_ref().map(Rehydrated::from),
            ),
            None => (Vec::new(), Difference::default(), None),
        };
        let tokens = plan.as_ref().map(|plan| (plan.sent.tokens, plan.saved.tokens));
        let (tokens_sent, tokens_saved) = tokens.unwrap_or_default();
        Self {
            turn_id: (!context.is_dry_run).then_some(*turn.id.as_uuid()),
            chain,
            files: turn.request.files.into_iter().map(ContextFile::from).collect(),
            chunks,
            difference,
            bytes_sent: sent.bytes_sent,
            bytes_saved: sent.bytes_saved,
            tokens_sent,
            tokens_saved,
            rehydrated,
        }
    }
}

impl Chain {
    fn of(turn: &model::Turn) -> Self {
        let Some(model::SendPlan { chain, .. }) = turn.plan.as_deref() else {
            return Self {
                decision: ChainDecision::Start.as_str(),
                reason: "not_planned",
                detail: match turn.started_at {
                    Some(_) => "the agent is given the instruction alone",
                    None => "the turn has not started",
                },
                previous_response_id: None,
                expires_at: None,
            };
        };
        Self {
            decision: chain.decision.as_str(),
            reason: chain.reason.as_str(),
            detail: chain.reason.text(),
            previous_response_id: chain.previous_response_id.clone(),
            expires_at: chain.expires_at.map(Time),
        }
    }
}

impl From<model::TurnFile> for ContextFile {
    fn from(file: model::TurnFile) -> Self {
        Self {
            content_hash: file.known_hash().map(|hash| hash.to_string()),
            path: file.path,
            size_bytes: file.size_bytes,
            fate: file.fate.as_str(),
            reason: file.reason,
        }
    }
}

impl From<&model::TurnChunk> for ContextChunk {
    fn from(chunk: &model::TurnChunk) -> Self {
        Self {
            chunk: ChunkRef::from(chunk),
            size_bytes: chunk.size_bytes,
            score: chunk.score,
            fate: chunk.fate.as_str(),
            reason: chunk.reason.clone(),
        }
    }
}

impl From<&model::ChunkDifference> for Difference {
    fn from(difference: &model::ChunkDifference) -> Self {
        let model::ChunkDifference { added, removed, kept } = difference.clone();
        Self { added, removed, kept }
    }
}

impl From<&model::Manifest> for Rehydrated {
    fn from(manifest: &model::Manifest) -> Self {
        let turn = |turn: &model::ManifestTurn| RehydratedTurn {
            turn_id: *turn.turn_id.as_uuid(),
            sequence_number: turn.sequence_number,
            form: turn.form.as_str(),
        };
        let item = |item: &model::ManifestItem| RehydratedItem {
            item: item.item.clone(),
            content_hash: item.content_hash.to_string(),
            size_bytes: item.size_bytes,
        };
        Self {
            turns: manifest.turns.iter().map(turn).collect(),
            files: manifest.files.iter().map(item).collect(),
            chunks: manifest.chunks.iter().map(item).collect(),
            turns_left_out: manifest.turns_left_out,
            files_left_out: manifest.files_left_out,
            chunks_left_out: manifest.chunks_left_out,
            bytes_sent: manifest.sent.bytes,
            tokens_sent: manifest.sent.tokens,
        }
    }
}
