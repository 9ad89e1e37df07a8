//! One org never sees, changes or learns of another's records.

use std::sync::Arc;

use bytes::Bytes;
use skein_core::{
    model::{
        AgentContext, AgentContextVersion, Binding, Checkpoint, CheckpointId, CheckpointState,
        ConversationContext, EventBody, OrgId, Profile, Repo, Scope, Session, SessionChange,
        Sha256Hash, SystemScope, TicketStatus, Token, Turn, User, UserId,
    },
    ports::{
        ChangeSet, Conflict, Expectation, IdempotencyRecord, Ids, MessagePage, MessageRange,
        NewPayload, Resource, ResourceKind, SessionFilter, SessionQuery, Storage, StoreError,
        TurnPage, UsageSubject, Visibility, Write,
    },
};

use super::{
    chains::{advancing, chain, file_item},
    lists::all,
    payloads::inline,
    plans::planned,
    registry::{put_agent, put_conversation},
};
use crate::{
    World,
    world::{EVERYTHING, conflict, creating, finishing, note, saving, writing},
};

pub async fn another_org_reads_nothing(store: Arc<dyn Storage>) {
    let theirs = Stocked::new(World::named(Arc::clone(&store), "Acme", 1).await).await;
    let mine = World::named(Arc::clone(&store), "Globex", 2).await;

    theirs.shows(&theirs.world.as_owner(), Shown::Everything).await;
    theirs.shows(&mine.as_owner(), Shown::Nothing).await;
    // A foreign user's id in a scope of my org opens nothing either.
    let borrowed = Scope::on_behalf_of(mine.org.id, theirs.world.owner.id);
    theirs.shows(&borrowed, Shown::Nothing).await;
}

pub async fn another_org_lists_nothing(store: Arc<dyn Storage>) {
    let theirs = Stocked::new(World::named(Arc::clone(&store), "Acme", 1).await).await;
    let mine = World::named(Arc::clone(&store), "Globex", 2).await;
    let (member, session) = (theirs.world.member.id, theirs.world.session.id);

    let of_user = SessionFilter { user: Some(member), ..SessionFilter::default() };
    let queries = [
        SessionQuery { visibility: Visibility::ReadableBy(member), ..all() },
        SessionQuery { visibility: Visibility::Only(session), ..all() },
        SessionQuery { filter: of_user, ..all() },
    ];
    for query in queries {
        let page = store.list_sessions(&mine.as_owner(), &query).await.expect("a page");
        assert_eq!((page.sessions, page.total), (vec![], 0), "{query:?}");
    }
    let whole = store.list_sessions(&mine.as_owner(), &all()).await.expect("a page");
    assert_eq!((whole.sessions.len(), whole.total), (1, 1));
    assert_eq!(whole.sessions[0].session, mine.session);
    assert_eq!(store.list_tokens(&mine.as_owner(), None, None, 99).await.expect("tokens"), []);
    let of = store.list_tokens(&mine.as_owner(), Some(member), None, 99).await;
    assert_eq!(of.expect("tokens"), []);
}

pub async fn writes_that_name_another_orgs_records_change_nothing(store: Arc<dyn Storage>) {
    let theirs = Stocked::new(World::named(Arc::clone(&store), "Acme", 1).await).await;
    let mine = World::named(Arc::clone(&store), "Globex", 2).await;
    let before = theirs.snapshot().await;

    let attacks = theirs.attacks_by(&mine).into_iter().chain(theirs.registry_attacks_by(&mine));
    for (what, changes) in attacks {
        let refused = conflict(store.commit(&mine.as_owner(), changes).await);

        assert!(matches!(refused, Conflict::Missing(_)), "{what}: {refused:?}");
        assert_eq!(theirs.snapshot().await, before, "{what}");
    }
    assert_eq!(mine.log(mine.session.id).await.len(), 1);
}

