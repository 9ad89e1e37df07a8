//! However an agent's time ends, no process of it is left.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use skein_runtimes::confine::{Caged, Exit, Launch};
use tokio::io::{AsyncBufReadExt, AsyncReadExt};

use crate::desk::{BOTH, Desk, Walls, hostile_agent};

/// How long processes may take to go that nobody can wait for.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the process of [`parent`] is told, and what marks all that it starts.
const ROLE: &str = "SKEIN_TEST_CAGE_PARENT";

/// Every process on this machine that was started with this mark in its environment.
fn marked(mark: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_marked = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_marked).collect()
}

/// Waits until the processes with this mark are gone, for those whose end nobody announces.
fn assert_gone(mark: &str) {
    let begun = Instant::now();
    while !marked(mark).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?} are left", marked(mark));
        thread::yield_now();
    }
}

fn mark(desk: &Desk) -> String {
    format!("MARK={}", desk.base.display())
}

/// Starts the hostile agent and waits until all of its family is there.
async fn family(desk: &Desk, walls: Walls, act: &[&str]) -> Caged {
    let agent = hostile_agent();
    let mut command = vec![agent.to_str().unwrap().to_owned(), "act".to_owned()];
    command.extend(act.iter().map(|word| (*word).to_owned()));
    let (workspace, home) = (desk.workspace(), desk.home());
    let env = vec![("MARK".to_owned(), desk.base.display().to_string())];
    let launch = Launch { command: &command, workspace: &workspace, home: &home, env };
    let mut caged = desk.confinement(walls).spawn(launch).await.unwrap();
    let mut lines = tokio::io::BufReader::new(&mut caged.stdout).lines();
    while lines.next_line().await.unwrap().unwrap() != "ready" {}
    caged
}

#[tokio::test]
async fn a_kill_leaves_nobody() {
    for walls in BOTH {
        let desk = Desk::new();
        let caged = family(&desk, walls, &["scatter", "4", "stay"]).await;
        let before = marked(&mark(&desk)).len();

        caged.kill();
        let (exit, again) = tokio::join!(caged.exited(), caged.exited());

        // The agent, and of each family two that are deaf.
        assert!(before >= 9, "{walls:?}: only {before} processes");
        assert_eq!((exit, again), (Exit::Signal(9), Exit::Signal(9)), "{walls:?}");
        assert_eq!(marked(&mark(&desk)), [0; 0], "{walls:?}");
    }
}

#[tokio::test]
async fn an_agent_that_ends_leaves_nobody() {
    for walls in BOTH {
        let desk = Desk::new();
        let caged = family(&desk, walls, &["scatter", "2", "exit"]).await;

        let exit = caged.exited().await;

        assert_eq!(exit, Exit::Code(3), "{walls:?}");
        assert_eq!(marked(&mark(&desk)), [0; 0], "{walls:?}");
    }
}

#[tokio::test]
async fn a_dropped_hold_leaves_nobody() {
    for walls in BOTH {
        let desk = Desk::new();
        let caged = family(&desk, walls, &["scatter", "2", "stay"]).await;

        drop(caged);

        assert_gone(&mark(&desk));
    }
}

#[tokio::test]
async fn who_is_somebody_else_every_moment_is_killed_too() {
    for walls in BOTH {
        let desk = Desk::new();
        let caged = family(&desk, walls, &["churn"]).await;

        caged.kill();
        let exit = caged.exited().await;

        assert_eq!(exit, Exit::Signal(9), "{walls:?}");
        assert_eq!(marked(&mark(&desk)), [0; 0], "{walls:?}");
    }
}

#[tokio::test]
async fn a_termination_reaches_every_process_and_may_be_ignored() {
    for walls in BOTH {
        let desk = Desk::new();
        let mut polite = desk
            .shell(walls, "trap 'echo bye; exit 5' TERM; (trap 'exit 0' TERM; sleep 1000 & wait) & echo up; wait")
            .await;
        let mut said = [0; 3];
        polite.stdout.read_exact(&mut said).await.unwrap();
        let deaf = family(&desk, walls, &["scatter", "1", "stay"]).await;
        let script = "trap '' TERM; echo up; read line; exit 6";
        let mut ignorant = desk.shell(walls, script).await;
        ignorant.stdout.read_exact(&mut said).await.unwrap();

        polite.terminate();
        ignorant.terminate();
        deaf.terminate();
        let mut rest = String::new();
        polite.stdout.read_to_string(&mut rest).await.unwrap();
        let polite = polite.exited().await;
        let deaf = deaf.exited().await;
        drop(ignorant.stdin);
        let ignorant = ignorant.cage.exited().await;

        assert_eq!((rest.as_str(), polite), ("bye\n", Exit::Code(5)), "{walls:?}");
        assert_eq!(deaf, Exit::Signal(15), "{walls:?}");
        assert_eq!(ignorant, Exit::Code(6), "{walls:?}");
    }
}

