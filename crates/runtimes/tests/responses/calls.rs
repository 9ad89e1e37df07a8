//! Calls that are refused, repeated or never answered.

use std::time::{Duration, Instant};

use futures::{StreamExt, join};
use skein_core::{
    model::FailureCode,
    ports::{AgentOutcome, AgentRuntime, AgentUpdate, Prompt},
};
use skein_runtimes::responses::{ProviderSettings, SecretString, Timeouts};
use skein_testkit::responses::{Answer, Refusal, ResponsesServer, Script, Settings, Wire};
use tokio::net::TcpListener;

use crate::support::{
    Bare, Log, Seen, edit, impatient, prompt, request, run, runtime, settings, settings_at,
};

#[tokio::test]
async fn a_call_is_made_again_after_the_time_that_the_provider_asks_for() {
    let server = ResponsesServer::start().await;
    server.script(Refusal::status(429).retry_after("1"));
    server.script(Refusal::status(503).retry_after("0"));
    let began = Instant::now();

    let seen = run(settings(&server), prompt("hi")).await;

    assert!(seen.is_answered() && seen.text().ends_with(": hi"));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.requests().len(), 3);
    assert_eq!(server.dispatches().len(), 1);
    // What was said before the answer is no part of it.
    assert!(seen.raw().starts_with(b"event: response.created"));
}

#[tokio::test]
async fn a_date_to_wait_for_is_understood_too() {
    let server = ResponsesServer::start().await;
    let refusal = Refusal::status(429)
        .header("date", "Wed, 21 Oct 2026 07:28:00 GMT")
        .header("retry-after", "Wed, 21 Oct 2026 07:28:01 GMT");
    server.script(refusal);
    let began = Instant::now();

    let seen = run(settings(&server), prompt("hi")).await;

    assert!(seen.is_answered());
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn there_is_an_end_to_repetition() {
    let server = ResponsesServer::start().await;
    server.script(Script::from(Refusal::status(429).retry_after("0")).always());

    let seen = run(settings(&server), prompt("hi")).await;

    let (code, message) = seen.failure();
    assert_eq!(code, FailureCode::ProviderError);
    assert!(message.starts_with("the provider answered 429: Rate limit reached"), "{message}");
    assert_eq!(server.requests().len(), 3);
    assert!(seen.raw().starts_with(b"{\"error\""));
}

#[tokio::test]
async fn what_proves_nothing_is_not_repeated() {
    for refusal in [
        Refusal::status(500),
        Refusal::status(503),
        Refusal::status(400),
        Refusal::status(429).retry_after("3600"),
    ] {
        let server = ResponsesServer::start().await;
        server.script(refusal.clone());

        let seen = run(settings(&server), prompt("hi")).await;

        assert_eq!(seen.failure().0, FailureCode::ProviderError);
        assert_eq!(server.requests().len(), 1, "{refusal:?}");
    }
}

#[tokio::test]
async fn a_provider_that_comes_up_late_is_reached() {
    // An address that no other test binds.
    let listen = "127.0.0.77:18999".parse().unwrap();
    let runtime = runtime(settings_at("http://127.0.0.77:18999/v1"));
    let request = request(&runtime, prompt("hi"));
    let mut updates = runtime.run(request);
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());

    let start = async {
        log.said("calling again").await;
        ResponsesServer::start_with(Settings { key: None, listen, ..Settings::default() }).await
    };
    let (seen, server) = join!(updates.by_ref().collect(), start);

    assert!(Seen(seen).is_answered());
    assert_eq!(server.unwrap().dispatches().len(), 1);
}

#[tokio::test]
async fn a_provider_that_is_not_there_fails_the_turn() {
    let seen = run(settings_at("http://127.0.0.78:1/v1"), prompt("hi")).await;

    let (code, message) = seen.failure();
    assert_eq!(code, FailureCode::ProviderError);
    assert!(message.starts_with("the provider cannot be reached: "), "{message}");
}

