//! Turns as answers show them, and what can be asked of them.

use serde::{Deserialize, Serialize};
use skein_core::{
    model::{FileFate, Response, TurnChunk, TurnFile, TurnId, TurnState, TurnStatus},
    orchestrator::Accepted,
    ports::TurnRecord,
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    ActiveFile, AgentMode, Members, OnBusy, Ref, RetrievalScope, Time, Usage, execute::is_at_hand,
    payload_url,
};

/// One instruction and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    pub id: Uuid,
    pub sequence_number: u32,
    pub created_by_user: Ref,
    pub creation_date: Time,
    #[serde(rename = "openAIResponseReceivedDate")]
    pub response_received_date: Option<Time>,
    #[serde(rename = "openAIChainExpiresDate")]
    pub chain_expires_date: Option<Time>,
    /// When the agent's first words came.
    pub first_token_date: Option<Time>,
    pub status_time_stamp: Time,
    pub status: Status,
    pub mode: &'static str,
    pub conversation_id: Uuid,
    #[serde(rename = "openAIResponseId")]
    pub response_id: Option<String>,
    #[serde(rename = "previousOpenAIResponseId")]
    pub previous_response_id: Option<String>,
    #[serde(rename = "openAIModel")]
    pub model: Option<String>,
    /// The first 1,024 characters.
    pub instruction_summary: String,
    pub full_instruction_url: String,
    /// The first 1,024 characters.
    pub agent_answer_summary: Option<String>,
    pub full_agent_answer_url: Option<String>,
    /// The files that the agent of an `edit` turn wants written.
    pub file_bundle_url: Option<String>,
    #[serde(rename = "openAIRequestPayloadUrl")]
    pub request_payload_url: Option<String>,
    #[serde(rename = "openAIResponsePayloadUrl")]
    pub response_payload_url: Option<String>,
    pub chunk_refs: Vec<ChunkRef>,
    pub active_file_refs: Vec<ActiveFileRef>,
    pub skipped_files: Vec<SkippedFile>,
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
    pub error_code: Option<&'static str>,
    pub usage: Option<Usage>,
    pub rerun_of: Option<Uuid>,
    pub task_id: Uuid,
    pub workspace_id: Option<String>,
    pub repo: Option<String>,
    pub language: Option<String>,
    pub rag_scope: Option<RetrievalScope>,
}

/// A turn at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnSummary {
    pub id: Uuid,
    pub sequence_number: u32,
    pub created_by_user: Ref,
    pub creation_date: Time,
    #[serde(rename = "openAIResponseReceivedDate")]
    pub response_received_date: Option<Time>,
    pub status_time_stamp: Time,
    pub status: Status,
    pub mode: &'static str,
    pub instruction_summary: String,
    pub agent_answer_summary: Option<String>,
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
    pub error_code: Option<&'static str>,
}

/// Where a turn stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Status {
    pub id: &'static str,
    /// pending, completed or failed.
    #[schema(example = "completed")]
    pub key: &'static str,
    pub text: &'static str,
}

/// A passage that was sent along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChunkRef {
    pub chunk_id: String,
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    pub content_hash: String,
}

/// A file that the caller had at hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveFileRef {
    pub path: String,
    /// Null when the file is too large to send and the caller did not tell it.
    pub content_hash: Option<String>,
    pub size_bytes: u64,
    pub is_touched: bool,
    #[serde(rename = "wasSentToLLM")]
    pub was_sent: bool,
    pub was_too_large_to_send: bool,
}

/// A file that was not sent, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedFile {
    pub path: String,
    pub size_bytes: u64,
    pub reason: String,
}

/// Turns in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnList {
    pub turns: Vec<TurnSummary>,
    /// A sequence number: the next `after`, or the next `before` when paging backwards.
    pub next_cursor: Option<u32>,
}

/// A turn that is durable and will be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedTurn {
    pub turn_id: Uuid,
    pub sequence_number: u32,
    #[schema(example = "pending")]
    pub status: &'static str,
}

/// An instruction for a session.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prompt {
    #[schema(min_length = 1)]
    pub text: String,
    pub on_busy: Option<OnBusy>,
}

/// What a rerun changes of the turn that it repeats.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rerun {
    pub instruction: Option<String>,
    #[schema(value_type = Option<Vec<ActiveFile>>, max_items = 200)]
    pub active_files: Option<Vec<Members<ActiveFile>>>,
    pub workspace_id: Option<String>,
    pub mode: Option<AgentMode>,
    pub on_busy: Option<OnBusy>,
}

/// Ends a pending turn. There is nothing to say about it.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTurn {}

impl From<Rerun> for skein_core::orchestrator::Rerun {
    fn from(request: Rerun) -> Self {
        let files = request.active_files.unwrap_or_default();
        Self {
            instruction: request.instruction,
            active_files: files.into_iter().map(|file| file.0.into()).collect(),
            workspace_id: request.workspace_id,
            mode: request.mode.map(Into::into),
            on_busy: request.on_busy.unwrap_or_default().into(),
        }
    }
}

impl From<TurnStatus> for Status {
    fn from(status: TurnStatus) -> Self {
        let key = status.as_str();
        let text = match status {
            TurnStatus::Pending => "Pending",
            TurnStatus::Completed => "Completed",
            TurnStatus::Failed => "Failed",
        };
        Self { id: key, key, text }
    }
}

