//! Events as they happen, and as they happened.
//!
//! The body pulls: a batch of events is rendered once for all readers and handed on as one piece of bytes.
//! Nothing is queued for a reader, so a slow one costs no memory.

use std::time::Duration;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, future::BoxFuture, stream};
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use skein_api::EventView;
use skein_core::{
    Error,
    feed::Frames,
    history::{EventReader, NewEvents},
    model::{Event, EventBody, SessionId, TurnId},
    orchestrator::Executed,
    people,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tracing::{error, warn};

use crate::{
    answer::Answer,
    app::Context,
    error::Problem,
    json::{self, Pieces},
    limits::StreamSlot,
};

/// Tells a client at once that the stream is open.
const GREETING: Bytes = Bytes::from_static(b": open\n\n");
const PING: Bytes = Bytes::from_static(b": ping\n\n");

/// Access changes rarely, and asking costs a query; tokens are checked more often.
const ACCESS_CHECK: Duration = Duration::from_secs(10);

/// One reader's stream of a session's events. Ends when the session is purged, the token dies, the reader
/// is too slow or the server closes; not when the session is final.
pub(crate) struct EventStream {
    context: Context,
    caller: people::Caller,
    session: SessionId,
    reader: EventReader,
    checks: Interval,
    access_checked: Instant,
    is_open: bool,
    last_sent: Instant,
    /// When a piece was handed on, until the next one is asked for.
    handed_on: Option<Instant>,
    /// Makes room for another stream of this user when it is dropped.
    _slot: StreamSlot,
}

/// What a stream sends next.
enum Next {
    Comment(Bytes),
    Events(NewEvents),
}

impl EventStream {
    pub(crate) fn new(
        context: Context,
        caller: people::Caller,
        slot: StreamSlot,
        session: SessionId,
        reader: EventReader,
    ) -> Self {
        let mut checks = interval(check_period(&context));
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        checks.reset();
        Self {
            context,
            caller,
            session,
            reader,
            checks,
            access_checked: Instant::now(),
            is_open: false,
            last_sent: Instant::now(),
            handed_on: None,
            _slot: slot,
        }
    }

    /// All events from the reader's position on.
    pub(crate) fn into_response(self) -> Response {
        respond(stream::unfold(self, |mut stream| async move {
            let bytes = match stream.next().await? {
                Next::Comment(comment) => comment,
                Next::Events(new) => rendered(stream.session, &new).from_index(new.from),
            };
            Some((bytes, stream))
        }))
    }

    /// Dropping the future loses nothing but, at worst, one check of the token.
    async fn next(&mut self) -> Option<Next> {
        // More is asked for as soon as there is room, so whoever asks late has not taken the last piece in time.
        let late = self.handed_on.take().is_some_and(|at| at.elapsed() > self.patience());
        if late {
            return None;
        }
        if !self.is_open {
            self.is_open = true;
            return Some(self.hand_on(Next::Comment(GREETING)));
        }
        loop {
            tokio::select! {
                biased;
                () = self.context.app.lifecycle.closing().cancelled() => return None,
                _ = self.checks.tick() => {
                    if !self.is_still_allowed().await {
                        return None;
                    }
                    let next_check = self.last_sent.elapsed() + check_period(&self.context);
                    if next_check > self.context.settings.ping_interval {
                        return Some(self.hand_on(Next::Comment(PING)));
                    }
                }
                new = self.reader.next() => return match new {
                    Ok(Some(new)) => Some(self.hand_on(Next::Events(new))),
                    Ok(None) => None,
                    Err(error) => {
                        warn!(%error, session.id = %self.session, "a stream was cut off");
                        None
                    }
                },
            }
        }
    }

    fn hand_on(&mut self, next: Next) -> Next {
        self.last_sent = Instant::now();
        self.handed_on = Some(self.last_sent);
        next
    }

    fn patience(&self) -> Duration {
        self.context.settings.slow_reader
    }

    /// The token must still be valid and the session still readable. A store that does not answer is no
    /// reason to end a stream.
    async fn is_still_allowed(&mut self) -> bool {
        let app = &self.context.app;
        if !app.people.is_still_valid(&self.caller).await.unwrap_or(true) {
            return false;
        }
        if self.access_checked.elapsed() < ACCESS_CHECK {
            return true;
        }
        self.access_checked = Instant::now();
        let readable = app.sessions.get(&self.caller.scope, self.session).await;
        !matches!(readable, Err(Error::NotFound { .. }))
    }
}

/// A turn's outcome, as soon as there is one.
pub(crate) type Outcome = BoxFuture<'static, Result<Executed, Error>>;

/// The events of a session from one turn on until that turn has ended, then the answer as `done`.
pub(crate) struct TurnStream {
    pub(crate) events: EventStream,
    pub(crate) turn: TurnId,
    pub(crate) instruction_bytes: u64,
    pub(crate) progress: Progress,
}

/// How far the turn is.
pub(crate) enum Progress {
    Running(Outcome),
    /// The outcome is known; its events may still be on their way.
    Known(Box<Executed>),
    /// Its events were sent; the answer follows.
    Telling(Pieces),
    /// Everything was said.
    Told,
}

impl TurnStream {
    pub(crate) fn into_response(self) -> Response {
        respond(stream::unfold(self, |mut stream| async move {
            let bytes = stream.next().await?;
            Some((bytes, stream))
        }))
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let next = match &mut self.progress {
                Progress::Told => return None,
                Progress::Telling(answer) => return tell_on(answer).await,
                Progress::Known(_) => self.events.next().await?,
                Progress::Running(outcome) => tokio::select! {
                    biased;
                    known = outcome => match known {
                        Ok(executed) => {
                            self.progress = Progress::Known(Box::new(executed));
                            continue;
                        }
                        Err(error) => return Some(self.give_up(error)),
                    },
                    next = self.events.next() => next?,
                },
            };
            match next {
                Next::Comment(comment) => return Some(comment),
                Next::Events(new) => return self.send(&new).await,
            }
        }
    }

    /// The events, and after the turn's last one the answer.
    async fn send(&mut self, new: &NewEvents) -> Option<Bytes> {
        let frames = rendered(self.events.session, new);
        let unseen = new.batch.events.iter().enumerate().skip(new.from);
        let Some((last, _)) = unseen.into_iter().find(|(_, event)| ends(self.turn, event)) else {
            return Some(frames.from_index(new.from));
        };
        let rest = frames.bytes.len() - frames.ends[last];
        let mut text = frames.from_index(new.from);
        text.truncate(text.len() - rest);
        let mut text = text.to_vec();
        match std::mem::replace(&mut self.progress, Progress::Told) {
            Progress::Known(executed) => self.tell(&mut text, *executed),
            Progress::Running(outcome) => match outcome.await {
                Ok(executed) => self.tell(&mut text, executed),
                Err(error) => text.extend_from_slice(&self.give_up(error)),
            },
            Progress::Telling(_) | Progress::Told => {}
        }
        Some(text.into())
    }

    /// A short answer goes out with the last events, a long one follows piece by piece.
    fn tell(&mut self, text: &mut Vec<u8>, executed: Executed) {
        const END: &[u8] = b"\n\n";

        text.extend_from_slice(b"event: done\ndata: ");
        match Answer::new(executed, self.instruction_bytes) {
            Answer::Short(answer) => {
                text.extend_from_slice(&answer);
                text.extend_from_slice(END);
            }
            Answer::Long(answer) => {
                self.progress = Progress::Telling(answer.chain(json::piece(END)).boxed());
            }
        }
    }

    /// The turn exists, but this server cannot say how it ended.
    fn give_up(&mut self, error: Error) -> Bytes {
        self.progress = Progress::Told;
        let mut text = Vec::new();
        write_frame(&mut text, "error", &Problem::from(error).to_wire(""));
        text.into()
    }
}

