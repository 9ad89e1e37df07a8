//! Applies a change set inside a transaction: locks, then checks, then writes, then the log.

mod chain;
mod event;
mod expect;
mod payload;
mod people;
mod plan;
mod registry;
mod session;
mod turn;
mod usage;

use std::collections::BTreeMap;

use skein_core::{
    model::{LogId, Scope, TurnId},
    ports::{ChangeSet, Committed, Expectation, Write},
};
use uuid::Uuid;

use self::event::LogState;
pub(super) use self::event::last_turn;
use super::{connection::Transaction, error::Fault};

/// A change set on its way.
struct Applying<'a> {
    transaction: &'a Transaction<'a>,
    scope: &'a Scope,
    changes: &'a ChangeSet,
    /// The counters of every log that is written, locked until the end.
    logs: BTreeMap<LogId, LogState>,
    /// The turns that were created so far, with the numbers they got.
    numbered: Vec<(TurnId, u32)>,
}

/// Applies all of it. The caller commits, or drops the transaction when this fails.
pub(super) async fn apply(
    transaction: &Transaction<'_>,
    scope: &Scope,
    changes: &ChangeSet,
) -> Result<Committed, Fault> {
    let logs = event::lock(transaction, scope, changes).await?;
    let mut applying = Applying { transaction, scope, changes, logs, numbered: Vec::new() };

    // A repeated request is told so before it is told that its first run is in its way.
    if let Some(record) = &changes.idempotency {
        applying.remember(record).await?;
    }
    for expectation in &changes.expects {
        applying.check(expectation).await?;
    }
    for write in &changes.writes {
        applying.write(write).await?;
    }
    let events = applying.append().await?;
    applying.save_logs().await?;
    applying.audit().await?;
    Ok(Committed {
        events,
        turn_numbers: applying.numbered.iter().map(|(_, number)| *number).collect(),
    })
}

impl Applying<'_> {
    fn org(&self) -> &Uuid {
        self.scope.org.as_uuid()
    }

    /// The one place where this engine interprets a write.
    async fn write(&mut self, write: &Write) -> Result<(), Fault> {
        match write {
            Write::CreateOrg(org) => self.create_org(org).await,
            Write::CreateUser(user) => self.create_user(user).await,
            Write::SaveUser(user) => self.save_user(user).await,
            Write::CreateToken(token) => self.create_token(token).await,
            Write::RevokeToken { token, at } => self.revoke_token(*token, *at).await,
            Write::CreateRepo(repo) => self.create_repo(repo).await,
            Write::PutAgentContext(put) => self.put_agent_context(put).await,
            Write::PutConversationContext(put) => self.put_conversation_context(put).await,
            Write::CreateSession(session) => self.create_session(session).await,
            Write::SaveSession(session) => self.save_session(session).await,
            Write::PurgeSession { session } => self.purge_session(*session).await,
            Write::CreateTicket(ticket) => self.create_ticket(ticket).await,
            Write::SetTicketStatus { ticket, status } => {
                self.set_ticket_status(*ticket, *status).await
            }
            Write::CreateTurn { session, turn } => self.create_turn(*session, turn).await,
            Write::StartTurn { turn, at } => self.start_turn(*turn, *at).await,
            Write::PlanTurn(turn) => self.plan_turn(turn).await,
            Write::NoteResponse { turn, response_id, position } => {
                self.note_response(*turn, response_id, *position).await
            }
            Write::FinishTurn(turn) => self.finish_turn(turn).await,
            Write::AdvanceChain { log, chain, items } => {
                self.advance_chain(*log, chain, items).await
            }
            Write::PutPayload(payload) => self.put_payload(payload).await,
            Write::PutPayloadPart { payload, part, body } => {
                self.put_payload_part(*payload, *part, body).await
            }
            Write::PutCheckpoint(checkpoint) => self.put_checkpoint(checkpoint).await,
        }
    }
}

/// The logs that a change set names, and the turns whose logs it means.
fn logs_and_turns(changes: &ChangeSet) -> (Vec<Uuid>, Vec<Uuid>) {
    let mut logs: Vec<LogId> = changes.events.iter().map(|event| event.log).collect();
    let mut turns: Vec<TurnId> = Vec::new();
    for expectation in &changes.expects {
        match expectation {
            Expectation::LogIdle { log }
            | Expectation::NoTurnRunning { log }
            | Expectation::PendingTurnsBelow { log, .. } => logs.push(*log),
            Expectation::TurnPending { turn } | Expectation::TurnQueued { turn } => {
                turns.push(*turn);
            }
            Expectation::SessionRevision { .. } => {}
        }
    }
    for write in &changes.writes {
        match write {
            Write::CreateTurn { turn, .. } => logs.push(turn.log),
            Write::PutPayload(payload) => logs.push(payload.log),
            Write::AdvanceChain { log, .. } => logs.push(*log),
            Write::StartTurn { turn, .. } | Write::NoteResponse { turn, .. } => turns.push(*turn),
            Write::PlanTurn(turn) | Write::FinishTurn(turn) => turns.push(turn.id),
            Write::CreateOrg(_)
            | Write::CreateUser(_)
            | Write::SaveUser(_)
            | Write::CreateToken(_)
            | Write::RevokeToken { .. }
            | Write::CreateRepo(_)
            | Write::PutAgentContext(_)
            | Write::PutConversationContext(_)
            | Write::CreateSession(_)
            | Write::SaveSession(_)
            | Write::PurgeSession { .. }
            | Write::CreateTicket(_)
            | Write::SetTicketStatus { .. }
            | Write::PutPayloadPart { .. }
            | Write::PutCheckpoint(_) => {}
        }
    }
    let as_uuids = |ids: Vec<LogId>| ids.iter().map(|id| *id.as_uuid()).collect();
    (as_uuids(logs), turns.iter().map(|id| *id.as_uuid()).collect())
}
