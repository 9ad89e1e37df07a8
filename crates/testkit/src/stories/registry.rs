//! Repositories, agent contexts and conversation contexts: named once per org, versioned, bound to sessions.

use std::sync::Arc;

use skein_core::{
    model::{
        AgentContext, AgentContextId, AgentContextSpec, AgentContextVersion, Binding,
        ConversationContext, ConversationContextId, Repo, RepoId, Session, VersionSpec,
    },
    ports::{Conflict, Ids, SessionFilter, SessionQuery, Storage, Write},
};
use tokio::task::JoinSet;

use super::lists::all;
use crate::{World, world::conflict, writing};

pub async fn a_repository_is_found_by_its_id_and_by_its_name(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let repo = world.draft_repo("skein 🧶");
    world.commit(writing(vec![Write::CreateRepo(repo.clone())])).await;
    let (store, scope) = (&world.store, world.as_owner());

    let by_id = store.find_repo(&scope, repo.id).await.expect("a read");
    let by_name = store.find_repo_named(&scope, "skein 🧶").await.expect("a read");
    let unknown = store.find_repo(&scope, RepoId::from_uuid(world.ids.next())).await;
    let unnamed = store.find_repo_named(&scope, "SKEIN 🧶").await.expect("a read");

    assert_eq!((by_id, by_name), (Some(repo.clone()), Some(repo)));
    assert_eq!((unknown.expect("a read"), unnamed), (None, None));
}

pub async fn a_repositorys_name_is_unique_in_its_org_and_free_in_another(store: Arc<dyn Storage>) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(store, "Globex", 2).await;
    let create = |world: &World| writing(vec![Write::CreateRepo(world.draft_repo("skein"))]);

    acme.commit(create(&acme)).await;
    let taken = acme.conflict(create(&acme)).await;
    globex.commit(create(&globex)).await;

    assert_eq!(taken, Conflict::AlreadyExists("repository"));
}

pub async fn registries_are_listed_in_the_order_of_ids_page_by_page(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let (store, scope) = (&world.store, world.as_owner());
    let repos: Vec<Repo> = (0..5).map(|i| world.draft_repo(&format!("repo {i}"))).collect();
    let agents: Vec<AgentContextVersion> =
        (0..4).map(|i| world.draft_agent_context(&format!("agent {i}"))).collect();
    let conversations: Vec<ConversationContext> =
        (0..5).map(|i| world.draft_conversation_context(&format!("talk {i}"))).collect();
    // Stored in another order than that of their ids.
    let writes = repos.iter().rev().cloned().map(Write::CreateRepo);
    let writes = writes.chain(agents.iter().rev().cloned().map(put_agent));
    let writes = writes.chain(conversations.iter().rev().cloned().map(put_conversation));
    world.commit(writing(writes.collect())).await;
    let configured = store.find_agent_context(&scope, world.agent.id, None).await.expect("a read");
    let agents: Vec<_> = configured.into_iter().chain(agents).collect();

    let mut seen_repos: Vec<Repo> = Vec::new();
    let mut seen_agents: Vec<AgentContextVersion> = Vec::new();
    let mut seen_conversations: Vec<ConversationContext> = Vec::new();
    for wanted in [2, 2, 1, 0] {
        let after = seen_repos.last().map(|repo| repo.id);
        let page = store.list_repos(&scope, after, 2).await.expect("a page");
        assert_eq!(page.len(), wanted);
        seen_repos.extend(page);
        let after = seen_agents.last().map(|agent| agent.context.id);
        let page = store.list_agent_contexts(&scope, after, 2).await.expect("a page");
        assert_eq!(page.len(), wanted);
        seen_agents.extend(page);
        let after = seen_conversations.last().map(|context| context.id);
        let page = store.list_conversation_contexts(&scope, after, 2).await.expect("a page");
        assert_eq!(page.len(), wanted);
        seen_conversations.extend(page);
    }

    assert_eq!(seen_repos, repos);
    assert_eq!(seen_agents, agents);
    assert_eq!(seen_conversations, conversations);
}

