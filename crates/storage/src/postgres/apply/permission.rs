//! What agents ask, and the answers.

use skein_core::{
    model::{Permission, PermissionState, SessionId, UserId},
    ports::Conflict,
};

use super::{
    super::{error::Fault, rows::moment},
    Applying,
};
use crate::asked;

impl Applying<'_> {
    pub(super) async fn put_permission(&self, asked: &Permission) -> Result<(), Fault> {
        let packed = asked::pack(asked)?;
        self.transaction
            .execute(
                "INSERT INTO permissions
                     (org_id, session_id, request_id, turn_id, tool, options, state, answered_by, at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    self.org(),
                    asked.session.as_uuid(),
                    &asked.request_id,
                    asked.turn.as_uuid(),
                    &asked.tool_call.tool,
                    &packed,
                    &asked.state.as_str(),
                    &asked.answered_by.map(|user| *user.as_uuid()),
                    &moment(asked.at),
                ],
            )
            .await?;
        Ok(())
    }

    /// Only while it is pending.
    pub(super) async fn settle_permission(
        &self,
        (session, request_id): (SessionId, &str),
        state: PermissionState,
        answered_by: Option<UserId>,
    ) -> Result<(), Fault> {
        let by = answered_by.map(|user| *user.as_uuid());
        let changed = self
            .transaction
            .execute(
                "UPDATE permissions SET state = $4, answered_by = $5
                 WHERE org_id = $1 AND session_id = $2 AND request_id = $3 AND state = 'pending'",
                &[self.org(), session.as_uuid(), &request_id, &state.as_str(), &by],
            )
            .await?;
        if changed == 1 {
            return Ok(());
        }
        let found = self
            .transaction
            .query_opt(
                "SELECT 1 FROM permissions
                 WHERE org_id = $1 AND session_id = $2 AND request_id = $3",
                &[self.org(), session.as_uuid(), &request_id],
            )
            .await?;
        Err(match found {
            Some(_) => Conflict::PermissionSettled(request_id.to_owned()).into(),
            None => Conflict::Missing("permission").into(),
        })
    }
}
