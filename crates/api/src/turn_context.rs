//! What a turn sent, kept back and why.

use serde::Serialize;
use skein_core::{history::TurnContext, model};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{ChunkRef, SentContext, Time};

/// What an agent was given for a turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    pub turn_id: Uuid,
    pub chain: Chain,
    pub files: Vec<ContextFile>,
    pub chunks: Vec<ContextChunk>,
    pub difference: Difference,
    pub bytes_sent: u64,
    pub bytes_saved: u64,
    #[schema(value_type = Option<Object>)]
    pub rehydrated: Option<serde_json::Value>,
}

/// How the turn continues what the provider holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// start, continue or rehydrate.
    pub decision: &'static str,
    pub reason: &'static str,
    pub previous_response_id: Option<String>,
    pub expires_at: Option<Time>,
}

/// What became of an active file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextFile {
    pub path: String,
    pub content_hash: String,
    pub size_bytes: u64,
    pub fate: &'static str,
    pub reason: String,
}

/// What became of a passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextChunk {
    #[serde(flatten)]
    pub chunk: ChunkRef,
    pub fate: &'static str,
}

/// Chunk ids against the turn before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct Difference {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub kept: Vec<String>,
}

impl From<TurnContext> for Context {
    fn from(context: TurnContext) -> Self {
        let turn = context.turn;
        let sent = SentContext::new(&turn.request, context.instruction_bytes);
        let reason = match turn.request.previous_response_id {
            Some(_) => "the provider still holds the turns before",
            None => "nothing is held by a provider",
        };
        Self {
            turn_id: *turn.id.as_uuid(),
            chain: Chain {
                decision: sent.chain,
                reason,
                previous_response_id: turn.request.previous_response_id,
                expires_at: None,
            },
            files: turn.request.files.into_iter().map(ContextFile::from).collect(),
            chunks: Vec::new(),
            difference: Difference::default(),
            bytes_sent: sent.bytes_sent,
            bytes_saved: sent.bytes_saved,
            rehydrated: None,
        }
    }
}

impl From<model::TurnFile> for ContextFile {
    fn from(file: model::TurnFile) -> Self {
        Self {
            path: file.path,
            content_hash: file.sha256.to_string(),
            size_bytes: file.size_bytes,
            fate: file.fate.as_str(),
            reason: file.reason,
        }
    }
}
