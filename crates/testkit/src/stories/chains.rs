//! What the provider's side of a log holds, and the tokens that it took.

use std::sync::Arc;

use skein_core::{
    model::{
        ChainItem, ChainItemKind, LiveChain, LogId, Scope, Sha256Hash, Timestamp, Turn, TurnState,
        Usage,
    },
    ports::{ChainView, ChangeSet, Conflict, Storage, UsageSubject, Write},
};
use tokio::task::JoinSet;

use super::{lists::all, plans::planned};
use crate::{
    World,
    world::{finishing, writing},
};

const DAY_MILLIS: i64 = 86_400_000;

pub async fn a_chain_shows_what_it_holds_of_what_was_asked_for(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let log = world.session.log;
    assert_eq!(view(&world, log, &["a.rs"], &[]).await, None);
    let finished = world.finish(&world.begin(planned(&world)).await).await;
    let [a, b, named_like_a] =
        [file_item(&world, "a.rs"), file_item(&world, "b.rs"), chunk_item(&world, "a.rs")];
    let [c, odd] = [chunk_item(&world, "c"), chunk_item(&world, "\"odd\", \\ and 🧶")];
    let items = vec![a.clone(), b, named_like_a, c.clone(), odd.clone()];
    world.commit(advancing(log, chain(&finished, 1), items)).await;

    let nothing = view(&world, log, &[], &[]).await.expect("a chain");
    let mut some = view(&world, log, &["a.rs", "x.rs"], &["c", &odd.item, "b.rs"]).await;
    some.iter_mut().for_each(|view| view.held.sort_by_key(|item| item.item.clone()));

    let last_chunks = ["zz-1", "aa-2", "mm-3"].map(str::to_owned).to_vec();
    assert_eq!(nothing.held, []);
    assert_eq!(
        some,
        Some(ChainView { chain: chain(&finished, 1), held: vec![odd, a.clone(), c], last_chunks })
    );

    // The next turn replaces a file and retrieves nothing.
    let next = world.finish(&world.running_turn().await).await;
    let changed = ChainItem { sha256: Sha256Hash::of(b"changed"), size_bytes: 9, ..a };
    let tip = LiveChain {
        model: None,
        response_id: None,
        expires_at: None,
        history_bytes: 6_000_000_000,
        open_calls: Vec::new(),
        ..chain(&next, 1)
    };
    world.commit(advancing(log, tip.clone(), vec![changed.clone()])).await;
    assert_eq!(
        view(&world, log, &["a.rs"], &["a"]).await,
        Some(ChainView { chain: tip, held: vec![changed], last_chunks: Vec::new() })
    );
}

pub async fn a_session_shows_when_its_chain_expires(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let sibling = world.open(world.draft_session()).await;
    let finished = world.finish(&world.running_turn().await).await;
    let live = chain(&finished, 1);
    let shown = async |session| {
        let found = world.store.find_session(&world.as_owner(), session).await.expect("a read");
        found.expect("a session").chain_expires_at
    };

    world.commit(advancing(world.session.log, live.clone(), Vec::new())).await;

    assert!(live.expires_at.is_some());
    assert_eq!(shown(world.session.id).await, live.expires_at);
    assert_eq!(shown(sibling.id).await, None);
    let listed = world.store.list_sessions(&world.as_owner(), &all()).await.expect("a read");
    let listed: Vec<_> = listed.sessions.iter().map(|record| record.chain_expires_at).collect();
    assert!(listed.contains(&live.expires_at) && listed.contains(&None), "{listed:?}");

    // Nothing can be gone on from without the provider's id.
    let forgotten = LiveChain { response_id: None, ..live };
    world.commit(advancing(world.session.log, forgotten, Vec::new())).await;
    assert_eq!(shown(world.session.id).await, None);
}

