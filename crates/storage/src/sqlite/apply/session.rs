//! Sessions, who may read them, and what belongs to them: tickets and checkpoints.

use rusqlite::{OptionalExtension, Statement, params};
use skein_core::{
    model::{AccessVia, Checkpoint, Session, Ticket, TicketId, TicketStatus},
    ports::Conflict,
};

use super::{
    super::{
        EVERYONE,
        error::{Fault, OrConflict},
        rows::{int, key, opt_key, opt_millis, pack_list},
    },
    Target, must_change, registry,
};
use crate::codec;

pub(super) fn create(target: &Target<'_>, session: &Session) -> Result<(), Fault> {
    if session.org != target.org {
        return Err(Conflict::Missing("org").into());
    }
    registry::expect_bound(target, &session.binding)?;
    target
        .connection
        .prepare_cached("INSERT INTO logs (org_id, id) VALUES (?1, ?2)")?
        .execute(params![key(&target.org), key(&session.log)])
        .or_exists("log")?;
    insert(target, session)?;
    target
        .connection
        .prepare_cached(
            "INSERT INTO session_segments (org_id, session_id, from_seq, log_id, first_turn)
             VALUES (?1, ?2, 1, ?3, 1)",
        )?
        .execute(params![key(&target.org), key(&session.id), key(&session.log)])?;
    give_access(target, session, key(&session.owner), AccessVia::Owner.as_str())?;
    if session.profile.is_public {
        give_access(target, session, &EVERYONE, "public")?;
    }
    Ok(())
}

fn insert(target: &Target<'_>, session: &Session) -> Result<(), Fault> {
    let mut statement = target.connection.prepare_cached(
        "INSERT INTO sessions (
             org_id, id, state, state_reason, revision, name, key, description, category, is_public,
             is_draft, language, metadata, agent_context_id, agent_context_version,
             conversation_context_id, conversation_context_version, repo_id, repo, workspace_id,
             scope_paths, basket_id, agent_type, interface, checkpoint_id, provider_session_id,
             agent_state, updated_at, deleted_at, log_id, owner_user, created_by, task_id,
             parent_id, fork_seq, created_at, is_resident)
         VALUES (
             ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
             ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37)",
    )?;
    bind_changeable(&mut statement, target, session)?;
    statement.raw_bind_parameter(30, key(&session.log))?;
    statement.raw_bind_parameter(31, key(&session.owner))?;
    statement.raw_bind_parameter(32, key(&session.created_by))?;
    statement.raw_bind_parameter(33, key(&session.task))?;
    statement.raw_bind_parameter(34, session.lineage.as_ref().map(|line| key(&line.parent)))?;
    statement.raw_bind_parameter(35, session.lineage.map(|line| int(line.fork_seq)))?;
    statement.raw_bind_parameter(36, session.created_at.as_millis())?;
    statement.raw_bind_parameter(37, session.is_resident)?;
    statement.raw_execute().or_exists("session")?;
    Ok(())
}

