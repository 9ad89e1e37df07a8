//! Every process below this one, found by looking, because a process that detached itself is nobody's child for long.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read, Seek},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Dir, Mode, OFlags, openat},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait},
};

/// Between two looks at processes that were killed and are not gone yet.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long somebody may be left whom a process that cannot look around does not get hold of.
const PATIENCE: Duration = Duration::from_secs(10);

/// What it takes to find processes, opened before there is one that could prevent it.
pub(super) struct Tree {
    processes: Dir,
    /// The kernel's list of this process's children, where it keeps one. It needs no further handle to be read, and
    /// whoever is left by its parent comes into it.
    children: Option<File>,
}

impl Tree {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let processes = Dir::new(rustix::fs::open("/proc", flags, Mode::empty())?)?;
        let own = getpid().as_raw_nonzero();
        let children = File::open(format!("/proc/{own}/task/{own}/children")).ok();
        Ok(Self { processes, children })
    }

    /// Sends a signal to every descendant. Each gets it the moment it is seen, so that one which forks and ends, over
    /// and over, has little time to be somebody else. Children get it even when nobody else can be found.
    pub(super) fn signal_all(&mut self, signal: Signal) -> io::Result<()> {
        self.signal_tree(signal).or_else(|error| {
            let children = self.children.as_mut().ok_or(error)?;
            let mut pids = String::new();
            children.rewind()?;
            children.read_to_string(&mut pids)?;
            pids.split_ascii_whitespace().flat_map(str::parse).for_each(|pid| send(pid, signal));
            Ok(())
        })
    }

    fn signal_tree(&mut self, signal: Signal) -> io::Result<()> {
        let pids = self.pids()?;
        let mut tree = HashSet::from([getpid().as_raw_nonzero().get()]);
        let mut grown = true;
        while grown {
            grown = false;
            for pid in &pids {
                if tree.contains(pid)
                    || !self.parent(*pid)?.is_some_and(|parent| tree.contains(&parent))
                {
                    continue;
                }
                tree.insert(*pid);
                grown = true;
                send(*pid, signal);
            }
        }
        Ok(())
    }

    /// Kills every descendant and waits until none is left. Needs this process to be their reaper.
    pub(super) fn kill_all(&mut self, mut ended: impl FnMut(Pid, WaitStatus)) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let killed = self.signal_all(Signal::KILL);
            if reap(&mut ended) == Left::Nobody {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                killed?;
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Parents mostly come before their children; those that do not are found by the next round.
    fn pids(&mut self) -> io::Result<Vec<i32>> {
        self.processes.rewind();
        let mut pids = Vec::new();
        while let Some(entry) = self.processes.read() {
            pids.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok()));
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// The fourth field of `stat`; the second is a name in brackets that may contain anything. `None` when the process
    /// is gone or is none of ours.
    fn parent(&self, pid: i32) -> io::Result<Option<i32>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut file =
            match openat(self.processes.fd()?, format!("{pid}/stat"), flags, Mode::empty()) {
                Ok(handle) => File::from(handle),
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                    return Err(error.into());
                }
                Err(_) => return Ok(None),
            };
        let mut stat = Vec::new();
        match file.read_to_end(&mut stat) {
            Ok(_) => Ok(parent_in(&stat)),
            Err(_) => Ok(None),
        }
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended by itself.
        kill_process(pid, signal).ok();
    }
}

fn parent_in(stat: &[u8]) -> Option<i32> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Somebody,
    Nobody,
}

/// Takes note of every child that has ended.
pub(super) fn reap(ended: &mut impl FnMut(Pid, WaitStatus)) -> Left {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) => return Left::Somebody,
            Err(Errno::INTR) => {}
            Err(_) => return Left::Nobody,
        }
    }
}