pub async fn a_chain_is_seen_in_its_own_log_and_org_only(store: Arc<dyn Storage>) {
    let world = World::named(Arc::clone(&store), "Acme", 1).await;
    let other = World::named(store, "Globex", 2).await;
    let sibling = world.open(world.draft_session()).await;
    let finished = world.finish(&world.begin(planned(&world)).await).await;
    let log = world.session.log;
    let items = vec![file_item(&world, "a.rs")];
    world.commit(advancing(log, chain(&finished, 1), items)).await;
    let wanted = ["a.rs".to_owned()];

    assert_eq!(view(&world, sibling.log, &["a.rs"], &[]).await, None);
    let foreign = other.store.chain_view(&other.as_owner(), log, &wanted, &[]).await;
    assert_eq!(foreign.expect("a read"), None);
    let borrowed = Scope::on_behalf_of(other.org.id, world.owner.id);
    let items = other.store.chain_items(&borrowed, log, 1, 9).await;
    assert_eq!(items.expect("a read"), []);
    // Not even when the foreign org has a chain whose tip is said to be our turn.
    let stolen = chain(&finished, 1);
    other.commit(advancing(other.session.log, stolen.clone(), Vec::new())).await;
    let seen = view(&other, other.session.log, &["a.rs"], &[]).await;
    assert_eq!(seen, Some(ChainView { chain: stolen, held: Vec::new(), last_chunks: Vec::new() }));
}

pub async fn a_new_chain_forgets_what_the_one_before_held(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let log = world.session.log;
    let sibling = world.open(world.draft_session()).await;
    let finished = world.finish(&world.running_turn().await).await;
    let [old, kept] = [file_item(&world, "old.rs"), file_item(&world, "kept.rs")];
    let both = vec![old, kept.clone()];
    world.commit(advancing(log, chain(&finished, 1), both.clone())).await;
    world.commit(advancing(sibling.log, chain(&finished, 1), both)).await;

    world.commit(advancing(log, chain(&finished, 2), vec![kept.clone()])).await;

    let seen = view(&world, log, &["old.rs", "kept.rs"], &[]).await.expect("a chain");
    assert_eq!((seen.chain.number, seen.held), (2, vec![kept.clone()]));
    assert_eq!(listed(&world, log, 1, 9).await, []);
    assert_eq!(listed(&world, log, 2, 9).await, [kept]);
    assert_eq!(listed(&world, sibling.log, 1, 9).await.len(), 2);
}

pub async fn what_a_chain_holds_is_listed_the_latest_first(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let log = world.session.log;
    let finished = world.finish(&world.running_turn().await).await;
    let [z, a, m] = ["z.rs", "a.rs", "m.rs"].map(|path| file_item(&world, path));
    let c = chunk_item(&world, "c");
    world.commit(advancing(log, chain(&finished, 1), vec![z.clone(), a.clone()])).await;
    world.commit(advancing(log, chain(&finished, 1), vec![c.clone(), m.clone()])).await;

    assert_eq!(listed(&world, log, 1, 9).await, [m.clone(), c.clone(), a.clone(), z.clone()]);
    assert_eq!(listed(&world, log, 1, 2).await, [m.clone(), c.clone()]);
    // What is sent again is the latest; of what is sent twice at once, the second counts.
    let again = ChainItem { sha256: Sha256Hash::of(b"again"), ..z.clone() };
    world.commit(advancing(log, chain(&finished, 1), vec![z, again.clone()])).await;
    assert_eq!(listed(&world, log, 1, 9).await, [again, m, c, a]);
}

pub async fn a_chain_needs_a_log(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let finished = world.finish(&world.running_turn().await).await;
    let nowhere = world.draft_session().log;

    let refused = world.conflict(advancing(nowhere, chain(&finished, 1), Vec::new())).await;

    assert!(matches!(refused, Conflict::Missing(_)), "{refused:?}");
}

