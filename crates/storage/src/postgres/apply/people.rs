//! Orgs, users and tokens.

use skein_core::{
    model::{Org, OrgId, Timestamp, Token, TokenId, User},
    ports::Conflict,
};

use super::{
    super::{error::Fault, rows::moment},
    Applying,
};

impl Applying<'_> {
    /// A record of another org is not there, as far as this caller can tell.
    pub(super) fn own(&self, org: OrgId) -> Result<(), Fault> {
        if org == self.scope.org { Ok(()) } else { Err(Conflict::Missing("org").into()) }
    }

    /// Also in another org's scope: the instance owner makes them from their own.
    pub(super) async fn create_org(&self, org: &Org) -> Result<(), Fault> {
        self.transaction
            .execute("INSERT INTO orgs (id, name) VALUES ($1, $2)", &[org.id.as_uuid(), &org.name])
            .await?;
        Ok(())
    }

    pub(super) async fn create_user(&self, user: &User) -> Result<(), Fault> {
        self.own(user.org)?;
        self.transaction
            .execute(
                "INSERT INTO users (org_id, id, name, role, instance_owner, disabled_at)
                 VALUES ($1, $2, $3, $4, $5, $6)",
                &[
                    self.org(),
                    user.id.as_uuid(),
                    &user.name,
                    &user.role.as_str(),
                    &user.instance_owner,
                    &user.disabled_at.map(moment),
                ],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn save_user(&self, user: &User) -> Result<(), Fault> {
        self.own(user.org)?;
        let saved = self
            .transaction
            .execute(
                "UPDATE users SET name = $3, role = $4, disabled_at = $5
                 WHERE org_id = $1 AND id = $2",
                &[
                    self.org(),
                    user.id.as_uuid(),
                    &user.name,
                    &user.role.as_str(),
                    &user.disabled_at.map(moment),
                ],
            )
            .await?;
        if saved == 0 { Err(Conflict::Missing("user").into()) } else { Ok(()) }
    }

    pub(super) async fn create_token(&self, token: &Token) -> Result<(), Fault> {
        self.own(token.org)?;
        if let Some(session) = token.session {
            self.transaction
                .query_opt(
                    "SELECT 1 FROM sessions WHERE org_id = $1 AND id = $2",
                    &[self.org(), session.as_uuid()],
                )
                .await?
                .ok_or(Conflict::Missing("session"))?;
        }
        self.transaction
            .execute(
                "INSERT INTO tokens (org_id, id, user_id, name, hash, role, session_id,
                                     created_at, expires_at, revoked_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                &[
                    self.org(),
                    token.id.as_uuid(),
                    token.user.as_uuid(),
                    &token.name,
                    &token.hash.as_bytes().as_slice(),
                    &token.role.as_str(),
                    &token.session.map(|session| *session.as_uuid()),
                    &moment(token.created_at),
                    &token.expires_at.map(moment),
                    &token.revoked_at.map(moment),
                ],
            )
            .await?;
        Ok(())
    }

    pub(super) async fn revoke_token(&self, token: TokenId, at: Timestamp) -> Result<(), Fault> {
        let revoked = self
            .transaction
            .execute(
                "UPDATE tokens SET revoked_at = coalesce(revoked_at, $3)
                 WHERE org_id = $1 AND id = $2",
                &[self.org(), token.as_uuid(), &moment(at)],
            )
            .await?;
        if revoked == 0 { Err(Conflict::Missing("token").into()) } else { Ok(()) }
    }
}
