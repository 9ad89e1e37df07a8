//! `skein ask --mode edit`: what an agent proposes, shown or written.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::{Value, json};
use skein_testkit::responses::Answer;

use crate::{common::Ran, desk::Desk};

fn proposal(files: Value) -> Answer {
    Answer::text("Done.").and_tool_call("propose_files", &json!({"files": files}).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn proposed_files_are_shown_and_written_only_when_asked_for() {
    let desk = Desk::new().await;
    desk.tree.write("src/a.rs", "one\ntwo\n");
    desk.tree.write("gone.rs", "never again\n");
    desk.tree.commit();
    fs::set_permissions(desk.tree.file("src/a.rs"), fs::Permissions::from_mode(0o755)).unwrap();
    let files = json!([
        {"path": "./src//a.rs", "action": "update", "content": "one\n2\n"},
        {"path": "new/b.rs", "action": "create", "content": "new\n"},
        {"path": "gone.rs", "action": "delete"},
    ]);
    desk.provider.script(proposal(files.clone()));
    desk.provider.script(proposal(files));
    let named = ["-f", "src/a.rs", "-f", "gone.rs"];

    let shown = desk.ask(&[&["--mode", "edit", "change it"], &named[..]].concat());
    let untouched = desk.tree.read("src/a.rs");
    let applied = desk.ask(&[&["--apply", "change it"], &named[..]].concat());

    assert!(shown.stdout.contains("Done.\n--- a/src/a.rs\n+++ b/src/a.rs\n"), "{}", shown.stdout);
    assert!(shown.stderr.contains("nothing was written"), "{}", shown.stderr);
    assert_eq!(untouched, "one\ntwo\n");
    assert_eq!(applied.stdout, "Done.\n");
    for line in ["updated src/a.rs\n", "created new/b.rs\n", "deleted gone.rs\n"] {
        assert!(applied.stderr.contains(line), "{}", applied.stderr);
    }
    assert_eq!(desk.tree.read("src/a.rs"), "one\n2\n");
    assert_eq!(desk.tree.read("new/b.rs"), "new\n");
    assert!(!desk.tree.file("gone.rs").exists());
    let mode = |name: &str| desk.tree.file(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("src/a.rs"), 0o755);
    let beside = fs::read_dir(desk.tree.file("src")).unwrap().count();
    assert_eq!(beside, 1, "nothing is left beside it");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_turn_or_runs_it_again_sees_what_it_proposes() {
    let desk = Desk::new().await;
    let _server = desk.serve().await;
    desk.tree.write("a.rs", "one\ntwo\n");
    let files = json!([{"path": "a.rs", "action": "update", "content": "one\n2\n"}]);
    desk.provider.script(proposal(files.clone()));
    desk.provider.script(proposal(files));

    desk.ask(&["--mode", "edit", "--detach", "-f", "a.rs", "change it"]);
    let waited = desk.run(&["turn", "wait"]);
    let again = desk.run(&["turn", "rerun", "-f", "a.rs"]);

    let shown = "Done.\n--- a/a.rs\n+++ b/a.rs\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    for ran in [waited, again] {
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), shown), "{}", ran.stderr);
        assert!(ran.stderr.contains("nothing was written; git apply"), "{}", ran.stderr);
    }
    assert_eq!(desk.tree.read("a.rs"), "one\ntwo\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_when_one_file_is_not_as_the_agent_saw_it() {
    let desk = Desk::new().await;
    desk.tree.write("a.rs", "old\n");
    desk.tree.write("b.rs", "old\n");
    desk.tree.write("taken.rs", "a person's work\n");
    symlink(".git", desk.tree.file("alias")).unwrap();
    let first = json!({"path": "a.rs", "action": "update", "content": "new\n"});
    let conflicts = [
        // Changed by the answer before it is applied: the gate below.
        ("b.rs", json!({"path": "b.rs", "action": "update", "content": "new\n"})),
        ("taken.rs", json!({"path": "taken.rs", "action": "create", "content": "new\n"})),
        ("taken.rs", json!({"path": "taken.rs", "action": "update", "content": "new\n"})),
        (
            ".git/hooks/post-commit",
            json!({"path": ".git/hooks/post-commit", "action": "create", "content": "x"}),
        ),
        ("alias/hooks/x", json!({"path": "alias/hooks/x", "action": "create", "content": "x"})),
        ("a.rs/x", json!({"path": "a.rs/x", "action": "create", "content": "x"})),
    ];

    for (path, conflict) in conflicts {
        desk.tree.write("b.rs", "old\n");
        desk.provider.script(proposal(json!([first, conflict])).hold_before(3, path));
        let mut command = desk.command(&["ask", "--apply", "go", "-f", "a.rs", "-f", "b.rs"]);
        let running = tokio::task::spawn_blocking(move || Ran::of(&mut command));
        desk.provider.gate(path).reached().await;
        desk.tree.write("b.rs", if path == "b.rs" { "changed meanwhile\n" } else { "old\n" });
        desk.provider.gate(path).open();
        let ran = running.await.unwrap();

        assert_eq!(ran.code, Some(5), "{path}: {}", ran.stderr);
        assert!(ran.stderr.contains(&format!("error: {path} cannot be changed")), "{}", ran.stderr);
        assert_eq!(desk.tree.read("a.rs"), "old\n", "{path}");
        assert_eq!(desk.tree.read("taken.rs"), "a person's work\n");
    }
    assert!(!desk.tree.file(".git/hooks/post-commit").exists());
    assert!(!desk.tree.file(".git/hooks/x").exists());
}
