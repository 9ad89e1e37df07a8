//! What Skein does for itself, across tenants.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use skein_core::{
    model::{
        AgentContext, ConversationContext, Org, OrgId, SessionId, Sha256Hash, SystemScope,
        Timestamp, TurnId, User,
    },
    ports::{Identity, Lane, PendingTurn, ResidentSession, StoreError, SystemStore},
};

use super::{
    super::{
        SqliteStore,
        error::Fault,
        rows::{Columns, key, opt_key},
    },
    configured,
    people::{read_token, read_user},
};

/// Rows that one piece of a sweep removes at most, so that it never holds up the writer for long.
const SWEPT_AT_ONCE: u32 = 64;

#[async_trait]
impl SystemStore for SqliteStore {
    async fn find_identity(
        &self,
        _scope: SystemScope,
        token_hash: Sha256Hash,
    ) -> Result<Option<Identity>, StoreError> {
        self.readers.read(move |connection| find_identity(connection, token_hash)).await
    }

    async fn find_instance_owner(&self, _scope: SystemScope) -> Result<Option<User>, StoreError> {
        self.readers
            .read(|connection| {
                connection
                    .prepare_cached(
                        "SELECT id, org_id, name, role, instance_owner, disabled_at FROM users
                         WHERE instance_owner = 1 ORDER BY id LIMIT 1",
                    )?
                    .query_row([], |row| Ok(read_user(&mut Columns::new("user", row))))
                    .optional()?
                    .transpose()
            })
            .await
    }

    async fn find_org(&self, _scope: SystemScope, org: OrgId) -> Result<Option<Org>, StoreError> {
        self.readers
            .read(move |connection| {
                let name: Option<String> = connection
                    .prepare_cached("SELECT name FROM orgs WHERE id = ?1 AND deleted_at IS NULL")?
                    .query_row(params![key(&org)], |row| row.get(0))
                    .optional()?;
                Ok(name.map(|name| Org { id: org, name }))
            })
            .await
    }

    /// Nothing waits: rows are chained as they are committed.
    async fn seal_audit(&self, _scope: SystemScope) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn list_pending(
        &self,
        _scope: SystemScope,
        after: Option<TurnId>,
        limit: u32,
    ) -> Result<Vec<PendingTurn>, StoreError> {
        self.readers.read(move |connection| list_pending(connection, after, limit)).await
    }

    async fn list_resident(
        &self,
        _scope: SystemScope,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<ResidentSession>, StoreError> {
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT org_id, id, owner_user FROM sessions
                     WHERE is_resident = 1 AND state IN ('created', 'active')
                         AND id > coalesce(?1, x'') ORDER BY id LIMIT ?2",
                )?;
                let mut rows = statement.query(params![opt_key(&after), limit])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let mut columns = Columns::new("session", row);
                    let (org, session) = (columns.id()?, columns.id()?);
                    found.push(ResidentSession { org, session, owner: columns.id()? });
                }
                Ok(found)
            })
            .await
    }

    async fn register_agents(
        &self,
        _scope: SystemScope,
        agents: Vec<(AgentContext, String)>,
    ) -> Result<Vec<AgentContext>, StoreError> {
        let now = self.clock.now();
        self.write(Lane::Interactive, move |connection| {
            let register =
                |(agent, spec): &(_, String)| configured::agent(connection, agent, spec, now);
            agents.iter().map(register).collect()
        })
        .await
    }

    async fn register_conversation_contexts(
        &self,
        _scope: SystemScope,
        contexts: Vec<ConversationContext>,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.write(Lane::Interactive, move |connection| {
            configured::conversation_contexts(connection, &contexts, now)
        })
        .await
    }

    async fn sweep(&self, _scope: SystemScope, before: Timestamp) -> Result<u64, StoreError> {
        let mut total = 0;
        loop {
            let removed =
                self.write(Lane::Bulk, move |connection| sweep(connection, before)).await?;
            total += removed;
            if removed == 0 {
                return Ok(total);
            }
        }
    }

    async fn check(&self, _scope: SystemScope) -> Result<(), StoreError> {
        if self.is_full() {
            // Rewrites one number of the file's header, which needs as much room as a small change set.
            let probe = "PRAGMA user_version = 1";
            return self
                .write(Lane::Interactive, move |connection| Ok(connection.execute_batch(probe)?))
                .await;
        }
        self.write(Lane::Interactive, |_| Ok(())).await
    }
}

fn find_identity(
    connection: &Connection,
    token_hash: Sha256Hash,
) -> Result<Option<Identity>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT t.id, t.org_id, t.user_id, t.name, t.hash, t.role, t.session_id, t.created_at,
             t.expires_at, t.revoked_at, u.id, u.org_id, u.name, u.role, u.instance_owner,
             u.disabled_at, o.id, o.name
         FROM tokens t
         JOIN users u ON u.org_id = t.org_id AND u.id = t.user_id AND u.disabled_at IS NULL
         JOIN orgs o ON o.id = t.org_id AND o.deleted_at IS NULL
         WHERE t.hash = ?1",
    )?;
    let mut rows = statement.query(params![token_hash.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut columns = Columns::new("token", row);
    Ok(Some(Identity {
        token: read_token(&mut columns)?,
        user: read_user(&mut columns)?,
        org: Org { id: columns.id()?, name: columns.get()? },
    }))
}

fn list_pending(
    connection: &Connection,
    after: Option<TurnId>,
    limit: u32,
) -> Result<Vec<PendingTurn>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT t.org_id, s.id, t.id, t.created_by, t.started_at, t.response_id, t.provider_seq
         FROM turns t
         JOIN sessions s ON s.org_id = t.org_id AND s.log_id = t.log_id
         WHERE t.status = 'pending' AND t.id > coalesce(?1, x'') ORDER BY t.id LIMIT ?2",
    )?;
    let mut rows = statement.query(params![opt_key(&after), limit])?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new("turn", row);
        turns.push(PendingTurn {
            org: columns.id()?,
            session: columns.id()?,
            turn: columns.id()?,
            created_by: columns.id()?,
            started_at: columns.opt_time()?,
            response: noted_response(&mut columns)?,
        });
    }
    Ok(turns)
}

fn noted_response(columns: &mut Columns<'_, '_>) -> Result<Option<(String, Option<u64>)>, Fault> {
    let (id, position) = (columns.get::<Option<String>>()?, columns.get::<Option<i64>>()?);
    Ok(id.map(|id| (id, position.map(i64::unsigned_abs))))
}

fn sweep(connection: &Connection, before: Timestamp) -> Result<u64, Fault> {
    let parts = connection
        .prepare_cached(
            "DELETE FROM payload_parts WHERE rowid IN (
                 SELECT q.rowid FROM payload_parts q
                 WHERE q.created_at < ?1 AND NOT EXISTS (
                     SELECT 1 FROM payloads p WHERE p.org_id = q.org_id AND p.id = q.payload_id)
                 LIMIT ?2)",
        )?
        .execute(params![before.as_millis(), SWEPT_AT_ONCE])?;
    let keys = connection
        .prepare_cached(
            "DELETE FROM idempotency WHERE (org_id, user_id, key) IN (
                 SELECT org_id, user_id, key FROM idempotency WHERE created_at < ?1 LIMIT ?2)",
        )?
        .execute(params![before.as_millis(), SWEPT_AT_ONCE])?;
    Ok((parts + keys) as u64)
}
