//! When there is no cage, or not the one that was asked for.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use skein_runtimes::confine::{ConfineError, Confinement, Exit, Requirement};

use crate::desk::{BOTH, Desk, Walls, outcome};

/// Makes this thread, and what it starts, live on a kernel without some system call.
fn without(call: i64, rules: Vec<SeccompRule>, errno: i32) {
    let filter = SeccompFilter::new(
        [(call, rules)].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program = BpfProgram::try_from(filter.unwrap()).unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

fn without_landlock() {
    without(libc::SYS_landlock_create_ruleset, vec![], libc::ENOSYS);
}

fn without_user_namespaces() {
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let flag = libc::CLONE_NEWUSER as u64;
        let condition =
            SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag);
        without(call, vec![SeccompRule::new(vec![condition.unwrap()]).unwrap()], libc::EPERM);
    }
}

/// The same under a name of its own: what a machine offers is asked once for each.
fn unheard_of(desk: &Desk, walls: Walls) -> Confinement {
    let mut confinement = desk.confinement(walls);
    let name = desk.base.join("skein-program");
    if !name.exists() {
        symlink(&confinement.launcher.skein, &name).unwrap();
    }
    confinement.launcher.skein = name;
    confinement
}

fn required(confinement: Confinement) -> Confinement {
    Confinement { requirement: Requirement::Require, ..confinement }
}

#[tokio::test]
async fn all_that_is_required_can_be_had_with_bubblewrap_and_landlock() {
    let desk = Desk::new();
    let confinement = required(desk.confinement(Walls::Bubblewrap));

    let caged = desk.spawn(&confinement, &["true"]).await.unwrap();

    assert_eq!((confinement.inspect(), &caged.shortcomings), (vec![], &vec![]));
    assert_eq!(caged.exited().await, Exit::Code(0));
}

#[tokio::test]
async fn without_bubblewrap_the_agent_runs_with_a_warning_or_not_at_all() {
    let desk = Desk::new();
    let confinement = desk.confinement(Walls::Bare);

    let caged = desk.spawn(&confinement, &["true"]).await.unwrap();
    let refused = desk.spawn(&required(confinement.clone()), &["touch", "ran"]).await;

    assert_eq!(caged.shortcomings.len(), 1);
    assert!(caged.shortcomings[0].starts_with("bubblewrap is not installed: "));
    assert_eq!(confinement.inspect(), caged.shortcomings);
    let Err(ConfineError::Unavailable { shortcomings }) = refused else { panic!("{refused:?}") };
    assert_eq!(shortcomings, caged.shortcomings);
    assert!(!desk.workspace().join("ran").exists());
}

#[tokio::test]
async fn without_user_namespaces_bubblewrap_says_why_and_is_done_without() {
    let desk = Desk::new();
    without_user_namespaces();
    let confinement = unheard_of(&desk, Walls::Bubblewrap);

    let caged = desk.spawn(&confinement, &["sh", "-c", "exit 4"]).await.unwrap();
    let refused = desk.spawn(&required(confinement), &["true"]).await;

    assert_eq!(caged.shortcomings.len(), 1);
    assert!(
        caged.shortcomings[0].starts_with("bubblewrap does not work here ("),
        "{:?}",
        caged.shortcomings
    );
    assert_eq!(outcome(caged).await.2, Exit::Code(4));
    assert!(matches!(refused, Err(ConfineError::Unavailable { .. })));
}

#[tokio::test]
async fn a_bubblewrap_that_puts_nothing_into_a_namespace_is_done_without() {
    let desk = Desk::new();
    let imposters = [
        ("does-nothing", "exit 0"),
        ("only-runs", "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\""),
    ];
    for (name, script) in imposters {
        let mut confinement = desk.confinement(Walls::Bubblewrap);
        let imposter = desk.base.join(name);
        fs::write(&imposter, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&imposter, fs::Permissions::from_mode(0o755)).unwrap();
        confinement.launcher.bubblewrap = Some(imposter);

        let caged = desk.spawn(&confinement, &["sh", "-c", "exit 4"]).await.unwrap();

        let said = "bubblewrap does not work here (it ran nothing in namespaces of its own): ";
        assert!(caged.shortcomings[0].starts_with(said), "{name}: {:?}", caged.shortcomings);
        assert_eq!(outcome(caged).await.2, Exit::Code(4), "{name}");
    }
}

