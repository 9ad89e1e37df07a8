//! Tokens that were used.

use skein_core::{
    model::{Turn, Usage},
    ports::UsageSubject,
};
use uuid::Uuid;

use super::{
    super::{connection::values, rows::int},
    Applying,
};
use crate::usage;

/// The rows are locked in one order by all. One turn of a log ends at a time, so its tokens need no slots.
const ADD: &str = "INSERT INTO token_usage AS t (org_id, subject_kind, subject_id, day, slot, tokens)
SELECT $1, new.kind, new.id, $4, CASE new.kind WHEN 'log' THEN 0 ELSE pg_backend_pid() % 32 END, $5
FROM unnest($2::text[], $3::uuid[]) AS new (kind, id) ORDER BY new.kind
ON CONFLICT (org_id, subject_kind, subject_id, day, slot) DO UPDATE SET tokens = t.tokens + excluded.tokens";

impl<'a> Applying<'a> {
    /// Adds the tokens of a finished turn to those of its org, its creator and its log.
    pub(super) fn add_tokens(&mut self, turn: &'a Turn, used: Usage) {
        let subjects =
            [UsageSubject::Org, UsageSubject::User(turn.created_by), UsageSubject::Log(turn.log)];
        let (kinds, ids): (Vec<&str>, Vec<Uuid>) =
            subjects.map(|subject| usage::key(self.scope.org, subject)).into_iter().unzip();
        let tokens = int(used.input_tokens.saturating_add(used.output_tokens));
        let day = usage::day(turn.status_at());
        let values = values![self.org(), kinds, ids, day, tokens];
        self.later(ADD, values);
    }
}