#[tokio::test]
async fn a_connection_that_takes_too_long_is_a_time_out() {
    // It accepts, and then never answers the TLS handshake, which is a part of connecting.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = settings_at(&format!("https://{}/v1", silent.local_addr().unwrap()));
    let timeouts = Timeouts { connect: Duration::from_millis(100), ..settings.timeouts };

    let seen = run(ProviderSettings { timeouts, ..settings }, prompt("hi")).await;

    let (code, message) = seen.failure();
    assert_eq!(code, FailureCode::ProviderTimeout);
    assert!(message.starts_with("the provider cannot be reached: "), "{message}");
}

#[tokio::test]
async fn a_lost_chain_is_told_and_nothing_ran() {
    let server = ResponsesServer::start().await;
    let first = run(settings(&server), prompt("one")).await;
    server.forget_all();
    server.script(Refusal::status(429).retry_after("0"));
    let previous_response_id = Some(first.response_id().to_owned());

    let seen = run(settings(&server), Prompt { previous_response_id, ..prompt("two") }).await;

    let [AgentUpdate::Raw(raw), AgentUpdate::Finished(outcome)] = &seen.0[..] else {
        panic!("{:?}", seen.0)
    };
    let raw = std::str::from_utf8(raw).unwrap();
    assert!(raw.starts_with(": 400 Bad Request\n{"), "{raw}");
    assert!(raw.contains("previous_response_not_found") && raw.ends_with("}\n\n"), "{raw}");
    assert_eq!(*outcome, AgentOutcome::ChainLost { calls: 2 });
    assert_eq!(server.dispatches().len(), 1);
}

#[tokio::test]
async fn a_lost_chain_in_plain_words_counts_only_for_calls_that_go_on_from_one() {
    let words = "Previous response with id 'resp_1' not found.";
    let server = ResponsesServer::start().await;
    server.script(Refusal::text(404, words));
    server.script(Refusal::text(404, words));
    let previous_response_id = Some("resp_1".to_owned());

    let continued = run(settings(&server), Prompt { previous_response_id, ..prompt("two") }).await;
    let started = run(settings(&server), prompt("one")).await;

    assert_eq!(continued.outcome(), AgentOutcome::ChainLost { calls: 1 });
    assert_eq!(started.failure().1, format!("the provider answered 404: {words}"));
}

#[tokio::test]
async fn a_conversation_goes_on_when_its_open_calls_are_answered_and_is_given_up_when_not() {
    let server = ResponsesServer::start().await;
    server.script(Answer::tool_call("propose_files", "{}").and_tool_call("rm", "{}"));
    let first = run(settings(&server), edit("one")).await;
    let previous_response_id = Some(first.response_id().to_owned());
    let unanswered = Prompt { previous_response_id, ..prompt("two") };
    let answered = Prompt { open_calls: first.open_calls(), ..unanswered.clone() };

    let unanswered = run(settings(&server), unanswered).await;
    let answered = run(settings(&server), answered).await;

    assert_eq!(first.open_calls().len(), 2);
    assert_eq!(unanswered.outcome(), AgentOutcome::ChainLost { calls: 1 });
    assert!(answered.is_answered());
}

#[tokio::test]
async fn redirects_are_refused() {
    let server = ResponsesServer::start().await;
    let elsewhere = ResponsesServer::start().await;
    server.script(Script::redirect(&format!("{}/responses", elsewhere.base_url())));

    let seen = run(settings(&server), prompt("hi")).await;

    let (code, message) = seen.failure();
    assert_eq!(code, FailureCode::ProviderError);
    assert!(message.contains("redirects are refused"), "{message}");
    assert_eq!(elsewhere.requests(), []);
}

