//! Orgs, users and tokens.

use rusqlite::params;
use skein_core::{
    model::{Org, OrgId, Timestamp, Token, TokenId, User},
    ports::{Conflict, Write},
};

use super::{
    super::{
        error::{Fault, OrConflict},
        prepared::Prepared,
        rows::{key, opt_key, opt_millis},
    },
    Target, must_change,
};

pub(super) fn create_org(target: &Target<'_>, org: &Org) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached("INSERT INTO orgs (id, name) VALUES (?1, ?2)")?
        .execute(params![key(&org.id), org.name])
        .or_exists("org")?;
    Ok(())
}

pub(super) fn create_user(
    target: &Target<'_>,
    changes: &Prepared,
    user: &User,
) -> Result<(), Fault> {
    own_or_new(target, changes, user.org)?;
    target
        .connection
        .prepare_cached(
            "INSERT INTO users (org_id, id, name, role, instance_owner) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            key(&user.org),
            key(&user.id),
            user.name,
            user.role.as_str(),
            user.instance_owner,
        ])
        .or_exists("user")?;
    Ok(())
}

pub(super) fn create_token(
    target: &Target<'_>,
    changes: &Prepared,
    token: &Token,
) -> Result<(), Fault> {
    own_or_new(target, changes, token.org)?;
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

/// People may be added to the caller's own org and to one that the same change set creates.
fn own_or_new(target: &Target<'_>, changes: &Prepared, org: OrgId) -> Result<(), Fault> {
    let creates = |write: &Write| matches!(write, Write::CreateOrg(created) if created.id == org);
    if org == target.org || changes.writes.iter().any(|prepared| creates(&prepared.write)) {
        return Ok(());
    }
    Err(Conflict::Missing("org").into())
}