pub async fn expectations_about_another_orgs_records_fail(store: Arc<dyn Storage>) {
    let theirs = Stocked::new(World::named(Arc::clone(&store), "Acme", 1).await).await;
    let mine = World::named(Arc::clone(&store), "Globex", 2).await;
    let session = &theirs.world.session;
    let quiet = theirs.world.open(theirs.world.draft_session()).await;

    let expectations = [
        Expectation::SessionRevision { session: session.id, revision: session.revision },
        Expectation::TurnPending { turn: theirs.running.id },
        Expectation::TurnQueued { turn: theirs.running.id },
        Expectation::LogIdle { log: quiet.log },
        Expectation::NoTurnRunning { log: quiet.log },
        Expectation::PendingTurnsBelow { log: session.log, below: 1_000 },
    ];
    for expectation in expectations {
        let changes = ChangeSet { expects: vec![expectation.clone()], ..ChangeSet::default() };
        let refused = conflict(store.commit(&mine.as_owner(), changes).await);

        assert!(matches!(refused, Conflict::Missing(_)), "{expectation:?}: {refused:?}");
    }
}

pub async fn keys_of_one_org_are_free_in_another(store: Arc<dyn Storage>) {
    let theirs = Stocked::new(World::named(Arc::clone(&store), "Acme", 1).await).await;
    let mine = World::named(Arc::clone(&store), "Globex", 2).await;

    let same_key = ChangeSet {
        idempotency: Some(theirs.record.clone()),
        ..saving(&mine.session.clone().edit(Profile::default(), mine.clock.tick()))
    };
    mine.commit(same_key).await;

    let found = store.find_idempotency(&mine.as_owner(), &theirs.record.key).await;
    assert_eq!(found.expect("a read"), Some(theirs.record.clone()));
}

pub async fn a_scope_of_no_org_finds_nothing(store: Arc<dyn Storage>) {
    let theirs = Stocked::new(World::named(Arc::clone(&store), "Acme", 1).await).await;
    let nowhere =
        Scope::on_behalf_of(OrgId::from_uuid(theirs.world.ids.next()), theirs.world.owner.id);

    theirs.shows(&nowhere, Shown::Nothing).await;
    let name = store.org_name(&nowhere).await;
    assert!(matches!(name, Err(StoreError::Conflict(Conflict::Missing(_)))), "{name:?}");
}

/// An org with one record of every kind.
struct Stocked {
    world: World,
    finished: Turn,
    running: Turn,
    token: Token,
    payload: NewPayload,
    checkpoint: Checkpoint,
    record: IdempotencyRecord,
    repo: Repo,
    agent_context: AgentContextVersion,
    conversation_context: ConversationContext,
}

/// What a reader is expected to see of a [`Stocked`] org.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shown {
    Everything,
    Nothing,
}

impl Stocked {
    async fn new(world: World) -> Self {
        let finished = world.finish(&world.begin(planned(&world)).await).await;
        let items = vec![file_item(&world, "secret.rs")];
        world.commit(advancing(world.session.log, chain(&finished, 1), items)).await;
        let running = world.running_turn().await;
        let token = world.token("laptop");
        let payload = inline(&world, Bytes::from_static(b"a secret"));
        let checkpoint = checkpoint(&world, &world.session);
        let record = IdempotencyRecord {
            key: "key".to_owned(),
            fingerprint: Sha256Hash::of(b"body"),
            resource: Resource { kind: ResourceKind::Turn, id: *running.id.as_uuid() },
            created_at: world.clock.tick(),
        };
        let repo = world.draft_repo("secret repository");
        let agent_context = world.draft_agent_context("secret agent");
        let conversation_context = world.draft_conversation_context("secret talk");
        world
            .commit(ChangeSet {
                writes: vec![
                    Write::CreateRepo(repo.clone()),
                    put_agent(agent_context.clone()),
                    put_conversation(conversation_context.clone()),
                    Write::CreateToken(token.clone()),
                    Write::PutPayload(payload.clone()),
                    Write::PutCheckpoint(Box::new(checkpoint.clone())),
                ],
                events: vec![world.message(world.session.log, "a secret")],
                idempotency: Some(record.clone()),
                ..ChangeSet::default()
            })
            .await;
        let sealing = SystemScope::for_purpose("test");
        world.store.seal_audit(sealing).await.expect("a seal");
        Self {
            world,
            finished,
            running,
            token,
            payload,
            checkpoint,
            record,
            repo,
            agent_context,
            conversation_context,
        }
    }

