//! What agents have asked.

use async_trait::async_trait;
use skein_core::{
    model::{Permission, Scope, SessionId, TurnId, UserId},
    ports::{PermissionReads, StoreError},
};
use tokio_postgres::Row;

use super::super::{PostgresStore, error::Fault, rows::Columns};
use crate::asked::Asked;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT session_id, request_id, turn_id, options, state, answered_by, at FROM permissions
             WHERE org_id = $1 AND session_id = $2 ",
            $rest
        )
    };
}

#[async_trait]
impl PermissionReads for PostgresStore {
    async fn find_permission(
        &self,
        scope: &Scope,
        session: SessionId,
        request_id: &str,
    ) -> Result<Option<Permission>, StoreError> {
        let sql = select!("AND request_id = $3");
        let found = self
            .list(scope, (sql, &[scope.org.as_uuid(), session.as_uuid(), &request_id]), read)
            .await?;
        Ok(found.into_iter().next())
    }

    async fn list_permissions(
        &self,
        scope: &Scope,
        session: SessionId,
        limit: u32,
    ) -> Result<Vec<Permission>, StoreError> {
        let sql = select!("ORDER BY at DESC, request_id DESC LIMIT $3");
        let limit = i64::from(limit);
        let mut found = self
            .list(scope, (sql, &[scope.org.as_uuid(), session.as_uuid(), &limit]), read)
            .await?;
        found.reverse();
        Ok(found)
    }

    async fn list_pending_permissions(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Vec<Permission>, StoreError> {
        let sql = select!("AND state = 'pending' ORDER BY at, request_id");
        self.list(scope, (sql, &[scope.org.as_uuid(), session.as_uuid()]), read).await
    }
}

fn read(row: &Row) -> Result<Permission, Fault> {
    let row = Columns::new("permission", row);
    let asked: Option<Asked> = row.opt_json("options")?;
    let Asked { tool_call, options } = asked.ok_or_else(|| row.corrupt("nothing is asked"))?;
    Ok(Permission {
        session: row.id("session_id", SessionId::from_uuid)?,
        request_id: row.get("request_id")?,
        turn: row.id("turn_id", TurnId::from_uuid)?,
        tool_call,
        options,
        state: row.word("state")?,
        answered_by: row.opt_id("answered_by", UserId::from_uuid)?,
        at: row.time("at")?,
    })
}
