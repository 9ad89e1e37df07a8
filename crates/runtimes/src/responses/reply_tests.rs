use skein_core::model::Usage;

use super::*;

fn asked(mode: Mode) -> Expected {
    Expected { mode, background: false, continues: false, taken_up: None }
}

fn taken_up(mode: Mode, after: u64) -> Expected {
    let taken_up = Some(("resp_1".to_owned(), Some(after)));
    Expected { background: true, taken_up, ..asked(mode) }
}

/// The updates that these events become, and the end that they tell.
fn mapped(expected: Expected, events: &[&str]) -> (Vec<AgentUpdate>, Option<End>) {
    let mut reply = Reply::new(expected, StreamKey::default());
    let mut out = VecDeque::new();
    for event in events {
        reply.take(event.as_bytes(), &mut out);
    }
    (out.into(), reply.end)
}

fn whole(expected: Expected, body: &str) -> (Vec<AgentUpdate>, Option<End>) {
    let mut reply = Reply::new(expected, StreamKey::default());
    let mut out = VecDeque::new();
    reply.take_whole(body.as_bytes(), Whole::Instead, &mut out);
    (out.into(), reply.end)
}

fn text(text: &str) -> AgentUpdate {
    AgentUpdate::Text(text.to_owned())
}

#[test]
fn every_kind_of_delta_has_its_update() {
    let (updates, end) = mapped(
        asked(Mode::Ask),
        &[
            r#"{"type":"response.created","response":{"id":"resp_1"}}"#,
            r#"{"type":"response.in_progress","response":{"id":"resp_1"}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","delta":"hm"}"#,
            r#"{"type":"response.reasoning_text.delta","delta":"so"}"#,
            r#"{"type":"response.output_text.delta","delta":"Hi","obfuscation":"xx"}"#,
            r#"{"type":"response.output_text.delta","delta":""}"#,
            r#"{"type":"response.refusal.delta","delta":"no"}"#,
            r#"{"type":"response.output_text.done","text":"Hi"}"#,
            r#"{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":3,"output_tokens":2}}}"#,
            "[DONE]",
        ],
    );

    let expected = [
        AgentUpdate::Response("resp_1".to_owned()),
        AgentUpdate::Thought("hm".to_owned()),
        AgentUpdate::Thought("so".to_owned()),
        text("Hi"),
        text("no"),
        AgentUpdate::Usage(Usage { input_tokens: 3, output_tokens: 2 }),
    ];
    assert_eq!(updates, expected);
    assert_eq!(end, Some(End::Answered));
}

#[test]
fn a_character_that_is_cut_in_two_is_put_together() {
    let (updates, end) = mapped(
        asked(Mode::Ask),
        &[
            r#"{"type":"response.reasoning_text.delta","delta":"hm \ud83e"}"#,
            r#"{"type":"response.reasoning_text.delta","delta":"\udebf"}"#,
            r#"{"type":"response.output_text.delta","delta":"a \ud83e"}"#,
            r#"{"type":"response.output_text.delta","delta":"\udebf\ud83e"}"#,
            r#"{"type":"response.output_text.delta","delta":"\udebf é"}"#,
            r#"{"type":"response.output_text.delta","delta":"\udebf alone, \ud83e alone, \ud83e\udebf"}"#,
            r#"{"type":"response.output_text.delta","delta":"the end \ud83e"}"#,
            r#"{"type":"response.completed","response":{"output":[]}}"#,
        ],
    );

    let expected = [
        AgentUpdate::Thought("hm \u{1FABF}".to_owned()),
        text("a \u{1FABF}\u{1FABF} é"),
        text("\u{FFFD} alone, \u{FFFD} alone, \u{1FABF}"),
        text("the end \u{FFFD}"),
    ];
    assert_eq!(updates, expected);
    assert_eq!(end, Some(End::Answered));
}

#[test]
fn half_a_character_has_no_position_so_that_it_comes_again_after_a_cut() {
    let first = r#"{"type":"response.output_text.delta","sequence_number":5,"delta":"a\ud83e"}"#;
    let second = r#"{"type":"response.output_text.delta","sequence_number":6,"delta":"\udebf"}"#;
    let mut reply = Reply::new(taken_up(Mode::Ask, 4), StreamKey::default());
    let mut out = VecDeque::new();

    reply.take(first.as_bytes(), &mut out);
    assert_eq!((reply.position(), out.len()), (Some(4), 0));
    reply.take_up();
    reply.take(first.as_bytes(), &mut out);
    reply.take(second.as_bytes(), &mut out);

    assert_eq!(Vec::from(out), [text("a\u{1FABF}"), AgentUpdate::Position(6)]);
}

