//! Applies a change set inside a transaction: locks, then checks, then writes, then the log.
//!
//! Locks and all that is decided on are read in one round trip; most writes wait for the commit and go with it.

mod chain;
mod event;
mod expect;
mod facts;
mod payload;
mod people;
mod permission;
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

pub(super) use self::event::last_turn;
use self::{event::LogState, facts::Facts};
use super::{
    connection::{Deferred, Transaction, Value},
    error::Fault,
};

/// A change set on its way.
struct Applying<'a> {
    transaction: &'a Transaction<'a>,
    scope: &'a Scope,
    changes: &'a ChangeSet,
    /// The counters of every log that is written, locked until the end.
    logs: BTreeMap<LogId, LogState>,
    /// What was true when the locks had been taken.
    facts: Facts,
    /// The turns that were created so far, with the numbers they got.
    numbered: Vec<(TurnId, u32)>,
    /// Statements that are still to be sent, in their order.
    deferred: Vec<Deferred<'a>>,
}

/// Applies it. The caller commits together with the statements that are given back, or drops the transaction when
/// this fails.
pub(super) async fn apply<'a>(
    transaction: &'a Transaction<'a>,
    scope: &'a Scope,
    changes: &'a ChangeSet,
) -> Result<(Committed, Vec<Deferred<'a>>), Fault> {
    let (logs, facts) = facts::read(transaction, scope, changes).await?;
    let (numbered, deferred) = (Vec::new(), Vec::new());
    let mut applying = Applying { transaction, scope, changes, logs, facts, numbered, deferred };

    for expectation in &changes.expects {
        applying.check(expectation)?;
    }
    for write in &changes.writes {
        applying.write(write).await?;
    }
    let events = applying.append()?;
    applying.save_logs();
    applying.audit();
    let turn_numbers = applying.numbered.iter().map(|(_, number)| *number).collect();
    Ok((Committed { events, turn_numbers }, applying.deferred))
}

impl<'a> Applying<'a> {
    fn org(&self) -> &'a Uuid {
        self.scope.org.as_uuid()
    }

    fn later(&mut self, sql: &'static str, values: Vec<Value<'a>>) {
        self.deferred.push(Deferred { sql, values });
    }

    /// Sends what waits, because something that is sent at once depends on it.
    async fn flush(&mut self) -> Result<(), Fault> {
        let deferred = std::mem::take(&mut self.deferred);
        if deferred.is_empty() { Ok(()) } else { self.transaction.execute_all(deferred).await }
    }

    /// The one place where this engine interprets a write.
    async fn write(&mut self, write: &'a Write) -> Result<(), Fault> {
        let waits = matches!(
            write,
            Write::CreateTurn { .. }
                | Write::StartTurn { .. }
                | Write::NoteResponse { .. }
                | Write::FinishTurn(_)
                | Write::AdvanceChain { .. }
                | Write::PutPayload(_)
                | Write::PutPayloadPart { .. }
        );
        if !waits {
            self.flush().await?;
        }
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
            Write::StartTurn { turn, at } => self.start_turn(*turn, *at),
            Write::PlanTurn(turn) => self.plan_turn(turn).await,
            Write::NoteResponse { turn, response_id, position } => {
                self.note_response(*turn, response_id, *position)
            }
            Write::FinishTurn(turn) => self.finish_turn(turn),
            Write::AdvanceChain { log, chain, items } => self.advance_chain(*log, chain, items),
            Write::PutPayload(payload) => self.put_payload(payload),
            Write::PutPayloadPart { payload, part, body } => {
                self.put_payload_part(*payload, *part, body);
                Ok(())
            }
            Write::PutCheckpoint(checkpoint) => self.put_checkpoint(checkpoint).await,
            Write::CreateDocument(document) => self.create_document(document).await,
            Write::PutPermission(asked) => self.put_permission(asked).await,
            Write::SettlePermission { session, request_id, state, answered_by } => {
                self.settle_permission((*session, request_id), *state, *answered_by).await
            }
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
            Write::CreateDocument(document) => logs.push(document.log),
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
            | Write::PutCheckpoint(_)
            | Write::PutPermission(_)
            | Write::SettlePermission { .. } => {}
        }
    }
    let (mut logs, mut turns): (Vec<Uuid>, Vec<Uuid>) = (
        logs.iter().map(|id| *id.as_uuid()).collect(),
        turns.iter().map(|id| *id.as_uuid()).collect(),
    );
    for ids in [&mut logs, &mut turns] {
        ids.sort_unstable();
        ids.dedup();
    }
    (logs, turns)
}
