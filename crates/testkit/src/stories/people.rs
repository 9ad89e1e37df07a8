//! People, their tokens, and what becomes of a purged session.

use std::sync::Arc;

use bytes::Bytes;
use skein_core::{
    model::{
        Checkpoint, CheckpointId, CheckpointState, SystemScope, TicketStatus, Token, TokenId, User,
        UserId, UserRole,
    },
    ports::{Conflict, Identity, Ids, SessionQuery, Storage, TurnPage, Visibility, Write},
};

use super::{lists::all, payloads::inline};
use crate::{World, writing};

pub async fn people_are_found_in_their_org(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let admin: User = world.draft_user("Änne 🧶 Admin", UserRole::Admin);

    world.commit(writing(vec![Write::CreateUser(admin.clone())])).await;

    let find = async |user| world.store.find_user(&world.as_owner(), user).await.expect("a read");
    assert_eq!(find(admin.id).await, Some(admin));
    assert_eq!(find(world.member.id).await, Some(world.member.clone()));
    assert_eq!(find(UserId::from_uuid(world.ids.next())).await, None);
    assert_eq!(world.store.org_name(&world.as_owner()).await.expect("a name"), "Acme");
}

pub async fn users_are_listed_in_the_order_of_ids_page_by_page(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let (third, fourth) =
        (world.draft_user("Zoe", UserRole::Viewer), world.draft_user("Anna", UserRole::Admin));
    for user in [&fourth, &third] {
        world.commit(writing(vec![Write::CreateUser(user.clone())])).await;
    }
    let list = async |after, limit| {
        world.store.list_users(&world.as_owner(), after, limit).await.expect("a page")
    };

    let first = list(None, 3).await;
    let rest = list(Some(third.id), 3).await;

    assert_eq!(first, [world.owner.clone(), world.member.clone(), third]);
    assert_eq!(rest, [fourth]);
    assert_eq!(list(None, 0).await, []);
}

pub async fn saving_a_user_writes_name_role_and_whether_they_are_disabled(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let find =
        async || world.store.find_user(&world.as_owner(), world.member.id).await.expect("a read");
    let disabled_at = Some(world.clock.tick());
    let changed = User {
        name: "Maxima".to_owned(),
        role: UserRole::Admin,
        disabled_at,
        ..world.member.clone()
    };

    world.commit(writing(vec![Write::SaveUser(changed.clone())])).await;
    assert_eq!(find().await, Some(changed));
    // Whoever owns the installation is not decided by an edit.
    let back = User { instance_owner: true, ..world.member.clone() };
    world.commit(writing(vec![Write::SaveUser(back)])).await;
    assert_eq!(find().await, Some(world.member.clone()));

    let taken = User { name: world.owner.name.clone(), ..world.member.clone() };
    let taken = world.conflict(writing(vec![Write::SaveUser(taken)])).await;
    let unknown = world.draft_user("Nobody", UserRole::Viewer);
    let unknown = world.conflict(writing(vec![Write::SaveUser(unknown)])).await;
    assert_eq!(taken, Conflict::AlreadyExists("user"));
    assert_eq!(unknown, Conflict::Missing("user"));
    assert_eq!(find().await, Some(world.member.clone()));
}

pub async fn a_disabled_users_tokens_open_nothing(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let token = world.token("laptop");
    world.commit(writing(vec![Write::CreateToken(token.clone())])).await;
    let disabled = User { disabled_at: Some(world.clock.tick()), ..world.member.clone() };

    world.commit(writing(vec![Write::SaveUser(disabled)])).await;
    let while_disabled = identity(&world, &token).await;
    world.commit(writing(vec![Write::SaveUser(world.member.clone())])).await;
    let afterwards = identity(&world, &token).await;

    assert_eq!(while_disabled, None);
    assert_eq!(afterwards.map(|identity| identity.user), Some(world.member.clone()));
}

pub async fn a_token_is_found_by_its_id_and_by_its_secret(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let plain = world.token("plain");
    let limited = Token {
        role: UserRole::Viewer,
        session: Some(world.session.id),
        expires_at: Some(world.clock.tick()),
        ..world.token("limited")
    };

    for token in [plain, limited] {
        world.commit(writing(vec![Write::CreateToken(token.clone())])).await;

        assert_eq!(find(&world, token.id).await, Some(token.clone()));
        assert_eq!(
            identity(&world, &token).await,
            Some(Identity { token, user: world.member.clone(), org: world.org.clone() })
        );
    }
    assert_eq!(find(&world, TokenId::from_uuid(world.ids.next())).await, None);
    assert_eq!(identity(&world, &world.token("never stored")).await, None);
}

