//! Follows one turn to its end, through cuts of the connection.

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use skein_core::ports::Ids;
use tokio::sync::watch;

use super::{Context, printer::Printer, questions::Questions, recent::Recent, text};
use crate::{
    failure::{Exit, Failure},
    output,
    system::System,
    transport::{Answer, Call, Client, Reply, SseEvent, SseParser, Target, Wants, never_arrived},
};

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// Together about a minute.
const RETRIES: u32 = 15;

/// A turn of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TurnAddress {
    pub(super) session: String,
    pub(super) turn: String,
}

impl TurnAddress {
    /// Where the turn is, or something of it.
    pub(super) fn target(&self, rest: &[&str]) -> Target {
        let turn = ["api", "sessions", &self.session, "turns", &self.turn];
        Target::new(&[&turn[..], rest].concat())
    }
}

/// The turn that a command has begun or waits for, once it is known.
pub(super) type Known = watch::Sender<Option<TurnAddress>>;

/// Reads the events of one turn.
pub(super) struct Follower<'a> {
    context: &'a Context,
    client: &'a mut Client,
    pub(super) printer: Printer,
    questions: Questions,
    known: &'a Known,
    /// Where the session of a new turn is noted.
    recent: Option<Recent>,
    /// The last event that was read.
    position: Option<u64>,
    /// The turn's last event was read.
    is_over: bool,
}

/// Which stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The answer to the request: ends with its body.
    Request,
    /// The session's log: has no end.
    Log,
}

/// How a stream ended.
enum Ended {
    /// With the answer to the request that opened it.
    Answer(Answer),
    /// With the turn.
    Turn,
    Cut,
}

impl<'a> Follower<'a> {
    pub(super) fn new(
        context: &'a Context,
        client: &'a mut Client,
        known: &'a Known,
        printer: Printer,
    ) -> Self {
        let questions = Questions::new(context);
        Self {
            context,
            client,
            printer,
            questions,
            known,
            recent: None,
            position: None,
            is_over: false,
        }
    }

    pub(super) fn noting(mut self, recent: Recent) -> Self {
        self.recent = Some(recent);
        self
    }

    /// Asks, and follows the turn to its end. The body is that of the request, whichever way it came.
    pub(super) async fn execute(&mut self, body: Value) -> Result<Answer, Failure> {
        let call = execute_call(body);
        let mut patience = Patience::default();
        loop {
            if let Some(reply) = self.ask(&call, &mut patience).await? {
                match self.read(reply, Source::Request).await? {
                    Ended::Answer(answer) => return Ok(answer),
                    Ended::Turn => return self.answer_to(&call).await,
                    Ended::Cut if self.address().is_some() => {
                        self.follow().await?;
                        return self.answer_to(&call).await;
                    }
                    Ended::Cut => {}
                }
            }
            self.pause(&mut patience).await?;
        }
    }

    /// Asks, and returns as soon as the turn is known. It goes on by itself.
    pub(super) async fn begin(&mut self, body: Value) -> Result<Begun, Failure> {
        let call = execute_call(body);
        let mut patience = Patience::default();
        loop {
            if let Some(reply) = self.ask(&call, &mut patience).await?
                && let Some(begun) = self.read_beginning(reply).await?
            {
                return Ok(begun);
            }
            self.pause(&mut patience).await?;
        }
    }

