//! The first five minutes: `skein` in a repository, and a question about it.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, ChildStderr, Stdio},
};

use crate::{
    common::{Ran, TestHome},
    desk::WorkTree,
};

/// `skein up` with what it has said so far. It is killed, by its id, when this is dropped.
struct Up {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Up {
    fn start(home: &TestHome, directory: &Path, arguments: &[&str]) -> Self {
        // Whatever is installed on this machine.
        Self::start_with(home, directory, arguments, &[("PATH", "/usr/bin:/bin")])
    }

    fn start_with(
        home: &TestHome,
        directory: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = home.command(arguments);
        command.current_dir(directory).env("SKEIN_SERVER__LISTEN", "127.0.0.1:0");
        command.env_remove("OPENAI_API_KEY").envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, said: String::new() }
    }

    fn until(&mut self, words: &str) -> &str {
        while !self.said.contains(words) {
            let read = self.stderr.read_line(&mut self.said).unwrap();
            assert_ne!(read, 0, "it ended with: {}", self.said);
        }
        &self.said
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn repository() -> WorkTree {
    let tree = WorkTree::new();
    tree.write("README.md", "# Harbour\n\nKeeps track of ships and their berths.\n");
    tree.write("Cargo.toml", "[package]\nname = \"harbour\"\n");
    tree.write("src/berth.rs", "/// A place for one ship.\npub struct Berth {\n    ship: Option<Ship>,\n}\n\nimpl Berth {\n    pub fn moor_ship(&mut self, ship: Ship) {\n        self.ship = Some(ship);\n    }\n}\n");
    tree.commit();
    tree
}

#[test]
fn a_fresh_home_answers_about_the_repository_it_was_started_in() {
    let (home, tree) = (TestHome::new(), repository());
    let mut up = Up::start(&home, tree.path(), &[]);

    let said = up.until("Ctrl-C stops").to_owned();
    let ask = |question: &str| {
        let ran = Ran::of(home.command(&["ask", question]).current_dir(tree.path()));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let place = ask("where is a ship moored?");
    let whole = ask("what is this project?");

    for words in [
        "Skein is ready at http://127.0.0.1:",
        "store   ",
        "search  by words; [retrieval.embeddings]",
        "agents  local",
        "openai: ",
        "3 files, ",
        "skein ask \"",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(place.starts_with("`moor_ship` is defined in `src/berth.rs:7`."), "{place}");
    assert!(place.contains("    pub fn moor_ship(&mut self, ship: Ship) {\n"), "{place}");
    assert!(place.contains("No language model wrote this"), "{place}");
    assert!(whole.contains("### README.md:1-3\n"), "{whole}");
    assert!(whole.contains("name = \"harbour\""), "{whole}");
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 4, "nothing is written into it");
}

#[test]
fn it_says_which_agents_are_there_and_how_each_is_connected() {
    let (home, tree, programs) = (TestHome::new(), repository(), tempfile::tempdir().unwrap());
    for name in ["gemini", "claude"] {
        let program = programs.path().join(name);
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let environment = [("PATH", path.as_str()), ("OPENAI_API_KEY", "sk-not-a-key")];

    let mut up = Up::start_with(&home, tree.path(), &[], &environment);
    let said = up.until("Ctrl-C stops");

    let line = |agent: &str| said.lines().find(|line| line.trim().starts_with(agent));
    for (agent, how) in [
        ("openai:", "OPENAI_API_KEY is set; connect it: skein provider add openai"),
        ("gemini:", "installed; connect it: skein agent add gemini"),
        ("claude:", "speaks through claude-agent-acp; npm install"),
    ] {
        assert!(line(agent).is_some_and(|line| line.contains(how)), "{agent} {said}");
    }
    assert_eq!(line("goose:"), None, "{said}");
    assert!(!said.contains("sk-not-a-key"), "{said}");
}

#[test]
fn outside_of_a_repository_it_only_serves() {
    let home = TestHome::new();
    let plain = tempfile::tempdir().unwrap();

    let said = Up::start(&home, plain.path(), &["up"]).until("Ctrl-C stops").to_owned();

    assert!(said.contains("no Git work tree here"), "{said}");
    assert!(!home.file("trusted").exists());
}

#[test]
fn a_question_before_anything_is_indexed_is_answered_with_what_to_do() {
    let (home, tree) = (TestHome::new(), repository());

    let ran = Ran::of(home.command(&["ask", "where is a ship moored?"]).current_dir(tree.path()));

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Nothing found"), "{}", ran.stdout);
    assert!(ran.stdout.contains("skein index add ."), "{}", ran.stdout);
}