    /// Asks for every record by its id and compares what comes with what should.
    async fn shows(&self, scope: &Scope, shown: Shown) {
        let (store, session) = (&self.world.store, self.world.session.id);
        let all = shown == Shown::Everything;
        let range = MessageRange { after: 0, before: None, since: None };

        let found = store.find_session(scope, session).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_session");
        let found = store.find_turn(scope, session, self.finished.id).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_turn");
        let found = store.find_turn_anywhere(scope, self.finished.id).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_turn_anywhere");
        let turns = store.list_turns(scope, session, TurnPage::Last, 9).await.expect("a read");
        assert_eq!(turns.len(), if all { 2 } else { 0 }, "list_turns");
        let pending = store.list_pending_turns(scope, session).await.expect("a read");
        assert_eq!(pending.len(), usize::from(all), "list_pending_turns");
        let events = store.list_events(scope, session, 0, EVERYTHING).await.expect("a read");
        assert_eq!(events.len(), if all { 4 } else { 0 }, "list_events");
        let messages = store.list_message_events(scope, session, range, MessagePage::Last(9)).await;
        assert_eq!(messages.expect("a read").len(), usize::from(all), "list_message_events");
        let found = store.find_payload(scope, self.payload.id).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_payload");
        let body = store.payload_body(scope, self.payload.id).await;
        assert_eq!(body.is_ok(), all, "payload_body");
        let readers = store.payload_readers(scope, self.payload.id).await.expect("a read");
        assert_eq!(readers.len(), usize::from(all), "payload_readers");
        let found = store.find_checkpoint(scope, self.checkpoint.id).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_checkpoint");
        let found = store.find_user(scope, self.world.member.id).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_user");
        let found = store.find_token(scope, self.token.id).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_token");
        let found = store.find_idempotency(scope, &self.record.key).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_idempotency");
        self.shows_chain(scope, shown).await;
        self.shows_registries(scope, shown).await;
    }

    async fn shows_chain(&self, scope: &Scope, shown: Shown) {
        let (store, log) = (&self.world.store, self.world.session.log);
        let all = shown == Shown::Everything;

        let view = store.chain_view(scope, log, &["secret.rs".to_owned()], &[]).await;
        let seen = view.expect("a read").map(|view| (view.held.len(), view.last_chunks.len()));
        assert_eq!(seen, all.then_some((1, 3)), "chain_view");
        let items = store.chain_items(scope, log, 1, 9).await.expect("a read");
        assert_eq!(items.len(), usize::from(all), "chain_items");
        let bodies = store.payload_bodies(scope, &[self.payload.id]).await.expect("a read");
        assert_eq!(bodies.len(), usize::from(all), "payload_bodies");
        let owner = UsageSubject::User(self.world.owner.id);
        for by in [UsageSubject::Org, owner, UsageSubject::Log(log)] {
            let used = store.tokens_used(scope, by, 0).await.expect("a read");
            assert_eq!(used, if all { 46 } else { 0 }, "tokens_used by {by:?}");
        }
    }

