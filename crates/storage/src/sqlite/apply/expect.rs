//! What must still be true when a change set is applied.

use rusqlite::{OptionalExtension, params};
use skein_core::{
    model::{LogId, TurnId},
    ports::{Conflict, Expectation, LimitKind},
};

use super::{
    super::{
        error::Fault,
        rows::{int, key},
    },
    Target,
};

pub(super) fn check(target: &Target<'_>, expectation: &Expectation) -> Result<(), Fault> {
    match expectation {
        Expectation::SessionRevision { session, revision } => {
            let stored: Option<i64> = target
                .connection
                .prepare_cached("SELECT revision FROM sessions WHERE org_id = ?1 AND id = ?2")?
                .query_row(params![key(&target.org), key(session)], |row| row.get(0))
                .optional()?;
            let stored = stored.ok_or(Conflict::Missing("session"))?;
            unless(stored == int(*revision), Conflict::SessionChanged(*session))
        }
        Expectation::TurnPending { turn } => {
            turn_progress(target, *turn).and_then(|progress| match progress {
                TurnProgress::Queued | TurnProgress::Started => Ok(()),
                TurnProgress::Finished => Err(Conflict::TurnFinished(*turn).into()),
            })
        }
        Expectation::TurnQueued { turn } => {
            turn_progress(target, *turn).and_then(|progress| match progress {
                TurnProgress::Queued => Ok(()),
                TurnProgress::Started => Err(Conflict::TurnStarted(*turn).into()),
                TurnProgress::Finished => Err(Conflict::TurnFinished(*turn).into()),
            })
        }
        Expectation::LogIdle { log } => {
            unless(pending_turns(target, *log, 1)? == 0, Conflict::TurnRunning)
        }
        Expectation::NoTurnRunning { log } => {
            unless(!has_running_turn(target, *log)?, Conflict::TurnRunning)
        }
        Expectation::PendingTurnsBelow { log, below } => unless(
            pending_turns(target, *log, *below)? < *below,
            Conflict::LimitReached(LimitKind::QueuedTurns),
        ),
    }
}

/// How far a turn has come.
pub(super) enum TurnProgress {
    Queued,
    Started,
    Finished,
}

pub(super) fn turn_progress(target: &Target<'_>, turn: TurnId) -> Result<TurnProgress, Fault> {
    let stored: Option<(bool, bool)> = target
        .connection
        .prepare_cached(
            "SELECT status = 'pending', started_at IS NOT NULL
             FROM turns WHERE org_id = ?1 AND id = ?2",
        )?
        .query_row(params![key(&target.org), key(&turn)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match stored.ok_or(Conflict::Missing("turn"))? {
        (true, false) => Ok(TurnProgress::Queued),
        (true, true) => Ok(TurnProgress::Started),
        (false, _) => Ok(TurnProgress::Finished),
    }
}

/// Counts no further than `at_most`.
fn pending_turns(target: &Target<'_>, log: LogId, at_most: u32) -> Result<u32, Fault> {
    let found: Option<u32> = target
        .connection
        .prepare_cached(
            "SELECT (SELECT count(*) FROM (
                 SELECT 1 FROM turns WHERE log_id = logs.id AND status = 'pending' LIMIT ?3))
             FROM logs WHERE org_id = ?1 AND id = ?2",
        )?
        .query_row(params![key(&target.org), key(&log), at_most], |row| row.get(0))
        .optional()?;
    Ok(found.ok_or(Conflict::Missing("log"))?)
}

fn has_running_turn(target: &Target<'_>, log: LogId) -> Result<bool, Fault> {
    let found: Option<bool> = target
        .connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM turns
                 WHERE log_id = logs.id AND status = 'pending' AND started_at IS NOT NULL)
             FROM logs WHERE org_id = ?1 AND id = ?2",
        )?
        .query_row(params![key(&target.org), key(&log)], |row| row.get(0))
        .optional()?;
    Ok(found.ok_or(Conflict::Missing("log"))?)
}

fn unless(holds: bool, conflict: Conflict) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(conflict.into()) }
}