#[test]
fn a_provider_without_deltas_is_understood_from_its_last_event() {
    let (updates, end) = mapped(
        asked(Mode::Ask),
        &[
            r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]}],"usage":null}}"#,
        ],
    );

    assert_eq!(updates, [text("a"), text("b")]);
    assert_eq!(end, Some(End::Answered));
}

#[test]
fn a_call_is_given_once_although_two_events_tell_it() {
    let call = r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"propose_files","arguments":"{\"files\":[]}"}"#;
    let done = format!(r#"{{"type":"response.output_item.done","item":{call}}}"#);
    let completed = format!(r#"{{"type":"response.completed","response":{{"output":[{call}]}}}}"#);

    let (edit, _) = mapped(asked(Mode::Edit), &[&done, &completed]);
    let (ask, _) = mapped(asked(Mode::Ask), &[&done, &completed]);

    let open = AgentUpdate::OpenCall("call_1".to_owned());
    assert_eq!(edit, [open, AgentUpdate::Proposal("{\"files\":[]}".to_owned())]);
    let [AgentUpdate::OpenCall(_), AgentUpdate::Warning(_), AgentUpdate::Tool(tool)] =
        ask.as_slice()
    else {
        panic!("unexpected {ask:?}");
    };
    assert_eq!((tool.id.as_str(), tool.tool.as_str()), ("call_1", "propose_files"));
    assert_eq!(tool.args, Some(serde_json::json!({"files": []})));
    assert!(tool.is_closed());
}

#[test]
fn calls_that_the_provider_runs_itself_are_tools_without_a_warning() {
    let (updates, _) = mapped(
        asked(Mode::Ask),
        &[
            r#"{"type":"response.output_item.done","item":{"type":"web_search_call","id":"ws_1","status":"completed"}}"#,
        ],
    );

    let tool = ToolUpdate {
        id: "ws_1".to_owned(),
        tool: "web_search_call".to_owned(),
        kind: "web_search_call".to_owned(),
        args: None,
        result: None,
        status: "completed".to_owned(),
    };
    assert_eq!(updates, [AgentUpdate::Tool(tool)]);
}

#[test]
fn what_was_given_before_is_not_given_again_but_a_proposal_is() {
    let (updates, end) = mapped(
        taken_up(Mode::Edit, 5),
        &[
            r#"{"type":"response.output_text.delta","delta":"old","sequence_number":5}"#,
            r#"{"type":"response.output_text.delta","delta":"new","sequence_number":6}"#,
            r#"{"type":"response.completed","sequence_number":7,"response":{"id":"resp_1","output":[
                {"type":"message","content":[{"type":"output_text","text":"oldnew"}]},
                {"type":"web_search_call","id":"ws_1"},
                {"type":"function_call","call_id":"c","name":"propose_files","arguments":"{}"}]}}"#,
        ],
    );

    // The last event has no position: it must come again until the turn has ended.
    let expected = [
        text("new"),
        AgentUpdate::Position(6),
        AgentUpdate::OpenCall("c".to_owned()),
        AgentUpdate::Proposal("{}".to_owned()),
    ];
    assert_eq!(updates, expected);
    assert_eq!(end, Some(End::Answered));
}

#[test]
fn failures_carry_the_provider_s_own_words() {
    let message = |events: &[&str]| match mapped(asked(Mode::Ask), events) {
        (_, Some(End::Failed(failure))) => failure.message,
        other => panic!("unexpected {other:?}"),
    };

    let failed = r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"broke"}}}"#;
    let error = r#"{"type":"error","code":null,"message":"broke","sequence_number":3}"#;
    let nested = r#"{"type":"error","error":{"code":"x","message":"broke"}}"#;
    let untyped = r#"{"error":{"message":"broke"}}"#;

    assert_eq!(message(&[failed]), "the provider failed: broke (server_error)");
    assert_eq!(message(&[error]), "the provider failed: broke");
    assert_eq!(message(&[nested]), "the provider failed: broke (x)");
    assert_eq!(message(&[untyped]), "the provider failed: broke");
}