    /// What is asked for by name, or listed, may show the reader's own, but nothing of this org.
    async fn shows_registries(&self, scope: &Scope, shown: Shown) {
        let store = &self.world.store;
        let all = shown == Shown::Everything;

        let found = store.find_repo(scope, self.repo.id).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_repo");
        let found = store.find_repo_named(scope, &self.repo.name).await.expect("a read");
        assert_eq!(found.is_some(), all, "find_repo_named");
        let listed = store.list_repos(scope, None, 99).await.expect("a read");
        assert_eq!(listed.contains(&self.repo), all, "list_repos");
        for version in [None, Some(1)] {
            let id = self.agent_context.context.id;
            let found = store.find_agent_context(scope, id, version).await.expect("a read");
            assert_eq!(found.is_some(), all, "find_agent_context");
            let id = self.conversation_context.id;
            let found = store.find_conversation_context(scope, id, version).await;
            assert_eq!(found.expect("a read").is_some(), all, "find_conversation_context");
        }
        let listed = store.list_agent_contexts(scope, None, 99).await.expect("a read");
        assert_eq!(listed.contains(&self.agent_context), all, "list_agent_contexts");
        let listed = store.list_conversation_contexts(scope, None, 99).await.expect("a read");
        assert_eq!(listed.contains(&self.conversation_context), all, "list_conversation_contexts");
        let listed = store.list_users(scope, None, 99).await.expect("a read");
        assert_eq!(listed.contains(&self.world.member), all, "list_users");
        let target = self.world.audit("").target;
        let rows = store.list_audit(scope, 0, 99).await.expect("a read");
        assert_eq!(rows.iter().any(|row| row.target == target), all, "list_audit");
    }

