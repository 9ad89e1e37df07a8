//! What an agent may use of the machine.

use skein_runtimes::confine::{Confinement, Exit, ProcessLimits};

use crate::desk::{BOTH, Desk, Walls, hostile_agent, outcome};

async fn act(walls: Walls, limits: ProcessLimits, act: &[&str]) -> (String, Exit) {
    let desk = Desk::new();
    let confinement = Confinement { limits, ..desk.confinement(walls) };
    let agent = hostile_agent();
    let command = [&[agent.to_str().unwrap(), "act"], act].concat();
    let (said, _, exit) = outcome(desk.spawn(&confinement, &command).await.unwrap()).await;
    (said, exit)
}

#[tokio::test]
async fn memory_ends_at_its_limit() {
    for walls in BOTH {
        let limits = ProcessLimits { memory_bytes: Some(64 << 20), ..ProcessLimits::default() };

        let (held, exit) = act(walls, limits, &["remember", "256"]).await;
        let (free, _) = act(walls, ProcessLimits::default(), &["remember", "256"]).await;

        let held: u32 = held.trim().parse().unwrap();
        assert!((32..64).contains(&held), "{walls:?}: {held} MiB");
        assert_eq!((free.as_str(), exit), ("256\n", Exit::Code(0)), "{walls:?}");
    }
}

#[tokio::test]
async fn open_files_end_at_their_limit() {
    for walls in BOTH {
        let limits = ProcessLimits { open_files: Some(64), ..ProcessLimits::default() };

        let (held, exit) = act(walls, limits, &["open"]).await;

        // Three are the pipes.
        assert_eq!((held.as_str(), exit), ("61\n", Exit::Code(0)), "{walls:?}");
    }
}

#[tokio::test]
async fn time_on_the_processor_ends_at_its_limit() {
    for walls in BOTH {
        let limits = ProcessLimits { cpu_seconds: Some(1), ..ProcessLimits::default() };

        let (_, exit) = act(walls, limits, &["spin"]).await;

        let cpu_time_exceeded = 24;
        assert_eq!(exit, Exit::Signal(cpu_time_exceeded), "{walls:?}");
    }
}
