//! Answers, whole and broken.

use futures::StreamExt;
use skein_core::{
    model::{FailureCode, Usage},
    ports::{AgentOutcome, AgentRuntime, AgentUpdate, PastTurn, Prompt},
};
use skein_testkit::responses::{Answer, Ending, ResponsesServer, Script, Wire};

use crate::support::{Bare, edit, prompt, request, run, runtime, settings, without_memory};

#[tokio::test]
async fn an_answer_becomes_updates() {
    let server = ResponsesServer::start().await;
    server.script(Answer::reasoning("thinking").and_text("héllo").chunk_chars(100));

    let seen = run(settings(&server), prompt("hi")).await;

    let told = seen.told();
    let [response, thought, text, usage, end] = told.as_slice() else {
        panic!("unexpected {told:?}");
    };
    assert_eq!(*response, AgentUpdate::Response(server.dispatches()[0].response_id.clone()));
    assert_eq!(*thought, AgentUpdate::Thought("thinking".to_owned()));
    assert_eq!(*text, AgentUpdate::Text("héllo".to_owned()));
    assert!(matches!(usage, AgentUpdate::Usage(Usage { input_tokens: 1.., output_tokens: 1.. })));
    assert_eq!(*end, AgentUpdate::Finished(AgentOutcome::Answered));
    assert_eq!(seen.positions(), Vec::<u64>::new());
}

#[tokio::test]
async fn deltas_arrive_while_the_model_still_works() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text("one two").chunk_chars(4).hold_before(5, "middle"));
    let runtime = runtime(settings(&server));
    let mut updates = runtime.run(request(&runtime, prompt("hi")));

    let first = loop {
        if let Some(AgentUpdate::Text(text)) = updates.next().await {
            break text;
        }
    };
    server.gate("middle").open();
    let rest: Vec<_> = updates.collect().await;

    assert_eq!(first, "one ");
    assert!(rest.contains(&AgentUpdate::Text("two".to_owned())));
}

#[tokio::test]
async fn dropping_the_stream_stops_the_work() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text("one two").hold_before(4, "never"));
    let runtime = runtime(settings(&server));
    let mut updates = runtime.run(request(&runtime, prompt("hi")));
    updates.next().await;

    drop(updates);

    let id = &server.dispatches()[0].response_id;
    let status = server.wait_until_final(id).await.map(|status| status.name());
    assert_eq!(status, Some("cancelled"));
}