pub(super) fn save(target: &Target<'_>, session: &Session) -> Result<(), Fault> {
    let before: Option<(String, bool)> = target
        .connection
        .prepare_cached("SELECT state, is_public FROM sessions WHERE org_id = ?1 AND id = ?2")?
        .query_row(params![key(&target.org), key(&session.id)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let (state, was_public) = before.ok_or(Conflict::Missing("session"))?;
    registry::expect_bound(target, &session.binding)?;
    let mut statement = target.connection.prepare_cached(
        "UPDATE sessions SET
             state = ?3, state_reason = ?4, revision = ?5, name = ?6, key = ?7, description = ?8,
             category = ?9, is_public = ?10, is_draft = ?11, language = ?12, metadata = ?13,
             agent_context_id = ?14, agent_context_version = ?15, conversation_context_id = ?16,
             conversation_context_version = ?17, repo_id = ?18, repo = ?19, workspace_id = ?20,
             scope_paths = ?21, basket_id = ?22, agent_type = ?23, interface = ?24,
             checkpoint_id = ?25, provider_session_id = ?26, agent_state = ?27, updated_at = ?28,
             deleted_at = ?29
         WHERE org_id = ?1 AND id = ?2",
    )?;
    bind_changeable(&mut statement, target, session)?;
    statement.raw_execute().or_exists("session")?;
    let is_public = session.profile.is_public;
    if state == session.state.name().as_str() && was_public == is_public {
        return Ok(());
    }
    follow(target, session)?;
    match (was_public, is_public) {
        (false, true) => give_access(target, session, &EVERYONE, "public"),
        (true, false) => take_access_from_everyone(target, session),
        (true, true) | (false, false) => Ok(()),
    }
}

/// Parameters 1 to 29: the key, and all that may change after the creation.
fn bind_changeable(
    statement: &mut Statement<'_>,
    target: &Target<'_>,
    session: &Session,
) -> Result<(), Fault> {
    let (profile, binding) = (&session.profile, &session.binding);
    let metadata = (!profile.metadata.is_empty())
        .then(|| codec::pack_json("session", &profile.metadata))
        .transpose()?;
    let agent_state =
        session.agent_state.as_ref().map(|state| codec::pack_json("session", state)).transpose()?;
    let conversation = binding.conversation_context;
    let basket = binding.basket.as_ref();
    let parameters: [&dyn rusqlite::ToSql; 29] = [
        key(&target.org),
        key(&session.id),
        &session.state.name().as_str(),
        &session.state.reason(),
        &int(session.revision),
        &profile.name,
        &profile.key,
        &profile.description,
        &profile.category,
        &profile.is_public,
        &profile.is_draft,
        &profile.default_language,
        &metadata,
        key(&binding.agent_context),
        &binding.agent_context_version,
        &conversation.as_ref().map(|(id, _)| key(id)),
        &conversation.map(|(_, version)| version),
        &opt_key(&binding.repo_id),
        &binding.repo,
        &binding.workspace_id,
        &pack_list("session", &binding.scope_paths)?,
        &basket.map(|(id, _)| key(id)),
        &basket.map(|(_, agent_type)| agent_type),
        &session.interface.as_str(),
        &opt_key(&session.checkpoint),
        &session.provider_session_id,
        &agent_state,
        &session.updated_at.as_millis(),
        &opt_millis(session.deleted_at),
    ];
    for (index, parameter) in (1..).zip(parameters) {
        statement.raw_bind_parameter(index, parameter)?;
    }
    Ok(())
}

fn give_access(
    target: &Target<'_>,
    session: &Session,
    principal: &[u8; 16],
    via: &str,
) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO session_access
                 (org_id, principal, session_id, via, state, is_public, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            key(&target.org),
            principal,
            key(&session.id),
            via,
            session.state.name().as_str(),
            session.profile.is_public,
            session.created_at.as_millis(),
        ])?;
    Ok(())
}

fn take_access_from_everyone(target: &Target<'_>, session: &Session) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "DELETE FROM session_access WHERE org_id = ?1 AND principal = ?2 AND session_id = ?3",
        )?
        .execute(params![key(&target.org), EVERYONE, key(&session.id)])?;
    Ok(())
}

/// Lists scan the access rows, so these carry what lists are filtered and counted by.
fn follow(target: &Target<'_>, session: &Session) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "UPDATE session_access SET state = ?3, is_public = ?4
             WHERE org_id = ?1 AND session_id = ?2",
        )?
        .execute(params![
            key(&target.org),
            key(&session.id),
            session.state.name().as_str(),
            session.profile.is_public,
        ])?;
    Ok(())
}

pub(super) fn create_ticket(target: &Target<'_>, ticket: &Ticket) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO tickets
                 (org_id, id, session_id, kind, task_type, task_intent, source, initiated_by,
                  status, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            key(&target.org),
            key(&ticket.id),
            opt_key(&ticket.session),
            ticket.kind.as_str(),
            ticket.task_type,
            ticket.task_intent,
            ticket.source,
            key(&ticket.initiated_by),
            ticket.status.as_str(),
            ticket.created_at.as_millis(),
        ])
        .or_exists("ticket")?;
    Ok(())
}

pub(super) fn set_ticket_status(
    target: &Target<'_>,
    ticket: TicketId,
    status: TicketStatus,
) -> Result<(), Fault> {
    let rows = target
        .connection
        .prepare_cached("UPDATE tickets SET status = ?3 WHERE org_id = ?1 AND id = ?2")?
        .execute(params![key(&target.org), key(&ticket), status.as_str()])?;
    must_change(rows, "ticket")
}

pub(super) fn put_checkpoint(
    target: &Target<'_>,
    checkpoint: &Checkpoint,
    packed_state: &[u8],
) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO checkpoints (org_id, id, session_id, seq, reason, state, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            key(&target.org),
            key(&checkpoint.id),
            key(&checkpoint.session),
            int(checkpoint.seq),
            checkpoint.reason,
            packed_state,
            checkpoint.at.as_millis(),
        ])
        .or_exists("checkpoint")?;
    Ok(())
}