pub async fn an_agent_contexts_versions_grow_and_old_ones_stay(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let first = world.draft_agent_context("reviewer");
    let second = AgentContextVersion {
        spec: VersionSpec::Refined(AgentContextSpec {
            agent: "echo".to_owned(),
            collection: Some("code".to_owned()),
            model: None,
        }),
        created_at: world.clock.tick(),
        context: AgentContext { version: 2, ..first.context.clone() },
    };
    for version in [&first, &second] {
        world.commit(writing(vec![put_agent(version.clone())])).await;
    }
    let find = async |version| {
        let id = first.context.id;
        world.store.find_agent_context(&world.as_owner(), id, version).await.expect("a read")
    };

    assert_eq!(find(None).await, Some(second.clone()));
    assert_eq!(find(Some(1)).await, Some(first.clone()));
    assert_eq!(find(Some(2)).await, Some(second.clone()));
    assert_eq!(find(Some(3)).await, None);
    for version in [0, 1, 2, 4] {
        let context = AgentContext { version, ..first.context.clone() };
        let put = put_agent(AgentContextVersion { context, ..second.clone() });
        let refused = world.conflict(writing(vec![put])).await;
        assert_eq!(refused, Conflict::AlreadyExists("agent context"), "version {version}");
    }
    assert_eq!(find(None).await, Some(second));
}

pub async fn a_conversation_contexts_versions_grow_and_old_ones_stay(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let first = world.draft_conversation_context("polite");
    let mut second =
        ConversationContext { version: 2, created_at: world.clock.tick(), ..first.clone() };
    second.spec.temperature = None;
    second.spec.system_prompt = "be brief, 親切に".repeat(100);
    for version in [&first, &second] {
        world.commit(writing(vec![put_conversation(version.clone())])).await;
    }
    let find = async |version| {
        let scope = world.as_owner();
        world.store.find_conversation_context(&scope, first.id, version).await.expect("a read")
    };

    assert_eq!(find(None).await, Some(second.clone()));
    assert_eq!(find(Some(1)).await, Some(first.clone()));
    assert_eq!(find(Some(2)).await, Some(second.clone()));
    assert_eq!(find(Some(3)).await, None);
    for version in [0, 1, 2, 4] {
        let put = put_conversation(ConversationContext { version, ..second.clone() });
        let refused = world.conflict(writing(vec![put])).await;
        assert_eq!(refused, Conflict::AlreadyExists("conversation context"), "version {version}");
    }
    assert_eq!(find(None).await, Some(second));
}

pub async fn a_contexts_name_is_unique_in_its_org_and_free_in_another(store: Arc<dyn Storage>) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(store, "Globex", 2).await;
    let agent = |world: &World| writing(vec![put_agent(world.draft_agent_context("same"))]);
    let talk =
        |world: &World| writing(vec![put_conversation(world.draft_conversation_context("same"))]);

    acme.commit(agent(&acme)).await;
    acme.commit(talk(&acme)).await;

    assert_eq!(acme.conflict(agent(&acme)).await, Conflict::AlreadyExists("agent context"));
    assert_eq!(acme.conflict(talk(&acme)).await, Conflict::AlreadyExists("conversation context"));
    globex.commit(agent(&globex)).await;
    globex.commit(talk(&globex)).await;
    // The configured agents have names of their own.
    let named_like_the_agent = globex.draft_agent_context(&globex.agent.name);
    globex.commit(writing(vec![put_agent(named_like_the_agent)])).await;
}

pub async fn of_many_changes_of_one_context_exactly_one_is_the_next_version(
    store: Arc<dyn Storage>,
) {
    let world = World::new(store).await;
    let first = world.draft_agent_context("reviewer");
    world.commit(writing(vec![put_agent(first.clone())])).await;
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let context = AgentContext { version: 2, ..first.context.clone() };
        let put = put_agent(AgentContextVersion { context, ..first.clone() });
        let (store, scope) = (Arc::clone(&world.store), world.as_owner());
        writers.spawn(async move { store.commit(&scope, writing(vec![put])).await });
    }

    let results = writers.join_all().await;

    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    for refused in lost {
        assert_eq!(conflict(refused), Conflict::AlreadyExists("agent context"));
    }
}

