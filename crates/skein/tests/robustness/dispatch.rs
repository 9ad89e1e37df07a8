//! SIGKILL between dispatch and answer: no turn is dispatched twice, and an answer that goes on without us arrives whole.

use std::{collections::BTreeMap, time::Duration};

use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};
use skein_testkit::responses::{Answer, Output, Refusal, ResponsesServer, Script, Wire};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    common::{TestHome, TestServer},
    harness::{Api, DEADLINE, Frames, Reply, eventually},
    scale, verify,
};

const KEY_VARIABLE: &str = "DISPATCH_TEST_KEY";
const SESSIONS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn without_background_every_turn_that_was_cut_is_interrupted_and_dispatched_at_most_once() {
    kill_between_dispatch_and_answer(Background::Off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_background_an_answer_whose_id_is_durable_arrives_whole_after_a_restart() {
    kill_between_dispatch_and_answer(Background::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_were_proposed_before_a_crash_are_in_the_answer_after_it() {
    let mut random = scale::random("dispatch");
    let provider = ResponsesServer::start().await;
    let mut server = serve(&provider, Background::On).await;
    let arguments = r#"{"files":[{"path":"new.rs","action":"create","content":"fn new() {}\n"}]}"#;
    let text = some_text(&mut random, 40);
    let events_before_the_end = 5 + 40 + 3 + 1 + arguments.len().div_ceil(5) + 2;
    provider.script(
        Answer::text(&text)
            .and_tool_call("propose_files", arguments)
            .chunk_chars(5)
            .hold_before(events_before_the_end, "end"),
    );
    let api = Api::of(&server);
    let session = api.create(json!({})).await;
    let body = json!({"sessionId": session, "instruction": "write", "mode": "edit"});
    let execute = |api: &Api| Reply::try_to(api.keyed("/api/ai/agent/execute", "one", &body));

    let asking = JoinSet::from_iter([execute(&api)]);
    reached(&provider, "end").await;
    eventually("the text is durable", async || {
        (deltas(&api.log(&session).await, "message.delta") == text).then_some(())
    })
    .await;
    server.kill();
    asking.join_all().await.pop().unwrap().unwrap_err();
    server.restart().await;
    provider.gate("end").open();
    let api = Api::of(&server);
    let turn = api.get(&format!("/api/sessions/{session}/turns/last")).await.expect(200).text("id");
    let finished = api.finished(&session, &turn).await;
    let answer = execute(&api).await.unwrap().expect(200).json();

    assert_eq!(finished["status"]["key"], "completed", "{finished}");
    assert_eq!((&answer["turnId"], &answer["text"]), (&json!(turn), &json!(text)));
    assert_eq!(answer["fileBundle"]["files"][0]["content"], "fn new() {}\n", "{answer}");
    // The call that the provider waits for is answered by the next turn.
    let next = api.prompt(&session, "go on").await;
    assert_eq!(api.finished(&session, &next).await["status"]["key"], "completed");
    assert_eq!(provider.dispatches_by("turn"), BTreeMap::from([(turn, 1), (next, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_that_is_cut_again_and_again_is_whole_in_the_end() {
    let answers = scale::choose(2, 25);
    let mut random = scale::random("dispatch");
    let provider = ResponsesServer::start().await;
    let mut server = serve(&provider, Background::On).await;
    let mut kills = 0;

    for number in 1..=answers {
        let bytes = random.random_range(1_000_000..4_000_000);
        let chunk_chars = random.random_range(100..20_000);
        provider.script(Answer::filler(bytes).chunk_chars(chunk_chars));
        let mut api = Api::of(&server);
        let session = api.create(json!({})).await;
        let turn = api.prompt(&session, "tell me everything").await;
        eventually("the first text is durable", async || {
            (api.last_seq(&session).await > 6).then_some(())
        })
        .await;
        let is_pending =
            async |api: &Api| api.turn(&session, &turn).await["status"]["key"] == "pending";
        while is_pending(&api).await {
            tokio::time::sleep(Duration::from_micros(random.random_range(0..30_000))).await;
            server.restart().await;
            kills += 1;
            api = Api::of(&server);
            // So that it gets somewhere.
            let before = api.last_seq(&session).await;
            eventually("it goes on", async || {
                let goes_on = api.last_seq(&session).await > before;
                (goes_on || !is_pending(&api).await).then_some(())
            })
            .await;
        }

        let finished = api.finished(&session, &turn).await;
        assert_eq!(finished["status"]["key"], "completed", "{finished}");
        let path = finished["fullAgentAnswerUrl"].as_str().unwrap();
        let answer = api.get(path).await.expect(200).body;
        let said = deltas(&api.log(&session).await, "message.delta");
        assert_eq!((answer.len(), said.len()), (bytes, bytes));
        assert!(answer == said.as_bytes(), "the deltas are not the answer");
        assert_eq!(provider.dispatches().len(), number);
    }
    eprintln!("{answers} answers of 1 to 4 MB, {kills} kills, each dispatched once and whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delta_longer_than_what_may_wait_does_not_come_again_after_a_crash() {
    let provider = ResponsesServer::start().await;
    let mut server = serve(&provider, Background::On).await;
    let (bytes, delta) = (2_400_000, 1_200_000);
    provider.script(Answer::filler(bytes).chunk_chars(delta).hold_before(6, "second delta"));
    let api = Api::of(&server);
    let session = api.create(json!({})).await;
    let turn = api.prompt(&session, "tell me everything").await;
    eventually("the first delta is durable", async || {
        (deltas(&api.log(&session).await, "message.delta").len() == delta).then_some(())
    })
    .await;

    server.restart().await;
    provider.gate("second delta").open();
    let api = Api::of(&server);
    let finished = api.finished(&session, &turn).await;

    assert_eq!(finished["status"]["key"], "completed", "{finished}");
    let taken_up: Vec<_> = provider.requests().into_iter().map(|request| request.query).collect();
    assert_eq!(deltas(&api.log(&session).await, "message.delta").len(), bytes, "{taken_up:?}");
    // What was received before the crash is part of the raw response, and what came after it follows.
    let raw = finished["openAIResponsePayloadUrl"].as_str().unwrap();
    let raw = api.get(raw).await.expect(200).body;
    let numbers: Vec<u64> = String::from_utf8_lossy(&raw)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|event| event["sequence_number"].as_u64())
        .collect();
    let count = numbers.len() as u64;
    assert!(count > 7 && numbers == (0..count).collect::<Vec<_>>(), "{numbers:?}");
}

/// Whether responses outlive their connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Background {
    On,
    Off,
}

/// How far a turn is when its server is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// The turn is durable; its call may be on the way or not.
    Accepted,
    /// The provider has refused the call, and it is to be repeated.
    Refused,
    /// The model works, and its provider has said nothing.
    NoReply,
    /// The response has begun, and no text has come.
    Created,
    /// A thought is durable, and so is the id of the response; no text has come.
    Thought,
    /// A part of the text is durable.
    Deltas,
    /// All of the text is durable, and the end has not come.
    BeforeCompleted,
}

const POINTS: [Point; 7] = [
    Point::Accepted,
    Point::Refused,
    Point::NoReply,
    Point::Created,
    Point::Thought,
    Point::Deltas,
    Point::BeforeCompleted,
];

impl Point {
    /// Whether a caller has seen what is written together with the id of the response.
    fn is_id_durable(self) -> bool {
        matches!(self, Self::Thought | Self::Deltas | Self::BeforeCompleted)
    }
}

/// A turn that is cut.
struct Cut {
    session: String,
    turn: String,
    point: Point,
    gate: String,
    text: String,
    /// Waits behind it.
    queued: Option<String>,
}

async fn kill_between_dispatch_and_answer(background: Background) {
    let kills = scale::choose(8, 50);
    let mut random = scale::random("dispatch");
    let provider = ResponsesServer::start().await;
    let mut server = serve(&provider, background).await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Api::of(&server).create(json!({})).await);
    }
    let mut fates: BTreeMap<String, usize> = BTreeMap::new();

    for kill in 1..=kills {
        let api = Api::of(&server);
        let planned = points_of(kill, &mut random);
        let mut cuts = Vec::new();
        for (number, point) in planned {
            let label = format!("(kill {kill}, session {number})");
            let (turn, place) = ((sessions[number].as_str(), label.as_str()), (point, background));
            let cut = begin(&api, &provider, turn, place, &mut random).await;
            reach(&api, &provider, &cut).await;
            cuts.push(cut);
        }
        // Not always right behind what was seen.
        if random.random_bool(0.5) {
            tokio::time::sleep(Duration::from_micros(random.random_range(0..5_000))).await;
        }
        server.kill();
        let while_away = random.random_bool(0.5);
        if while_away {
            open_gates(&provider, &cuts);
        }
        server.restart().await;
        // Sometimes it is killed again while it takes up what was cut.
        let twice = random.random_bool(0.3);
        if twice {
            tokio::time::sleep(Duration::from_micros(random.random_range(0..20_000))).await;
            server.restart().await;
        }
        if !while_away {
            open_gates(&provider, &cuts);
        }

        let api = Api::of(&server);
        for cut in &cuts {
            let fate = check(&api, cut, background).await;
            check_queued(&api, cut, twice).await;
            let dispatched = provider.dispatches_by("turn").get(&cut.turn).copied().unwrap_or(0);
            assert!(dispatched <= 1, "{:?}: dispatched {dispatched} times", cut.point);
            *fates
                .entry(format!("{:?}, dispatched {dispatched}: {fate}", cut.point))
                .or_default() += 1;
        }
    }

    let api = Api::of(&server);
    for session in &sessions {
        verify::settled_session(&api, session).await;
    }
    let dispatches = provider.dispatches().len();
    assert_eq!(provider.dispatches_by("turn").len(), dispatches, "a turn was dispatched twice");
    eprintln!(
        "{kills} kills, {} turns cut, {dispatches} dispatches, none twice: {fates:?}",
        kills * SESSIONS
    );
}

/// Where each session is to be cut. The first two take every point in turn, so that a small run has been everywhere; those
/// whose calls are to be on the way come last.
fn points_of(kill: usize, random: &mut StdRng) -> Vec<(usize, Point)> {
    let mut points: Vec<_> = (0..SESSIONS)
        .map(|number| match number {
            0 | 1 => (number, POINTS[(2 * kill + number) % POINTS.len()]),
            _ => (number, *POINTS.choose(random).unwrap()),
        })
        .collect();
    points.sort_by_key(|(_, point)| *point == Point::Accepted);
    points
}

async fn serve(provider: &ResponsesServer, background: Background) -> TestServer {
    let background = match background {
        Background::On => "on",
        Background::Off => "off",
    };
    let home = TestHome::with_config(&format!(
        "[sessions]\ndefault_agent = \"model\"\n[providers.model]\nbase_url = \"{}\"\n\
         key_env = \"{KEY_VARIABLE}\"\nmodel = \"m-1\"\nbackground = \"{background}\"\n",
        provider.base_url()
    ));
    TestServer::on_with(home, &[(KEY_VARIABLE, provider.key())]).await
}

/// Starts a turn that will stand at its point, and sometimes one behind it.
async fn begin(
    api: &Api,
    provider: &ResponsesServer,
    (session, label): (&str, &str),
    (point, background): (Point, Background),
    random: &mut StdRng,
) -> Cut {
    let (deltas, gate) = (random.random_range(2..200), format!("gate of {label}"));
    let text = some_text(random, deltas);
    let mut answer = Answer::text(&text).chunk_chars(5);
    // created, queued (in the background only), in_progress, item, part; then deltas; then text, part and item done.
    let first_delta = if background == Background::On { 5 } else { 4 };
    let mut script = Script::from(match point {
        Point::Accepted => answer.hold_before(0, &gate),
        Point::Refused | Point::NoReply => answer,
        Point::Created => answer.hold_before(random.random_range(1..=first_delta), &gate),
        Point::Thought => {
            answer.output.insert(0, Output::Reasoning("I wonder".to_owned()));
            // Both deltas of the thought have come.
            answer.hold_before(first_delta + 2, &gate)
        }
        Point::Deltas => answer.hold_before(first_delta + random.random_range(1..deltas), &gate),
        Point::BeforeCompleted => {
            answer.hold_before(first_delta + deltas + random.random_range(0..4), &gate)
        }
    });
    if point == Point::NoReply {
        script = script.and_wire(Wire::StallBeforeHeaders);
    }
    if point == Point::Refused {
        provider.script(Script::from(Refusal::status(429).retry_after("30")).when(label));
    }
    provider.script(script.when(label));
    let turn = api.prompt(session, label).await;
    let queued = match point != Point::Accepted && random.random_bool(0.3) {
        true => Some(api.enqueue(session, "and then?").await),
        false => None,
    };
    Cut { session: session.to_owned(), turn, point, gate, text, queued }
}

/// Waits until the turn is where it is to be cut.
async fn reach(api: &Api, provider: &ResponsesServer, cut: &Cut) {
    let is_durable = async |event: &str, wanted: &str| {
        eventually("it is durable", async || {
            let log = of_turn(&api.log(&cut.session).await, &cut.turn);
            deltas(&log, event).starts_with(wanted).then_some(())
        })
        .await;
    };
    match cut.point {
        Point::Accepted => {}
        Point::Refused => {
            eventually("the call is refused", async || {
                let requests = provider.requests();
                let refused = requests.iter().filter(|request| request.status == Some(429));
                let mut turns = refused.filter_map(|request| request.json.as_ref());
                turns.any(|body| body["metadata"]["turn"] == cut.turn).then_some(())
            })
            .await;
        }
        Point::NoReply => {
            eventually("the model works", async || {
                provider.dispatches_by("turn").contains_key(&cut.turn).then_some(())
            })
            .await;
        }
        Point::Created => reached(provider, &cut.gate).await,
        Point::Thought => {
            reached(provider, &cut.gate).await;
            is_durable("thought.delta", "I").await;
        }
        Point::Deltas => {
            reached(provider, &cut.gate).await;
            is_durable("message.delta", &cut.text[..1]).await;
        }
        Point::BeforeCompleted => {
            reached(provider, &cut.gate).await;
            is_durable("message.delta", &cut.text).await;
        }
    }
}

async fn reached(provider: &ResponsesServer, gate: &str) {
    timeout(DEADLINE, provider.gate(gate).reached()).await.expect("the model comes to its gate");
}

fn open_gates(provider: &ResponsesServer, cuts: &[Cut]) {
    cuts.iter().for_each(|cut| provider.gate(&cut.gate).open());
}

/// What became of a turn, and that nothing of it is lost or doubled.
async fn check(api: &Api, cut: &Cut, background: Background) -> &'static str {
    let turn = api.finished(&cut.session, &cut.turn).await;
    let log = of_turn(&api.log(&cut.session).await, &cut.turn);
    let (thought, said) = (deltas(&log, "thought.delta"), deltas(&log, "message.delta"));
    let messages = agent_messages(&log);
    let expected_thought = if cut.point == Point::Thought { "I wonder" } else { "" };
    if turn["status"]["key"] == "completed" {
        assert_eq!(background, Background::On, "completed without its connection: {turn}");
        let path = turn["fullAgentAnswerUrl"].as_str().unwrap();
        assert_eq!(api.get(path).await.expect(200).body, cut.text.as_bytes());
        assert_eq!(messages, [json!({"type": "text", "text": cut.text, "partial": false})]);
        // A message that nobody saw a part of has no deltas.
        assert!(said == cut.text || said.is_empty(), "{:?}: {said:?}", cut.point);
        assert_eq!(thought, expected_thought);
        assert_eq!(turn["warnings"], json!([]), "{turn}");
        return "completed";
    }
    assert_eq!(
        (&turn["status"]["key"], &turn["errorCode"]),
        (&json!("failed"), &json!("interrupted"))
    );
    let durable = background == Background::On && cut.point.is_id_durable();
    assert!(!durable, "{:?}: the answer is lost: {turn}", cut.point);
    assert!(cut.text.starts_with(&said), "{said:?}");
    assert!(expected_thought.starts_with(&thought), "{thought:?}");
    match said.as_str() {
        "" => assert_eq!(messages, Vec::<Value>::new()),
        said => {
            let closed =
                json!({"type": "text", "text": said, "partial": false, "interrupted": true});
            assert_eq!(messages, [closed]);
        }
    }
    "interrupted"
}

/// A turn that waited is run once its predecessor has ended. It may have been running when a second kill came.
async fn check_queued(api: &Api, cut: &Cut, twice: bool) {
    let Some(queued) = &cut.queued else { return };
    let queued = api.finished(&cut.session, queued).await;
    let is_cut = twice && queued["errorCode"] == "interrupted";
    assert!(is_cut || queued["status"]["key"] == "completed", "{queued}");
}

fn of_turn(log: &Frames, turn: &str) -> Frames {
    let of_turn = log.0.iter().filter(|frame| frame.json()["turnId"] == turn);
    Frames(of_turn.cloned().collect())
}

/// The texts of these events, one after the other.
fn deltas(log: &Frames, event: &str) -> String {
    let deltas = log.0.iter().filter(|frame| frame.event == event);
    deltas.map(|frame| frame.json()["data"]["text"].as_str().unwrap().to_owned()).collect()
}

/// The contents of the messages that the agent closed.
fn agent_messages(log: &Frames) -> Vec<Value> {
    let closed = log.json().into_iter().filter(|event| event["type"] == "message.completed");
    let of_agent = closed.filter(|event| event["data"]["role"] == "agent");
    of_agent.map(|event| event["data"]["content"].clone()).collect()
}

/// So many pieces of five characters, no two alike, some of more than one byte.
fn some_text(random: &mut StdRng, pieces: usize) -> String {
    let first: usize = random.random_range(0..100);
    (0..pieces)
        .map(|piece| format!("{:04}{}", first + piece, ["é", "\u{1F980}", " "][piece % 3]))
        .collect()
}
