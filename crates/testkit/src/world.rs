//! A small, valid world that most tests start from, and the values they build on it.

use std::sync::Arc;

use serde_json::json;
use skein_core::{
    model::{
        AgentContext, AgentContextId, AgentContextSpec, AgentContextVersion, Answer, Asked,
        Binding, ConversationContext, ConversationContextId, ConversationSpec, Event, EventBody,
        Failure, FailureCode, Interface, LogId, MessageCompleted, MessageContent, MessageId, Mode,
        Org, OrgId, PayloadId, Profile, Repo, RepoId, Response, Role, Scope, Session,
        SessionChange, SessionId, SessionState, Sha256Hash, SystemScope, Ticket, TicketId,
        TicketKind, TicketStatus, Timestamp, Token, TokenId, Turn, TurnId, TurnOpened, TurnRequest,
        TurnState, Usage, User, UserId, UserRole, VersionSpec,
    },
    ports::{
        AuditEntry, ChangeSet, Clock, Committed, Conflict, EventLimit, Ids, NewEvent, Storage,
        StoreError, Write,
    },
};

use crate::{SeededIds, StoppedClock};

/// An org with an owner, a member, an agent and one session of the owner's, all of them stored.
pub struct World {
    pub store: Arc<dyn Storage>,
    pub clock: StoppedClock,
    pub ids: SeededIds,
    pub org: Org,
    pub owner: User,
    pub member: User,
    pub agent: AgentContext,
    pub session: Session,
}

impl World {
    pub async fn new(store: Arc<dyn Storage>) -> Self {
        Self::named(store, "Acme", 1).await
    }

