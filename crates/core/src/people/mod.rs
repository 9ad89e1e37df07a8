//! Who is calling, and the tokens that say so.

mod orgs;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::json;
use tokio::time::Instant;
use tracing::instrument;

use crate::{
    Error,
    model::{
        Org, OrgId, Scope, SessionId, Sha256Hash, SystemScope, Timestamp, Token, TokenId, User,
        UserId, UserRole,
    },
    platform::{Created, IdempotencyKey, Platform, RACE_ATTEMPTS},
    policy::{
        access::{self, Action, TokenGrant},
        text::check_text,
    },
    ports::{AuditEntry, ChangeSet, Identity, Resource, ResourceKind, Write},
};

/// For how long an identity is believed without asking the store: bounds how late a revocation
/// by another process is seen.
const BELIEVED_FOR: Duration = Duration::from_secs(2);
const BELIEVED_AT_MOST: usize = 10_000;
const SECRET_PREFIX: &str = "skein_";

/// A caller who has shown a valid token.
#[derive(Debug, Clone)]
pub struct Caller {
    pub scope: Scope,
    pub identity: Arc<Identity>,
}

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub name: String,
    pub role: UserRole,
    pub expires_at: Option<Timestamp>,
    pub session: Option<SessionId>,
    /// None: the caller's own.
    pub user: Option<UserId>,
}

/// A token with its secret, which is shown once.
#[derive(Debug, Clone, PartialEq)]
pub struct IssuedToken {
    pub token: Token,
    /// None when a repeated request is answered: the secret is not kept.
    pub secret: Option<String>,
}

/// Identities by the hash of their secret, with when they were read.
type Believed = HashMap<Sha256Hash, (Arc<Identity>, Instant)>;

pub use orgs::{NewUser, UserEdit};

/// Authenticates callers and manages their tokens.
#[derive(Clone)]
pub struct People {
    platform: Arc<Platform>,
    believed: Arc<Mutex<Believed>>,
}

impl People {
    pub fn new(platform: Arc<Platform>) -> Self {
        Self { platform, believed: Arc::default() }
    }

