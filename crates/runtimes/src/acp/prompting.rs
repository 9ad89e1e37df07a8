//! One instruction, from the prompt to the agent's stop reason.

use std::{sync::Arc, time::Duration};

use agent_client_protocol::v1::schema::{
    ContentBlock, PromptRequest, PromptResponse, StopReason, TextContent,
};
use futures::stream::BoxStream;
use skein_core::{
    model::{FailureCode, Usage},
    ports::{AgentOutcome, AgentUpdate, RunRequest, RuntimeFailure},
};
use tokio::time::timeout;

use super::{
    agent::{Ended, Shared},
    connection::{CallError, MAX_QUESTIONS},
    waiting::{self, Updates},
};

/// How long an agent may take to end a prompt that was called off. Then it is ended itself.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Why nobody waits for a prompt any more.
enum Abandoned {
    /// The turn was ended by others.
    CalledOff,
    TimedOut,
    Broken(String),
}

/// Prompts the agent. Dropping the stream calls the prompt off.
pub(super) fn prompt(
    shared: &Arc<Shared>,
    request: RunRequest,
    turn_timeout: Duration,
    notice: Option<String>,
) -> BoxStream<'static, AgentUpdate> {
    let (updates, received) = waiting::updates();
    let task = drive(Arc::clone(shared), request, (turn_timeout, notice), updates);
    shared.tasks.spawn(task);
    received
}

async fn drive(
    shared: Arc<Shared>,
    request: RunRequest,
    (turn_timeout, notice): (Duration, Option<String>),
    updates: Updates,
) {
    // The prompt before may still be on its way out.
    let prompting = Arc::clone(&shared.prompting);
    let _open = tokio::select! {
        open = prompting.lock() => open,
        () = updates.closed() => return,
        failure = shared.ended() => {
            return updates.tell(unheard(failure)).await;
        }
    };
    if let Some(failure) = shared.ended_for.get().cloned() {
        return updates.tell(unheard(failure)).await;
    }
    if let Some(notice) = notice {
        updates.tell(AgentUpdate::Warning(notice)).await;
    }
    let (breaks, broken) = shared.begin(request.turn, updates.clone());
    let session = shared.session.get().cloned().unwrap_or_default();
    let text = TextContent::new(request.prompt.instruction.as_ref());
    let prompt = PromptRequest::new(session, vec![ContentBlock::Text(text)]);
    let call = shared.connection.call::<PromptResponse>("session/prompt", &prompt);
    let mut call = std::pin::pin!(call);
    let abandoned = tokio::select! {
        biased;
        () = updates.closed() => Abandoned::CalledOff,
        () = breaks.cancelled() => Abandoned::Broken(broken.get().cloned().unwrap_or_default()),
        replied = &mut call => {
            let ended = shared.finish();
            let end = conclude(&shared, replied, &ended).await;
            for update in end {
                updates.tell(update).await;
            }
            return;
        }
        () = tokio::time::sleep(turn_timeout) => Abandoned::TimedOut,
    };
    // What is said from here on belongs to no turn.
    shared.finish();
    if let Some(failure) = abandoned.failure(turn_timeout) {
        updates.tell(failed(failure)).await;
    }
    shared.cancel();
    if timeout(CANCEL_GRACE, &mut call).await.is_err() {
        shared.ended_for.get_or_init(|| RuntimeFailure {
            code: FailureCode::Cancelled,
            message: "the agent did not let itself be cancelled, and was ended".to_owned(),
        });
        shared.put_down().await;
    }
}

impl Abandoned {
    fn failure(self, turn_timeout: Duration) -> Option<RuntimeFailure> {
        let (code, message) = match self {
            Self::CalledOff => return None,
            Self::TimedOut => {
                let seconds = turn_timeout.as_secs_f64();
                (FailureCode::AgentTimeout, format!("the agent took more than {seconds} s"))
            }
            Self::Broken(reason) => (FailureCode::AgentProtocolError, reason),
        };
        Some(RuntimeFailure { code, message })
    }
}

/// The last updates of a prompt that the agent has ended.
async fn conclude(
    shared: &Shared,
    replied: Result<PromptResponse, CallError>,
    ended: &Ended,
) -> Vec<AgentUpdate> {
    let mut updates = Vec::new();
    if ended.garbage > 0 {
        let lines = ended.garbage;
        let warning = format!("{lines} lines that the agent wrote are not its protocol");
        updates.push(AgentUpdate::Warning(warning));
    }
    if ended.surplus > 0 {
        let questions = ended.surplus;
        updates.push(AgentUpdate::Warning(format!(
            "the agent asked more than {MAX_QUESTIONS} questions at once; {questions} of them were called off"
        )));
    }
    let response = match replied {
        Ok(response) => response,
        Err(error) => {
            updates.push(failed(failure(shared, error).await));
            return updates;
        }
    };
    if let Some(usage) = &response.usage {
        let (input_tokens, output_tokens) = (usage.input_tokens, usage.output_tokens);
        updates.push(AgentUpdate::Usage(Usage { input_tokens, output_tokens }));
    }
    let warning = match response.stop_reason {
        StopReason::MaxTokens => Some("the agent stopped at its limit of tokens"),
        StopReason::MaxTurnRequests => Some("the agent stopped at its limit of model requests"),
        StopReason::Refusal => Some("the agent refused to go on"),
        StopReason::Cancelled if ended.is_refused => {
            Some("the agent ended its turn because something was not allowed")
        }
        StopReason::Cancelled => {
            let message = "the agent cancelled the turn".to_owned();
            updates.push(failed(RuntimeFailure { code: FailureCode::Cancelled, message }));
            return updates;
        }
        _ => None,
    };
    updates.extend(warning.map(|warning| AgentUpdate::Warning(warning.to_owned())));
    updates.push(AgentUpdate::Finished(AgentOutcome::Answered));
    updates
}

/// What a refused or lost call means for people.
pub(super) async fn failure(shared: &Shared, error: CallError) -> RuntimeFailure {
    let (code, message) = match error {
        CallError::Gone => return shared.ended().await,
        CallError::Unreadable { method, reason } => {
            (FailureCode::AgentProtocolError, format!("the agent's answer to {method}: {reason}"))
        }
        CallError::Refused(refusal) => {
            let detail = refusal.data.as_ref().and_then(|data| {
                data.as_str().or_else(|| data.get("details").or(data.get("message"))?.as_str())
            });
            let said = match detail {
                Some(detail) => format!("{}: {detail}", refusal.message),
                None => refusal.message.clone(),
            };
            match refusal.code {
                AUTH_REQUIRED => (
                    FailureCode::AgentAuthRequired,
                    format!("the agent needs a log-in or a key: {said}"),
                ),
                code => {
                    (FailureCode::ProviderError, format!("the agent reported error {code}: {said}"))
                }
            }
        }
    };
    RuntimeFailure { code, message: shared.redaction.apply(&message) }
}

const AUTH_REQUIRED: i64 = -32_000;

/// An agent that was ended because of another prompt is started again; one that died is not.
fn unheard(failure: RuntimeFailure) -> AgentUpdate {
    match failure.code {
        FailureCode::Cancelled => AgentUpdate::Finished(AgentOutcome::Unheard(failure)),
        _ => failed(failure),
    }
}

fn failed(failure: RuntimeFailure) -> AgentUpdate {
    AgentUpdate::Finished(AgentOutcome::Failed(failure))
}
