//! Reads of a session's past and present: turns, messages, events and payloads.

use std::sync::{Arc, OnceLock};

use futures::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};

use crate::{
    Error,
    feed::{EventBatch, Subscription},
    model::{
        EventBody, Message, MessageContent, MessageId, PayloadId, Role, Scope, Seq, SessionId,
        Timestamp, Turn, TurnId,
    },
    orchestrator::Accepted,
    payloads::StoredPayload,
    platform::Platform,
    policy::access::{self, Action},
    ports::{EventLimit, MessagePage, MessageRange, SessionRecord, TurnPage, TurnRecord},
};

/// One read of the log.
const PAGE: EventLimit = EventLimit { events: 512, bytes: 512 * 1024 };
/// Messages per read when all of them are wanted.
const MESSAGE_PAGE: u32 = 200;

/// Reads what happened in a session.
#[derive(Clone)]
pub struct History {
    platform: Arc<Platform>,
}

/// Which messages a caller wants, always in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagesQuery {
    pub range: MessageRange,
    /// None: all of them.
    pub page: Option<MessagePage>,
}

/// What went into a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnContext {
    pub turn: Turn,
    /// The whole instruction, of which the turn has a summary.
    pub instruction_bytes: u64,
    /// The turn was only planned; it does not exist.
    pub is_dry_run: bool,
}

/// A message that an agent is still writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenMessage {
    pub(crate) id: MessageId,
    pub(crate) text: String,
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
}

/// Events that follow a reader's position.
#[derive(Debug, Clone)]
pub struct NewEvents {
    pub batch: Arc<EventBatch>,
    /// The first event of the batch that the reader has not seen.
    pub from: usize,
}

/// Follows a session's log from a position on: what is stored, then what comes. There is no seam.
pub struct EventReader {
    platform: Arc<Platform>,
    scope: Scope,
    session: SessionId,
    position: Seq,
    /// The store was found to hold no more; from here on only the feed is asked.
    is_at_end: bool,
    subscription: Subscription,
}

impl History {
    pub fn new(platform: Arc<Platform>) -> Self {
        Self { platform }
    }

    pub async fn turn(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Result<TurnRecord, Error> {
        self.platform.session_for(scope, session, Action::Read).await?;
        let found = self.platform.store.find_turn(scope, session, turn).await?;
        found.ok_or(Error::NotFound { entity: "turn" })
    }

    /// What the turn's agent was given.
    pub async fn turn_context(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Result<TurnContext, Error> {
        let turn = self.turn(scope, session, turn).await?.turn;
        let instruction = self.platform.store.find_payload(scope, turn.request.instruction).await?;
        let instruction_bytes = instruction.map_or(0, |payload| payload.size_bytes);
        Ok(TurnContext { turn, instruction_bytes, is_dry_run: false })
    }

    /// The newest turn, whatever its status.
    pub async fn last_turn(&self, scope: &Scope, session: SessionId) -> Result<TurnRecord, Error> {
        let turns = self.turns(scope, session, TurnPage::Last, 1).await?;
        turns.into_iter().next().ok_or(Error::NotFound { entity: "turn" })
    }

    pub async fn turns(
        &self,
        scope: &Scope,
        session: SessionId,
        page: TurnPage,
        limit: u32,
    ) -> Result<Vec<TurnRecord>, Error> {
        self.platform.session_for(scope, session, Action::Read).await?;
        Ok(self.platform.store.list_turns(scope, session, page, limit).await?)
    }

    /// The wanted messages in pages, read as they are taken.
    pub async fn messages(
        &self,
        scope: &Scope,
        session: SessionId,
        query: MessagesQuery,
    ) -> Result<BoxStream<'static, Result<Vec<Message>, Error>>, Error> {
        let record = self.platform.session_for(scope, session, Action::Read).await?;
        check_position(query.range.after, &record)?;
        Ok(self.messages_of(scope, &record, query))
    }

    /// As [`Self::messages`], for a session that the caller was given.
    pub fn messages_of(
        &self,
        scope: &Scope,
        record: &SessionRecord,
        query: MessagesQuery,
    ) -> BoxStream<'static, Result<Vec<Message>, Error>> {
        let walk = MessageWalk {
            platform: Arc::clone(&self.platform),
            scope: scope.clone(),
            session: record.session.id,
            query,
            position: Some(query.range.after),
        };
        let (platform, scope) = (Arc::clone(&self.platform), scope.clone());
        stream::try_unfold(walk, |mut walk| async move {
            let page = walk.next_page().await?;
            Ok::<_, Error>(page.map(|page| (page, walk)))
        })
        .map_ok(move |page| with_texts(Arc::clone(&platform), scope.clone(), page))
        .try_flatten()
        .boxed()
    }

