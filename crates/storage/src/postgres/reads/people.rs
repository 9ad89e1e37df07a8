//! People, their tokens, repositories and remembered requests.

use async_trait::async_trait;
use skein_core::{
    model::{OrgId, RepoId, Scope, SessionId, Token, TokenId, User, UserId},
    ports::{
        Conflict, IdempotencyReads, IdempotencyRecord, PeopleReads, RegistryReads, RepoRef,
        Resource, StoreError,
    },
};

use super::super::{PostgresStore, connection::Transaction, error::Fault, rows::Columns};

#[async_trait]
impl PeopleReads for PostgresStore {
    async fn find_user(&self, scope: &Scope, id: UserId) -> Result<Option<User>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope).await?;
        let row = transaction
            .query_opt(
                "SELECT * FROM users WHERE org_id = $1 AND id = $2",
                &[scope.org.as_uuid(), id.as_uuid()],
            )
            .await?;
        Ok(row.map(|row| user(&Columns::new("user", &row))).transpose()?)
    }

    async fn org_name(&self, scope: &Scope) -> Result<String, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope).await?;
        let row = transaction
            .query_opt("SELECT name FROM orgs WHERE id = $1", &[scope.org.as_uuid()])
            .await?
            .ok_or(Conflict::Missing("org"))?;
        Ok(Columns::new("org", &row).get("name")?)
    }

    async fn find_token(&self, scope: &Scope, id: TokenId) -> Result<Option<Token>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope).await?;
        let row = transaction
            .query_opt(
                "SELECT * FROM tokens WHERE org_id = $1 AND id = $2",
                &[scope.org.as_uuid(), id.as_uuid()],
            )
            .await?;
        Ok(row.map(|row| token(&Columns::new("token", &row))).transpose()?)
    }

    async fn list_tokens(
        &self,
        scope: &Scope,
        of: Option<UserId>,
    ) -> Result<Vec<Token>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope).await?;
        let rows = transaction
            .query(
                "SELECT * FROM tokens WHERE org_id = $1 AND ($2::uuid IS NULL OR user_id = $2)
                 ORDER BY created_at DESC, id DESC",
                &[scope.org.as_uuid(), &of.map(|user| *user.as_uuid())],
            )
            .await?;
        let tokens: Result<Vec<Token>, Fault> =
            rows.iter().map(|row| token(&Columns::new("token", row))).collect();
        Ok(tokens?)
    }
}

#[async_trait]
impl RegistryReads for PostgresStore {
    async fn find_repo(&self, scope: &Scope, repo: RepoId) -> Result<Option<RepoRef>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope).await?;
        let row = transaction
            .query_opt(
                "SELECT id, name, path FROM repos WHERE org_id = $1 AND id = $2",
                &[scope.org.as_uuid(), repo.as_uuid()],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        let row = Columns::new("repository", &row);
        Ok(Some(RepoRef {
            id: row.id("id", RepoId::from_uuid)?,
            name: row.get("name")?,
            path: row.get("path")?,
        }))
    }
}

#[async_trait]
impl IdempotencyReads for PostgresStore {
    async fn find_idempotency(
        &self,
        scope: &Scope,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope).await?;
        let row = transaction
            .query_opt(
                "SELECT * FROM idempotency WHERE org_id = $1 AND user_id = $2 AND key = $3",
                &[scope.org.as_uuid(), scope.user.as_uuid(), &key],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        let row = Columns::new("idempotency record", &row);
        Ok(Some(IdempotencyRecord {
            key: row.get("key")?,
            fingerprint: row.hash("fingerprint")?,
            resource: Resource { kind: row.word("resource_kind")?, id: row.get("resource_id")? },
            created_at: row.time("created_at")?,
        }))
    }
}

pub(super) fn user(row: &Columns<'_>) -> Result<User, Fault> {
    Ok(User {
        id: row.id("id", UserId::from_uuid)?,
        org: row.id("org_id", OrgId::from_uuid)?,
        name: row.get("name")?,
        role: row.word("role")?,
        instance_owner: row.get("instance_owner")?,
    })
}

pub(super) fn token(row: &Columns<'_>) -> Result<Token, Fault> {
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
