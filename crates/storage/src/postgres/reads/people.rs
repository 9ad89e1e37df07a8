//! People, their tokens and remembered requests.

use async_trait::async_trait;
use skein_core::{
    model::{OrgId, Scope, SessionId, Token, TokenId, User, UserId},
    ports::{Conflict, IdempotencyReads, IdempotencyRecord, PeopleReads, Resource, StoreError},
};
use tokio_postgres::Row;

use super::super::{
    PostgresStore,
    connection::Query,
    error::Fault,
    rows::{Columns, first_or},
};

#[async_trait]
impl PeopleReads for PostgresStore {
    async fn find_user(&self, scope: &Scope, id: UserId) -> Result<Option<User>, StoreError> {
        let sql = "SELECT * FROM users WHERE org_id = $1 AND id = $2";
        self.find(scope, (sql, &[scope.org.as_uuid(), id.as_uuid()]), user).await
    }

    async fn org_name(&self, scope: &Scope) -> Result<String, StoreError> {
        let sql = "SELECT name FROM orgs WHERE id = $1";
        let name = |row: &Row| Columns::new("org", row).get("name");
        let found = self.find(scope, (sql, &[scope.org.as_uuid()]), name).await?;
        Ok(found.ok_or(Conflict::Missing("org"))?)
    }

    async fn find_token(&self, scope: &Scope, id: TokenId) -> Result<Option<Token>, StoreError> {
        let sql = "SELECT * FROM tokens WHERE org_id = $1 AND id = $2";
        self.find(scope, (sql, &[scope.org.as_uuid(), id.as_uuid()]), token).await
    }

    async fn list_users(
        &self,
        scope: &Scope,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<User>, StoreError> {
        let sql = "SELECT * FROM users WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3";
        let after = first_or(after.as_ref().map(UserId::as_uuid));
        self.list(scope, (sql, &[scope.org.as_uuid(), &after, &i64::from(limit)]), user).await
    }

    async fn list_tokens(
        &self,
        scope: &Scope,
        of: Option<UserId>,
        before: Option<TokenId>,
        limit: u32,
    ) -> Result<Vec<Token>, StoreError> {
        let of = of.map(|user| *user.as_uuid());
        let before = before.map(|token| *token.as_uuid());
        let query: Query<'_> = (
            "SELECT * FROM tokens WHERE org_id = $1 AND ($2::uuid IS NULL OR user_id = $2)
                 AND ($3::uuid IS NULL OR id < $3)
             ORDER BY id DESC LIMIT $4",
            &[scope.org.as_uuid(), &of, &before, &i64::from(limit)],
        );
        self.list(scope, query, token).await
    }

    async fn find_first_token(
        &self,
        scope: &Scope,
        of: UserId,
    ) -> Result<Option<Token>, StoreError> {
        let query: Query<'_> = (
            "SELECT * FROM tokens WHERE org_id = $1 AND user_id = $2 ORDER BY id LIMIT 1",
            &[scope.org.as_uuid(), of.as_uuid()],
        );
        self.find(scope, query, token).await
    }
}

#[async_trait]
impl IdempotencyReads for PostgresStore {
    async fn find_idempotency(
        &self,
        scope: &Scope,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let query: Query<'_> = (
            "SELECT * FROM idempotency WHERE org_id = $1 AND user_id = $2 AND key = $3",
            &[scope.org.as_uuid(), scope.user.as_uuid(), &key],
        );
        self.find(scope, query, remembered).await
    }
}

fn remembered(row: &Row) -> Result<IdempotencyRecord, Fault> {
    let row = Columns::new("idempotency record", row);
    Ok(IdempotencyRecord {
        key: row.get("key")?,
        fingerprint: row.hash("fingerprint")?,
        resource: Resource { kind: row.word("resource_kind")?, id: row.get("resource_id")? },
        created_at: row.time("created_at")?,
    })
}

pub(super) fn user(row: &Row) -> Result<User, Fault> {
    let row = Columns::new("user", row);
    Ok(User {
        id: row.id("id", UserId::from_uuid)?,
        org: row.id("org_id", OrgId::from_uuid)?,
        name: row.get("name")?,
        role: row.word("role")?,
        instance_owner: row.get("instance_owner")?,
        disabled_at: row.opt_time("disabled_at")?,
    })
}

pub(super) fn token(row: &Row) -> Result<Token, Fault> {
    let row = Columns::new("token", row);
    Ok(Token {
        id: row.id("id", TokenId::from_uuid)?,
        org: row.id("org_id", OrgId::from_uuid)?,
        user: row.id("user_id", UserId::from_uuid)?,
        name: row.get("name")?,
        hash: row.hash("hash")?,
        role: row.word("role")?,
        session: row.opt_id("session_id", SessionId::from_uuid)?,
        created_at: row.time("created_at")?,
        expires_at: row.opt_time("expires_at")?,
        revoked_at: row.opt_time("revoked_at")?,
    })
}
