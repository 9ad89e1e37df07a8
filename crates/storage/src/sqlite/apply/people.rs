//! Orgs, users and tokens.

use rusqlite::params;
use skein_core::{
    model::{Org, OrgId, Timestamp, Token, TokenId, User},
    ports::Conflict,
};

use super::{
    super::{
        error::{Fault, OrConflict},
        rows::{key, opt_key, opt_millis},
    },
    Target, must_change,
};

/// Also in another org's scope: the instance owner makes them from their own.
pub(super) fn create_org(target: &Target<'_>, org: &Org) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached("INSERT INTO orgs (id, name) VALUES (?1, ?2)")?
        .execute(params![key(&org.id), org.name])
        .or_exists("org")?;
    Ok(())
}

pub(super) fn create_user(target: &Target<'_>, user: &User) -> Result<(), Fault> {
    own(target, user.org)?;
    target
        .connection
        .prepare_cached(
            "INSERT INTO users (org_id, id, name, role, instance_owner, disabled_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            key(&user.org),
            key(&user.id),
            user.name,
            user.role.as_str(),
            user.instance_owner,
            opt_millis(user.disabled_at),
        ])
        .or_exists("user")?;
    Ok(())
}

pub(super) fn save_user(target: &Target<'_>, user: &User) -> Result<(), Fault> {
    own(target, user.org)?;
    let rows = target
        .connection
        .prepare_cached(
            "UPDATE users SET name = ?3, role = ?4, disabled_at = ?5 WHERE org_id = ?1 AND id = ?2",
        )?
        .execute(params![
            key(&user.org),
            key(&user.id),
            user.name,
            user.role.as_str(),
            opt_millis(user.disabled_at),
        ])
        .or_exists("user")?;
    must_change(rows, "user")
}

pub(super) fn create_token(target: &Target<'_>, token: &Token) -> Result<(), Fault> {
    own(target, token.org)?;
    if let Some(session) = token.session {
        let exists = target
            .connection
            .prepare_cached("SELECT 1 FROM sessions WHERE org_id = ?1 AND id = ?2")?
            .exists(params![key(&token.org), key(&session)])?;
        must_change(usize::from(exists), "session")?;
    }
    target
        .connection
        .prepare_cached(
            "INSERT INTO tokens
                 (id, org_id, user_id, name, hash, role, session_id, created_at, expires_at, revoked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            key(&token.id),
            key(&token.org),
            key(&token.user),
            token.name,
            token.hash.as_bytes(),
            token.role.as_str(),
            opt_key(&token.session),
            token.created_at.as_millis(),
            opt_millis(token.expires_at),
            opt_millis(token.revoked_at),
        ])
        .or_exists("token")?;
    Ok(())
}

pub(super) fn revoke_token(
    target: &Target<'_>,
    token: TokenId,
    at: Timestamp,
) -> Result<(), Fault> {
    let rows = target
        .connection
        .prepare_cached(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?3) WHERE org_id = ?1 AND id = ?2",
        )?
        .execute(params![key(&target.org), key(&token), at.as_millis()])?;
    must_change(rows, "token")
}

/// A record of another org is not there, as far as this caller can tell.
fn own(target: &Target<'_>, org: OrgId) -> Result<(), Fault> {
    if org == target.org { Ok(()) } else { Err(Conflict::Missing("org").into()) }
}
