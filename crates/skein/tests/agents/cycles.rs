//! Many sessions one after the other, with an agent that leaves processes everywhere: nothing stays behind.

use std::{fs, path::Path};

use serde_json::json;

use crate::{
    desk::{Desk, Setup},
    harness::eventually,
    processes::open_files,
    scale,
};

/// How a session ends.
#[derive(Debug, Clone, Copy)]
enum Way {
    Complete,
    Cancel,
    CancelWhileBusy,
    Crash,
    Idle,
}

const WAYS: [Way; 5] = [Way::Complete, Way::Cancel, Way::CancelWhileBusy, Way::Crash, Way::Idle];
/// Connections of the test itself come and go.
const SLACK: usize = 8;

#[tokio::test]
async fn no_process_file_or_directory_is_left_after_many_sessions() {
    let cycles = scale::choose(10, 200);
    let temporary = tempfile::TempDir::with_prefix("skein-cycles-").unwrap();
    let mut desk = Setup::default()
        .flags(&["--detach", "1", "--detach-holding", "1"])
        .environment("TMPDIR", temporary.path().to_str().unwrap())
        .environment("AGENT_SESSION_IDLE_TIMEOUT", "0.02")
        .start()
        .await;
    // The first one opens what stays open.
    cycle(&desk, Way::Cancel).await;
    desk.nothing_runs().await;
    let files = open_files(desk.server.pid());
    let entries = entries(desk.server.home().path());
    let temporaries = self::entries(temporary.path());

    for number in 0..cycles {
        cycle(&desk, WAYS[number % WAYS.len()]).await;
        desk.nothing_runs().await;
    }

    eventually("files are closed", async || {
        (open_files(desk.server.pid()) <= files + SLACK).then_some(())
    })
    .await;
    eventually("homes are removed", async || {
        (self::entries(desk.server.home().path()) <= entries + SLACK).then_some(())
    })
    .await;
    assert_eq!(self::entries(temporary.path()), temporaries);
    eprintln!("{cycles} sessions: nothing left running, open or on disk");
    desk.assert_sound();
}

async fn cycle(desk: &Desk, way: Way) {
    let session = desk.create().await;
    let path = format!("/api/sessions/{session}");
    let expected = match way {
        Way::Complete => {
            desk.said(&session, "say hello\nfork-detached 1").await;
            // It may be idle by now, which completes it as well.
            desk.api.post(&format!("{path}/complete"), json!({})).await.expect(200);
            "completed"
        }
        Way::Cancel => {
            desk.api.delete(&path).await.expect(200);
            "cancelled"
        }
        Way::CancelWhileBusy => {
            let turn = desk.api.prompt(&session, "say a\nfork-detached 1\nstall").await;
            desk.until_event(&session, "message.delta").await;
            desk.api.delete(&path).await.expect(200);
            desk.api.finished(&session, &turn).await;
            "cancelled"
        }
        Way::Crash => {
            desk.run(&session, "fork-detached 1\ncrash 9").await;
            "failed"
        }
        Way::Idle => {
            desk.said(&session, "fork-detached 1").await;
            "completed"
        }
    };
    desk.until_state(&session, expected).await;
}

/// Files and directories below a place.
fn entries(path: &Path) -> usize {
    let Ok(children) = fs::read_dir(path) else { return 0 };
    children
        .flatten()
        .map(|child| 1 + if child.path().is_symlink() { 0 } else { entries(&child.path()) })
        .sum()
}