impl From<&Accepted> for AcceptedTurn {
    fn from(accepted: &Accepted) -> Self {
        Self {
            turn_id: *accepted.turn.as_uuid(),
            sequence_number: accepted.sequence_number,
            status: TurnStatus::Pending.as_str(),
        }
    }
}

/// What an outcome adds to a turn.
#[derive(Default)]
struct Outcome {
    response: Response,
    received_at: Option<Time>,
    answer_summary: Option<String>,
    answer_url: Option<String>,
    bundle_url: Option<String>,
    errors: Vec<String>,
    error_code: Option<&'static str>,
}

impl From<TurnState> for Outcome {
    fn from(state: TurnState) -> Self {
        match state {
            TurnState::Pending => Self::default(),
            TurnState::Completed(answer) => Self {
                response: answer.response,
                received_at: Some(answer.at.into()),
                answer_summary: Some(answer.summary),
                answer_url: Some(payload_url(answer.text)),
                bundle_url: answer.bundle.map(payload_url),
                ..Self::default()
            },
            TurnState::Failed(failure) => Self {
                response: failure.response,
                received_at: Some(failure.at.into()),
                errors: failure.errors,
                error_code: Some(failure.code.as_str()),
                ..Self::default()
            },
        }
    }
}

impl From<TurnRecord> for Turn {
    fn from(record: TurnRecord) -> Self {
        let TurnRecord { turn, created_by_name } = record;
        let status_at = turn.status_at();
        let status = turn.state.status();
        let outcome = Outcome::from(turn.state);
        let request = turn.request;
        let paths = request.scope_paths;
        Self {
            id: *turn.id.as_uuid(),
            sequence_number: turn.number,
            created_by_user: Ref { id: *turn.created_by.as_uuid(), text: created_by_name },
            creation_date: turn.created_at.into(),
            response_received_date: outcome.received_at,
            chain_expires_date: outcome.response.chain_expires_at.map(Time),
            first_token_date: outcome.response.first_token_at.map(Time),
            status_time_stamp: status_at.into(),
            status: status.into(),
            mode: request.mode.as_str(),
            conversation_id: *request.conversation.as_uuid(),
            response_id: outcome.response.id,
            previous_response_id: request.previous_response_id,
            model: request.model,
            instruction_summary: request.instruction_summary,
            full_instruction_url: payload_url(request.instruction),
            agent_answer_summary: outcome.answer_summary,
            full_agent_answer_url: outcome.answer_url,
            file_bundle_url: outcome.bundle_url,
            request_payload_url: request.request_payload.map(payload_url),
            response_payload_url: outcome.response.payload.map(payload_url),
            chunk_refs: turn
                .plan
                .iter()
                .flat_map(|plan| &plan.chunks)
                .filter(|chunk| is_at_hand(chunk))
                .map(ChunkRef::from)
                .collect(),
            active_file_refs: request.files.iter().map(ActiveFileRef::from).collect(),
            skipped_files: request.files.into_iter().filter_map(skipped).collect(),
            warnings: turn.warnings,
            errors: outcome.errors,
            error_code: outcome.error_code,
            usage: outcome.response.usage.map(Usage::from),
            rerun_of: request.rerun_of.as_ref().map(TurnId::as_uuid).copied(),
            task_id: *turn.ticket.as_uuid(),
            workspace_id: request.workspace_id,
            repo: request.repo,
            language: request.language,
            rag_scope: (!paths.is_empty()).then_some(RetrievalScope { paths }),
        }
    }
}

impl From<TurnRecord> for TurnSummary {
    fn from(record: TurnRecord) -> Self {
        let turn = Turn::from(record);
        Self {
            id: turn.id,
            sequence_number: turn.sequence_number,
            created_by_user: turn.created_by_user,
            creation_date: turn.creation_date,
            response_received_date: turn.response_received_date,
            status_time_stamp: turn.status_time_stamp,
            status: turn.status,
            mode: turn.mode,
            instruction_summary: turn.instruction_summary,
            agent_answer_summary: turn.agent_answer_summary,
            warnings: turn.warnings,
            errors: turn.errors,
            error_code: turn.error_code,
        }
    }
}

impl From<&TurnFile> for ActiveFileRef {
    fn from(file: &TurnFile) -> Self {
        Self {
            path: file.path.clone(),
            content_hash: file.known_hash().map(|hash| hash.to_string()),
            size_bytes: file.size_bytes,
            is_touched: file.is_touched,
            was_sent: file.fate == FileFate::Sent,
            was_too_large_to_send: file.fate == FileFate::TooLarge,
        }
    }
}

impl From<&TurnChunk> for ChunkRef {
    fn from(chunk: &TurnChunk) -> Self {
        Self {
            chunk_id: chunk.chunk_id.clone(),
            path: chunk.path.clone(),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            content_hash: chunk.sha256.to_string(),
        }
    }
}

fn skipped(file: TurnFile) -> Option<SkippedFile> {
    match file.fate {
        FileFate::TooLarge | FileFate::Binary => {
            Some(SkippedFile { path: file.path, size_bytes: file.size_bytes, reason: file.reason })
        }
        FileFate::Sent | FileFate::Unchanged | FileFate::NotUsed | FileFate::Waiting => None,
    }
}
