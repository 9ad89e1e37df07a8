//! Responses that outlived the process that asked for them.

use std::sync::Arc;

use tracing::{error, info};

use super::{
    Orchestrator, planning::Planned, raw::RawResponse, run::Job, texts, transcript::Before,
};
use crate::{
    Error, history,
    model::{MessageContent, PayloadId, Role, Scope, Turn},
    ports::{MessagePage, MessageRange, PendingTurn, Prompt},
};

/// Messages of one turn that are looked through at most.
const MAX_MESSAGES: u32 = 1_000;

impl Orchestrator {
    /// Whether the turn's response can still be fetched from its provider.
    pub(crate) async fn can_take_up(&self, pending: &PendingTurn) -> Result<bool, Error> {
        if pending.response.is_none() {
            return Ok(false);
        }
        let scope = Scope::on_behalf_of(pending.org, pending.created_by);
        let store = &self.platform.store;
        let Some(record) = store.find_session(&scope, pending.session).await? else {
            return Ok(false);
        };
        let binding = &record.session.binding;
        let agent = self.agents.resolve_bound(&self.platform, &scope, binding).await?;
        Ok(agent.is_some_and(|agent| agent.runtime.outlives_connections()))
    }

    /// Goes on where the turn's events were last durable. Nothing is dispatched again.
    pub(crate) async fn take_up(self: &Arc<Self>, pending: PendingTurn) {
        let turn = pending.turn;
        match self.try_take_up(pending).await {
            Ok(()) => info!(turn.id = %turn, "taking up a response that outlived a restart"),
            Err(error) => error!(turn.id = %turn, %error, "a response could not be taken up"),
        }
    }

    async fn try_take_up(self: &Arc<Self>, pending: PendingTurn) -> Result<(), Error> {
        let scope = Scope::on_behalf_of(pending.org, pending.created_by);
        let session = pending.session;
        let store = &self.platform.store;
        let Some(record) = store.find_turn(&scope, session, pending.turn).await? else {
            return Ok(());
        };
        let Some(found) = store.find_session(&scope, session).await? else { return Ok(()) };
        let binding = &found.session.binding;
        let agent = self.agents.resolve_bound(&self.platform, &scope, binding).await?;
        let turn = record.turn;
        let before = Before {
            said: self.said_before(&scope, &turn).await?,
            open: history::open_message(&self.platform, &scope, session, turn.id)
                .await?
                .map(|open| (open.id, open.text)),
            response: pending.response,
            raw: Some(RawResponse::recalled(&self.platform, &scope, turn.id).await?),
        };
        let prompt = self.sent_prompt(&scope, &turn).await?;
        let Some(control) = self.running.enter(turn.id) else { return Ok(()) };
        let planned = Planned { turn, prompt: Arc::new(prompt), body: None, drafts: Vec::new() };
        let job = Job::new(scope, (session, planned), (agent, control));
        self.spawn(Job { before, ..job });
        Ok(())
    }

    /// The messages that the agent had closed.
    async fn said_before(
        &self,
        scope: &Scope,
        turn: &Turn,
    ) -> Result<Vec<(String, Option<PayloadId>)>, Error> {
        let range = MessageRange { after: 0, before: None, since: None };
        let page = MessagePage::Last(MAX_MESSAGES);
        let session = turn.request.conversation;
        let events = self.platform.store.list_message_events(scope, session, range, page).await?;
        let mut said = Vec::new();
        for message in events.iter().filter_map(crate::model::Event::message) {
            if message.turn != Some(turn.id) || message.role != Role::Agent {
                continue;
            }
            match message.content {
                MessageContent::Text { text, .. } => said.push((text, None)),
                MessageContent::TextPayload { payload, .. } => {
                    let body = self.platform.store.payload_body(scope, payload).await?;
                    said.push((String::from_utf8_lossy(&body).into_owned(), Some(payload)));
                }
                MessageContent::Plan { .. }
                | MessageContent::Tool { .. }
                | MessageContent::Error { .. }
                | MessageContent::Status { .. } => {}
            }
        }
        Ok(said)
    }

    /// As much of the prompt as the outcome needs: the instruction, and the files that were shown.
    async fn sent_prompt(&self, scope: &Scope, turn: &Turn) -> Result<Prompt, Error> {
        let instruction = Arc::from(self.instruction_of(scope, turn).await?);
        let planned = Planned::without_agent(turn.clone(), instruction);
        let mut prompt = Arc::unwrap_or_clone(planned.prompt);
        if let Some(texts) = turn.plan.as_ref().and_then(|plan| plan.texts) {
            let body = self.platform.store.payload_body(scope, texts).await?;
            prompt.files = texts::decode(&body)?.files;
        }
        Ok(prompt)
    }
}
