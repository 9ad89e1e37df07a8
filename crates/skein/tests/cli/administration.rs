//! People, organisations, repositories and the audit log from the command line.

use std::fs;

use crate::common::{Ran, TestHome};

#[test]
fn people_and_organisations_are_added_and_listed() {
    let home = TestHome::new();

    let org = home.run(&["org", "add", "acme"]);
    let there = home.run(&["user", "add", "ada", "--role", "admin", "--org", org.stdout.trim()]);
    let here = home.run(&["user", "add", "mel"]);
    let listed = home.run(&["user", "list"]).stdout;
    let of_ada = Ran::of(home.command(&["user", "list"]).env("SKEIN_TOKEN", there.stdout.trim()));
    let of_mel = Ran::of(home.command(&["user", "list"]).env("SKEIN_TOKEN", here.stdout.trim()));

    assert!(there.stdout.starts_with("skein_"), "{}", there.stderr);
    let names: Vec<_> = listed.lines().map(|line| line.rsplit('\t').next().unwrap()).collect();
    assert_eq!(names, ["owner", "mel"]);
    assert!(of_ada.stdout.trim_end().ends_with("admin\tactive\tada"), "{}", of_ada.stdout);
    assert_eq!(of_mel.code, Some(4));
}

#[test]
fn a_repository_is_added_from_the_directory_that_one_is_in() {
    let home = TestHome::new();
    let root = home.path().canonicalize().unwrap();
    let web = root.join("web");
    fs::create_dir_all(web.join(".git")).unwrap();
    fs::write(web.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let in_web = |arguments: &[&str]| {
        Ran::of(home.command(arguments).current_dir(&web).env("AGENT_WORKSPACE_ROOT", &root))
    };

    let added = in_web(&["repo", "add", ".", "--json"]).json();
    let listed = in_web(&["repo", "list"]).stdout;
    let again = in_web(&["repo", "add", "."]);
    let outside = in_web(&["repo", "add", "/"]);

    assert_eq!((&added["name"], &added["path"]), (&"web".into(), &web.to_str().unwrap().into()));
    assert!(listed.trim_end().ends_with(&format!("web\t{}", web.display())), "{listed}");
    assert_eq!(again.code, Some(5));
    assert_eq!(outside.code, Some(2), "{}", outside.stderr);
}

#[test]
fn the_audit_log_is_listed_checked_and_its_head_kept() {
    let home = TestHome::new();
    home.run(&["session", "new"]);

    let listed = home.run(&["audit", "list", "--limit", "3"]);
    let head = home.run(&["audit", "head"]);
    let checked = home.run(&["audit", "verify", "--seen", head.stdout.trim()]);
    let forged = format!("1:{}", "0".repeat(64));
    let forged = home.run(&["audit", "verify", "--seen", &forged]);

    let actions: Vec<_> =
        listed.stdout.lines().map(|line| line.split('\t').nth(3).unwrap()).collect();
    assert_eq!(actions, ["org.created", "token.created", "session.created"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("unsealed 0\n"), "{}", checked.stdout);
    assert_eq!(forged.code, Some(1));
    assert!(forged.stderr.contains("the audit log was tampered with"), "{}", forged.stderr);
    assert!(forged.stderr.contains("row 1"), "{}", forged.stderr);
}
