//! Which processes of an agent there are, whoever their parent is.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process with a word of a test on its command line or in its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) pid: i32,
    /// Its parent, its ids in namespaces, and where in the kernel it is.
    pub(crate) place: String,
    pub(crate) command: String,
}

impl Found {
    /// Ends it by its id.
    pub(crate) fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may be gone by now.
            let _sent = kill_process(pid, Signal::KILL);
        }
    }
}

/// All that run; those that have ended and wait for their parent have no command line. Processes of others cannot be read.
pub(crate) fn tagged(words: &[&str]) -> Vec<Found> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = pids.filter_map(|pid: i32| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
        let command = String::from_utf8_lossy(&read("cmdline")?).replace('\0', " ");
        let environment = read("environ").unwrap_or_default();
        let told = format!("{command}{}", String::from_utf8_lossy(&environment));
        let is_tagged = words.iter().any(|word| told.contains(word));
        let place = || {
            let status = String::from_utf8_lossy(&read("status").unwrap_or_default()).into_owned();
            let named = ["PPid", "NSpid", "State"];
            let lines =
                status.lines().filter(|line| named.iter().any(|name| line.starts_with(name)));
            let waits = String::from_utf8_lossy(&read("wchan").unwrap_or_default()).into_owned();
            format!("{} {waits}", lines.collect::<Vec<_>>().join(" "))
        };
        (is_tagged && !command.is_empty()).then(|| Found { pid, place: place(), command })
    });
    found.collect()
}

/// A line of `/proc/PID/status` in bytes.
pub(crate) fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let number = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    number.parse::<u64>().unwrap() * 1024
}

/// How many files a process has open.
pub(crate) fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}
