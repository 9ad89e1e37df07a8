//! `skein ask` when its connection is cut, its server is gone, or its person has enough.

use std::{io::Read, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use skein_testkit::responses::Answer;

use crate::{common::Ran, desk::Desk, proxy::Proxy};

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_the_turn_with_a_server_and_without() {
    for with_server in [true, false] {
        let desk = Desk::new().await;
        let _server = if with_server { Some(desk.serve().await) } else { None };
        desk.provider.script(Answer::text("never said").hold_before(3, "middle"));
        let mut command = desk.command(&["ask", "slowly"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();

        desk.provider.gate("middle").reached().await;
        kill_process(pid, Signal::INT).unwrap();
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let output = output.await.unwrap();
        let turn = desk.run(&["turn", "show", "--json"]);

        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        assert!(stderr.contains("the turn was cancelled"), "{stderr}");
        let turn: Value = serde_json::from_str(&turn.stdout).unwrap();
        assert_eq!(turn["errorCode"], "cancelled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_whole_when_the_connection_is_cut_in_the_middle() {
    let desk = Desk::new().await;
    let server = desk.serve().await;
    let proxy = Proxy::to(server.address()).await;
    let text = "many words, ".repeat(40);
    desk.provider.script(Answer::text(&text).chunk_chars(8).hold_before(20, "middle"));
    let mut command = desk.command(&["ask", "slowly"]);
    command.env("SKEIN_URL", proxy.url()).env("SKEIN_TOKEN", server.token());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());

    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut first = [0];
        stdout.read_exact(&mut first).unwrap();
        (first, stdout)
    });
    let (first, mut stdout) = reading.await.unwrap();
    desk.provider.gate("middle").reached().await;
    let before = proxy.accepted();
    proxy.cut().await;
    desk.provider.gate("middle").open();
    let rest = tokio::task::spawn_blocking(move || {
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        (rest, child.wait_with_output().unwrap())
    });
    let (rest, output) = rest.await.unwrap();

    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(format!("{}{rest}", char::from(first[0])), format!("{text}\n"));
    assert!(proxy.accepted() > before, "it was not cut");
    assert_eq!(desk.sent().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_reply_is_lost_is_sent_again_and_asks_once() {
    let desk = Desk::new().await;
    let server = desk.serve().await;
    let proxy = Proxy::to(server.address()).await;
    desk.provider.script(Answer::text("once").hold_before(3, "middle"));
    // Outside of a work tree the first request is the one that asks.
    let mut command = desk.command(&["ask", "slowly"]);
    command.current_dir(desk.home.path());
    command.env("SKEIN_URL", proxy.url()).env("SKEIN_TOKEN", server.token());

    proxy.swallow_replies();
    let running = tokio::task::spawn_blocking(move || Ran::of(&mut command));
    desk.provider.gate("middle").reached().await;
    proxy.cut().await;
    desk.provider.gate("middle").open();
    let ran = running.await.unwrap();

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "once\n"), "{}", ran.stderr);
    assert_eq!(desk.sent().len(), 1);
    assert_eq!(desk.run(&["session", "list", "--json"]).json()["total"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_told_at_once() {
    let desk = Desk::new().await;
    let mut server = desk.serve().await;
    let (url, token) = (server.url().to_owned(), server.token().to_owned());
    server.kill();

    let ran = Ran::of(
        desk.command(&["ask", "hello"])
            .current_dir(desk.home.path())
            .env("SKEIN_URL", url)
            .env("SKEIN_TOKEN", token),
    );

    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert!(!ran.stderr.contains("taking it up again"), "{}", ran.stderr);
}
