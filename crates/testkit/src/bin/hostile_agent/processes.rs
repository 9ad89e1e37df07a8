//! Ways to other processes.

use std::{fs, fs::File};

use rustix::{
    process::{
        Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal, getppid, getpriority_process,
        getuid, prlimit, setpriority_pgrp, setpriority_process, setpriority_user,
    },
    thread::{sched_getaffinity, sched_setaffinity},
};

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
    ("supervisor_limits", |_| limit(parent()?)),
    ("victim_limits", |t| limit(t.victim_pid)),
    ("supervisor_priority", |_| priority(parent()?)),
    ("victim_priority", |t| priority(t.victim_pid)),
    ("priority_of_all", |_| {
        let (user, current) = (getuid(), getpriority_process(None)?);
        Ok(setpriority_user(user, current).map(|()| "set".into())?)
    }),
    ("priority_of_group", |_| {
        let current = getpriority_process(None)?;
        Ok(setpriority_pgrp(None, current).map(|()| "set".into())?)
    }),
    ("supervisor_processors", |_| processors(parent()?)),
    ("victim_processors", |t| processors(t.victim_pid)),
    ("victim_scheduler", |t| {
        let script = "my $p = pack('i', 0); syscall($n, $pid, 0, $p)";
        call(by_architecture(144, 119), t.victim_pid, script)
    }),
    ("victim_scheduler_parameter", |t| {
        let script = "my $p = pack('i', 0); syscall($n, $pid, $p)";
        call(by_architecture(142, 118), t.victim_pid, script)
    }),
    ("victim_scheduler_attributes", |t| {
        let script = "my $nice = getpriority(0, $pid); my $a = pack('LLQlLQQQ', 48, 0, 0, $nice, 0, 0, 0, 0); \
                      syscall($n, $pid, $a, 0)";
        call(by_architecture(314, 274), t.victim_pid, script)
    }),
    ("victim_disk_priority", |t| {
        call(by_architecture(251, 30), t.victim_pid, "syscall($n, 1, $pid, (2 << 13) | 4)")
    }),
    ("victim_read_memory", |t| call(by_architecture(310, 270), t.victim_pid, REMOTE_MEMORY)),
    ("victim_write_memory", |t| call(by_architecture(311, 271), t.victim_pid, REMOTE_MEMORY)),
    ("victim_compare", |t| {
        call(by_architecture(312, 272), t.victim_pid, "syscall($n, $$, $pid, 0, 0, 0)")
    }),
    ("victim_advise_memory", |t| {
        let script = "my $i = pack('QQ', 4096, 4096); my $fd = syscall(434, $pid, 0); \
                      $fd < 0 or syscall($n, $fd, $i, 1, 20, 0)";
        call(440, t.victim_pid, script)
    }),
    ("victim_release_memory", |t| {
        call(448, t.victim_pid, "my $fd = syscall(434, $pid, 0); $fd < 0 or syscall($n, $fd, 0)")
    }),
    ("victim_migrate_memory", |t| {
        let script = "my $m = pack('Q', 1); syscall($n, $pid, 2, $m, $m)";
        call(by_architecture(256, 238), t.victim_pid, script)
    }),
    ("victim_move_memory", |t| {
        call(by_architecture(279, 239), t.victim_pid, "syscall($n, $pid, 0, 0, 0, 0, 0)")
    }),
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

/// A page that is not there: whoever may look for it in the other process is told so.
const REMOTE_MEMORY: &str = "my $b = ' ' x 8; my $l = pack('PQ', $b, 8); my $r = pack('QQ', 4096, 8); \
                             syscall($n, $pid, $l, 1, $r, 1, 0)";

fn by_architecture(x86: u32, arm: u32) -> u32 {
    if cfg!(target_arch = "x86_64") { x86 } else { arm }
}

/// Makes a system call about another process. Only a refusal counts as one, not that the call makes no sense.
fn call(number: u32, pid: i32, script: &str) -> Outcome {
    let script = format!(
        "my ($n, $pid) = map {{ $_ + 0 }} @ARGV; $! = 0; {script}; \
         die $! if $!{{EPERM}} || $!{{EACCES}} || $!{{ESRCH}} || $!{{ENOSYS}}; print \"let through: $!\""
    );
    perl(&script, &[&number.to_string(), &pid.to_string()])
}

/// Sets a limit that harms nobody.
fn limit(pid: i32) -> Outcome {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    Ok(prlimit(Pid::from_raw(pid), Resource::Core, none).map(|_| "set".into())?)
}

/// Sets the priority that the process has.
fn priority(pid: i32) -> Outcome {
    let pid = Pid::from_raw(pid);
    let current = getpriority_process(pid)?;
    Ok(setpriority_process(pid, current).map(|()| "set".into())?)
}

/// Sets the processors that the process has.
fn processors(pid: i32) -> Outcome {
    let pid = Pid::from_raw(pid);
    let current = sched_getaffinity(pid)?;
    Ok(sched_setaffinity(pid, &current).map(|()| "set".into())?)
}

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