    /// Follows the log after `after`; without it, from now on.
    pub async fn follow(
        &self,
        scope: &Scope,
        session: SessionId,
        after: Option<Seq>,
    ) -> Result<EventReader, Error> {
        let record = self.platform.session_for(scope, session, Action::Read).await?;
        // Subscribed before the position is read, so that nothing falls between the two.
        let subscription = self.platform.feed.subscribe(record.session.log);
        let current = self.platform.session_for(scope, session, Action::Read).await?;
        let position = after.unwrap_or(current.log.last_seq);
        check_position(position, &current)?;
        Ok(EventReader {
            platform: Arc::clone(&self.platform),
            scope: scope.clone(),
            session,
            position,
            is_at_end: false,
            subscription,
        })
    }

    /// Follows the events of a turn that the caller was just given. Nothing is looked up: the caller may read it, and
    /// its position is known.
    pub fn follow_accepted(&self, scope: &Scope, accepted: &Accepted) -> EventReader {
        EventReader {
            platform: Arc::clone(&self.platform),
            scope: scope.clone(),
            session: accepted.session,
            position: accepted.before_seq,
            is_at_end: false,
            subscription: self.platform.feed.subscribe(accepted.log),
        }
    }

    /// The position before a turn's first event.
    pub async fn position_before(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: TurnId,
    ) -> Result<Seq, Error> {
        let store = &self.platform.store;
        let mut range = MessageRange { after: 0, before: None, since: None };
        loop {
            let page = MessagePage::Last(MESSAGE_PAGE);
            let events = store.list_message_events(scope, session, range, page).await?;
            // The first message of a turn is its instruction, right after `turn.created`.
            if let Some(instruction) = events.iter().find(|event| {
                event.turn == Some(turn)
                    && matches!(event.body.closes_message(), Some((_, Role::User)))
            }) {
                return Ok(instruction.seq.saturating_sub(2));
            }
            let Some(first) = events.first() else {
                return Err(Error::NotFound { entity: "turn" });
            };
            range.before = Some(first.seq);
        }
    }

    /// A payload, for whoever may read a session that holds it.
    pub async fn payload(&self, scope: &Scope, payload: PayloadId) -> Result<StoredPayload, Error> {
        let store = &self.platform.store;
        let meta = store.find_payload(scope, payload).await?;
        let mut readers = store.payload_readers(scope, payload).await?;
        if readers.is_empty() {
            // As many looks as for a payload of somebody else's session: the time must not tell them apart.
            readers.push(SessionId::from_uuid(*payload.as_uuid()));
        }
        for session in readers {
            let Some(record) = store.find_session(scope, session).await? else { continue };
            let may_read = access::check(scope, &record, Action::Read).is_ok();
            if let Some(meta) = meta.as_ref().filter(|_| may_read) {
                return Ok(StoredPayload::new(&self.platform, scope, meta.clone()));
            }
        }
        Err(Error::NotFound { entity: "payload" })
    }
}

impl EventReader {
    /// The position after the last event that was handed out.
    pub fn position(&self) -> Seq {
        self.position
    }

    /// The next events, as soon as there are any. `None` when the session no longer exists.
    ///
    /// Dropping the future loses nothing: the position moves only when events are returned.
    pub async fn next(&mut self) -> Result<Option<NewEvents>, Error> {
        loop {
            if let Some(batch) = self.subscription.recent(self.position) {
                let from = batch.events.partition_point(|event| event.seq <= self.position);
                return Ok(Some(self.advance(NewEvents { batch, from })));
            }
            if !self.is_at_end || self.subscription.is_beyond(self.position) {
                let store = &self.platform.store;
                let events =
                    store.list_events(&self.scope, self.session, self.position, PAGE).await?;
                if !events.is_empty() {
                    let batch = Arc::new(EventBatch { events, rendered: OnceLock::new() });
                    return Ok(Some(self.advance(NewEvents { batch, from: 0 })));
                }
                self.is_at_end = true;
            }
            if !self.subscription.wait_beyond(self.position).await {
                return Ok(None);
            }
        }
    }

    fn advance(&mut self, new: NewEvents) -> NewEvents {
        if let Some(last) = new.batch.events.last() {
            self.position = last.seq;
        }
        self.is_at_end = false;
        new
    }
}

/// A position beyond the end was never handed out.
fn check_position(position: Seq, record: &SessionRecord) -> Result<(), Error> {
    let last = record.log.last_seq;
    if position > last {
        return Err(Error::InvalidCursor { cursor: position.to_string(), last });
    }
    Ok(())
}