/// The next piece. A frame that is cut short is none: the client asks for the turn instead.
async fn tell_on(answer: &mut Pieces) -> Option<Bytes> {
    match answer.next().await? {
        Ok(piece) => Some(piece),
        Err(error) => {
            error!(%error, "an answer was cut off");
            None
        }
    }
}

fn check_period(context: &Context) -> Duration {
    let settings = &context.settings;
    settings.token_check.min(settings.ping_interval / 2).max(Duration::from_millis(1))
}

fn ends(turn: TurnId, event: &Event) -> bool {
    event.turn == Some(turn)
        && matches!(event.body, EventBody::TurnCompleted(_) | EventBody::TurnFailed(_))
}

/// The first reader of a batch renders it for all.
fn rendered(session: SessionId, new: &NewEvents) -> &Frames {
    new.batch.rendered.get_or_init(|| render(session, &new.batch.events))
}

fn render(session: SessionId, events: &[Event]) -> Frames {
    let mut text = Vec::with_capacity(events.len() * 512);
    let mut ends = Vec::with_capacity(events.len());
    for event in events {
        text.extend_from_slice(b"id: ");
        text.extend_from_slice(event.seq.to_string().as_bytes());
        text.push(b'\n');
        write_frame(&mut text, event.body.name(), &EventView::new(session, event));
        ends.push(text.len());
    }
    Frames { bytes: text.into(), ends }
}

/// JSON has no raw line breaks, so the data is one line.
fn write_frame(text: &mut Vec<u8>, name: &str, data: &impl Serialize) {
    text.extend_from_slice(b"event: ");
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\ndata: ");
    json::write(text, data);
    text.extend_from_slice(b"\n\n");
}

fn respond(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(pieces.map(Ok::<_, std::convert::Infallible>));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        // Proxies that buffer would hold events back.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use skein_core::model::{LogId, MessageId, Role, TextDelta, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn delta(seq: u64, text: &str) -> Event {
        let id = Uuid::from_u128(1);
        Event {
            log: LogId::from_uuid(id),
            seq,
            turn: Some(TurnId::from_uuid(id)),
            at: Timestamp::from_millis(0),
            body: EventBody::MessageDelta(TextDelta {
                message_id: MessageId::from_uuid(id),
                role: Some(Role::Agent),
                text: text.to_owned(),
            }),
        }
    }

    #[test]
    fn a_frame_is_three_lines_and_a_blank_one_whatever_the_text() {
        let session = SessionId::from_uuid(Uuid::from_u128(2));

        let frames = render(session, &[delta(17, "a\nb\r\u{2028}c"), delta(18, "d")]);

        let text = std::str::from_utf8(&frames.bytes).unwrap();
        let first = &text[..frames.ends[0]];
        assert_eq!(
            first,
            "id: 17\nevent: message.delta\ndata: {\"seq\":17,\"type\":\"message.delta\",\
             \"sessionId\":\"00000000-0000-0000-0000-000000000002\",\
             \"turnId\":\"00000000-0000-0000-0000-000000000001\",\
             \"at\":\"1970-01-01T00:00:00.000Z\",\
             \"data\":{\"messageId\":\"00000000-0000-0000-0000-000000000001\",\
             \"role\":\"agent\",\"text\":\"a\\nb\\r\u{2028}c\"}}\n\n"
        );
        assert_eq!(frames.from_index(1), &text.as_bytes()[frames.ends[0]..]);
        assert_eq!(frames.from_index(0), frames.bytes);
    }
}