#[tokio::test]
async fn a_name_that_means_this_machine_is_refused_unless_the_operator_allows_it() {
    let server = ResponsesServer::start().await;
    let url = format!("http://localhost:{}/v1", server.address().port());
    let allowed = ProviderSettings { base_url: url, ..settings(&server) };
    let refused = ProviderSettings { allow_private: false, ..allowed.clone() };

    let refused = run(refused, prompt("hi")).await;
    assert_eq!(server.requests(), []);
    let allowed = run(allowed, prompt("hi")).await;

    let (code, message) = refused.failure();
    assert_eq!(code, FailureCode::ProviderError);
    assert!(message.contains("localhost is a private address"), "{message}");
    assert!(allowed.is_answered());
}

#[tokio::test]
async fn a_key_that_the_provider_repeats_is_neither_shown_nor_kept() {
    const KEY: &str = "sk-mine-0123456789abcdef";
    let server = Bare::replying("401 Unauthorized", &[b"no: ", KEY.as_bytes()]).await;

    let key = Some(SecretString::from(KEY));
    let seen = run(ProviderSettings { key, ..server.settings() }, prompt("hi")).await;

    assert_eq!(seen.failure().1, "the provider answered 401: no: [key]");
    assert_eq!(seen.raw(), "no: [key]");
}

#[tokio::test]
async fn a_provider_that_says_nothing_times_out_and_is_not_asked_again() {
    for wire in [Wire::StallBeforeHeaders, Wire::StallAfter(4)] {
        let server = ResponsesServer::start().await;
        server.script(Script::wire(wire));

        let seen = run(impatient(settings(&server)), prompt("hi")).await;

        let (code, message) = seen.failure();
        assert_eq!(code, FailureCode::ProviderTimeout);
        assert_eq!(message, "nothing came from the provider for 0.2 s");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_in_all_times_out() {
    let server = ResponsesServer::start().await;
    server.script(Answer::text("x").hold_before(4, "never"));
    let timeouts = Timeouts { total: Duration::from_millis(300), ..settings(&server).timeouts };

    let seen = run(ProviderSettings { timeouts, ..settings(&server) }, prompt("hi")).await;

    assert_eq!(seen.failure().0, FailureCode::ProviderTimeout);
}

#[tokio::test]
async fn a_connection_that_closes_without_a_reply_is_not_tried_again() {
    let server = ResponsesServer::start().await;
    server.script(Script::wire(Wire::CloseBeforeHeaders));

    let seen = run(settings(&server), prompt("hi")).await;

    assert_eq!(seen.failure().0, FailureCode::Interrupted);
    assert_eq!(server.dispatches().len(), 1);
}

#[tokio::test]
async fn pauses_and_streams_end_when_the_turn_is_cancelled() {
    let server = ResponsesServer::start().await;
    server.script(Refusal::status(429).retry_after("20"));
    server.script(Answer::text("x").hold_before(4, "never"));
    for requests in [1, 2] {
        let runtime = runtime(settings(&server));
        let request = request(&runtime, prompt("hi"));
        let cancel = request.cancel.clone();

        let stop = async {
            server.wait_for_requests(requests).await;
            cancel.cancel();
        };
        let (seen, ()) = join!(runtime.run(request).collect(), stop);

        assert_eq!(Seen(seen).failure().0, FailureCode::Cancelled);
    }
}

#[tokio::test]
async fn a_probe_names_models_or_says_why_not() {
    let server = ResponsesServer::start().await;
    let wrong = ProviderSettings { key: Some(SecretString::from("sk-wrong")), ..settings(&server) };

    let models = runtime(settings(&server)).probe().await.unwrap();
    let refused = runtime(wrong).probe().await.unwrap_err();
    let absent = runtime(settings_at("http://127.0.0.78:1/v1")).probe().await.unwrap_err();

    assert!(!models.is_empty() && models.len() <= 20);
    assert!(refused.message.starts_with("the provider answered 401: "), "{}", refused.message);
    assert!(absent.message.starts_with("the provider cannot be reached: "), "{}", absent.message);
}
