//! The state machines of sessions, turns and tickets against a model that is only a list of arrows.

use proptest::prelude::*;
use skein_core::model::{
    AgentContextId, Answer, Asked, Binding, CheckpointId, Failure, FailureCode, Interface,
    InvalidTransition, LogId, Mode, OrgId, PayloadId, Profile, Response, Session, SessionId,
    SessionState, SessionStateName, Ticket, TicketId, TicketKind, TicketStatus, Timestamp, Turn,
    TurnId, TurnRequest, TurnState, TurnStatus, UserId,
};
use uuid::Uuid;

/// The arrows between session states, as the design draws them.
const SESSION_ARROWS: &[(&str, &str)] = &[
    ("created", "active"),
    ("created", "suspended"),
    ("created", "completed"),
    ("created", "cancelled"),
    ("created", "failed"),
    ("active", "suspended"),
    ("active", "completed"),
    ("active", "cancelled"),
    ("active", "failed"),
    ("suspended", "active"),
    ("suspended", "completed"),
    ("suspended", "cancelled"),
    ("suspended", "failed"),
];

/// The arrows between ticket states. Work that never ran can still be given up.
const TICKET_ARROWS: &[(&str, &str)] = &[
    ("initialized", "running"),
    ("initialized", "completed"),
    ("initialized", "failed"),
    ("initialized", "cancelled"),
    ("running", "suspended"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("suspended", "running"),
    ("suspended", "completed"),
    ("suspended", "failed"),
    ("suspended", "cancelled"),
    ("completed", "archived"),
    ("failed", "archived"),
    ("cancelled", "archived"),
];

const SESSION_ID: u128 = 1;
const TURN_ID: u128 = 2;
const TICKET_ID: u128 = 3;

/// What somebody does to a session.
#[derive(Debug, Clone)]
enum SessionMove {
    Activate,
    Suspend { checkpoint: u128, reason: String },
    Resume { interface: Option<Interface> },
    Complete { reason: Option<String> },
    Cancel { reason: Option<String> },
    Fail { reason: String },
    Edit { name: String },
}

impl SessionMove {
    /// The state that the move leads to; an edit leads nowhere.
    fn target(&self) -> Option<SessionState> {
        match self.clone() {
            Self::Activate | Self::Resume { .. } => Some(SessionState::Active),
            Self::Suspend { checkpoint, reason } => {
                Some(SessionState::Suspended { checkpoint: checkpoint_id(checkpoint), reason })
            }
            Self::Complete { reason } => Some(SessionState::Completed { reason }),
            Self::Cancel { reason } => Some(SessionState::Cancelled { reason }),
            Self::Fail { reason } => Some(SessionState::Failed { reason }),
            Self::Edit { .. } => None,
        }
    }

    fn is_legal_from(&self, from: &str) -> bool {
        match (self, self.target()) {
            (Self::Resume { .. }, _) => from == "suspended",
            (_, Some(target)) => SESSION_ARROWS.contains(&(from, target.name().as_str())),
            (_, None) => true,
        }
    }

    fn apply(&self, session: Session, at: Timestamp) -> Result<Session, InvalidTransition> {
        match self.clone() {
            Self::Activate => session.activate(at),
            Self::Suspend { checkpoint, reason } => {
                session.suspend(checkpoint_id(checkpoint), reason, at)
            }
            Self::Resume { interface } => session.resume(interface, at),
            Self::Complete { reason } => session.complete(reason, at),
            Self::Cancel { reason } => session.cancel(reason, at),
            Self::Fail { reason } => session.fail(reason, at),
            Self::Edit { name } => {
                Ok(session.edit(Profile { name: Some(name), ..Profile::default() }, at))
            }
        }
    }

    /// The whole session that a legal move must give.
    fn expected(&self, before: &Session, at: Timestamp) -> Session {
        let moved = Session { revision: before.revision + 1, updated_at: at, ..before.clone() };
        let state = self.target().unwrap_or_else(|| before.state.clone());
        match self.clone() {
            Self::Suspend { checkpoint, .. } => {
                Session { state, checkpoint: Some(checkpoint_id(checkpoint)), ..moved }
            }
            Self::Resume { interface } => {
                Session { state, interface: interface.unwrap_or(before.interface), ..moved }
            }
            Self::Edit { name } => {
                let profile = Profile { name: Some(name), ..Profile::default() };
                Session { profile, ..moved }
            }
            Self::Activate | Self::Complete { .. } | Self::Cancel { .. } | Self::Fail { .. } => {
                Session { state, ..moved }
            }
        }
    }
}

fn checkpoint_id(number: u128) -> CheckpointId {
    CheckpointId::from_uuid(Uuid::from_u128(number))
}

fn reason() -> impl Strategy<Value = String> {
    "[a-z]{1,8}"
}

fn session_move() -> impl Strategy<Value = SessionMove> {
    let interface = proptest::option::of(proptest::sample::select(Interface::ALL));
    prop_oneof![
        4 => Just(SessionMove::Activate),
        4 => (any::<u128>(), reason())
            .prop_map(|(checkpoint, reason)| SessionMove::Suspend { checkpoint, reason }),
        4 => interface.prop_map(|interface| SessionMove::Resume { interface }),
        1 => proptest::option::of(reason()).prop_map(|reason| SessionMove::Complete { reason }),
        1 => proptest::option::of(reason()).prop_map(|reason| SessionMove::Cancel { reason }),
        1 => reason().prop_map(|reason| SessionMove::Fail { reason }),
        2 => reason().prop_map(|name| SessionMove::Edit { name }),
    ]
}

fn new_session() -> Session {
    let id = Uuid::from_u128(SESSION_ID);
    Session {
        id: SessionId::from_uuid(id),
        org: OrgId::from_uuid(id),
        log: LogId::from_uuid(id),
        owner: UserId::from_uuid(id),
        created_by: UserId::from_uuid(id),
        state: SessionState::Created,
        revision: 1,
        profile: Profile::default(),
        binding: Binding {
            agent_context: AgentContextId::from_uuid(id),
            agent_context_version: 1,
            conversation_context: None,
            repo_id: None,
            repo: None,
            workspace_id: None,
            scope_paths: Vec::new(),
            basket: None,
        },
        is_resident: false,
        interface: Interface::Api,
        task: TicketId::from_uuid(id),
        lineage: None,
        checkpoint: None,
        provider_session_id: None,
        agent_state: None,
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
        deleted_at: None,
    }
}

fn new_turn() -> Turn {
    let id = Uuid::from_u128(TURN_ID);
    Turn {
        id: TurnId::from_uuid(id),
        org: OrgId::from_uuid(id),
        log: LogId::from_uuid(id),
        number: 1,
        created_by: UserId::from_uuid(id),
        ticket: TicketId::from_uuid(id),
        created_at: Timestamp::from_millis(0),
        started_at: None,
        dispatched_at: None,
        request: TurnRequest {
            mode: Mode::Ask,
            conversation: SessionId::from_uuid(id),
            instruction_summary: "do it".to_owned(),
            instruction: PayloadId::from_uuid(id),
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
            asked: Asked::default(),
            inputs: None,
        },
        plan: None,
        warnings: Vec::new(),
        state: TurnState::Pending,
    }
}

fn new_ticket(status: TicketStatus) -> Ticket {
    Ticket {
        id: TicketId::from_uuid(Uuid::from_u128(TICKET_ID)),
        session: None,
        kind: TicketKind::Work,
        task_type: "agent:echo".to_owned(),
        task_intent: None,
        source: "api".to_owned(),
        initiated_by: UserId::from_uuid(Uuid::from_u128(TICKET_ID)),
        status,
        created_at: Timestamp::from_millis(0),
    }
}

fn outcome() -> impl Strategy<Value = TurnState> {
    let at = (1_i64..1_000_000).prop_map(Timestamp::from_millis);
    prop_oneof![
        (at.clone(), "[a-z]{0,8}").prop_map(|(at, summary)| TurnState::Completed(Answer {
            at,
            summary,
            text: PayloadId::from_uuid(Uuid::from_u128(9)),
            bundle: None,
            response: Response::default(),
        })),
        (at, proptest::sample::select(FailureCode::ALL)).prop_map(|(at, code)| {
            TurnState::Failed(Failure {
                at,
                code,
                errors: vec![code.as_str().to_owned()],
                response: Response::default(),
            })
        }),
    ]
}

proptest! {
    #[test]
    fn a_session_moves_only_along_the_arrows_and_a_refusal_names_what_is_and_what_was_wanted(
        moves in proptest::collection::vec(session_move(), 1..40),
    ) {
        let mut session = new_session();

        for (step, next) in moves.iter().enumerate() {
            let at = Timestamp::from_millis(1 + i64::try_from(step).unwrap());
            let from = session.state.name().as_str();

            let moved = next.apply(session.clone(), at);

            if next.is_legal_from(from) {
                prop_assert_eq!(moved.as_ref(), Ok(&next.expected(&session, at)));
                session = moved.unwrap();
            } else {
                let to = next.target().unwrap().name().as_str();
                let refusal = InvalidTransition {
                    entity: "session",
                    id: Uuid::from_u128(SESSION_ID),
                    from,
                    to,
                };
                let text = format!("session {} is {from} and cannot become {to}", refusal.id);
                prop_assert_eq!(refusal.to_string(), text);
                prop_assert_eq!(moved, Err(refusal));
            }
        }
    }

    #[test]
    fn a_final_session_can_be_renamed_but_stays_final(
        end in prop_oneof![
            reason().prop_map(|reason| SessionMove::Complete { reason: Some(reason) }),
            reason().prop_map(|reason| SessionMove::Cancel { reason: Some(reason) }),
            reason().prop_map(|reason| SessionMove::Fail { reason }),
        ],
        moves in proptest::collection::vec(session_move(), 1..20),
    ) {
        let at = Timestamp::from_millis(1);
        let mut session = end.apply(new_session(), at).unwrap();
        let ended = session.state.clone();

        for next in moves {
            if let Ok(moved) = next.apply(session.clone(), at) {
                let is_edit = matches!(next, SessionMove::Edit { .. });
                prop_assert!(is_edit, "{next:?} left {ended:?}");
                session = moved;
            }
            prop_assert_eq!(&session.state, &ended);
            prop_assert!(session.state.name().is_final());
        }
    }

    #[test]
    fn a_turn_leaves_pending_once_and_never_changes_again(
        outcomes in proptest::collection::vec(outcome(), 1..8),
    ) {
        let pending = new_turn();
        prop_assert!(!pending.status_is_final());
        let mut turn = pending.clone();

        for (step, wanted) in outcomes.into_iter().enumerate() {
            let from = turn.state.status();
            let moved = match wanted.clone() {
                TurnState::Completed(answer) => turn.clone().complete(answer),
                TurnState::Failed(failure) => turn.clone().fail(failure),
                TurnState::Pending => unreachable!("nothing returns to pending"),
            };

            if step == 0 {
                turn = Turn { state: wanted, ..pending.clone() };
                prop_assert_eq!(moved, Ok(turn.clone()));
                prop_assert!(turn.status_is_final());
            } else {
                prop_assert_ne!(from, TurnStatus::Pending);
                prop_assert_eq!(moved, Err(InvalidTransition {
                    entity: "turn",
                    id: Uuid::from_u128(TURN_ID),
                    from: from.as_str(),
                    to: wanted.status().as_str(),
                }));
            }
        }
    }

    #[test]
    fn a_ticket_moves_only_along_the_arrows_and_a_refusal_names_what_is_and_what_was_wanted(
        steps in proptest::collection::vec(proptest::sample::select(TicketStatus::ALL), 1..40),
    ) {
        let mut ticket = new_ticket(TicketStatus::Initialized);

        for next in steps {
            let from = ticket.status.as_str();

            let moved = ticket.clone().become_status(next);

            if TICKET_ARROWS.contains(&(from, next.as_str())) {
                prop_assert_eq!(moved.as_ref(), Ok(&Ticket { status: next, ..ticket }));
                ticket = moved.unwrap();
            } else {
                prop_assert_eq!(moved, Err(InvalidTransition {
                    entity: "ticket",
                    id: Uuid::from_u128(TICKET_ID),
                    from,
                    to: next.as_str(),
                }));
            }
        }
    }
}

#[test]
fn the_arrows_of_the_model_are_exactly_those_of_the_code() {
    let sessions: Vec<_> = pairs(SessionStateName::ALL)
        .filter(|(from, to)| from.may_become(*to))
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect();
    let tickets: Vec<_> = pairs(TicketStatus::ALL)
        .filter(|(from, to)| from.may_become(*to))
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect();

    assert_eq!(sorted(sessions), sorted(SESSION_ARROWS.to_vec()));
    assert_eq!(sorted(tickets), sorted(TICKET_ARROWS.to_vec()));
}

#[test]
fn a_task_can_follow_every_move_of_its_session() {
    for (from, to) in pairs(SessionStateName::ALL).filter(|(from, to)| from.may_become(*to)) {
        let (was, is) = (TicketStatus::from(from), TicketStatus::from(to));

        assert!(was == is || was.may_become(is), "{from} to {to} moves the task {was} to {is}");
    }
}

fn pairs<T: Copy>(all: &'static [T]) -> impl Iterator<Item = (T, T)> {
    all.iter().flat_map(move |from| all.iter().map(move |to| (*from, *to)))
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}
