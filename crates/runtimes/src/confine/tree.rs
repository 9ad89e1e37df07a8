//! Every process below this one, found by looking, because a process that detached itself is nobody's child for long.

use std::{collections::HashSet, fs, thread, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait},
};

/// Between two looks at processes that were killed and are not gone yet.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Sends a signal to every descendant. Each gets it the moment it is seen, so that one which forks and ends, over and
/// over, has little time to be somebody else.
pub(super) fn signal_all(signal: Signal) {
    let mut pids: Vec<i32> = match fs::read_dir("/proc") {
        Ok(entries) => {
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
        }
        Err(_) => return,
    };
    // Parents mostly come before their children; those that do not are found by the next round.
    pids.sort_unstable();
    let mut tree = HashSet::from([getpid().as_raw_nonzero().get()]);
    let mut grown = true;
    while grown {
        grown = false;
        for pid in &pids {
            if tree.contains(pid) || !parent(*pid).is_some_and(|parent| tree.contains(&parent)) {
                continue;
            }
            tree.insert(*pid);
            grown = true;
            if let Some(pid) = Pid::from_raw(*pid) {
                // It may have ended by itself.
                kill_process(pid, signal).ok();
            }
        }
    }
}

/// Kills every descendant and waits until none is left. Needs this process to be their reaper.
pub(super) fn kill_all(mut ended: impl FnMut(Pid, WaitStatus)) {
    loop {
        signal_all(Signal::KILL);
        if reap(&mut ended) == Left::Nobody {
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
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

/// The fourth field of `stat`; the second is a name in brackets that may contain anything.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}
