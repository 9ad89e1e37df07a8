//! A work tree whose settings were written by somebody else cannot make `skein ask` run or read anything.

use std::{fs, process::Command, process::Stdio};

use serde_json::Value;

use crate::{
    common::Ran,
    desk::{Desk, WorkTree},
};

/// What plain Git does in a work tree with the settings of whoever made it.
fn plain_status(tree: &WorkTree) {
    let mut status = Command::new("git");
    status.args(["status", "--short"]).current_dir(tree.path()).stdin(Stdio::null());
    status.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
}

/// A work tree with a modified file, and a program that leaves a mark.
async fn booby_trapped() -> (Desk, String) {
    let desk = Desk::new().await;
    desk.tree.write("a.rs", "old one");
    desk.tree.commit();
    // Of the same size, so that Git has to look into it.
    desk.tree.write("a.rs", "new one");
    let mark = desk.tree.file("mark").display().to_string();
    let trap = desk.tree.file("trap");
    fs::write(&trap, format!("#!/bin/sh\necho trapped >> '{mark}'\nexec cat\n")).unwrap();
    desk.tree.git(&["config", "core.fileMode", "false"]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&trap, mode).unwrap();
    (desk, trap.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_in_the_settings_of_a_work_tree_are_not_run() {
    type Trap = fn(&WorkTree, &str);
    let traps: [(&str, Trap); 4] = [
        ("clean filter", |tree, program| {
            tree.write(".git/info/attributes", "* filter=trap\n");
            tree.git(&["config", "filter.trap.clean", program]);
            tree.git(&["config", "filter.trap.required", "true"]);
        }),
        ("filter with a strange name", |tree, program| {
            tree.write(".git/info/attributes", "* filter=a=b.c\n");
            tree.git(&["config", "filter.a=b.c.clean", program]);
        }),
        ("filter process", |tree, program| {
            tree.write(".git/info/attributes", "* filter=trap\n");
            tree.git(&["config", "filter.trap.process", program]);
        }),
        ("file system monitor", |tree, program| {
            tree.git(&["config", "core.fsmonitor", program]);
        }),
    ];

    for (name, set) in traps {
        let (desk, program) = booby_trapped().await;
        set(&desk.tree, &program);

        let ran = desk.ask(&["look"]);
        let is_trapped = desk.tree.file("mark").exists();
        plain_status(&desk.tree);

        assert!(!is_trapped, "{name}: {}", ran.stderr);
        assert!(desk.tree.file("mark").exists(), "{name} is no trap");
        let sent = desk.sent()[0].to_string();
        assert!(sent.contains("new one"), "{name}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_a_work_tree_are_not_run_and_its_index_is_not_written() {
    let (desk, program) = booby_trapped().await;
    desk.tree.write(".git/hooks/post-index-change", fs::read(&program).unwrap());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(desk.tree.file(".git/hooks/post-index-change"), mode).unwrap();
    let index = fs::read(desk.tree.file(".git/index")).unwrap();

    desk.ask(&["look"]);

    assert!(!desk.tree.file("mark").exists());
    assert_eq!(fs::read(desk.tree.file(".git/index")).unwrap(), index);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_missing_are_not_fetched() {
    let (desk, program) = booby_trapped().await;
    let settings = [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", "ssh://example.org/x"),
        ("remote.origin.promisor", "true"),
        ("core.sshCommand", &program),
    ];
    settings.iter().for_each(|(key, value)| desk.tree.git(&["config", key, value]));
    // It is talked to as if it were a server, and must not talk back for ever.
    let mark = desk.tree.file("mark").display().to_string();
    fs::write(&program, format!("#!/bin/sh\necho trapped >> '{mark}'\nexit 1\n")).unwrap();
    fs::remove_dir_all(desk.tree.file(".git/objects")).unwrap();
    fs::create_dir(desk.tree.file(".git/objects")).unwrap();

    let ran = desk.ask(&["look"]);
    let is_trapped = desk.tree.file("mark").exists();
    plain_status(&desk.tree);

    assert!(!is_trapped, "{}", ran.stderr);
    assert!(desk.tree.file("mark").exists(), "this is no trap");
    assert!(ran.stderr.contains("warning: modified files do not go along"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_cannot_move_the_work_tree_to_where_the_secrets_are() {
    let desk = Desk::new().await;
    let secrets = WorkTree::new();
    secrets.write("id_rsa", "a private key");
    desk.tree.write("id_rsa", "bait");
    desk.tree.commit();
    let elsewhere = secrets.path().display().to_string();
    desk.tree.git(&["config", "core.worktree", &elsewhere]);

    desk.ask(&["look"]);
    let other = Ran::of(
        desk.command(&["ask", "look"])
            .env("GIT_DIR", secrets.file(".git"))
            .env("GIT_WORK_TREE", secrets.path()),
    );

    assert_eq!(other.code, Some(0), "{}", other.stderr);
    assert_eq!(desk.sent().len(), 2);
    assert!(desk.sent().iter().all(|body| !body.to_string().contains("a private key")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_looks_like_a_repository_is_none() {
    let (desk, program) = booby_trapped().await;
    desk.tree.git(&["init", "--quiet", "--bare", "bare"]);
    desk.tree.git(&["-C", "bare", "config", "core.fsmonitor", &program]);
    desk.tree.git(&["-C", "bare", "config", "core.worktree", "."]);

    let ran = Ran::of(desk.command(&["ask", "look"]).current_dir(desk.tree.file("bare")));

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!desk.tree.file("mark").exists());
    assert!(desk.sent()[0].to_string().contains("new one"), "the work tree around it counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_git_that_answers_only_the_modified_files_are_missing() {
    let desk = Desk::new().await;
    desk.tree.write("a.rs", "old");
    desk.tree.commit();
    desk.tree.write("a.rs", "new");
    desk.tree.write("git", "#!/bin/sh\ntouch mark\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(desk.tree.file("git"), mode).unwrap();

    let missing = Ran::of(desk.command(&["ask", "look"]).env("PATH", ".:/nowhere"));
    desk.tree.write(".git/HEAD", "broken");
    let broken = desk.run(&["ask", "look"]);

    for ran in [missing, broken] {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("warning: modified files do not go along: git "),
            "{}",
            ran.stderr
        );
    }
    assert!(!desk.tree.file("mark").exists());
    let files = desk.run(&["turn", "context", "--json"]).json()["files"].clone();
    assert_eq!(files, Value::Array(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_200_files_go_along_and_those_changed_last_are_kept() {
    let desk = Desk::new().await;
    let name = |number: usize| format!("f{number:03}");
    (0..202).for_each(|number| desk.tree.write(&name(number), "old"));
    desk.tree.commit();
    for number in 0..202 {
        desk.tree.write(&name(number), "changed");
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000 + number as u64);
        let file = fs::File::options().write(true).open(desk.tree.file(&name(number))).unwrap();
        file.set_modified(at).unwrap();
    }

    let ran = desk.ask(&["look", "-f", "f000"]);
    let context = desk.run(&["turn", "context", "--json"]).json();

    assert!(ran.stderr.contains("warning: 2 modified files are left out"), "{}", ran.stderr);
    let paths = context["files"].as_array().unwrap().iter().map(|file| file["path"].clone());
    let expected = [0].into_iter().chain(3..202).map(|number| Value::from(name(number)));
    assert_eq!(paths.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
