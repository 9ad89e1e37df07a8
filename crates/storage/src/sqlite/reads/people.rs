//! People, tokens and the keys of repeated requests.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Params, params};
use skein_core::{
    model::{Scope, Token, TokenId, User, UserId},
    ports::{Conflict, IdempotencyReads, IdempotencyRecord, PeopleReads, Resource, StoreError},
};
use uuid::Uuid;

use super::super::{
    SqliteStore,
    error::Fault,
    rows::{Columns, key, opt_key},
};

#[async_trait]
impl PeopleReads for SqliteStore {
    async fn find_user(&self, scope: &Scope, user: UserId) -> Result<Option<User>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT id, org_id, name, role, instance_owner, disabled_at FROM users
                         WHERE org_id = ?1 AND id = ?2",
                    )?
                    .query_row(params![key(&org), key(&user)], |row| {
                        Ok(read_user(&mut Columns::new("user", row)))
                    })
                    .optional()?
                    .transpose()
            })
            .await
    }

    async fn org_name(&self, scope: &Scope) -> Result<String, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let name: Option<String> = connection
                    .prepare_cached("SELECT name FROM orgs WHERE id = ?1")?
                    .query_row(params![key(&org)], |row| row.get(0))
                    .optional()?;
                Ok(name.ok_or(Conflict::Missing("org"))?)
            })
            .await
    }

    async fn find_token(&self, scope: &Scope, token: TokenId) -> Result<Option<Token>, StoreError> {
        let (org, token) = (*key(&scope.org), *key(&token));
        let found = self.tokens("org_id = ?1 AND id = ?2", (org, token)).await?;
        Ok(found.into_iter().next())
    }

    async fn list_users(
        &self,
        scope: &Scope,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<User>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id, org_id, name, role, instance_owner, disabled_at FROM users
                     WHERE org_id = ?1 AND id > coalesce(?2, x'') ORDER BY id LIMIT ?3",
                )?;
                let mut rows = statement.query(params![key(&org), opt_key(&after), limit])?;
                let mut users = Vec::new();
                while let Some(row) = rows.next()? {
                    users.push(read_user(&mut Columns::new("user", row))?);
                }
                Ok(users)
            })
            .await
    }

    async fn list_tokens(
        &self,
        scope: &Scope,
        of: Option<UserId>,
        before: Option<TokenId>,
        limit: u32,
    ) -> Result<Vec<Token>, StoreError> {
        let page = "org_id = ?1 AND (?2 IS NULL OR user_id = ?2) AND (?3 IS NULL OR id < ?3)
             ORDER BY id DESC LIMIT ?4";
        let of = of.map(|user| *key(&user));
        let before = before.map(|token| *key(&token));
        self.tokens(page, (*key(&scope.org), of, before, limit)).await
    }

    async fn find_first_token(
        &self,
        scope: &Scope,
        of: UserId,
    ) -> Result<Option<Token>, StoreError> {
        let (org, user) = (*key(&scope.org), *key(&of));
        let found = self.tokens("org_id = ?1 AND user_id = ?2 ORDER BY id LIMIT 1", (org, user));
        Ok(found.await?.into_iter().next())
    }
}

impl SqliteStore {
    async fn tokens(
        &self,
        which: &'static str,
        parameters: impl Params + Send + 'static,
    ) -> Result<Vec<Token>, StoreError> {
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(&format!(
                    "SELECT id, org_id, user_id, name, hash, role, session_id, created_at,
                         expires_at, revoked_at
                     FROM tokens WHERE {which}"
                ))?;
                let mut rows = statement.query(parameters)?;
                let mut tokens = Vec::new();
                while let Some(row) = rows.next()? {
                    tokens.push(read_token(&mut Columns::new("token", row))?);
                }
                Ok(tokens)
            })
            .await
    }
}

#[async_trait]
impl IdempotencyReads for SqliteStore {
    async fn find_idempotency(
        &self,
        scope: &Scope,
        key_text: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let (org, user, wanted) = (scope.org, scope.user, key_text.to_owned());
        self.readers
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT key, fingerprint, resource_kind, resource_id, created_at
                         FROM idempotency WHERE org_id = ?1 AND user_id = ?2 AND key = ?3",
                    )?
                    .query_row(params![key(&org), key(&user), wanted], |row| {
                        Ok(read_record(&mut Columns::new("idempotency record", row)))
                    })
                    .optional()?
                    .transpose()
            })
            .await
    }
}

pub(super) fn read_user(columns: &mut Columns<'_, '_>) -> Result<User, Fault> {
    Ok(User {
        id: columns.id()?,
        org: columns.id()?,
        name: columns.get()?,
        role: columns.word()?,
        instance_owner: columns.get()?,
        disabled_at: columns.opt_time()?,
    })
}

pub(super) fn read_token(columns: &mut Columns<'_, '_>) -> Result<Token, Fault> {
    Ok(Token {
        id: columns.id()?,
        org: columns.id()?,
        user: columns.id()?,
        name: columns.get()?,
        hash: columns.hash()?,
        role: columns.word()?,
        session: columns.opt_id()?,
        created_at: columns.time()?,
        expires_at: columns.opt_time()?,
        revoked_at: columns.opt_time()?,
    })
}

fn read_record(columns: &mut Columns<'_, '_>) -> Result<IdempotencyRecord, Fault> {
    Ok(IdempotencyRecord {
        key: columns.get()?,
        fingerprint: columns.hash()?,
        resource: Resource { kind: columns.word()?, id: Uuid::from_bytes(columns.get()?) },
        created_at: columns.time()?,
    })
}
