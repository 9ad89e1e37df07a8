//! What processes and the machine have used, as `/proc` tells it.

use std::{collections::HashMap, fs, path::Path, time::Duration};

use anyhow::Context as _;

/// The kernel's unit of time in `/proc/<pid>/stat` and `/proc/stat`; 100 a second on every Linux of today.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Processor time of a process so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cpu {
    /// Exact, but only of threads that live.
    nanos_by_thread: HashMap<String, u64>,
    /// Of all threads that ever were, rounded.
    ticks: u64,
}

impl Cpu {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let mut nanos_by_thread = HashMap::new();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?;
            // A thread may end between the listing and the reading.
            let Ok(schedstat) = fs::read_to_string(thread.path().join("schedstat")) else {
                continue;
            };
            let nanos = schedstat.split(' ').next().and_then(|nanos| nanos.parse().ok());
            let name = thread.file_name().to_string_lossy().into_owned();
            nanos_by_thread.insert(name, nanos.unwrap_or(0));
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, fields) = stat.rsplit_once(')').context("unexpected /proc/<pid>/stat")?;
        let ticks = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok());
        Ok(Self { nanos_by_thread, ticks: ticks.sum() })
    }

    /// What was used since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let nanos = self.nanos_by_thread.iter().map(|(thread, nanos)| {
            nanos.saturating_sub(earlier.nanos_by_thread.get(thread).copied().unwrap_or(0))
        });
        let exact = Duration::from_nanos(nanos.sum());
        let rounded = TICK * u32::try_from(self.ticks - earlier.ticks).unwrap_or(u32::MAX);
        // Threads that ended in between are only in the rounded figure.
        if rounded > exact + 3 * TICK { rounded } else { exact }
    }
}

/// Resident memory of a process in megabytes.
pub(crate) fn rss_megabytes(pid: u32) -> anyhow::Result<f64> {
    status_megabytes(pid, "VmRSS:")
}

/// The most that was resident since [`forget_peak`].
pub(crate) fn peak_megabytes(pid: u32) -> anyhow::Result<f64> {
    status_megabytes(pid, "VmHWM:")
}

/// From here on the peak is what is resident now.
pub(crate) fn forget_peak(pid: u32) -> anyhow::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("the peak cannot be reset")
}

fn status_megabytes(pid: u32, field: &'static str) -> anyhow::Result<f64> {
    field_megabytes(&format!("/proc/{pid}/status"), field)
}

fn field_megabytes(path: &str, field: &'static str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(path)?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse::<f64>().ok())
        .with_context(|| format!("no {field}"))?;
    Ok(kilobytes * 1024.0 / 1e6)
}

/// What is resident of a process, with its part of what it shares with others, in megabytes.
pub(crate) fn pss_megabytes(pid: u32) -> anyhow::Result<f64> {
    field_megabytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// All processes below this one.
pub(crate) fn descendants(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let id = entry.file_name().to_string_lossy().parse::<u32>();
        // It may have ended since it was listed.
        let (Ok(id), Ok(stat)) = (id, fs::read_to_string(entry.path().join("stat"))) else {
            continue;
        };
        let parent = stat.rsplit_once(')').and_then(|(_, fields)| {
            fields.split_whitespace().nth(1).and_then(|parent| parent.parse::<u32>().ok())
        });
        parents.extend(parent.map(|parent| (id, parent)));
    }
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(id, _)| *id));
        next += 1;
    }
    Ok(found.split_off(1))
}

/// Bytes of all files in a folder.
pub(crate) fn folder_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Time that all processors together were busy, since the machine started.
fn machine_busy() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let first = stat.lines().next().context("unexpected /proc/stat")?;
    let ticks: Vec<u32> =
        first.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let idle: u32 = ticks.iter().skip(3).take(2).sum();
    Ok(TICK * (ticks.iter().sum::<u32>() - idle))
}

/// Reads every clock at the start of a measurement.
pub(crate) struct Meter {
    pid: u32,
    server: Cpu,
    client: Cpu,
    machine: Duration,
    at: std::time::Instant,
}

/// What a measurement used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) wall: Duration,
    pub(crate) server: Duration,
    pub(crate) client: Duration,
    /// Processors that others kept busy meanwhile: a figure above 0.1 spoils a measurement.
    pub(crate) other_processors: f64,
}

impl Meter {
    pub(crate) fn start(pid: u32) -> anyhow::Result<Self> {
        let client = Cpu::of(std::process::id())?;
        let (machine, server) = (machine_busy()?, Cpu::of(pid)?);
        Ok(Self { pid, server, client, machine, at: std::time::Instant::now() })
    }

    pub(crate) fn stop(&self) -> anyhow::Result<Used> {
        let wall = self.at.elapsed();
        let server = Cpu::of(self.pid)?.since(&self.server);
        let client = Cpu::of(std::process::id())?.since(&self.client);
        let ours = server + client;
        let others = (machine_busy()? - self.machine).saturating_sub(ours);
        let other_processors = others.as_secs_f64() / wall.as_secs_f64();
        Ok(Used { wall, server, client, other_processors })
    }
}

/// One line on the machine.
pub(crate) fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processors} × {model}, Linux {}", release.trim())
}

/// How busy the machine was over the last 1, 5 and 15 minutes.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
