use serde_json::json;

use super::client::{create, events, post, says, streams};
use crate::responses::{Answer, On, Refusal, ResponsesServer, Script, Status, Wire};

#[tokio::test]
async fn a_connection_is_cut_after_so_many_events() {
    let server = ResponsesServer::start().await;
    server.script(Script::wire(Wire::CutAfter(4)));

    let reply = create(&server, &streams("hello")).await;

    assert_eq!(reply.events().len(), 4);
    assert!(!reply.whole);
}

#[tokio::test]
async fn a_connection_is_cut_in_the_middle_of_an_event() {
    let server = ResponsesServer::start().await;
    server.script(Script::wire(Wire::CutInEvent(4)));

    let reply = create(&server, &streams("hello")).await;

    assert!(!reply.whole);
    let text = reply.text();
    let (before, half) = text.rsplit_once("\n\n").unwrap();
    assert_eq!(events(before).len(), 4);
    assert!(half.starts_with("event: response.output_text.delta\ndata: {"), "{half}");
}

#[tokio::test]
async fn a_connection_is_cut_in_the_middle_of_a_character() {
    let server = ResponsesServer::start().await;
    server.script(
        Script::from(Answer::text("one tw\u{f6} three").chunk_chars(4))
            .and_wire(Wire::CutInCharacter(0)),
    );

    let reply = create(&server, &streams("hello")).await;

    assert!(!reply.whole);
    let broken = String::from_utf8(reply.body).unwrap_err();
    let whole = broken.utf8_error().valid_up_to();
    assert_eq!(broken.as_bytes()[whole..], [0xC3]);
}

#[tokio::test]
async fn a_cut_two_megabytes_into_an_answer_delivers_all_before_it() {
    let server = ResponsesServer::start().await;
    let answer = Answer::filler(2_000_000).chunk_chars(1_000_000);
    server.script(Script::from(answer).and_wire(Wire::CutAfter(7)));

    let reply = create(&server, &streams("hello")).await;

    let events = reply.events();
    assert_eq!(events.len(), 7);
    assert_eq!(events[6]["text"].as_str().map(str::len), Some(2_000_000));
    assert!(!reply.whole);
}

#[tokio::test]
async fn a_stream_can_end_early_as_if_it_were_whole() {
    let server = ResponsesServer::start().await;
    server.script(Script::wire(Wire::EndAfter(3)));

    let reply = create(&server, &streams("hello")).await;

    assert_eq!(reply.events().len(), 3);
    assert!(reply.whole);
}

#[tokio::test]
async fn a_stalled_stream_stops_the_model_when_the_client_goes() {
    let server = ResponsesServer::start().await;
    server.script(
        Script::from(Answer::text("abc").hold_before(6, "never")).and_wire(Wire::StallAfter(2)),
    );

    let mut reply = post(&server, &streams("hello")).await.unwrap();
    let created = reply.event().await;
    let in_progress = reply.event().await;
    server.gate("never").reached().await;
    drop(reply);

    assert_eq!(in_progress["type"], "response.in_progress");
    let id = created["response"]["id"].as_str().unwrap();
    assert_eq!(server.wait_until_final(id).await, Some(Status::Cancelled));
}

#[tokio::test]
async fn a_connection_can_end_or_hang_before_there_is_a_reply() {
    let server = ResponsesServer::start().await;
    server.script(Script::wire(Wire::CloseBeforeHeaders));
    server.script(Script::wire(Wire::StallBeforeHeaders));

    let closed = post(&server, &streams("one")).await;
    let second = says("two");
    let hanging = post(&server, &second);
    tokio::select! {
        _reply = hanging => panic!("there was a reply"),
        _dispatches = server.wait_for_dispatches(2) => {}
    }

    assert!(closed.is_none());
    assert_eq!(server.requests()[0].status, None);
}

#[tokio::test]
async fn a_reply_without_a_stream_can_be_cut_too() {
    let server = ResponsesServer::start().await;
    server.script(Script::wire(Wire::CutInEvent(0)));

    let reply = create(&server, &says("hello")).await;

    assert_eq!(reply.status, 200);
    assert!(!reply.whole);
    assert!(reply.text().starts_with('{'));
}

#[tokio::test]
async fn a_gate_holds_the_model_between_two_deltas() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text("abcd").chunk_chars(2).hold_before(5, "middle"));
    let gate = server.gate("middle");

    let mut reply = post(&server, &streams("hello")).await.unwrap();
    gate.reached().await;
    let mut before = Vec::new();
    for _ in 0..5 {
        before.push(reply.event().await);
    }
    let id = before[0]["response"]["id"].as_str().unwrap();
    assert_eq!(server.status_of(id), Some(Status::InProgress));
    gate.open();
    let after = reply.rest().await.events();

    assert_eq!(before[4]["delta"], "ab");
    assert_eq!(after[0]["delta"], "cd");
    assert_eq!(after.last().unwrap()["type"], "response.completed");
}

#[tokio::test]
async fn stopping_the_server_breaks_its_connections_and_frees_the_port() {
    let server = ResponsesServer::start().await;
    server.script(Script::wire(Wire::StallAfter(1)));
    let mut reply = post(&server, &streams("hello")).await.unwrap();
    reply.event().await;
    let address = server.address();

    server.stop().await;

    assert!(!reply.rest().await.whole);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn reading_a_response_can_be_scripted_apart_from_making_it() {
    let server = ResponsesServer::start().await;
    server.script(Script::from(Refusal::status(500)).on(On::Retrieve));

    let made = create(&server, &says("hello")).await.json();
    let line = format!("GET /v1/responses/{}", made["id"].as_str().unwrap());
    let refused = super::client::ask(&server, &line).await;
    let read = super::client::ask(&server, &line).await;

    assert_eq!(refused.status, 500);
    assert_eq!(read.json(), made);
    assert_eq!(made["store"], json!(true));
}