    /// Whoever shows this secret, if the token is live.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<Caller>, Error> {
        let hash = Sha256Hash::of(secret.as_bytes());
        let Some(identity) = self.identity(hash).await? else { return Ok(None) };
        if !is_live(&identity, self.platform.now()) {
            return Ok(None);
        }
        let scope = Scope {
            org: identity.org.id,
            user: identity.user.id,
            role: identity.token.role.min(identity.user.role),
            only_session: identity.token.session,
            token: Some(identity.token.id),
        };
        Ok(Some(Caller { scope, identity }))
    }

    /// Whether a caller's token still opens anything; asked again and again by long-lived streams.
    pub async fn is_still_valid(&self, caller: &Caller) -> Result<bool, Error> {
        let identity = self.identity(caller.identity.token.hash).await?;
        Ok(identity.is_some_and(|identity| is_live(&identity, self.platform.now())))
    }

    /// Makes a token. Nobody hands out more than they have.
    #[instrument(skip_all)]
    pub async fn create_token(
        &self,
        scope: &Scope,
        new: NewToken,
        key: Option<&IdempotencyKey>,
    ) -> Result<Created<IssuedToken>, Error> {
        let user = self.check_new(scope, &new).await?;
        let new = NewToken { expires_at: self.cap_expiry(scope, new.expires_at).await?, ..new };
        let mut lost = Error::NotFound { entity: "token" };
        for _ in 0..RACE_ATTEMPTS {
            if let Some(resource) = self.platform.find_replay(scope, key).await? {
                let token = self.token(scope, TokenId::from_uuid(resource.id)).await?;
                let value = IssuedToken { token, secret: None };
                return Ok(Created { value, replayed: true });
            }
            let (token, secret) = self.mint(scope.org, user, &new);
            let resource = Resource { kind: ResourceKind::Token, id: *token.id.as_uuid() };
            let changes = ChangeSet {
                writes: vec![Write::CreateToken(token.clone())],
                audit: vec![audit("token.created", &token)],
                idempotency: self.platform.idempotency_record(key, resource),
                ..ChangeSet::default()
            };
            match self.platform.commit(scope, changes).await {
                Ok(_) => {
                    let value = IssuedToken { token, secret: Some(secret) };
                    return Ok(Created { value, replayed: false });
                }
                Err(error) if error.is_lost_race() => lost = error,
                Err(error) => return Err(error),
            }
        }
        Err(lost)
    }

    /// Everyone's for admins, else the caller's own; newest first, before the given one.
    pub async fn list_tokens(
        &self,
        scope: &Scope,
        before: Option<TokenId>,
        limit: u32,
    ) -> Result<Vec<Token>, Error> {
        access::check_token(scope, scope.user, TokenGrant::Nothing)?;
        let of = (scope.role < UserRole::Admin).then_some(scope.user);
        Ok(self.platform.store.list_tokens(scope, of, before, limit).await?)
    }

    /// Ends a token at once. Revoking it again changes nothing.
    #[instrument(skip_all)]
    pub async fn revoke_token(&self, scope: &Scope, token: TokenId) -> Result<(), Error> {
        // Before it is looked up, so that a token for one session does not find out which others there are.
        access::check_not_bound(scope, "managing this token")?;
        let token = self.token(scope, token).await?;
        access::check_token(scope, token.user, TokenGrant::Nothing)?;
        if token.revoked_at.is_some() {
            return Ok(());
        }
        let at = self.platform.now();
        let changes = ChangeSet {
            writes: vec![Write::RevokeToken { token: token.id, at }],
            audit: vec![AuditEntry { at, ..audit("token.revoked", &token) }],
            ..ChangeSet::default()
        };
        self.platform.commit(scope, changes).await?;
        self.believed().remove(&token.hash);
        Ok(())
    }

    /// The first run: org `default`, user `owner` and a token. `None` when that has happened before.
    pub async fn bootstrap(&self) -> Result<Option<IssuedToken>, Error> {
        if self.instance_owner().await?.is_some() {
            return Ok(None);
        }
        let org = Org { id: OrgId::from_uuid(self.platform.new_id()), name: "default".to_owned() };
        let user = User {
            id: UserId::from_uuid(self.platform.new_id()),
            org: org.id,
            name: "owner".to_owned(),
            role: UserRole::Owner,
            instance_owner: true,
            disabled_at: None,
        };
        let new = NewToken::for_owner("first run");
        let (token, secret) = self.mint(org.id, user.id, &new);
        let scope = Scope::on_behalf_of(org.id, user.id);
        let changes = ChangeSet {
            audit: vec![
                AuditEntry {
                    target: format!("org/{}", org.id),
                    detail: json!({"name": org.name}),
                    ..audit("org.created", &token)
                },
                audit("token.created", &token),
            ],
            writes: vec![
                Write::CreateOrg(org),
                Write::CreateUser(user),
                Write::CreateToken(token.clone()),
            ],
            ..ChangeSet::default()
        };
        self.platform.commit(&scope, changes).await?;
        Ok(Some(IssuedToken { token, secret: Some(secret) }))
    }

    /// A new token for the instance owner, for an operator who has lost theirs but has the machine.
    pub async fn reissue_owner_token(&self) -> Result<IssuedToken, Error> {
        let owner = self.instance_owner().await?.ok_or(Error::NotFound { entity: "user" })?;
        let scope = Scope::on_behalf_of(owner.org, owner.id);
        let issued = self.create_token(&scope, NewToken::for_owner("reissued"), None).await?;
        Ok(issued.value)
    }

    async fn instance_owner(&self) -> Result<Option<User>, Error> {
        let scope = SystemScope::for_purpose("first run");
        Ok(self.platform.store.find_instance_owner(scope).await?)
    }

    async fn check_new(&self, scope: &Scope, new: &NewToken) -> Result<UserId, Error> {
        let user = new.user.unwrap_or(scope.user);
        let grant = TokenGrant::Role { role: new.role, session: new.session };
        access::check_token(scope, user, grant)?;
        check_text("name", &new.name, self.platform.limits.field_bytes)?;
        if new.expires_at.is_some_and(|expires_at| expires_at <= self.platform.now()) {
            let reason = "must be in the future".to_owned();
            return Err(Error::Invalid { field: "expiresAt", reason });
        }
        if let Some(other) = new.user
            && self.platform.store.find_user(scope, other).await?.is_none()
        {
            return Err(Error::UnknownReference { field: "userId", value: other.to_string() });
        }
        if let Some(session) = new.session {
            let readable = self.platform.session_for(scope, session, Action::Read).await;
            if let Err(Error::NotFound { .. }) = readable {
                let value = session.to_string();
                return Err(Error::UnknownReference { field: "sessionId", value });
            }
            readable?;
        }
        Ok(user)
    }

    /// A token does not outlive the one that it was made with.
    async fn cap_expiry(
        &self,
        scope: &Scope,
        wanted: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, Error> {
        let Some(shown) = scope.token else { return Ok(wanted) };
        let shown = self.platform.store.find_token(scope, shown).await?;
        let limit = shown.and_then(|token| token.expires_at);
        Ok(match (wanted, limit) {
            (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
            (wanted, limit) => wanted.or(limit),
        })
    }

    async fn token(&self, scope: &Scope, token: TokenId) -> Result<Token, Error> {
        let found = self.platform.store.find_token(scope, token).await?;
        let visible =
            found.filter(|token| token.user == scope.user || scope.role >= UserRole::Admin);
        visible.ok_or(Error::NotFound { entity: "token" })
    }

    fn mint(&self, org: OrgId, user: UserId, new: &NewToken) -> (Token, String) {
        let secret =
            format!("{SECRET_PREFIX}{}", hex::encode(self.platform.secrets.random_256_bits()));
        let token = Token {
            id: TokenId::from_uuid(self.platform.new_id()),
            org,
            user,
            name: new.name.clone(),
            hash: Sha256Hash::of(secret.as_bytes()),
            role: new.role,
            session: new.session,
            created_at: self.platform.now(),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        (token, secret)
    }

    async fn identity(&self, hash: Sha256Hash) -> Result<Option<Arc<Identity>>, Error> {
        if let Some((identity, since)) = self.believed().get(&hash)
            && since.elapsed() < BELIEVED_FOR
        {
            return Ok(Some(Arc::clone(identity)));
        }
        let scope = SystemScope::for_purpose("authentication");
        let found = self.platform.store.find_identity(scope, hash).await?.map(Arc::new);
        let mut believed = self.believed();
        match &found {
            Some(identity) => {
                if believed.len() >= BELIEVED_AT_MOST {
                    believed.clear();
                }
                believed.insert(hash, (Arc::clone(identity), Instant::now()));
            }
            None => drop(believed.remove(&hash)),
        }
        drop(believed);
        Ok(found)
    }

    fn believed(&self) -> MutexGuard<'_, Believed> {
        self.believed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token opens nothing once it, or its user, is put out of use.
fn is_live(identity: &Identity, now: Timestamp) -> bool {
    identity.token.is_live(now) && identity.user.disabled_at.is_none()
}

impl NewToken {
    fn for_owner(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            role: UserRole::Owner,
            expires_at: None,
            session: None,
            user: None,
        }
    }
}

fn audit(action: &'static str, token: &Token) -> AuditEntry {
    AuditEntry {
        at: token.created_at,
        action,
        target: format!("token/{}", token.id),
        detail: json!({"name": token.name, "role": token.role}),
    }
}