#[tokio::test]
async fn raw_bytes_are_kept_exactly_wherever_they_are_cut() {
    let body = "\u{feff}: hello\r\n\r\nevent: x\ndata: {\"type\":\"response.output_text.delta\",\
        \"delta\":\"é😀\"}\n\ndata: {\"type\":\"response.completed\",\ndata: \"response\":{\"id\":\"resp_1\"}}\n\n\
        data: [DONE]\n\n: bye"
        .as_bytes();

    for piece_bytes in [1, 2, 3, 7, body.len()] {
        let pieces: Vec<_> = body.chunks(piece_bytes).collect();
        let server = Bare::events(&pieces).await;

        let seen = run(server.settings(), prompt("hi")).await;

        assert_eq!((seen.is_answered(), seen.text().as_str()), (true, "é😀"));
        assert_eq!(seen.raw(), body);
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_interrupted_and_keeps_what_came() {
    for wire in [Wire::CutAfter(5), Wire::CutInEvent(5), Wire::CutInCharacter(5), Wire::EndAfter(5)]
    {
        let server = ResponsesServer::start().await;
        let answer = Answer::text("ab éé cd").chunk_chars(2);
        server.script(Script::from(answer).and_wire(wire));

        let seen = run(settings(&server), prompt("hi")).await;

        let (code, message) = seen.failure();
        assert_eq!(code, FailureCode::Interrupted, "{wire:?}");
        assert_eq!(message, "the connection was cut before the answer was whole");
        assert!("ab éé cd".starts_with(&seen.text()), "{wire:?} {}", seen.text());
        assert_eq!(seen.warnings(), Vec::<&str>::new());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn unknown_events_are_ignored_and_malformed_ones_are_one_warning() {
    let server = ResponsesServer::start().await;
    let answer = Answer::text("all of it").unknown_event_before(3, "response.brand_new");
    server.script(answer.malformed_event_before(4).malformed_event_before(5));

    let seen = run(settings(&server), prompt("hi")).await;

    assert_eq!((seen.is_answered(), seen.text().as_str()), (true, "all of it"));
    let warning = "2 events of the provider could not be read and were ignored";
    assert_eq!(seen.warnings(), [warning]);
}

#[tokio::test]
async fn gibberish_alone_is_an_error() {
    let server = Bare::events(&[b"data: <html>\n\ndata: nonsense\n\n"]).await;

    let (code, message) = run(server.settings(), prompt("hi")).await.failure();

    assert_eq!(code, FailureCode::ProviderError);
    assert_eq!(message, "nothing that the provider sent could be read");
}

#[tokio::test]
async fn a_page_instead_of_events_is_an_error_and_kept() {
    let server = Bare::replying("200 OK\r\ncontent-type: text/html", &[b"<html>"]).await;

    let seen = run(server.settings(), prompt("hi")).await;

    let message = "the provider answered with text/html, not with events";
    assert_eq!(seen.failure(), (FailureCode::ProviderError, message.to_owned()));
    assert_eq!(seen.raw(), "<html>");
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let large = vec![b'x'; 1024 * 1024];
    let pieces: Vec<&[u8]> =
        [b"data: ".as_slice()].into_iter().chain((0..17).map(|_| large.as_slice())).collect();
    let server = Bare::events(&pieces).await;

    let (code, message) = run(server.settings(), prompt("hi")).await.failure();

    assert_eq!(code, FailureCode::ProviderError);
    assert_eq!(message, "the provider sent an event of more than 16 MiB");
}

#[tokio::test]
async fn a_huge_answer_passes_in_small_pieces() {
    let server = ResponsesServer::start().await;
    server.script(Answer::filler(2 * 1024 * 1024).chunk_chars(512));

    let seen = run(settings(&server), prompt("hi")).await;

    assert!(seen.is_answered());
    assert_eq!(seen.text().len(), 2 * 1024 * 1024);
    let largest = seen.0.iter().map(|update| match update {
        AgentUpdate::Raw(bytes) => bytes.len(),
        _ => 0,
    });
    // All but the last event, which holds the whole answer, come in pieces.
    assert!(largest.max().unwrap() <= 1024 * 1024);
}

#[tokio::test]
async fn failures_inside_the_stream_fail_the_turn() {
    let (code, message) = ("server_error".to_owned(), "it broke".to_owned());
    let failed = Ending::Failed { code: code.clone(), message: message.clone() };
    for ending in [failed, Ending::Error { code, message }] {
        let server = ResponsesServer::start().await;
        server.script(Answer::text("par").ending(ending));

        let seen = run(settings(&server), prompt("hi")).await;

        assert_eq!(seen.text(), "par");
        let message = "the provider failed: it broke (server_error)".to_owned();
        assert_eq!(seen.failure(), (FailureCode::ProviderError, message));
    }
}

#[tokio::test]
async fn an_incomplete_answer_is_an_answer_with_a_warning() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text("par").ending(Ending::Incomplete("max_output_tokens".to_owned())));

    let seen = run(settings(&server), prompt("hi")).await;

    assert!(seen.is_answered());
    assert_eq!(seen.warnings(), ["the answer is incomplete: max_output_tokens"]);
}

#[tokio::test]
async fn a_proposal_is_given_as_the_model_wrote_it() {
    let server = ResponsesServer::start().await;
    let arguments = "{\"files\": [ {\"path\": \"é\"}";
    server.script(Answer::text("I'd say").and_tool_call("propose_files", arguments));

    let seen = run(settings(&server), edit("change it")).await;

    let proposals = seen.0.iter().filter(|update| matches!(update, AgentUpdate::Proposal(_)));
    let proposals: Vec<_> = proposals.collect();
    assert_eq!(proposals, [&AgentUpdate::Proposal(arguments.to_owned())]);
    assert_eq!(seen.open_calls().len(), 1);
    assert_eq!(seen.text(), "I'd say");
    assert_eq!(seen.warnings(), Vec::<&str>::new());
}

#[tokio::test]
async fn calls_of_tools_that_were_not_offered_are_shown_with_one_warning() {
    let server = ResponsesServer::start().await;
    server.script(Answer::tool_call("rm", "{\"x\":1}").and_tool_call("rm", "{\"x\":2}"));

    let seen = run(settings(&server), edit("change it")).await;

    let args = seen.0.iter().filter_map(|update| match update {
        AgentUpdate::Tool(tool) => Some((tool.tool.as_str(), tool.args.clone().unwrap())),
        _ => None,
    });
    let args: Vec<_> = args.collect();
    assert_eq!(args, [("rm", serde_json::json!({"x": 1})), ("rm", serde_json::json!({"x": 2}))]);
    assert_eq!(seen.warnings().len(), 1);
}

#[tokio::test]
async fn a_key_in_an_answer_is_taken_out() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text(&format!("it is {}!", server.key())).chunk_chars(1000));

    let seen = run(settings(&server), prompt("what is my key?")).await;

    assert_eq!(seen.text(), "it is [key]!");
    assert!(!String::from_utf8_lossy(&seen.raw()).contains(server.key()));
}

#[tokio::test]
async fn a_provider_without_memory_or_key_holds_a_conversation() {
    let server = ResponsesServer::without_memory().await;
    let mut history = Vec::new();

    for turn in 1..=3 {
        let instruction = format!("question {turn}");
        let prompt = Prompt { history: history.clone(), ..prompt(&instruction) };
        let seen = run(without_memory(&server), prompt).await;

        assert!(seen.is_answered());
        assert!(seen.text().starts_with(&format!("turn {turn}")), "{}", seen.text());
        history.push(PastTurn { instruction, answer: seen.text() });
    }
    assert_eq!(server.dispatches()[0].body["store"], false);
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_understood() {
    let body = br#"{"id":"resp_9","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"all"}]}],"usage":{"input_tokens":1,"output_tokens":2}}"#;
    let server = Bare::replying("200 OK\r\ncontent-type: application/json", &[body]).await;

    let seen = run(server.settings(), prompt("hi")).await;

    assert_eq!(seen.raw(), body.as_slice());
    let usage = Usage { input_tokens: 1, output_tokens: 2 };
    let expected = [
        AgentUpdate::Response("resp_9".to_owned()),
        AgentUpdate::Text("all".to_owned()),
        AgentUpdate::Usage(usage),
        AgentUpdate::Finished(AgentOutcome::Answered),
    ];
    assert_eq!(seen.told(), expected);
}
