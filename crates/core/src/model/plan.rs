//! What a turn sent, kept back and why.

use serde::{Deserialize, Serialize};

use super::{PayloadId, Sha256Hash, Timestamp, TurnId, named_enum};

/// The stored record of what one turn gave to its agent. Files and their fates are with the turn's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendPlan {
    pub chain: ChainPlan,
    /// Kept in rows of their own, so that they can be looked for.
    #[serde(skip)]
    pub chunks: Vec<TurnChunk>,
    pub difference: ChunkDifference,
    /// Instruction, files, passages and, when rehydrating, history.
    pub sent: Volume,
    /// What the chain held already and therefore was not sent again.
    pub saved: Volume,
    /// What was sent again because a new chain began.
    pub rehydrated: Option<Manifest>,
    /// The exact texts that this turn sent for the first time, as [`SentTexts`].
    pub texts: Option<PayloadId>,
}

/// How the turn goes on from what the provider holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainPlan {
    pub decision: ChainDecision,
    pub reason: ChainReason,
    /// Grows with every new chain of the log.
    pub number: u32,
    pub previous_response_id: Option<String>,
    /// Until when the chain that is continued, or was given up, could be relied on.
    pub expires_at: Option<Timestamp>,
    /// Bytes of instructions and answers that the chain holds before this turn, or is given again by it.
    pub history_bytes: u64,
}

named_enum! {
    /// What is done about the provider's side of the conversation.
    ChainDecision, "chain decision" {
        Start = "start",
        Continue = "continue",
        Rehydrate = "rehydrate",
    }
}

named_enum! {
    /// Why.
    ChainReason, "chain reason" {
        FirstTurn = "first_turn",
        HeldByProvider = "held_by_provider",
        Expired = "expired",
        /// The provider no longer knows the response that the turn went on from.
        Lost = "lost",
        ModelChanged = "model_changed",
        ProviderKeepsNothing = "provider_keeps_nothing",
    }
}

impl ChainReason {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::FirstTurn => "nothing was said before",
            Self::HeldByProvider => "the provider still holds the turns before",
            Self::Expired => "the provider's copy of the conversation has expired",
            Self::Lost => "the provider no longer knows the conversation",
            Self::ModelChanged => "another model or provider answers from here on",
            Self::ProviderKeepsNothing => "the provider keeps nothing between calls",
        }
    }
}

/// A retrieved passage and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnChunk {
    pub chunk_id: String,
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub sha256: Sha256Hash,
    pub size_bytes: u64,
    pub score: f64,
    pub fate: ChunkFate,
    pub reason: String,
}

named_enum! {
    /// What became of a retrieved passage.
    ChunkFate, "chunk fate" {
        New = "new",
        AlreadyInChain = "already_in_chain",
        StaleLocalVersion = "stale_local_version",
        OverBudget = "over_budget",
    }
}

/// Retrieved chunk ids against those of the turn before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChunkDifference {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub kept: Vec<String>,
}

/// How much text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Volume {
    pub bytes: u64,
    /// Estimated.
    pub tokens: u64,
}

/// What a rehydration sent again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub turns: Vec<ManifestTurn>,
    pub files: Vec<ManifestItem>,
    pub chunks: Vec<ManifestItem>,
    /// Turns that did not fit the token budget at all.
    pub turns_left_out: u32,
    /// Files and passages that were shown earlier and did not fit.
    #[serde(default)]
    pub files_left_out: u32,
    #[serde(default)]
    pub chunks_left_out: u32,
    pub sent: Volume,
}

/// An earlier turn of a rehydrated conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestTurn {
    pub turn_id: TurnId,
    pub sequence_number: u32,
    pub form: HistoryForm,
}

named_enum! {
    /// How much of an earlier turn is sent.
    HistoryForm, "history form" {
        Whole = "whole",
        Summary = "summary",
    }
}

/// A file or passage that was sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestItem {
    /// A path, or a chunk id.
    pub item: String,
    pub content_hash: Sha256Hash,
    pub size_bytes: u64,
    /// The texts that hold it.
    pub texts: PayloadId,
}

/// The provider's side of a log, as far as Skein knows: what the next turn can go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChain {
    pub number: u32,
    pub provider: String,
    pub model: Option<String>,
    /// None when the provider keeps nothing.
    pub response_id: Option<String>,
    pub expires_at: Option<Timestamp>,
    /// The completed turn that the next one goes on from.
    pub tip: TurnId,
    /// Bytes of instructions and answers that the chain holds.
    pub history_bytes: u64,
    /// Calls that the next turn has to answer.
    pub open_calls: Vec<String>,
}

/// One thing that a live chain holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainItem {
    pub kind: ChainItemKind,
    /// A path, or a chunk id.
    pub item: String,
    pub sha256: Sha256Hash,
    pub size_bytes: u64,
    /// The [`SentTexts`] that hold it.
    pub texts: PayloadId,
}

named_enum! {
    /// What a chain item is.
    ChainItemKind, "chain item kind" {
        File = "file",
        Chunk = "chunk",
    }
}

/// Texts that were sent, exactly. Kept as JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SentTexts {
    pub files: Vec<FileText>,
    pub chunks: Vec<ChunkText>,
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileText {
    pub path: String,
    pub content: String,
}

/// A passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkText {
    pub chunk_id: String,
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub text: String,
}

/// Files that an agent in edit mode wants written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileBundle {
    pub files: Vec<FileChange>,
}

/// One file to be created, updated or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    pub path: String,
    pub action: FileAction,
    /// The version that the agent saw. None for a new file, and for one that it never was sent.
    pub base_hash: Option<Sha256Hash>,
    /// None when the file is to be deleted.
    pub content: Option<String>,
    /// Unified, against the version that the agent saw.
    pub diff: Option<String>,
}

named_enum! {
    /// What is to be done with a file.
    FileAction, "file action" {
        Create = "create",
        Update = "update",
        Delete = "delete",
    }
}