/// A text too long for the log is fetched from its payload, one at a time as they are taken.
fn with_texts(
    platform: Arc<Platform>,
    scope: Scope,
    page: Vec<Message>,
) -> impl Stream<Item = Result<Vec<Message>, Error>> {
    let is_long = |message: &Message| matches!(message.content, MessageContent::TextPayload { .. });
    let pieces: Vec<Vec<Message>> =
        page.chunk_by(|a, b| !is_long(a) && !is_long(b)).map(<[Message]>::to_vec).collect();
    stream::iter(pieces).then(move |mut piece| {
        let (platform, scope) = (Arc::clone(&platform), scope.clone());
        async move {
            for message in &mut piece {
                if let MessageContent::TextPayload { payload, partial, interrupted } =
                    message.content
                {
                    let body = platform.store.payload_body(&scope, payload).await?;
                    let text = String::from_utf8_lossy(&body).into_owned();
                    message.content = MessageContent::Text { text, partial, interrupted };
                }
            }
            Ok(piece)
        }
    })
}

/// Where a reading of messages stands.
struct MessageWalk {
    platform: Arc<Platform>,
    scope: Scope,
    session: SessionId,
    query: MessagesQuery,
    /// None once everything was handed out.
    position: Option<Seq>,
}

impl MessageWalk {
    async fn next_page(&mut self) -> Result<Option<Vec<Message>>, Error> {
        let Some(position) = self.position else { return Ok(None) };
        let range = MessageRange { after: position, ..self.query.range };
        let page = self.query.page.unwrap_or(MessagePage::First(MESSAGE_PAGE));
        let (MessagePage::First(limit) | MessagePage::Last(limit)) = page;
        let store = &self.platform.store;
        let events = store.list_message_events(&self.scope, self.session, range, page).await?;
        let full = events.len() >= limit as usize;
        let goes_on = full && self.query.page.is_none();
        self.position = events.last().map(|event| event.seq).filter(|_| goes_on);
        let reaches_end = match page {
            MessagePage::First(_) => !full,
            MessagePage::Last(_) => true,
        };
        let mut messages: Vec<Message> =
            events.iter().filter_map(crate::model::Event::message).collect();
        if reaches_end && let Some(open) = self.open_message().await? {
            let place = messages.partition_point(|message| message.seq < open.seq);
            messages.insert(place, open);
            if messages.len() > limit as usize {
                messages.remove(0);
            }
        }
        Ok(Some(messages))
    }

    async fn open_message(&self) -> Result<Option<Message>, Error> {
        let pending = self.platform.store.list_pending_turns(&self.scope, self.session).await?;
        let Some(turn) = pending.iter().find(|turn| turn.started_at.is_some()).map(|turn| turn.id)
        else {
            return Ok(None);
        };
        let range = self.query.range;
        let open = open_message(&self.platform, &self.scope, self.session, turn).await?;
        Ok(open
            .filter(|open| open.seq > range.after)
            .filter(|open| range.before.is_none_or(|before| open.seq < before))
            .filter(|open| range.since.is_none_or(|since| open.at > since))
            .map(|open| Message {
                id: open.id,
                turn: Some(turn),
                seq: open.seq,
                role: Role::Agent,
                content: MessageContent::Text {
                    text: open.text,
                    partial: Some(true),
                    interrupted: false,
                },
                at: open.at,
            }))
    }
}

/// The message that a pending turn has begun and not closed.
///
/// It stands after the last closed message of the same turn; instructions that were queued meanwhile
/// may stand between.
pub(crate) async fn open_message(
    platform: &Platform,
    scope: &Scope,
    session: SessionId,
    turn: TurnId,
) -> Result<Option<OpenMessage>, Error> {
    let mut position = last_closed(platform, scope, session, turn).await?;
    let mut open: Option<OpenMessage> = None;
    loop {
        let events = platform.store.list_events(scope, session, position, PAGE).await?;
        let Some(end) = events.last().map(|event| event.seq) else { return Ok(open) };
        for event in events.into_iter().filter(|event| event.turn == Some(turn)) {
            let EventBody::MessageDelta(delta) = event.body else { continue };
            let (seq, at) = (event.seq, event.at);
            match &mut open {
                Some(open) if open.id == delta.message_id => {
                    open.text.push_str(&delta.text);
                    (open.seq, open.at) = (seq, at);
                }
                _ => open = Some(OpenMessage { id: delta.message_id, text: delta.text, seq, at }),
            }
        }
        position = end;
    }
}

/// Where the newest closed message of a turn stands. Its instruction is one, so there always is one.
async fn last_closed(
    platform: &Platform,
    scope: &Scope,
    session: SessionId,
    turn: TurnId,
) -> Result<Seq, Error> {
    let mut range = MessageRange { after: 0, before: None, since: None };
    loop {
        let page = MessagePage::Last(32);
        let events = platform.store.list_message_events(scope, session, range, page).await?;
        let Some(first) = events.first().map(|event| event.seq) else { return Ok(0) };
        if let Some(found) = events.iter().rev().find(|event| event.turn == Some(turn)) {
            return Ok(found.seq);
        }
        range.before = Some(first);
    }
}