/// The process that started the agent.
fn supervisor(desk: &Desk) -> Pid {
    let parent_of_agent = |pid: i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok();
        let is_agent = line.contains("\0scatter\0") && !line.contains("bwrap");
        parent.filter(|_| is_agent)
    };
    let found = marked(&mark(desk)).into_iter().find_map(parent_of_agent);
    Pid::from_raw(found.unwrap()).unwrap()
}

/// A supervisor that can open nothing any more finds its agent's processes all the same.
#[tokio::test]
async fn a_supervisor_without_handles_leaves_nobody() {
    for walls in BOTH {
        let desk = Desk::new();
        let caged = family(&desk, walls, &["scatter", "2", "stay"]).await;
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        prlimit(Some(supervisor(&desk)), Resource::Nofile, none).unwrap();

        caged.terminate();
        let terminated = caged.exited().await;

        assert_eq!(terminated, Exit::Signal(15), "{walls:?}");
        assert_gone(&mark(&desk));
    }
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_agent_along_in_a_namespace() {
    let desk = Desk::new();
    let caged = family(&desk, Walls::Bubblewrap, &["scatter", "1", "stay"]).await;

    kill_process(supervisor(&desk), Signal::KILL).unwrap();
    let exit = caged.exited().await;

    assert_eq!(exit, Exit::Unknown);
    assert_eq!(marked(&mark(&desk)), [0; 0]);
}

/// A killed parent can say nothing to anybody; its agents end all the same.
#[test]
fn a_parent_that_is_killed_leaves_nobody() {
    for walls in BOTH {
        let desk = Desk::new();
        // So that nobody builds it while the clock ticks.
        hostile_agent();
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "endings::parent", "--nocapture"])
            .env(ROLE, format!("{walls:?} {}", desk.base.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
        lines
            .map(Result::unwrap)
            .find(|line| line == "all are up")
            .expect("the parent ended early");
        let before = marked(&mark(&desk)).len();

        parent.kill().unwrap();
        parent.wait().unwrap();

        assert!(before >= 5 * 5, "{walls:?}: only {before} processes");
        assert_gone(&mark(&desk));
    }
}

/// Cages that are being built when their parent is killed are not left half-built.
#[test]
fn a_parent_that_is_killed_while_it_starts_agents_leaves_nobody() {
    for walls in BOTH {
        let desk = Desk::new();
        for round in 0..20 {
            let mut parent = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "endings::parent_of_many", "--nocapture"])
                .env(ROLE, format!("{walls:?} {}", desk.base.display()))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
            lines.map(Result::unwrap).find(|line| line == "another").unwrap();
            // At another moment of a start each time.
            thread::sleep(Duration::from_micros(700 * round));

            parent.kill().unwrap();
            parent.wait().unwrap();

            assert_gone(&mark(&desk));
        }
    }
}

#[test]
#[ignore = "started by the test above, to be killed"]
fn parent_of_many() {
    let Some((walls, desk)) = role() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        loop {
            println!("\nanother");
            let confinement = desk.confinement(walls);
            let env = vec![("MARK".to_owned(), desk.base.display().to_string())];
            let command = ["sleep", "1000"].map(str::to_owned);
            let (workspace, home) = (desk.workspace(), desk.home());
            let launch = Launch { command: &command, workspace: &workspace, home: &home, env };
            std::mem::forget(confinement.spawn(launch).await.unwrap());
        }
    });
}

/// What this process was started for, if for anything.
fn role() -> Option<(Walls, Desk)> {
    let (_, role) = std::env::vars().find(|(name, _)| name == ROLE)?;
    let (walls, base) = role.split_once(' ')?;
    let walls = if walls == "Bare" { Walls::Bare } else { Walls::Bubblewrap };
    Some((walls, Desk::at(base.into())))
}

#[test]
#[ignore = "started by a test, to be killed"]
fn parent() {
    let Some((walls, desk)) = role() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut agents = Vec::new();
        for _ in 0..5 {
            agents.push(family(&desk, walls, &["scatter", "2", "stay"]).await);
        }
        println!("\nall are up");
        std::future::pending::<()>().await;
    });
}