#[test]
fn a_chain_may_also_be_lost_inside_the_stream() {
    let error =
        r#"{"type":"error","error":{"code":"previous_response_not_found","message":"gone"}}"#;

    let (_, continued) = mapped(Expected { continues: true, ..asked(Mode::Ask) }, &[error]);
    let (_, started) = mapped(asked(Mode::Ask), &[error]);

    assert_eq!(continued, Some(End::ChainLost));
    assert!(matches!(started, Some(End::Failed(_))));
}

#[test]
fn odd_fields_do_not_spoil_an_event_and_odd_events_do_not_spoil_a_stream() {
    let (updates, end) = mapped(
        asked(Mode::Ask),
        &[
            "not json",
            r#"{"type":"response.output_text.delta","delta":7}"#,
            r#"{"type":"response.output_text.annotation.added","delta":7}"#,
            r#"{"type":"response.output_text.delta","delta":"a","sequence_number":"x"}"#,
            r#"{"type":"response.incomplete","response":{"id":7,"output":"none","usage":[],"incomplete_details":{"reason":"max_output_tokens"}}}"#,
        ],
    );

    let warning = "the answer is incomplete: max_output_tokens".to_owned();
    assert_eq!(updates, [text("a"), AgentUpdate::Warning(warning)]);
    assert_eq!(end, Some(End::Answered));
}

#[test]
fn a_whole_reply_ends_as_its_status_says() {
    let answer = r#"{"id":"resp_1","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}"#;
    let (updates, end) = whole(asked(Mode::Ask), answer);
    assert_eq!(updates, [AgentUpdate::Response("resp_1".to_owned()), text("a")]);
    assert_eq!(end, Some(End::Answered));

    let (_, end) = whole(asked(Mode::Ask), r#"{"error":{"message":"no"}}"#);
    assert_eq!(end, Some(failed("the provider failed: no")));

    let (_, end) = whole(asked(Mode::Ask), r#"{"id":"resp_1","status":"in_progress"}"#);
    assert_eq!(end, None);

    let (_, end) = whole(taken_up(Mode::Ask, 3), answer);
    assert!(matches!(
        end,
        Some(End::Failed(RuntimeFailure { code: FailureCode::Interrupted, .. }))
    ));
}

const KEY: &str = "sk-sk-0123456789abcdef";

/// The texts of a reply that says this in deltas of so many characters, each with what was given by then.
fn said_with_key(expected: Expected, text: &str, delta_chars: usize) -> Vec<String> {
    let mut reply = Reply::new(expected, StreamKey::new(Some(&KEY.into())));
    let (mut out, mut given) = (VecDeque::new(), Vec::new());
    let chars: Vec<char> = text.chars().collect();
    for (number, delta) in (5..).zip(chars.chunks(delta_chars)) {
        let delta: String = delta.iter().collect();
        let event = serde_json::json!({
            "type": "response.output_text.delta", "sequence_number": number, "delta": delta,
        });
        reply.take(event.to_string().as_bytes(), &mut out);
        given.push(drained(&mut out));
    }
    reply.give_rest(&mut out);
    given.push(drained(&mut out));
    given
}

fn drained(out: &mut VecDeque<AgentUpdate>) -> String {
    let texts = out.drain(..).filter_map(|update| match update {
        AgentUpdate::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

#[test]
fn a_key_is_taken_out_wherever_deltas_cut_it() {
    let text = format!("a {KEY} é{KEY}{KEY} sk-sk-sk-0 {KEY}, sk-");

    for expected in [asked(Mode::Ask), taken_up(Mode::Ask, 4)] {
        for delta_chars in 1..=text.len() {
            let given = said_with_key(expected.clone(), &text, delta_chars).concat();
            assert_eq!(given, "a [key] é[key][key] sk-sk-sk-0 [key], sk-", "{delta_chars}");
        }
    }
}

#[test]
fn text_that_cannot_begin_the_key_is_never_held_back() {
    let given = said_with_key(asked(Mode::Ask), "as is, sk-x", 2);

    assert_eq!(given, ["a", "s i", "s,", " ", "", "sk-x", ""]);
}
