//! Organisations and the people in them.

use serde_json::json;
use tracing::instrument;

use super::{IssuedToken, NewToken, People, audit};
use crate::{
    Error,
    model::{Org, OrgId, Scope, SystemScope, User, UserId, UserRole},
    platform::{Created, IdempotencyKey, RACE_ATTEMPTS},
    policy::{access, text::check_text},
    ports::{AuditEntry, ChangeSet, Conflict, Resource, ResourceKind, StoreError, Write},
};

/// A person to be added.
#[derive(Debug, Clone)]
pub struct NewUser {
    pub name: String,
    pub role: UserRole,
}

/// What to change of a user; the rest stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct UserEdit {
    pub role: Option<UserRole>,
    pub is_disabled: Option<bool>,
}

impl People {
    /// Makes a tenant. Only the owner of the installation may.
    #[instrument(skip_all)]
    pub async fn create_org(
        &self,
        scope: &Scope,
        name: String,
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<Org>, Error> {
        self.check_instance_owner(scope).await?;
        self.check_name(&name)?;
        let org = Org { id: OrgId::from_uuid(self.platform.new_id()), name };
        let resource = Resource { kind: ResourceKind::Org, id: *org.id.as_uuid() };
        for _ in 0..RACE_ATTEMPTS {
            if let Some(seen) = self.platform.find_replay(scope, key).await? {
                let value = self.org(OrgId::from_uuid(seen.id)).await?;
                return Ok(Created { value, replayed: true });
            }
            let at = self.platform.now();
            let (action, target) = ("org.created", format!("org/{}", org.id));
            let detail = json!({"name": org.name});
            let changes = ChangeSet {
                writes: vec![Write::CreateOrg(org.clone())],
                audit: vec![AuditEntry { at, action, target, detail }],
                idempotency: self.platform.idempotency_record(key, resource),
                ..ChangeSet::default()
            };
            match self.platform.commit(scope, changes).await {
                Ok(_) => return Ok(Created { value: org, replayed: false }),
                Err(error) if error.is_lost_race() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::AlreadyExists { entity: "org", name: org.name })
    }

    /// Adds a person with a token of their own. Admins do so in their org, the instance owner in any.
    #[instrument(skip_all)]
    pub async fn create_user(
        &self,
        scope: &Scope,
        org: OrgId,
        new: NewUser,
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<(User, IssuedToken)>, Error> {
        let scope = &self.scope_in(scope, org).await?;
        access::check_user_role(scope, new.role)?;
        self.check_name(&new.name)?;
        let taken = || Error::AlreadyExists { entity: "user", name: new.name.clone() };
        for _ in 0..RACE_ATTEMPTS {
            if let Some(seen) = self.platform.find_replay(scope, key).await? {
                return self.replayed_user(scope, UserId::from_uuid(seen.id)).await;
            }
            let (user, issued) = self.draft_user(org, &new);
            let resource = Resource { kind: ResourceKind::User, id: *user.id.as_uuid() };
            let changes = ChangeSet {
                writes: vec![
                    Write::CreateUser(user.clone()),
                    Write::CreateToken(issued.token.clone()),
                ],
                audit: vec![
                    self.user_audit("user.created", &user),
                    audit("token.created", &issued.token),
                ],
                idempotency: self.platform.idempotency_record(key, resource),
                ..ChangeSet::default()
            };
            match self.platform.commit(scope, changes).await {
                Ok(_) => return Ok(Created { value: (user, issued), replayed: false }),
                Err(Error::Store(StoreError::Conflict(Conflict::AlreadyExists(_)))) => {
                    return Err(taken());
                }
                Err(error) if error.is_lost_race() => {}
                Err(error) => return Err(error),
            }
        }
        Err(taken())
    }

    /// The people of an org, in the order of their ids.
    pub async fn list_users(
        &self,
        scope: &Scope,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<User>, Error> {
        access::check_administer(scope, "listing users")?;
        Ok(self.platform.store.list_users(scope, after, limit).await?)
    }

    /// Oneself, or anyone for an admin.
    pub async fn user(&self, scope: &Scope, user: UserId) -> Result<User, Error> {
        let found = self.platform.store.find_user(scope, user).await?;
        let visible = found.filter(|user| {
            let administers = scope.role >= UserRole::Admin && scope.only_session.is_none();
            user.id == scope.user || administers
        });
        visible.ok_or(Error::NotFound { entity: "user" })
    }

    /// Changes a person's role, or puts them out of use. The last door is not locked: nobody changes themself.
    #[instrument(skip_all)]
    pub async fn edit_user(
        &self,
        scope: &Scope,
        user: UserId,
        edit: UserEdit,
    ) -> Result<User, Error> {
        let current = self.user(scope, user).await?;
        access::check_user_role(scope, current.role)?;
        if user == scope.user || current.instance_owner {
            return Err(Error::Forbidden { action: "changing oneself or the instance owner" });
        }
        if let Some(role) = edit.role {
            if scope.role != UserRole::Owner {
                return Err(Error::Forbidden { action: "changing roles" });
            }
            access::check_user_role(scope, role)?;
        }
        let disabled_at = match edit.is_disabled {
            Some(true) => current.disabled_at.or_else(|| Some(self.platform.now())),
            Some(false) => None,
            None => current.disabled_at,
        };
        let edited = User { role: edit.role.unwrap_or(current.role), disabled_at, ..current };
        let changes = ChangeSet {
            writes: vec![Write::SaveUser(edited.clone())],
            audit: vec![self.user_audit("user.changed", &edited)],
            ..ChangeSet::default()
        };
        self.platform.commit(scope, changes).await?;
        self.believed().retain(|_, (identity, _)| identity.user.id != user);
        Ok(edited)
    }

    /// The caller's own scope for their own org; for the instance owner, one in any org that exists.
    async fn scope_in(&self, scope: &Scope, org: OrgId) -> Result<Scope, Error> {
        if org == scope.org {
            return Ok(scope.clone());
        }
        if self.check_instance_owner(scope).await.is_err() {
            return Err(Error::NotFound { entity: "org" });
        }
        self.org(org).await?;
        Ok(Scope::on_behalf_of(org, scope.user))
    }

    async fn org(&self, org: OrgId) -> Result<Org, Error> {
        let scope = SystemScope::for_purpose("administration by the instance owner");
        let found = self.platform.store.find_org(scope, org).await?;
        found.ok_or(Error::NotFound { entity: "org" })
    }

    async fn check_instance_owner(&self, scope: &Scope) -> Result<(), Error> {
        let user = self.platform.store.find_user(scope, scope.user).await?;
        let is_instance_owner = user.is_some_and(|user| user.instance_owner);
        if is_instance_owner && scope.role == UserRole::Owner && scope.only_session.is_none() {
            Ok(())
        } else {
            Err(Error::Forbidden { action: "looking after orgs" })
        }
    }

    fn draft_user(&self, org: OrgId, new: &NewUser) -> (User, IssuedToken) {
        let user = User {
            id: UserId::from_uuid(self.platform.new_id()),
            org,
            name: new.name.clone(),
            role: new.role,
            instance_owner: false,
            disabled_at: None,
        };
        let first = NewToken { role: new.role, ..NewToken::for_owner("first token") };
        let (token, secret) = self.mint(org, user.id, &first);
        (user, IssuedToken { token, secret: Some(secret) })
    }

    async fn replayed_user(
        &self,
        scope: &Scope,
        user: UserId,
    ) -> Result<Created<(User, IssuedToken)>, Error> {
        let missing = || Error::NotFound { entity: "user" };
        let found = self.platform.store.find_user(scope, user).await?.ok_or_else(missing)?;
        let token = self.platform.store.find_first_token(scope, user).await?.ok_or_else(missing)?;
        Ok(Created { value: (found, IssuedToken { token, secret: None }), replayed: true })
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        check_text("name", name, self.platform.limits.field_bytes)?;
        if name.trim().is_empty() {
            return Err(Error::Invalid { field: "name", reason: "must not be empty".to_owned() });
        }
        Ok(())
    }

    fn user_audit(&self, action: &'static str, user: &User) -> AuditEntry {
        AuditEntry {
            at: self.platform.now(),
            action,
            target: format!("user/{}", user.id),
            detail: json!({"name": user.name, "role": user.role, "disabled": user.disabled_at.is_some()}),
        }
    }
}
