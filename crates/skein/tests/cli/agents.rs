//! `skein agent list` says what is the matter with an agent that cannot be started.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::common::{Ran, TestHome};

#[test]
fn what_is_there_and_cannot_be_started_is_told_from_what_is_missing() {
    let home = TestHome::new();
    let (runs, rests) = (home.file("runs"), home.file("rests"));
    fs::write(&runs, "#!/bin/sh\necho agent 7.1\n").unwrap();
    fs::write(&rests, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&runs, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "[agents.gemini]\nruntime = \"acp\"\n[agents.codex]\nruntime = \"acp\"\ncommand = [\"/no/such/program\"]\n\
         [agents.runs]\nruntime = \"acp\"\ncommand = [{runs:?}]\n\
         [agents.rests]\nruntime = \"acp\"\ncommand = [{rests:?}]\n"
    );
    fs::write(home.file("config.toml"), config).unwrap();

    let mut command = home.command(&["agent", "list", "--json"]);
    let listed = Ran::of(command.env("PATH", home.path())).json();

    let state = |name: &str| {
        let agents = listed["agents"].as_array().unwrap();
        let agent = agents.iter().find(|agent| agent["name"] == name).unwrap();
        agent["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state("runs"), "ready, agent 7.1");
    assert_eq!(state("rests"), format!("{} is not executable", rests.display()));
    let install = "npm install --global @google/gemini-cli";
    assert_eq!(state("gemini"), format!("gemini is not installed: {install}"));
    assert_eq!(state("codex"), "/no/such/program is not installed");
}
