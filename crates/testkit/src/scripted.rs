//! An agent that does what a test wrote down, and waits where the test says.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use skein_core::{
    model::FailureCode,
    ports::{AgentOutcome, AgentRuntime, AgentUpdate, Coalescing, RunRequest, RuntimeFailure},
};
use tokio::sync::Semaphore;

/// One line of a script.
#[derive(Debug, Clone)]
pub enum Step {
    Play(AgentUpdate),
    /// Waits until the test opens the gate.
    Hold(Gate),
    /// Waits until the turn is cancelled: an agent that would work for ever.
    AwaitCancel,
}

impl Step {
    pub fn text(text: &str) -> Self {
        Self::Play(AgentUpdate::Text(text.to_owned()))
    }

    pub fn answered() -> Self {
        Self::Play(AgentUpdate::Finished(AgentOutcome::Answered))
    }

    pub fn failed(code: FailureCode, message: &str) -> Self {
        Self::Play(AgentUpdate::Finished(AgentOutcome::Failed(RuntimeFailure {
            code,
            message: message.to_owned(),
        })))
    }
}

/// A place in a script where the agent stops until the test goes on. Clones are the same gate; once open it stays open.
#[derive(Debug, Clone)]
pub struct Gate {
    reached: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }
}

impl Gate {
    /// Waits until the agent stands at the gate.
    pub async fn reached(&self) {
        // The semaphore is never closed, so this cannot fail.
        let _permit = self.reached.acquire().await;
    }

    /// Lets the agent pass.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }

    async fn pass(&self) {
        self.reached.add_permits(1);
        let _permit = self.opened.acquire().await;
    }
}

/// Plays one script per run, in the order they were given.
#[derive(Debug)]
pub struct ScriptedRuntime {
    scripts: Mutex<VecDeque<Vec<Step>>>,
    requests: Mutex<Vec<RunRequest>>,
    coalescing: Coalescing,
}

impl ScriptedRuntime {
    /// The first run's script.
    pub fn playing(script: impl Into<Vec<Step>>) -> Self {
        Self {
            scripts: Mutex::new(VecDeque::from([script.into()])),
            requests: Mutex::default(),
            coalescing: Coalescing::Gather,
        }
    }

    /// The script of the run after those that have one.
    pub fn then(self, script: impl Into<Vec<Step>>) -> Self {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner).push_back(script.into());
        self
    }

    /// One event per chunk instead of gathered text.
    pub fn every_chunk(self) -> Self {
        Self { coalescing: Coalescing::EveryChunk, ..self }
    }

    /// What the agent was asked so far.
    pub fn requests(&self) -> Vec<RunRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl AgentRuntime for ScriptedRuntime {
    fn run(&self, request: RunRequest) -> BoxStream<'static, AgentUpdate> {
        let cancel = request.cancel.clone();
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let script =
            self.scripts.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or_else(
                || {
                    vec![Step::failed(
                        FailureCode::AgentProtocolError,
                        "no script is left for this run",
                    )]
                },
            );

        stream::iter(script)
            .filter_map(move |step| {
                let cancel = cancel.clone();
                async move {
                    match step {
                        Step::Play(update) => return Some(update),
                        Step::Hold(gate) => gate.pass().await,
                        Step::AwaitCancel => cancel.cancelled().await,
                    }
                    None
                }
            })
            .boxed()
    }

    fn coalescing(&self) -> Coalescing {
        self.coalescing
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skein_core::{
        model::{Mode, SessionId, TurnId},
        ports::Prompt,
    };
    use tokio_util::sync::CancellationToken;
    use uuid::Uuid;

    use super::*;

    fn request() -> RunRequest {
        let (session, turn) = (SessionId::from_uuid(Uuid::nil()), TurnId::from_uuid(Uuid::nil()));
        let prompt = Prompt {
            session,
            turn,
            system_prompt: None,
            model: None,
            temperature: None,
            previous_response_id: None,
            open_calls: Vec::new(),
            history: Vec::new(),
            passages: Vec::new(),
            files: Vec::new(),
            instruction: Arc::from("say something"),
            mode: Mode::Ask,
        };
        let (prompt, cancel) = (Arc::new(prompt), CancellationToken::new());
        RunRequest { session, turn, prompt, body: None, attempts: 1, cancel }
    }

    #[tokio::test]
    async fn a_gate_holds_the_script_until_it_is_opened() {
        let gate = Gate::default();
        let agent = ScriptedRuntime::playing([
            Step::text("one"),
            Step::Hold(gate.clone()),
            Step::text("two"),
            Step::answered(),
        ]);
        let mut updates = agent.run(request());
        assert_eq!(updates.next().await, Some(AgentUpdate::Text("one".to_owned())));

        let (held, rest) = tokio::join!(
            async {
                gate.reached().await;
                gate.open();
                "held"
            },
            updates.collect::<Vec<_>>()
        );

        assert_eq!(held, "held");
        assert_eq!(
            rest,
            [AgentUpdate::Text("two".to_owned()), AgentUpdate::Finished(AgentOutcome::Answered)]
        );
    }

    #[tokio::test]
    async fn each_run_has_its_own_script_and_one_too_many_fails() {
        let agent = ScriptedRuntime::playing([Step::answered()]).then([Step::AwaitCancel]);
        let cancelled = request();
        cancelled.cancel.cancel();

        let first: Vec<_> = agent.run(request()).collect().await;
        let second: Vec<_> = agent.run(cancelled).collect().await;
        let third: Vec<_> = agent.run(request()).collect().await;

        assert_eq!(first, [AgentUpdate::Finished(AgentOutcome::Answered)]);
        assert_eq!(second, []);
        assert!(matches!(third[..], [AgentUpdate::Finished(AgentOutcome::Failed(_))]));
        assert_eq!(agent.requests().len(), 3);
    }
}
