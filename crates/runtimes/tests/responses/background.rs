//! Responses that outlive their connections.

use futures::StreamExt;
use skein_core::{
    model::FailureCode,
    ports::{AgentRuntime, AgentUpdate},
};
use skein_testkit::responses::{Answer, On, Refusal, ResponsesServer, Script, Wire};

use crate::support::{Seen, background, prompt, reattach, request, run, runtime, settings};

const TEXT: &str = "ab éé cd ef";

fn cut(wire: Wire) -> Script {
    Script::from(Answer::text(TEXT).chunk_chars(2)).and_wire(wire)
}

#[tokio::test]
async fn every_event_but_the_last_has_its_position() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text(TEXT).chunk_chars(2).unknown_event_before(4, "response.new"));

    let seen = run(background(&server), prompt("hi")).await;

    assert_eq!((seen.is_answered(), seen.text().as_str()), (true, TEXT));
    let positions = seen.positions();
    let expected: Vec<u64> = (0..).take(positions.len()).collect();
    assert_eq!(positions, expected);
    let raw = String::from_utf8(seen.raw().to_vec()).unwrap();
    assert!(raw.contains(&format!("\"sequence_number\":{}", positions.len())));
    assert!(!raw.contains(&format!("\"sequence_number\":{}", positions.len() + 1)));
}

#[tokio::test]
async fn a_cut_stream_is_taken_up_without_a_repeated_delta() {
    for wire in [
        Wire::CutAfter(6),
        Wire::CutInEvent(6),
        Wire::CutInCharacter(3),
        Wire::EndAfter(7),
        Wire::CutAfter(1),
    ] {
        let server = ResponsesServer::start().await;
        server.script(cut(wire));
        server.script(Script::wire(Wire::CutInEvent(2)).on(On::Retrieve));

        let seen = run(background(&server), prompt("hi")).await;

        assert_eq!((seen.is_answered(), seen.text().as_str()), (true, TEXT), "{wire:?}");
        assert!(seen.positions().is_sorted_by(|a, b| a < b), "{wire:?}");
        assert_eq!(server.dispatches().len(), 1);
        assert_eq!(server.requests().len(), 3, "{wire:?}");
        let query = server.requests()[1].query.clone().unwrap();
        assert!(query.starts_with("stream=true&starting_after="), "{query}");
    }
}

#[tokio::test]
async fn errors_on_the_way_back_are_waited_out() {
    let server = ResponsesServer::start().await;
    server.script(cut(Wire::CutAfter(6)));
    server.script(Script::from(Refusal::status(500)).on(On::Retrieve));
    server.script(Script::wire(Wire::CloseBeforeHeaders).on(On::Retrieve));

    let seen = run(background(&server), prompt("hi")).await;

    assert_eq!((seen.is_answered(), seen.text().as_str()), (true, TEXT));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_response_that_is_gone_is_interrupted() {
    let server = ResponsesServer::start().await;
    server.script(cut(Wire::CutAfter(6)));
    server.script(Script::from(Refusal::status(404)).on(On::Retrieve));

    let seen = run(background(&server), prompt("hi")).await;

    let (code, message) = seen.failure();
    assert_eq!(code, FailureCode::Interrupted);
    assert!(message.starts_with("the response cannot be taken up: the provider answered 404"));
}

#[tokio::test]
async fn a_cut_before_the_id_is_known_is_interrupted() {
    let server = ResponsesServer::start().await;
    server.script(cut(Wire::CutInEvent(0)));

    let seen = run(background(&server), prompt("hi")).await;

    assert_eq!(seen.failure().0, FailureCode::Interrupted);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn another_process_takes_up_where_the_last_position_was() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text(TEXT).chunk_chars(2).hold_before(7, "later"));
    let first = runtime(background(&server));
    let mut updates = first.run(request(&first, prompt("hi")));
    let mut before = Vec::new();
    while before.last() != Some(&AgentUpdate::Position(6)) {
        before.push(updates.next().await.unwrap());
    }
    drop((updates, first));
    let before = Seen(before);
    server.gate("later").open();

    let second = runtime(background(&server));
    let again = reattach(before.response_id(), Some(6));
    let after = Seen(second.reattach(again).collect().await);
    let replayed = reattach(before.response_id(), None);
    let whole = Seen(second.reattach(replayed).collect().await);

    assert!(after.is_answered());
    assert!(!before.text().is_empty());
    assert_eq!(before.text() + &after.text(), TEXT);
    assert!(!after.raw().is_empty());
    assert_eq!((whole.is_answered(), whole.text().as_str()), (true, TEXT));
    assert_eq!(server.dispatches().len(), 1);
}

#[tokio::test]
async fn taking_up_what_nobody_knows_is_interrupted() {
    let server = ResponsesServer::start().await;
    let runtime = runtime(background(&server));

    let seen = Seen(runtime.reattach(reattach("resp_x/../models", Some(3))).collect().await);

    assert_eq!(seen.failure().0, FailureCode::Interrupted);
    assert!(server.requests()[0].path.starts_with("/v1/responses/resp_x%2F"));
}

#[tokio::test]
async fn an_abandoned_response_is_cancelled_at_the_provider() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text(TEXT).hold_before(4, "never"));
    let runtime = runtime(background(&server));
    let mut updates = runtime.run(request(&runtime, prompt("hi")));
    let id = loop {
        if let Some(AgentUpdate::Response(id)) = updates.next().await {
            break id;
        }
    };
    drop(updates);

    runtime.abandon(id.clone()).await;

    assert_eq!(server.status_of(&id).map(|status| status.name()), Some("cancelled"));
}

#[tokio::test]
async fn only_background_responses_are_cancelled_at_the_provider() {
    let server = ResponsesServer::start().await;

    runtime(settings(&server)).abandon("resp_1".to_owned()).await;

    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn a_response_that_was_cancelled_elsewhere_fails_the_turn() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text(TEXT).hold_before(4, "never"));
    let runtime = runtime(background(&server));
    let mut updates = runtime.run(request(&runtime, prompt("hi")));
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(AgentUpdate::Position(2))) {
        seen.push(updates.next().await.unwrap());
    }

    runtime.abandon(Seen(seen).response_id().to_owned()).await;
    let rest = Seen(updates.collect().await);

    let message = "the provider says that the response is cancelled".to_owned();
    assert_eq!(rest.failure(), (FailureCode::ProviderError, message));
}

#[tokio::test]
async fn a_response_whose_events_were_all_given_is_answered() {
    let server = ResponsesServer::start().await;
    let first = run(background(&server), prompt("hi")).await;
    let last = first.positions().last().map(|number| number + 1);
    let runtime = runtime(background(&server));

    let again = reattach(first.response_id(), last);
    let seen = Seen(runtime.reattach(again).collect().await);

    assert_eq!((seen.is_answered(), seen.text().as_str()), (true, ""));
}
