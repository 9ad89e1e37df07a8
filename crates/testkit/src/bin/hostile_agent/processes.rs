//! Ways to other processes.

use std::{fs, fs::File};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, getppid};

use crate::{
    Outcome, Probe, Targets,
    files::{done, found},
    perl,
};

/// Attaches without stopping the other process.
const PTRACE: &str = "my $r = syscall($ARGV[0] + 0, 0x4206, $ARGV[1] + 0, 0, 0); die $! if $r != 0; print 'attached'";

pub(super) const PROBES: &[Probe] = &[
    ("skein_environ", |t| environ(t.skein_pid)),
    ("skein_memory", |t| memory(t.skein_pid)),
    ("skein_handles", |t| handles(t.skein_pid)),
    ("skein_directory", |t| directory(t.skein_pid, "cwd")),
    ("skein_root", |t| directory(t.skein_pid, "root")),
    ("skein_command_line", |t| found(fs::read(format!("/proc/{}/cmdline", t.skein_pid))?.len())),
    ("skein_take_handle", |t| take_handle(t.skein_pid)),
    ("supervisor_environ", |_| environ(parent()?)),
    ("supervisor_memory", |_| memory(parent()?)),
    ("supervisor_handles", |_| handles(parent()?)),
    ("supervisor_take_handle", |_| take_handle(parent()?)),
    ("supervisor_thread_memory", |_| threads_memory(parent()?)),
    ("supervisor_signal", |_| may_signal(parent()?)),
    ("supervisor_ptrace", |_| ptrace(parent()?)),
    ("victim_signal", |t| may_signal(t.victim_pid)),
    ("victim_kill", victim_kill),
    ("victim_ptrace", |t| ptrace(t.victim_pid)),
    ("victim_memory", |t| memory(t.victim_pid)),
    ("environment_secrets", |_| {
        let secret = std::env::vars_os().find(|(name, _)| {
            let name = name.as_encoded_bytes();
            name.starts_with(b"SKEIN_")
                || name.starts_with(b"CARGO")
                || name.starts_with(b"NEXTEST")
        });
        secret
            .map(|(name, _)| name.display().to_string())
            .ok_or_else(|| "nothing of Skein's".into())
    }),
];

/// The process that started the one that tries all probes, which started this one.
fn parent() -> Result<i32, Box<dyn std::error::Error>> {
    let own = getppid().ok_or("no parent")?.as_raw_nonzero();
    let stat = fs::read_to_string(format!("/proc/{own}/stat"))?;
    let (_, after_name) = stat.rsplit_once(')').ok_or("no stat")?;
    Ok(after_name.split_ascii_whitespace().nth(1).ok_or("no parent")?.parse()?)
}

fn environ(pid: i32) -> Outcome {
    found(fs::read(format!("/proc/{pid}/environ"))?.len())
}

fn memory(pid: i32) -> Outcome {
    done(File::open(format!("/proc/{pid}/mem")))
}

fn threads_memory(pid: i32) -> Outcome {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
    let opened = tasks.flatten().any(|task| File::open(task.path().join("mem")).is_ok());
    if opened { Ok("opened".into()) } else { Err("no thread can be read".into()) }
}

/// How many handles there are is no secret among processes of one user; where they lead is.
fn handles(pid: i32) -> Outcome {
    let handles = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    found(handles.filter(|handle| fs::read_link(handle.path()).is_ok()).count())
}

fn directory(pid: i32, name: &str) -> Outcome {
    found(fs::read_dir(format!("/proc/{pid}/{name}/"))?.count())
}

fn take_handle(pid: i32) -> Outcome {
    let pid = Pid::from_raw(pid).ok_or("no process")?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(rustix::process::pidfd_getfd(&process, 0, PidfdGetfdFlags::empty())
        .map(|_| "took it".into())?)
}

fn may_signal(pid: i32) -> Outcome {
    let pid = Pid::from_raw(pid).ok_or("no process")?;
    Ok(rustix::process::test_kill_process(pid).map(|()| "may".into())?)
}

fn victim_kill(targets: &Targets) -> Outcome {
    let pid = Pid::from_raw(targets.victim_pid).ok_or("no process")?;
    // One that changes nothing for a process which sleeps.
    Ok(rustix::process::kill_process(pid, Signal::CONT).map(|()| "sent".into())?)
}

fn ptrace(pid: i32) -> Outcome {
    let call = if cfg!(target_arch = "x86_64") { "101" } else { "117" };
    perl(PTRACE, &[call, &pid.to_string()])
}
