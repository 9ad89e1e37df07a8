//! Across tenants, through the functions that the schema has for it; the tables stay closed to this login.

use async_trait::async_trait;
use skein_core::{
    model::{
        AgentContext, AgentContextId, ConversationContext, Org, OrgId, SessionId, Sha256Hash,
        SystemScope, Timestamp, TurnId, User, UserId,
    },
    ports::{Identity, PendingTurn, ResidentSession, StoreError, SystemStore},
};

use super::{
    super::{
        PostgresStore,
        connection::Params,
        error::Fault,
        rows::{Columns, moment},
    },
    people::{token, user},
};
use crate::codec;

#[async_trait]
impl SystemStore for PostgresStore {
    async fn find_identity(
        &self,
        _scope: SystemScope,
        token_hash: Sha256Hash,
    ) -> Result<Option<Identity>, StoreError> {
        let hash = token_hash.as_bytes().as_slice();
        let rows = self.system("SELECT * FROM system_find_identity($1)", &[&hash]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let token = token(row)?;
        let row = Columns::new("user", row);
        let user = User {
            id: token.user,
            org: token.org,
            name: row.get("user_name")?,
            role: row.word("user_role")?,
            instance_owner: row.get("instance_owner")?,
            // The function knows no disabled ones.
            disabled_at: None,
        };
        let org = Org { id: token.org, name: row.get("org_name")? };
        Ok(Some(Identity { token, user, org }))
    }

    async fn find_instance_owner(&self, _scope: SystemScope) -> Result<Option<User>, StoreError> {
        let rows = self.system("SELECT * FROM system_find_instance_owner()", &[]).await?;
        Ok(rows.first().map(user).transpose()?)
    }

    async fn find_org(&self, _scope: SystemScope, org: OrgId) -> Result<Option<Org>, StoreError> {
        let rows = self.system("SELECT name FROM system_find_org($1)", &[org.as_uuid()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Org { id: org, name: Columns::new("org", row).get("name")? }))
    }

    async fn seal_audit(&self, _scope: SystemScope) -> Result<u64, StoreError> {
        let store = self.clone();
        self.to_the_end(async move { Ok(store.seal().await?) }).await
    }

    async fn list_pending(
        &self,
        _scope: SystemScope,
        after: Option<TurnId>,
        limit: u32,
    ) -> Result<Vec<PendingTurn>, StoreError> {
        let after = after.map(|turn| *turn.as_uuid());
        let sql = "SELECT * FROM system_list_pending($1, $2)";
        let rows = self.system(sql, &[&after, &i64::from(limit)]).await?;
        let pending: Result<Vec<PendingTurn>, Fault> = rows
            .iter()
            .map(|row| {
                let row = Columns::new("turn", row);
                Ok(PendingTurn {
                    org: row.id("org_id", OrgId::from_uuid)?,
                    session: row.id("session_id", SessionId::from_uuid)?,
                    turn: row.id("turn_id", TurnId::from_uuid)?,
                    created_by: row.id("created_by", UserId::from_uuid)?,
                    started_at: row.opt_time("started_at")?,
                    response: row
                        .get::<Option<String>>("response_id")?
                        .zip(Some(row.opt_counter("provider_seq")?)),
                })
            })
            .collect();
        Ok(pending?)
    }

    async fn list_resident(
        &self,
        _scope: SystemScope,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<ResidentSession>, StoreError> {
        let after = after.map(|session| *session.as_uuid());
        let sql = "SELECT * FROM system_list_resident($1, $2)";
        let rows = self.system(sql, &[&after, &i64::from(limit)]).await?;
        let found: Result<Vec<ResidentSession>, Fault> = rows
            .iter()
            .map(|row| {
                let row = Columns::new("session", row);
                Ok(ResidentSession {
                    org: row.id("org_id", OrgId::from_uuid)?,
                    session: row.id("session_id", SessionId::from_uuid)?,
                    owner: row.id("owner_user", UserId::from_uuid)?,
                })
            })
            .collect();
        Ok(found?)
    }

    async fn register_agents(
        &self,
        _scope: SystemScope,
        agents: Vec<(AgentContext, String)>,
    ) -> Result<Vec<AgentContext>, StoreError> {
        let mut registered = Vec::with_capacity(agents.len());
        for (agent, spec) in agents {
            let hash = Sha256Hash::of(spec.as_bytes());
            let packed = codec::pack(spec.as_bytes());
            let rows = self
                .system(
                    "SELECT * FROM system_register_agent($1, $2, $3, $4)",
                    &[agent.id.as_uuid(), &agent.name, &packed, &hash.as_bytes().as_slice()],
                )
                .await?;
            for row in &rows {
                let row = Columns::new("agent", row);
                registered.push(AgentContext {
                    id: row.id("id", AgentContextId::from_uuid)?,
                    name: agent.name.clone(),
                    version: row.small("version")?,
                });
            }
        }
        Ok(registered)
    }

    async fn register_conversation_contexts(
        &self,
        _scope: SystemScope,
        contexts: Vec<ConversationContext>,
    ) -> Result<(), StoreError> {
        for context in &contexts {
            let json = codec::json("conversation context", &context.spec)?;
            let hash = Sha256Hash::of(&json);
            self.system(
                "SELECT system_register_conversation_context($1, $2, $3, $4, $5)",
                &[
                    context.id.as_uuid(),
                    &context.name,
                    &codec::pack(&json),
                    &hash.as_bytes().as_slice(),
                    &moment(context.created_at),
                ],
            )
            .await?;
        }
        let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
        self.system("SELECT system_retire_conversation_contexts($1)", &[&names]).await?;
        Ok(())
    }

    async fn sweep(&self, _scope: SystemScope, before: Timestamp) -> Result<u64, StoreError> {
        let rows = self.system("SELECT system_sweep($1) AS swept", &[&moment(before)]).await?;
        Ok(rows.first().map_or(Ok(0), |row| Columns::new("row", row).counter("swept"))?)
    }

    async fn check(&self, _scope: SystemScope) -> Result<(), StoreError> {
        let sql = "SELECT current_setting('transaction_read_only') AS read_only";
        let rows = self.system(sql, &[]).await?;
        let read_only: Option<String> =
            rows.first().map(|row| Columns::new("setting", row).get("read_only")).transpose()?;
        match read_only.as_deref() {
            Some("off") => Ok(()),
            _ => Err(StoreError::Unavailable("the database takes no writes".into())),
        }
    }
}

impl PostgresStore {
    /// One statement, which is its own transaction and is set to no org.
    pub(in crate::postgres) async fn system(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, Fault> {
        let client = self.client().await?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query(&statement, params).await?)
    }
}
