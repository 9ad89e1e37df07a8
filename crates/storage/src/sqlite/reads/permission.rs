//! What agents have asked.

use async_trait::async_trait;
use rusqlite::{Row, params};
use skein_core::{
    model::{Permission, Scope, SessionId},
    ports::{PermissionReads, StoreError},
};

use super::super::{
    SqliteStore,
    error::Fault,
    rows::{Columns, key},
};
use crate::asked::Asked;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT session_id, request_id, turn_id, options, state, answered_by, at FROM permissions
             WHERE org_id = ?1 AND session_id = ?2 ",
            $rest
        )
    };
}

#[async_trait]
impl PermissionReads for SqliteStore {
    async fn find_permission(
        &self,
        scope: &Scope,
        session: SessionId,
        request_id: &str,
    ) -> Result<Option<Permission>, StoreError> {
        let (org, request_id) = (scope.org, request_id.to_owned());
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(select!("AND request_id = ?3"))?;
                let mut rows = statement.query(params![key(&org), key(&session), request_id])?;
                rows.next()?.map(read).transpose()
            })
            .await
    }

    async fn list_permissions(
        &self,
        scope: &Scope,
        session: SessionId,
        limit: u32,
    ) -> Result<Vec<Permission>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let sql = select!("ORDER BY at DESC, request_id DESC LIMIT ?3");
                let mut statement = connection.prepare_cached(sql)?;
                let mut rows = statement.query(params![key(&org), key(&session), limit])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(read(row)?);
                }
                found.reverse();
                Ok(found)
            })
            .await
    }

    async fn list_pending_permissions(
        &self,
        scope: &Scope,
        session: SessionId,
    ) -> Result<Vec<Permission>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let sql = select!("AND state = 'pending' ORDER BY at, request_id");
                let mut statement = connection.prepare_cached(sql)?;
                let mut rows = statement.query(params![key(&org), key(&session)])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(read(row)?);
                }
                Ok(found)
            })
            .await
    }
}

fn read(row: &Row<'_>) -> Result<Permission, Fault> {
    let mut columns = Columns::new("permission", row);
    let (session, request_id, turn) = (columns.id()?, columns.get()?, columns.id()?);
    let Asked { tool_call, options } = columns.json()?;
    Ok(Permission {
        session,
        request_id,
        turn,
        tool_call,
        options,
        state: columns.word()?,
        answered_by: columns.opt_id()?,
        at: columns.time()?,
    })
}