pub async fn configured_agents_are_read_by_every_org_and_written_by_none(store: Arc<dyn Storage>) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(Arc::clone(&store), "Globex", 2).await;
    assert_eq!(acme.agent, globex.agent);

    for world in [&acme, &globex] {
        let scope = world.as_owner();
        let found = store.find_agent_context(&scope, world.agent.id, None).await;
        let found = found.expect("a read").expect("a configured agent");
        assert_eq!(found.context, world.agent);
        assert_eq!(found.spec, VersionSpec::Configured(r#"{"runtime":"echo"}"#.to_owned()));

        for version in [1, 2] {
            let context = AgentContext { version, ..world.agent.clone() };
            let put = AgentContextVersion { context, ..world.draft_agent_context("theirs") };
            world.conflict(writing(vec![put_agent(put)])).await;
        }
        let same = store.find_agent_context(&scope, world.agent.id, None).await;
        assert_eq!(same.expect("a read"), Some(found));
    }
}

pub async fn a_session_is_bound_to_versions_that_exist(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let repo = world.draft_repo("skein");
    let agent = world.draft_agent_context("reviewer");
    let talk = world.draft_conversation_context("polite");
    world
        .commit(writing(vec![
            Write::CreateRepo(repo.clone()),
            put_agent(agent.clone()),
            put_conversation(talk.clone()),
        ]))
        .await;
    let draft = world.draft_session();
    let binding = Binding {
        agent_context: agent.context.id,
        agent_context_version: 1,
        conversation_context: Some((talk.id, 1)),
        repo_id: Some(repo.id),
        ..draft.binding.clone()
    };
    let bound = world.open(Session { binding: binding.clone(), ..draft }).await;

    let found = world.store.find_session(&world.as_owner(), bound.id).await.expect("a read");
    let found = found.expect("a stored session");
    assert_eq!(found.session, bound);
    assert_eq!(found.agent_context_name, "reviewer");
    assert_eq!(found.conversation_context_name.as_deref(), Some("polite"));
    assert_eq!(found.repository.as_ref(), Some(&repo));
    let of_repo = SessionFilter { repo: Some(repo.id), ..SessionFilter::default() };
    let query = SessionQuery { filter: of_repo, ..all() };
    let page = world.store.list_sessions(&world.as_owner(), &query).await.expect("a page");
    assert_eq!((page.sessions, page.total), (vec![found], 1));

    let unknown_agent = AgentContextId::from_uuid(world.ids.next());
    let unknown_talk = ConversationContextId::from_uuid(world.ids.next());
    let lost = [
        Binding { agent_context_version: 2, ..binding.clone() },
        Binding { agent_context: unknown_agent, ..binding.clone() },
        Binding { conversation_context: Some((talk.id, 2)), ..binding.clone() },
        Binding { conversation_context: Some((unknown_talk, 1)), ..binding },
    ];
    for binding in lost {
        let session = Session { binding: binding.clone(), ..world.draft_session() };
        let created = world.conflict(world.opening(&session)).await;
        let changed = Session { binding, ..bound.clone() };
        let saved = world.conflict(writing(vec![Write::SaveSession(Box::new(changed))])).await;
        assert!(matches!(created, Conflict::Missing(_)), "{created:?}");
        assert!(matches!(saved, Conflict::Missing(_)), "{saved:?}");
    }
}

pub async fn a_session_can_move_to_a_newer_version_of_its_contexts(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let talk = world.draft_conversation_context("polite");
    let newer = ConversationContext { version: 2, ..talk.clone() };
    world.commit(writing(vec![put_conversation(talk.clone()), put_conversation(newer)])).await;
    let session = &world.session;
    let binding = Binding { conversation_context: Some((talk.id, 2)), ..session.binding.clone() };
    let moved = Session { binding, revision: 2, ..session.clone() };

    world.commit(writing(vec![Write::SaveSession(Box::new(moved.clone()))])).await;

    let found = world.store.find_session(&world.as_owner(), moved.id).await.expect("a read");
    assert_eq!(found.map(|record| record.session), Some(moved));
}

pub(super) fn put_agent(version: AgentContextVersion) -> Write {
    Write::PutAgentContext(Box::new(version))
}

pub(super) fn put_conversation(context: ConversationContext) -> Write {
    Write::PutConversationContext(Box::new(context))
}