    /// Everything of the org that a write could have changed.
    async fn snapshot(&self) -> String {
        let (store, scope) = (&self.world.store, self.world.as_owner());
        let session = self.world.session.id;
        let sessions = store.list_sessions(&scope, &all()).await.expect("a read");
        let turns = store.list_turns(&scope, session, TurnPage::Last, 99).await.expect("a read");
        let tokens = store.list_tokens(&scope, None, None, 99).await.expect("a read");
        let users = store.list_users(&scope, None, 99).await.expect("a read");
        let repos = store.list_repos(&scope, None, 99).await.expect("a read");
        let agents = store.list_agent_contexts(&scope, None, 99).await.expect("a read");
        let talks = store.list_conversation_contexts(&scope, None, 99).await.expect("a read");
        let audit = store.verify_audit(&scope, None).await.expect("a report");
        let events = self.world.log(session).await;
        self.shows(&scope, Shown::Everything).await;
        format!(
            "{sessions:#?} {turns:#?} {tokens:#?} {users:#?} {events:#?} {repos:#?} {agents:#?}
             {talks:#?} {audit:#?}"
        )
    }

    /// Every write that can name a record, naming one of this org, as sent by another.
    fn attacks_by(&self, mine: &World) -> Vec<(&'static str, ChangeSet)> {
        let theirs = &self.world.session;
        let at = mine.clock.tick();
        let edited = Session {
            org: mine.org.id,
            ..theirs
                .clone()
                .edit(Profile { name: Some("taken".to_owned()), ..Profile::default() }, at)
        };
        let change = SessionChange {
            state: theirs.state.name(),
            revision: 9,
            reason: None,
            interface: None,
            checkpoint_id: None,
            fields: Vec::new(),
        };
        let event = note(theirs.log, at, EventBody::SessionUpdated(change));
        let queued = mine.queued_turn(theirs);
        let into_their_log = Turn { log: theirs.log, ..mine.queued_turn(&mine.session) };
        let finished = mine.answered(&Turn { org: mine.org.id, ..self.running.clone() });
        let replanned = Turn { org: mine.org.id, plan: None, ..self.running.clone() };
        let noted = Write::NoteResponse {
            turn: self.running.id,
            response_id: "resp_stolen".to_owned(),
            position: None,
        };
        let token = mine.token("stolen");
        let put = |payload: &NewPayload| writing(vec![Write::PutPayload(payload.clone())]);
        let open = |session: Session| {
            let task = mine.task(&session);
            writing(vec![
                Write::CreateSession(Box::new(session)),
                Write::CreateTicket(Box::new(task)),
            ])
        };
        let ticket = Write::SetTicketStatus { ticket: theirs.task, status: TicketStatus::Failed };

        vec![
            ("SaveSession", saving(&edited)),
            ("PurgeSession", writing(vec![Write::PurgeSession { session: theirs.id }])),
            ("SetTicketStatus", writing(vec![ticket])),
            ("CreateTurn", creating(&queued)),
            ("CreateTurn in a foreign log", creating(&into_their_log)),
            ("StartTurn", writing(vec![Write::StartTurn { turn: self.running.id, at }])),
            ("PlanTurn", writing(vec![Write::PlanTurn(Box::new(replanned))])),
            ("NoteResponse", writing(vec![noted])),
            ("FinishTurn", finishing(&finished)),
            ("AdvanceChain", advancing(theirs.log, chain(&self.finished, 2), Vec::new())),
            ("PutPayload", put(&NewPayload { log: theirs.log, ..inline(mine, Bytes::new()) })),
            (
                "PutCheckpoint",
                writing(vec![Write::PutCheckpoint(Box::new(checkpoint(mine, theirs)))]),
            ),
            ("RevokeToken", writing(vec![Write::RevokeToken { token: self.token.id, at }])),
            (
                "CreateToken for a foreign user",
                writing(vec![Write::CreateToken(Token {
                    user: self.world.member.id,
                    ..token.clone()
                })]),
            ),
            (
                "CreateToken for a foreign session",
                writing(vec![Write::CreateToken(Token {
                    session: Some(theirs.id),
                    ..token.clone()
                })]),
            ),
            (
                "CreateToken in a foreign org",
                writing(vec![Write::CreateToken(Token {
                    org: self.world.org.id,
                    user: self.world.member.id,
                    ..token
                })]),
            ),
            (
                "CreateUser in a foreign org",
                writing(vec![Write::CreateUser(User {
                    id: UserId::from_uuid(mine.ids.next()),
                    ..self.world.member.clone()
                })]),
            ),
            (
                "CreateSession in a foreign org",
                open(Session { org: self.world.org.id, ..mine.draft_session() }),
            ),
            (
                "CreateSession of a foreign owner",
                open(Session { owner: self.world.owner.id, ..mine.draft_session() }),
            ),
            ("an event", ChangeSet { events: vec![event], ..ChangeSet::default() }),
        ]
    }
}

impl Stocked {
    /// The same for users, repositories and contexts.
    fn registry_attacks_by(&self, mine: &World) -> Vec<(&'static str, ChangeSet)> {
        let agent = self.agent_context.clone();
        let agent = AgentContextVersion {
            context: AgentContext { version: 2, ..agent.context },
            ..mine.draft_agent_context("mine")
        };
        let talk = ConversationContext { version: 2, ..self.conversation_context.clone() };
        let member = self.world.member.clone();
        let bound = |bind: &dyn Fn(&mut Binding)| {
            let mut session = mine.draft_session();
            bind(&mut session.binding);
            mine.opening(&session)
        };
        let rebound = |bind: &dyn Fn(&mut Binding)| {
            let mut session = mine.session.clone();
            bind(&mut session.binding);
            saving(&session)
        };
        let to_agent = |binding: &mut Binding| {
            (binding.agent_context, binding.agent_context_version) =
                (self.agent_context.context.id, 1);
        };
        let to_talk = |binding: &mut Binding| {
            binding.conversation_context = Some((self.conversation_context.id, 1));
        };
        let to_repo = |binding: &mut Binding| binding.repo_id = Some(self.repo.id);

        vec![
            ("SaveUser", writing(vec![Write::SaveUser(member.clone())])),
            (
                "SaveUser as one's own",
                writing(vec![Write::SaveUser(User { org: mine.org.id, ..member })]),
            ),
            ("PutAgentContext", writing(vec![put_agent(agent)])),
            ("PutConversationContext", writing(vec![put_conversation(talk)])),
            ("CreateSession with a foreign agent", bound(&to_agent)),
            ("CreateSession with a foreign conversation", bound(&to_talk)),
            ("CreateSession with a foreign repository", bound(&to_repo)),
            ("SaveSession with a foreign agent", rebound(&to_agent)),
            ("SaveSession with a foreign conversation", rebound(&to_talk)),
            ("SaveSession with a foreign repository", rebound(&to_repo)),
        ]
    }
}

fn checkpoint(world: &World, session: &Session) -> Checkpoint {
    Checkpoint {
        id: CheckpointId::from_uuid(world.ids.next()),
        session: session.id,
        seq: 1,
        reason: "a pause".to_owned(),
        state: CheckpointState::default(),
        at: world.clock.tick(),
    }
}