    /// Worlds with different seeds can share a store.
    pub async fn named(store: Arc<dyn Storage>, name: &str, seed: u32) -> Self {
        let ids = SeededIds::new(seed);
        let clock = StoppedClock::default();
        let org = Org { id: OrgId::from_uuid(ids.next()), name: name.to_owned() };
        let owner = user(&ids, &org, "Olga Owner", UserRole::Owner);
        let member = user(&ids, &org, "Max Member", UserRole::Member);
        let people = vec![
            Write::CreateOrg(org.clone()),
            Write::CreateUser(owner.clone()),
            Write::CreateUser(member.clone()),
        ];
        store
            .commit(&Scope::on_behalf_of(org.id, owner.id), writing(people))
            .await
            .expect("an org and its people");

        let proposed = AgentContext {
            id: AgentContextId::from_uuid(ids.next()),
            name: "echo".to_owned(),
            version: 1,
        };
        let agent = store
            .register_agents(
                SystemScope::for_purpose("test"),
                vec![(proposed, r#"{"runtime":"echo"}"#.to_owned())],
            )
            .await
            .expect("registered agents")
            .remove(0);

        let session = draft(&ids, &clock, &owner, &agent);
        let world = Self { store, clock, ids, org, owner, member, agent, session };
        world.open(world.session.clone()).await;
        world
    }

    pub fn as_owner(&self) -> Scope {
        Scope::on_behalf_of(self.org.id, self.owner.id)
    }

    pub fn as_member(&self) -> Scope {
        Scope { role: UserRole::Member, ..Scope::on_behalf_of(self.org.id, self.member.id) }
    }

    /// A session of the owner's that is not stored yet, one millisecond younger than the one before.
    pub fn draft_session(&self) -> Session {
        draft(&self.ids, &self.clock, &self.owner, &self.agent)
    }

    /// Stores a session as services do: with its task, its first event and an audit row.
    pub async fn open(&self, session: Session) -> Session {
        self.commit(self.opening(&session)).await;
        session
    }

    /// The change set of [`Self::open`].
    pub fn opening(&self, session: &Session) -> ChangeSet {
        ChangeSet {
            writes: vec![
                Write::CreateSession(Box::new(session.clone())),
                Write::CreateTicket(Box::new(self.task(session))),
            ],
            events: vec![note(session.log, session.created_at, session_created(session))],
            audit: vec![self.audit("session.created")],
            ..ChangeSet::default()
        }
    }

    /// The ticket that a session's `task` names.
    pub fn task(&self, session: &Session) -> Ticket {
        Ticket {
            id: session.task,
            session: Some(session.id),
            kind: TicketKind::Task,
            task_type: format!("agent:{}", self.agent.name),
            task_intent: Some("see what happens".to_owned()),
            source: session.interface.as_str().to_owned(),
            initiated_by: session.created_by,
            status: TicketStatus::Running,
            created_at: session.created_at,
        }
    }

    /// A turn that runs from the start.
    pub fn started_turn(&self, session: &Session) -> Turn {
        let queued = self.queued_turn(session);
        Turn {
            started_at: Some(queued.created_at),
            dispatched_at: Some(queued.created_at),
            ..queued
        }
    }

    /// A turn that waits behind another one.
    pub fn queued_turn(&self, session: &Session) -> Turn {
        Turn {
            id: TurnId::from_uuid(self.ids.next()),
            org: self.org.id,
            log: session.log,
            number: 0,
            created_by: self.owner.id,
            ticket: session.task,
            created_at: self.clock.tick(),
            started_at: None,
            dispatched_at: None,
            request: TurnRequest {
                mode: Mode::Ask,
                conversation: session.id,
                instruction_summary: "say something".to_owned(),
                instruction: self.payload_id(),
                model: None,
                temperature: None,
                previous_response_id: None,
                request_payload: None,
                rerun_of: None,
                workspace_id: None,
                repo: None,
                language: None,
                scope_paths: Vec::new(),
                files: Vec::new(),
                asked: Asked { model: Some("asked-for".to_owned()), temperature: Some(0.5) },
                inputs: None,
            },
            plan: None,
            warnings: Vec::new(),
            state: TurnState::Pending,
        }
    }

    /// Stores a turn with its event and returns it with the number it got.
    pub async fn begin(&self, turn: Turn) -> Turn {
        let committed = self.commit(creating(&turn)).await;
        Turn { number: committed.turn_numbers[0], ..turn }
    }

    /// Stores a running turn of the world's own session.
    pub async fn running_turn(&self) -> Turn {
        self.begin(self.started_turn(&self.session)).await
    }

    /// The turn with an answer, not stored yet.
    pub fn answered(&self, turn: &Turn) -> Turn {
        let answer = Answer {
            at: self.clock.tick(),
            summary: "something".to_owned(),
            text: self.payload_id(),
            bundle: None,
            response: Response {
                id: Some("resp_1".to_owned()),
                first_token_at: Some(self.clock.now()),
                received_at: Some(self.clock.now()),
                chain_expires_at: Some(self.clock.tick()),
                payload: Some(self.payload_id()),
                usage: Some(Usage { input_tokens: 12, output_tokens: 34 }),
            },
        };
        turn.clone().complete(answer).expect("a pending turn")
    }

    /// The turn without an answer, not stored yet.
    pub fn failed(&self, turn: &Turn) -> Turn {
        let failure = Failure {
            at: self.clock.tick(),
            code: FailureCode::ProviderError,
            errors: vec!["the provider answered 500".to_owned(), "the body was empty".to_owned()],
            response: Response::default(),
        };
        turn.clone().fail(failure).expect("a pending turn")
    }

    /// Stores an outcome for the turn.
    pub async fn finish(&self, turn: &Turn) -> Turn {
        let answered = self.answered(turn);
        self.commit(finishing(&answered)).await;
        answered
    }

    /// A member's token whose secret's hash follows from its name.
    pub fn token(&self, name: &str) -> Token {
        Token {
            id: TokenId::from_uuid(self.ids.next()),
            org: self.org.id,
            user: self.member.id,
            name: name.to_owned(),
            hash: Sha256Hash::of(format!("{}/{name}", self.org.id).as_bytes()),
            role: UserRole::Member,
            session: None,
            created_at: self.clock.tick(),
            expires_at: None,
            revoked_at: None,
        }
    }

    /// A user of the world's org who is not stored yet.
    pub fn draft_user(&self, name: &str, role: UserRole) -> User {
        user(&self.ids, &self.org, name, role)
    }

    /// A repository that is not stored yet.
    pub fn draft_repo(&self, name: &str) -> Repo {
        Repo {
            id: RepoId::from_uuid(self.ids.next()),
            name: name.to_owned(),
            path: format!("/srv/repos/{name}"),
            created_at: self.clock.tick(),
        }
    }

    /// The first version of an agent context that is not stored yet.
    pub fn draft_agent_context(&self, name: &str) -> AgentContextVersion {
        AgentContextVersion {
            context: AgentContext {
                id: AgentContextId::from_uuid(self.ids.next()),
                name: name.to_owned(),
                version: 1,
            },
            spec: VersionSpec::Refined(AgentContextSpec {
                agent: self.agent.name.clone(),
                collection: None,
                model: Some("model-1".to_owned()),
            }),
            created_at: self.clock.tick(),
        }
    }

    /// The first version of a conversation context that is not stored yet.
    pub fn draft_conversation_context(&self, name: &str) -> ConversationContext {
        ConversationContext {
            id: ConversationContextId::from_uuid(self.ids.next()),
            name: name.to_owned(),
            version: 1,
            spec: ConversationSpec {
                system_prompt: "be polite".to_owned(),
                model: None,
                temperature: Some(0.7),
            },
            is_configured: false,
            created_at: self.clock.tick(),
        }
    }

    pub fn payload_id(&self) -> PayloadId {
        PayloadId::from_uuid(self.ids.next())
    }

    pub fn message_id(&self) -> MessageId {
        MessageId::from_uuid(self.ids.next())
    }

    pub fn audit(&self, action: &'static str) -> AuditEntry {
        AuditEntry {
            at: self.clock.now(),
            action,
            target: format!("org/{}", self.org.id),
            detail: json!({"from": "a test"}),
        }
    }

    /// A finished message of the world's agent, to be appended.
    pub fn message(&self, log: LogId, text: &str) -> NewEvent {
        note(log, self.clock.tick(), said(self.message_id(), Role::Agent, text))
    }

    /// Commits as the owner, who must succeed.
    pub async fn commit(&self, changes: ChangeSet) -> Committed {
        self.store.commit(&self.as_owner(), changes).await.expect("a commit")
    }

    /// Commits as the owner, who must meet a conflict.
    pub async fn conflict(&self, changes: ChangeSet) -> Conflict {
        conflict(self.store.commit(&self.as_owner(), changes).await)
    }

    /// The whole log of a session, as its org sees it.
    pub async fn log(&self, session: SessionId) -> Vec<Event> {
        self.store
            .list_events(&self.as_owner(), session, 0, EVERYTHING)
            .await
            .expect("the session's events")
    }
}

/// More than any story appends.
pub(crate) const EVERYTHING: EventLimit = EventLimit { events: 10_000, bytes: usize::MAX };

/// A change set of nothing but these writes.
pub fn writing(writes: Vec<Write>) -> ChangeSet {
    ChangeSet { writes, ..ChangeSet::default() }
}

/// An event that belongs to no turn.
pub fn note(log: LogId, at: Timestamp, body: EventBody) -> NewEvent {
    NewEvent { log, turn: None, at, body }
}

/// A text message that is complete.
pub fn said(message_id: MessageId, role: Role, text: &str) -> EventBody {
    let content = match role {
        Role::Agent => MessageContent::agent_text(text),
        Role::User | Role::System => MessageContent::user_text(text),
    };
    EventBody::MessageCompleted(MessageCompleted { message_id, role, content })
}

/// The change set that adds a turn and says so in the log.
pub(crate) fn creating(turn: &Turn) -> ChangeSet {
    let opened = EventBody::TurnCreated(TurnOpened {
        sequence_number: 0,
        instruction: turn.request.instruction_summary.clone(),
        mode: turn.request.mode,
    });
    ChangeSet {
        writes: vec![Write::CreateTurn {
            session: turn.request.conversation,
            turn: Box::new(turn.clone()),
        }],
        events: vec![NewEvent {
            log: turn.log,
            turn: Some(turn.id),
            at: turn.created_at,
            body: opened,
        }],
        ..ChangeSet::default()
    }
}

/// The change set that stores a turn's outcome.
pub(crate) fn finishing(turn: &Turn) -> ChangeSet {
    writing(vec![Write::FinishTurn(Box::new(turn.clone()))])
}

/// The change set that stores a session as it now is.
pub(crate) fn saving(session: &Session) -> ChangeSet {
    writing(vec![Write::SaveSession(Box::new(session.clone()))])
}

/// The conflict that a commit met; any other result fails the test.
pub(crate) fn conflict(result: Result<Committed, StoreError>) -> Conflict {
    match result {
        Err(StoreError::Conflict(conflict)) => conflict,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

fn session_created(session: &Session) -> EventBody {
    EventBody::SessionCreated(SessionChange {
        state: session.state.name(),
        revision: session.revision,
        reason: None,
        interface: Some(session.interface),
        checkpoint_id: None,
        fields: Vec::new(),
    })
}

fn user(ids: &SeededIds, org: &Org, name: &str, role: UserRole) -> User {
    User {
        id: UserId::from_uuid(ids.next()),
        org: org.id,
        name: name.to_owned(),
        role,
        instance_owner: false,
        disabled_at: None,
    }
}

fn draft(ids: &SeededIds, clock: &StoppedClock, owner: &User, agent: &AgentContext) -> Session {
    let at = clock.tick();
    Session {
        id: SessionId::from_uuid(ids.next()),
        org: owner.org,
        log: LogId::from_uuid(ids.next()),
        owner: owner.id,
        created_by: owner.id,
        state: SessionState::Created,
        revision: 1,
        profile: Profile::default(),
        binding: Binding {
            agent_context: agent.id,
            agent_context_version: agent.version,
            conversation_context: None,
            repo_id: None,
            repo: None,
            workspace_id: None,
            scope_paths: Vec::new(),
            basket: None,
        },
        is_resident: false,
        interface: Interface::Api,
        task: TicketId::from_uuid(ids.next()),
        lineage: None,
        checkpoint: None,
        provider_session_id: None,
        agent_state: None,
        created_at: at,
        updated_at: at,
        deleted_at: None,
    }
}