pub async fn tokens_are_counted_by_org_user_and_log_from_a_day_on(store: Arc<dyn Storage>) {
    let world = World::named(Arc::clone(&store), "Acme", 1).await;
    let other = World::named(store, "Globex", 2).await;
    let sibling = world.open(world.draft_session()).await;
    let by_member = Turn { created_by: world.member.id, ..world.started_turn(&sibling) };
    for (draft, at, used) in [
        (world.started_turn(&world.session), 20_000 * DAY_MILLIS, Some((1, 10))),
        (world.started_turn(&world.session), 20_001 * DAY_MILLIS - 1, Some((100, 1_000))),
        (world.started_turn(&world.session), 20_001 * DAY_MILLIS, Some((10_000, 100_000))),
        (world.started_turn(&world.session), 20_001 * DAY_MILLIS, None),
        (by_member, 20_001 * DAY_MILLIS + 1, Some((1_000_000, 5_000_000_000))),
    ] {
        let begun = world.begin(draft).await;
        world.commit(finishing(&used_at(&world, &begun, at, used))).await;
    }
    let used = async |by, since| {
        world.store.tokens_used(&world.as_owner(), by, since).await.expect("a read")
    };

    let (owner, member) = (UsageSubject::User(world.owner.id), UsageSubject::User(world.member.id));
    let (log, other_log) =
        (UsageSubject::Log(world.session.log), UsageSubject::Log(other.session.log));
    assert_eq!(used(UsageSubject::Org, 20_000).await, 5_001_111_111);
    assert_eq!(used(UsageSubject::Org, 20_001).await, 5_001_110_000);
    assert_eq!(used(UsageSubject::Org, 20_002).await, 0);
    assert_eq!([used(owner, 0).await, used(owner, 20_001).await], [111_111, 110_000]);
    assert_eq!([used(member, 0).await, used(member, 20_002).await], [5_001_000_000, 0]);
    assert_eq!([used(log, 0).await, used(log, 20_001).await], [111_111, 110_000]);
    assert_eq!(used(UsageSubject::Log(sibling.log), 0).await, 5_001_000_000);
    assert_eq!(used(other_log, 0).await, 0);
    for by in [UsageSubject::Org, owner, log] {
        let foreign = world.store.tokens_used(&other.as_owner(), by, 0).await;
        assert_eq!(foreign.expect("a read"), 0, "{by:?}");
    }
}

pub async fn no_token_is_lost_when_many_turns_end_at_once(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let mut turns = Vec::new();
    for _ in 0..16 {
        let session = world.open(world.draft_session()).await;
        turns.push(world.begin(world.started_turn(&session)).await);
    }
    let mut endings = JoinSet::new();
    for turn in turns {
        let answered = world.answered(&turn);
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        endings.spawn(async move { store.commit(&scope, finishing(&answered)).await });
    }

    for ended in endings.join_all().await {
        ended.expect("a commit");
    }

    for by in [UsageSubject::Org, UsageSubject::User(world.owner.id)] {
        let used = world.store.tokens_used(&world.as_owner(), by, 0).await;
        assert_eq!(used.expect("a read"), 16 * 46, "{by:?}");
    }
}

/// The change set that makes a turn what the next one goes on from.
pub fn advancing(log: LogId, chain: LiveChain, items: Vec<ChainItem>) -> ChangeSet {
    writing(vec![Write::AdvanceChain { log, chain: Box::new(chain), items }])
}

/// A chain that ends with this turn.
pub fn chain(tip: &Turn, number: u32) -> LiveChain {
    LiveChain {
        number,
        provider: "openai".to_owned(),
        model: Some("model-1".to_owned()),
        response_id: Some("resp_1".to_owned()),
        expires_at: Some(tip.status_at()),
        tip: tip.id,
        history_bytes: 4_096,
        open_calls: vec!["call_2".to_owned(), "call_1".to_owned()],
    }
}

/// A file that a chain holds.
pub fn file_item(world: &World, path: &str) -> ChainItem {
    ChainItem {
        kind: ChainItemKind::File,
        item: path.to_owned(),
        sha256: Sha256Hash::of(path.as_bytes()),
        size_bytes: 5_000_000_000,
        texts: world.payload_id(),
    }
}

fn chunk_item(world: &World, id: &str) -> ChainItem {
    ChainItem { kind: ChainItemKind::Chunk, ..file_item(world, id) }
}

pub(super) async fn view(
    world: &World,
    log: LogId,
    files: &[&str],
    chunks: &[&str],
) -> Option<ChainView> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let (files, chunks) = (owned(files), owned(chunks));
    world.store.chain_view(&world.as_owner(), log, &files, &chunks).await.expect("a read")
}

async fn listed(world: &World, log: LogId, chain: u32, limit: u32) -> Vec<ChainItem> {
    world.store.chain_items(&world.as_owner(), log, chain, limit).await.expect("a read")
}

/// The turn with an answer at this time that took so many input and output tokens.
fn used_at(world: &World, turn: &Turn, at: i64, used: Option<(u64, u64)>) -> Turn {
    let mut answered = world.answered(turn);
    if let TurnState::Completed(answer) = &mut answered.state {
        answer.at = Timestamp::from_millis(at);
        answer.response.usage =
            used.map(|(input_tokens, output_tokens)| Usage { input_tokens, output_tokens });
    }
    answered
}