#[tokio::test]
async fn without_landlock_bubblewrap_is_all_there_is() {
    let desk = Desk::new();
    fs::write(desk.base.join("secret"), "outside").unwrap();
    without_landlock();
    let read = ["sh", "-c", "cat ../../secret || exit 9"];

    let walled = desk.spawn(&unheard_of(&desk, Walls::Bubblewrap), &read).await.unwrap();
    let bare = desk.spawn(&unheard_of(&desk, Walls::Bare), &read).await.unwrap();
    let refused = desk.spawn(&required(unheard_of(&desk, Walls::Bubblewrap)), &read).await;

    assert_eq!(
        walled.shortcomings,
        ["this kernel has no Landlock: only bubblewrap keeps the agent in its directory"]
    );
    assert_eq!(
        bare.shortcomings[1],
        "neither bubblewrap nor Landlock can be had: nothing keeps the agent in its directory"
    );
    assert_eq!(outcome(walled).await.2, Exit::Code(9));
    assert_eq!(outcome(bare).await.0, "outside");
    assert!(matches!(refused, Err(ConfineError::Unavailable { .. })));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    for walls in BOTH {
        let desk = Desk::new();
        let confinement = desk.confinement(walls);

        for name in ["no-such-agent", "./no-such-agent", "/no/such/agent", ""] {
            let refused = desk.spawn(&confinement, &[name]).await;

            let Err(ConfineError::NotFound { program }) = refused else { panic!("{refused:?}") };
            assert_eq!(program, name);
        }
    }
}

#[tokio::test]
async fn a_workspace_that_became_a_link_is_refused() {
    for walls in BOTH {
        let desk = Desk::new();
        fs::create_dir(desk.base.join("outside")).unwrap();
        fs::rename(desk.workspace(), desk.base.join("moved")).unwrap();
        symlink(desk.base.join("outside"), desk.workspace()).unwrap();

        let last = desk.spawn(&desk.confinement(walls), &["touch", "ran"]).await;
        fs::remove_file(desk.workspace()).unwrap();
        fs::rename(desk.base.join("repos"), desk.base.join("repositories")).unwrap();
        fs::create_dir(desk.base.join("outside/web")).unwrap();
        symlink(desk.base.join("outside"), desk.base.join("repos")).unwrap();
        let middle = desk.spawn(&desk.confinement(walls), &["touch", "ran"]).await;

        assert!(matches!(last, Err(ConfineError::Workspace { .. })), "{last:?}");
        assert!(matches!(middle, Err(ConfineError::Workspace { .. })), "{middle:?}");
        assert!(!desk.base.join("outside/ran").exists());
        assert!(!desk.base.join("outside/web/ran").exists());
    }
}

/// The directory is swapped while cages are being built around it. Each one is refused, or it is the one that was
/// opened: never the one that was put in its place.
#[tokio::test]
async fn a_workspace_that_is_swapped_in_a_race_is_refused_or_the_right_one() {
    for walls in BOTH {
        let desk = Desk::new();
        let (workspace, other) = (desk.workspace(), desk.base.join("outside"));
        fs::write(workspace.join("which"), "inside").unwrap();
        fs::create_dir(desk.base.join("trap")).unwrap();
        fs::write(desk.base.join("trap/which"), "outside").unwrap();
        symlink(desk.base.join("trap"), &other).unwrap();
        let confinement = desk.confinement(walls);
        confinement.inspect();
        let swapping = Swapping::begin(workspace, other);

        let mut outcomes = BTreeMap::new();
        // Those that come too late to open anything say nothing about the rest.
        let mut in_time = 0;
        while in_time < 40 {
            let ended = match desk.spawn(&confinement, &["cat", "which"]).await {
                Ok(caged) => outcome(caged).await.0,
                Err(ConfineError::Workspace { reason, .. }) => reason,
                // bubblewrap itself may find a link where it wants to mount.
                Err(ConfineError::Cage { .. }) => "caught by bubblewrap".to_owned(),
                Err(error) => panic!("{error}"),
            };
            in_time += usize::from(!ended.starts_with("Not a directory"));
            *outcomes.entry(ended).or_insert(0) += 1;
        }

        drop(swapping);
        assert!(outcomes.contains_key("inside"), "{walls:?}: {outcomes:?}");
        assert!(!outcomes.contains_key("outside"), "{walls:?}: {outcomes:?}");
        println!("{walls:?}: {outcomes:?}");
    }
}

/// Exchanges two names, over and over.
struct Swapping {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapping {
    fn begin(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let here = rustix::fs::CWD;
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            let mut pause = 0;
            while !stopped.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(here, &one, here, &other, exchange).unwrap();
                // A cage takes some milliseconds, and this is to happen at any moment of them.
                pause = (pause * 5 + 1) % 16;
                thread::sleep(Duration::from_millis(pause));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[tokio::test]
async fn a_workspace_with_the_skein_home_in_it_is_refused() {
    let desk = Desk::new();
    let confinement = Confinement {
        hidden: vec![desk.workspace().join(".skein")],
        ..desk.confinement(Walls::Bubblewrap)
    };
    fs::create_dir(desk.workspace().join(".skein")).unwrap();

    let refused = desk.spawn(&confinement, &["true"]).await;

    assert!(matches!(refused, Err(ConfineError::Workspace { .. })), "{refused:?}");
}