pub async fn a_token_is_revoked_once(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let token = world.token("laptop");
    world.commit(writing(vec![Write::CreateToken(token.clone())])).await;
    let first = world.clock.tick();
    let second = world.clock.tick();

    for at in [first, second] {
        world.commit(writing(vec![Write::RevokeToken { token: token.id, at }])).await;
    }

    let revoked = Token { revoked_at: Some(first), ..token };
    assert_eq!(find(&world, revoked.id).await, Some(revoked.clone()));
    let shown = identity(&world, &revoked).await.expect("an identity");
    assert_eq!(shown.token, revoked);
}

pub async fn tokens_are_listed_newest_first_page_by_page(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let first = world.token("first");
    let owners = Token { user: world.owner.id, ..world.token("owner's") };
    let last = world.token("last");
    for token in [&first, &owners, &last] {
        world.commit(writing(vec![Write::CreateToken(token.clone())])).await;
    }
    let nobody = UserId::from_uuid(world.ids.next());
    let page = async |of, before, limit| {
        let tokens = world.store.list_tokens(&world.as_owner(), of, before, limit).await;
        tokens.expect("tokens")
    };
    let oldest = async |of| {
        world.store.find_first_token(&world.as_owner(), of).await.expect("a token, or none")
    };

    assert_eq!(page(None, None, 9).await, [last.clone(), owners.clone(), first.clone()]);
    assert_eq!(page(None, None, 2).await, [last.clone(), owners.clone()]);
    assert_eq!(page(None, Some(owners.id), 2).await, std::slice::from_ref(&first));
    assert_eq!(page(None, Some(first.id), 2).await, []);
    assert_eq!(page(Some(world.member.id), None, 9).await, [last.clone(), first.clone()]);
    assert_eq!(page(Some(world.member.id), Some(last.id), 9).await, std::slice::from_ref(&first));
    assert_eq!(page(Some(world.owner.id), None, 9).await, [owners]);
    assert_eq!(page(Some(nobody), None, 9).await, []);
    assert_eq!(oldest(world.member.id).await, Some(first));
    assert_eq!(oldest(nobody).await, None);
}

pub async fn purging_a_session_removes_all_but_its_tickets(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let doomed = world.open(world.draft_session()).await;
    let turn = world.begin(world.started_turn(&doomed)).await;
    let payload = skein_core::ports::NewPayload {
        log: doomed.log,
        ..inline(&world, Bytes::from_static(b"a body"))
    };
    let checkpoint = Checkpoint {
        id: CheckpointId::from_uuid(world.ids.next()),
        session: doomed.id,
        seq: 1,
        reason: "a pause".to_owned(),
        state: CheckpointState::default(),
        at: world.clock.tick(),
    };
    world
        .commit(writing(vec![
            Write::PutPayload(payload.clone()),
            Write::PutCheckpoint(Box::new(checkpoint.clone())),
        ]))
        .await;
    let kept = world.log(world.session.id).await;

    world.commit(writing(vec![Write::PurgeSession { session: doomed.id }])).await;

    let (store, scope) = (&world.store, world.as_owner());
    assert_eq!(store.find_session(&scope, doomed.id).await.expect("a read"), None);
    assert_eq!(world.log(doomed.id).await, []);
    let turns = store.list_turns(&scope, doomed.id, TurnPage::Last, 9).await;
    assert_eq!(turns.expect("a read"), []);
    assert_eq!(store.find_turn(&scope, doomed.id, turn.id).await.expect("a read"), None);
    assert_eq!(store.find_payload(&scope, payload.id).await.expect("a read"), None);
    assert_eq!(store.find_checkpoint(&scope, checkpoint.id).await.expect("a read"), None);
    let pending = store.list_pending(SystemScope::for_purpose("test"), None, 100).await;
    assert_eq!(pending.expect("a read"), []);
    for visibility in [Visibility::WholeOrg, Visibility::ReadableBy(world.owner.id)] {
        let page = store.list_sessions(&scope, &SessionQuery { visibility, ..all() }).await;
        assert_eq!(page.expect("a read").total, 1);
    }
    assert_eq!(world.log(world.session.id).await, kept);

    let ticket = Write::SetTicketStatus { ticket: doomed.task, status: TicketStatus::Archived };
    world.commit(writing(vec![ticket])).await;
    let again = world.conflict(writing(vec![Write::PurgeSession { session: doomed.id }])).await;
    assert!(matches!(again, Conflict::Missing(_)), "{again:?}");
}

pub async fn a_ticket_that_is_not_there_is_missing(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let unknown = world.draft_session().task;

    let refused = world
        .conflict(writing(vec![Write::SetTicketStatus {
            ticket: unknown,
            status: TicketStatus::Completed,
        }]))
        .await;

    assert!(matches!(refused, Conflict::Missing(_)), "{refused:?}");
}

async fn find(world: &World, token: TokenId) -> Option<Token> {
    world.store.find_token(&world.as_owner(), token).await.expect("a read")
}

async fn identity(world: &World, token: &Token) -> Option<Identity> {
    world.store.find_identity(SystemScope::for_purpose("test"), token.hash).await.expect("a read")
}
