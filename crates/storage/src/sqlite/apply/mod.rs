//! Where a change set becomes rows. Runs on the writer, inside a savepoint.

mod chain;
mod event;
mod expect;
mod payload;
mod people;
mod permission;
mod plan;
mod purge;
mod registry;
mod session;
mod turn;
mod usage;

use rusqlite::{Connection, params};
use skein_core::{
    model::{OrgId, Seq, TurnId, UserId},
    ports::{Conflict, IdempotencyRecord, Write},
};

use super::{
    error::{Fault, OrConflict},
    prepared::{Prepared, PreparedWrite},
    rows::key,
};

/// Where and for whom to write.
pub(super) struct Target<'a> {
    pub(super) connection: &'a Connection,
    pub(super) org: OrgId,
    pub(super) user: UserId,
}

/// What the engine gave to a change set.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// One for each event, in order.
    pub(super) seqs: Vec<Seq>,
    /// The created turns with their numbers, in order.
    pub(super) turns: Vec<(TurnId, u32)>,
}

impl Applied {
    pub(super) fn number_of(&self, turn: TurnId) -> Option<u32> {
        self.turns.iter().find(|(id, _)| *id == turn).map(|(_, number)| *number)
    }
}

/// Writes all of it; on failure the caller rolls back.
///
/// The key comes first: a repeated request must learn that it is one, whatever else has changed since.
pub(super) fn apply(target: &Target<'_>, changes: &Prepared) -> Result<Applied, Fault> {
    if let Some(record) = &changes.idempotency {
        remember(target, record)?;
    }
    for expectation in &changes.expects {
        expect::check(target, expectation)?;
    }
    let mut applied = Applied::default();
    for write in &changes.writes {
        apply_write(target, changes, write, &mut applied)?;
    }
    event::append(target, &changes.events, &mut applied)?;
    payload::point_at_events(target, changes, &applied).map(|()| applied)
}

/// The one place where a [`Write`] is interpreted.
fn apply_write(
    target: &Target<'_>,
    changes: &Prepared,
    prepared: &PreparedWrite,
    applied: &mut Applied,
) -> Result<(), Fault> {
    let packed = prepared.packed.as_deref().unwrap_or_default();
    match &prepared.write {
        Write::CreateOrg(org) => people::create_org(target, org),
        Write::CreateUser(user) => people::create_user(target, user),
        Write::SaveUser(user) => people::save_user(target, user),
        Write::CreateToken(token) => people::create_token(target, token),
        Write::RevokeToken { token, at } => people::revoke_token(target, *token, *at),
        Write::CreateRepo(repo) => registry::create_repo(target, repo),
        Write::PutAgentContext(put) => registry::put_agent_context(target, put),
        Write::PutConversationContext(put) => registry::put_conversation_context(target, put),
        Write::CreateSession(session) => session::create(target, session),
        Write::SaveSession(session) => session::save(target, session),
        Write::PurgeSession { session } => purge::purge(target, *session),
        Write::CreateTicket(ticket) => session::create_ticket(target, ticket),
        Write::SetTicketStatus { ticket, status } => {
            session::set_ticket_status(target, *ticket, *status)
        }
        Write::CreateTurn { session, turn } => {
            let number = turn::create(target, *session, turn, packed)?;
            applied.turns.push((turn.id, number));
            Ok(())
        }
        Write::StartTurn { turn, at } => turn::start(target, *turn, *at),
        Write::PlanTurn(turn) => plan::replace(target, turn, packed),
        Write::NoteResponse { turn, response_id, position } => {
            turn::note_response(target, *turn, response_id, *position)
        }
        Write::FinishTurn(turn) => turn::finish(target, turn),
        Write::AdvanceChain { log, chain, items } => chain::advance(target, *log, chain, items),
        Write::PutPayload(payload) => payload::put(target, payload, packed),
        Write::PutPayloadPart { payload, part, .. } => {
            payload::put_part(target, (*payload, *part), packed, changes.now)
        }
        Write::PutCheckpoint(checkpoint) => session::put_checkpoint(target, checkpoint, packed),
        Write::CreateDocument(document) => registry::create_document(target, document),
        Write::PutPermission(asked) => permission::put(target, asked, packed),
        Write::SettlePermission { session, request_id, state, answered_by } => {
            permission::settle(target, (*session, request_id), *state, *answered_by)
        }
    }
}

fn remember(target: &Target<'_>, record: &IdempotencyRecord) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO idempotency
                 (org_id, user_id, key, fingerprint, resource_kind, resource_id, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            key(&target.org),
            key(&target.user),
            record.key,
            record.fingerprint.as_bytes(),
            record.resource.kind.as_str(),
            record.resource.id.as_bytes(),
            record.created_at.as_millis(),
        ])
        .or_taken(
            "idempotency.org_id, idempotency.user_id, idempotency.key",
            Conflict::IdempotencyKeyUsed,
        )?;
    Ok(())
}

/// A statement that must change exactly one row.
fn must_change(rows: usize, entity: &'static str) -> Result<(), Fault> {
    if rows == 0 { Err(Conflict::Missing(entity).into()) } else { Ok(()) }
}