    /// Sends the request. Nothing when it has to be sent again, which its key makes safe: there is one turn only.
    async fn ask(&self, call: &Call, patience: &mut Patience) -> Result<Option<Reply>, Failure> {
        let is_repeated = patience.tries > 0;
        match self.client.open(streaming(call)).await {
            Ok(Ok(reply)) => Ok(Some(reply)),
            Ok(Err(refusal)) if is_repeated && refusal.code() == "idempotency_in_progress" => {
                patience.stay();
                Ok(None)
            }
            Ok(Err(refusal)) => Err(refusal.failure()),
            Err(failure) if !is_repeated && never_arrived(&failure) => Err(failure),
            Err(failure) if failure.exit == Exit::Unavailable => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn read_beginning(&mut self, mut reply: Reply) -> Result<Option<Begun>, Failure> {
        let mut parser = SseParser::default();
        while let Some(Ok(piece)) = reply.body.next().await {
            for event in parser.push(&piece) {
                self.event(&event)?;
                if let Some(address) = self.address() {
                    let event: Value = serde_json::from_str(&event.data).unwrap_or_default();
                    let number = event["data"]["sequenceNumber"].clone();
                    return Ok(Some(Begun { address, number }));
                }
            }
        }
        Ok(None)
    }

    /// Follows the session's log until the turn has ended: from the last event that was read, or from now on.
    pub(super) async fn follow(&mut self) -> Result<(), Failure> {
        let mut patience = Patience::default();
        while !self.is_over {
            let Some(address) = self.address() else { return Ok(()) };
            match self.subscribe(&address.session).await {
                Ok(reply) => {
                    patience = Patience::default();
                    if self.position.is_none() && self.turn_is_final().await? {
                        return Ok(());
                    }
                    self.read(reply, Source::Log).await?;
                }
                Err(failure) if failure.exit == Exit::Unavailable => {}
                Err(failure) => return Err(failure),
            }
            if !self.is_over {
                self.pause(&mut patience).await?;
            }
        }
        Ok(())
    }

    /// The session's log from the last event that was read, or from now on.
    pub(super) async fn subscribe(&self, session: &str) -> Result<Reply, Failure> {
        let mut call = Call::get(Target::new(&["api", "sessions", session, "events"]));
        call.last_event_id = self.position;
        self.client.stream(call).await
    }

    /// Reads a stream that is open already, then goes on as [`Self::follow`] does.
    pub(super) async fn follow_from(&mut self, reply: Reply) -> Result<(), Failure> {
        self.read(reply, Source::Log).await?;
        self.follow().await
    }

    pub(super) fn client(&self) -> &Client {
        self.client
    }

    pub(super) fn is_about(&self, address: TurnAddress) {
        self.known.send_replace(Some(address));
    }

    fn address(&self) -> Option<TurnAddress> {
        self.known.borrow().clone()
    }

    async fn read(&mut self, mut reply: Reply, source: Source) -> Result<Ended, Failure> {
        let mut parser = SseParser::default();
        loop {
            let piece = tokio::select! {
                piece = reply.body.next() => piece,
                answered = self.questions.answered(self.client) => {
                    answered?;
                    continue;
                }
            };
            let piece = match piece {
                Some(Ok(piece)) => piece,
                None => break,
                Some(Err(failure)) if failure.exit == Exit::Unavailable => break,
                Some(Err(failure)) => return Err(failure),
            };
            for event in parser.push(&piece) {
                if let Some(ended) = self.event(&event)? {
                    return Ok(ended);
                }
                if self.is_over && source == Source::Log {
                    return Ok(Ended::Turn);
                }
            }
        }
        Ok(if self.is_over { Ended::Turn } else { Ended::Cut })
    }

    fn event(&mut self, event: &SseEvent) -> Result<Option<Ended>, Failure> {
        let Some(seq) = event.id.as_deref().and_then(|id| id.parse::<u64>().ok()) else {
            return Ok(match event.name.as_deref() {
                Some("done") => {
                    let answer = Answer::new(event.data.clone().into_bytes().into())?;
                    Some(Ended::Answer(answer))
                }
                // The server cannot say how the turn ends; its log will.
                Some("error") => Some(Ended::Cut),
                _ => None,
            });
        };
        self.position = Some(seq);
        let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if !self.is_ours(&value) {
            return Ok(None);
        }
        let kind = text(&value, "type");
        self.printer.event(kind, &value["data"])?;
        if kind == "permission.requested" {
            self.printer.end_line()?;
        }
        self.questions.event(text(&value, "sessionId"), kind, &value["data"]);
        self.is_over |= matches!(kind, "turn.completed" | "turn.failed");
        Ok(None)
    }

    /// The first turn that is named in the answer to a request is the one that it began.
    fn is_ours(&mut self, event: &Value) -> bool {
        let Some(turn) = event["turnId"].as_str() else { return false };
        match self.address() {
            Some(address) => address.turn == turn,
            None => {
                let session = text(event, "sessionId").to_owned();
                if let Some(recent) = &self.recent {
                    recent.note(&session);
                }
                self.is_about(TurnAddress { session, turn: turn.to_owned() });
                true
            }
        }
    }

    /// The body of an answer whose turn has ended: the same request again, with the same key.
    async fn answer_to(&mut self, call: &Call) -> Result<Answer, Failure> {
        let mut patience = Patience::default();
        loop {
            match self.client.call(call.clone()).await {
                Err(failure) if failure.exit == Exit::Unavailable => {}
                answer => return answer,
            }
            self.pause(&mut patience).await?;
        }
    }

    async fn turn_is_final(&self) -> Result<bool, Failure> {
        let Some(address) = self.address() else { return Ok(false) };
        let turn = self.client.call(Call::get(address.target(&[]))).await?;
        let is_final = text(&turn.value["status"], "key") != "pending";
        if !is_final && self.client.is_in_process() {
            let message = "no server is running on this home: the turn does not go on";
            return Err(Failure::new(Exit::Unavailable, message).hint("start one: skein serve"));
        }
        Ok(is_final)
    }

    async fn pause(&mut self, patience: &mut Patience) -> Result<(), Failure> {
        let Some(pause) = patience.pause() else {
            let failure = Failure::new(Exit::Unavailable, "the server cannot be reached any more");
            return Err(match self.address() {
                Some(TurnAddress { session, turn }) => failure
                    .hint(format!("the turn goes on by itself: skein turn wait {session} {turn}")),
                None => failure,
            });
        };
        // A program that reads the answer must not find a line end in the middle of it.
        if output::stdout_is_terminal() {
            self.printer.end_line()?;
        }
        output::aside("the connection was cut; taking it up again");
        tokio::time::sleep(pause).await;
        self.client.reconnect(self.context);
        Ok(())
    }
}

/// A turn that nobody waits for.
pub(super) struct Begun {
    pub(super) address: TurnAddress,
    pub(super) number: Value,
}

/// Longer pauses each time, until there is no point in going on.
#[derive(Debug, Default)]
struct Patience {
    tries: u32,
}

impl Patience {
    /// The next pause.
    fn pause(&mut self) -> Option<Duration> {
        let pause = FIRST_RETRY.saturating_mul(2_u32.saturating_pow(self.tries));
        self.tries += 1;
        (self.tries <= RETRIES).then(|| pause.min(LONGEST_RETRY))
    }

    /// The server answers: however long it takes, there is a point in it.
    fn stay(&mut self) {
        self.tries = self.tries.min(RETRIES / 2);
    }
}

fn execute_call(body: Value) -> Call {
    let mut call = Call::post(Target::new(&["api", "ai", "agent", "execute"]), body);
    call.idempotency_key = Some(System.next().to_string());
    call
}

fn streaming(call: &Call) -> Call {
    Call { wants: Wants::Events, ..call.clone() }
}
