//! Turns that would cost more than there is.

use super::{
    Accepted, Orchestrator,
    accept::{add_turn, stage_instruction},
    outcome,
};
use crate::{
    Error,
    intake::ExecuteCommand,
    model::{FailureCode, Scope, Session, Turn},
    platform::IdempotencyKey,
    policy::budget::first_day,
    ports::{ChangeSet, Resource, ResourceKind, RuntimeFailure, UsageSubject},
};

/// Which budget is used up, and how large it is.
pub(super) struct Spent {
    whose: &'static str,
    used: u64,
    limit: u64,
}

impl Spent {
    pub(super) fn reason(&self) -> RuntimeFailure {
        let Self { whose, used, limit } = self;
        RuntimeFailure {
            code: FailureCode::BudgetExceeded,
            message: format!("the {whose}'s budget of {limit} tokens is used up ({used} used)"),
        }
    }
}

impl Orchestrator {
    /// The first budget that is used up. Turns that run at the same time may go beyond it together.
    pub(super) async fn spent_budget(
        &self,
        scope: &Scope,
        turn: &Turn,
    ) -> Result<Option<Spent>, Error> {
        let budgets = &self.platform.budgets;
        let since = first_day(budgets.period, self.platform.now());
        let checks = [
            ("session", budgets.session_tokens, UsageSubject::Log(turn.log), i64::MIN),
            ("user", budgets.user_tokens, UsageSubject::User(scope.user), since),
            ("organisation", budgets.org_tokens, UsageSubject::Org, since),
        ];
        for (whose, limit, subject, since) in checks {
            let Some(limit) = limit else { continue };
            let used = self.platform.store.tokens_used(scope, subject, since).await?;
            if used >= limit {
                return Ok(Some(Spent { whose, used, limit }));
            }
        }
        Ok(None)
    }

    /// The turn is on record, and failed before anything was sent.
    pub(super) async fn begin_spent(
        &self,
        scope: &Scope,
        (session, mut turn): (&Session, Turn),
        (mut changes, command, key): (ChangeSet, &ExecuteCommand, Option<&IdempotencyKey>),
        spent: Spent,
    ) -> Result<Accepted, Error> {
        (turn.started_at, turn.dispatched_at) = (None, None);
        let staged = stage_instruction(&self.platform, scope, &turn, &command.instruction).await?;
        add_turn(&mut changes, &self.platform, session, &turn, staged);
        let resource = Resource { kind: ResourceKind::Turn, id: *turn.id.as_uuid() };
        changes.idempotency = self.platform.idempotency_record(key, resource);
        let at = turn.created_at;
        let id = turn.id;
        let failed = outcome::fail_queued(&self.platform, &mut changes, turn, spent.reason(), at)?;
        let waiting = self.running.wait_for(id);
        let committed = self.platform.commit(scope, changes).await.inspect_err(|_| {
            self.running.forget(id);
        })?;
        let sequence_number = committed.turn_numbers.first().copied().unwrap_or_default();
        let first = committed.events.iter().find(|event| event.turn == Some(id));
        let before_seq = first.map_or(0, |event| event.seq.saturating_sub(1));
        let log = failed.log;
        self.tell_waiting(Turn { number: sequence_number, ..failed }, &committed);
        Ok(Accepted {
            session: session.id,
            log,
            turn: id,
            sequence_number,
            before_seq,
            replayed: false,
            waiting: Some(waiting),
        })
    }
}
