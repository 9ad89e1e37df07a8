//! A hostile agent tries every way out that it knows. Each way leads out when there is no cage, or proves nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;
use skein_runtimes::confine::{Confinement, Exit, Network};

use crate::{
    desk::{Desk, Walls, hostile_agent, outcome},
    outside::Outside,
};

/// Ways out that only root has, or that only some machines offer. Where they lead nowhere anyway they prove nothing.
const NOT_EVERYWHERE: [&str; 44] = [
    "become_another_user",
    "bind_mount",
    "block_devices",
    "capabilities",
    "chroot",
    "control_group",
    "core_pattern",
    "device_in_workspace",
    "etc_shadow",
    "etc_write",
    "home_of_user",
    "io_uring",
    "kernel_keys",
    "kernel_log",
    "kernel_memory",
    "kernel_programs",
    "log_read",
    "mount_in_user_namespace",
    "out_of_memory_score",
    "packet_socket",
    "priority_of_all",
    "proc_1_root",
    "raw_socket",
    "remove_attribute_by_handle",
    "remove_attribute_of_link_outside",
    "remove_attribute_outside",
    "root_write",
    "set_attribute_by_handle",
    "set_attribute_of_link_outside",
    "set_attribute_outside",
    "supervisor_ptrace",
    "system_request",
    "terminals",
    "user_namespace",
    "usr_write",
    "var_write",
    "victim_advise_memory",
    "victim_compare",
    "victim_migrate_memory",
    "victim_move_memory",
    "victim_ptrace",
    "victim_read_memory",
    "victim_release_memory",
    "victim_write_memory",
];

/// What bubblewrap alone can prevent; `docs/confinement.md` says so, and every session without it.
const NOT_WITHOUT_BUBBLEWRAP: [&str; 2] = ["change_mode_outside", "skein_command_line"];
/// With bubblewrap these are the agent's own, in a namespace.
const OWN_IN_NAMESPACE: [&str; 3] = ["system_v_memory", "system_v_messages", "system_v_semaphores"];
const WITH_NETWORK: [&str; 2] = ["tcp", "udp"];

/// What each probe got hold of, or why it got nothing.
type Results = BTreeMap<String, Result<String, String>>;

fn results(lines: &str) -> Results {
    let parse = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let detail = line["detail"].as_str().unwrap().to_owned();
        let result = if line["gained"] == true { Ok(detail) } else { Err(detail) };
        (line["probe"].as_str().unwrap().to_owned(), result)
    };
    lines.lines().map(parse).collect()
}

fn gained(results: &Results) -> BTreeSet<&str> {
    results.iter().filter(|(_, result)| result.is_ok()).map(|(name, _)| name.as_str()).collect()
}

/// The same program, in the same place, without a cage.
fn free(desk: &Desk) -> Results {
    let mut command = Command::new(hostile_agent());
    command.arg("targets.json").current_dir(desk.workspace()).env("SKEIN_MASTER_KEY", "secret");
    results(&String::from_utf8(command.output().unwrap().stdout).unwrap())
}

async fn caged(desk: &Desk, confinement: &Confinement) -> Results {
    let agent = hostile_agent();
    let caged = desk.spawn(confinement, &[agent.to_str().unwrap(), "targets.json"]).await.unwrap();

    let (said, complained, exit) = outcome(caged).await;

    assert_eq!((complained.as_str(), exit), ("", Exit::Code(0)));
    results(&said)
}

/// Probes in a cage change and learn nothing outside, except what is expected.
async fn assert_held(walls: Walls, network: Network, expected: &[&str]) {
    let desk = Desk::new();
    let outside = Outside::around(&desk);
    let before = outside.content();
    let confinement = Confinement { network, ..desk.confinement(walls) };

    let results = caged(&desk, &confinement).await;

    assert_eq!(gained(&results), expected.iter().copied().collect(), "{results:#?}");
    assert_eq!(outside.content(), before);
    assert!(results.len() >= 80, "only {} probes ran", results.len());
}

#[test]
fn every_probe_gets_what_it_wants_without_a_cage() {
    let desk = Desk::new();
    let outside = Outside::around(&desk);
    let before = outside.content();

    let results = free(&desk);

    let vain: Vec<_> = results
        .iter()
        .filter(|(name, result)| result.is_err() && !NOT_EVERYWHERE.contains(&name.as_str()))
        .collect();
    assert!(vain.is_empty(), "{vain:#?}");
    assert_ne!(outside.content(), before);
    let nowhere = results.iter().filter(|(_, result)| result.is_err());
    println!("lead nowhere on this machine: {:#?}", nowhere.collect::<Vec<_>>());
}

#[tokio::test]
async fn nothing_is_reached_through_bubblewrap() {
    let expected = [OWN_IN_NAMESPACE.as_slice(), &WITH_NETWORK].concat();

    assert_held(Walls::Bubblewrap, Network::Allow, &expected).await;
}

#[tokio::test]
async fn nothing_and_no_network_is_reached_through_bubblewrap() {
    assert_held(Walls::Bubblewrap, Network::Deny, &OWN_IN_NAMESPACE).await;
}

#[tokio::test]
async fn nothing_but_what_is_declared_is_reached_without_bubblewrap() {
    let expected = [NOT_WITHOUT_BUBBLEWRAP, WITH_NETWORK].concat();

    assert_held(Walls::Bare, Network::Allow, &expected).await;
}

#[tokio::test]
async fn no_network_is_reached_without_bubblewrap() {
    assert_held(Walls::Bare, Network::Deny, &NOT_WITHOUT_BUBBLEWRAP).await;
}
