//! What the supervisor gives up, for itself and everything below it, and the limits it takes on.

use std::io;

use rustix::{
    process::{Resource, Rlimit, getrlimit, getuid, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    },
};

use super::{ProcessLimits, message::Walls};

/// Between SIGXCPU and SIGKILL.
const CPU_GRACE_SECONDS: u64 = 5;

/// Gives up every capability and every way to get one back. Root is then a user like others.
pub(super) fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        // Those that the kernel does not know, and all of them for whoever has none to give up.
        remove_capability_from_bounding_set(capability).ok();
    }
    clear_ambient_capability_set().ok();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Limits this process and all that it starts.
pub(super) fn limit(limits: &ProcessLimits, walls: Walls) -> io::Result<()> {
    // The name of a core file is a place outside of the cage.
    lower(Resource::Core, 0, 0)?;
    if let Some(bytes) = limits.memory_bytes {
        lower(Resource::Data, bytes, bytes)?;
    }
    if let Some(seconds) = limits.cpu_seconds {
        lower(Resource::Cpu, seconds, seconds.saturating_add(CPU_GRACE_SECONDS))?;
    }
    if let Some(files) = limits.open_files {
        lower(Resource::Nofile, files, files)?;
    }
    if let Some(processes) = limits.processes {
        // In a user namespace only its own processes count; else all of the user's do.
        let others = if walls == Walls::Bare { threads_of_user() } else { 0 };
        let most = processes.saturating_add(others);
        lower(Resource::Nproc, most, most)?;
    }
    Ok(())
}

/// Never above what is allowed already.
fn lower(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let allowed = getrlimit(resource).maximum;
    let within = |value: u64| Some(allowed.map_or(value, |allowed| value.min(allowed)));
    Ok(setrlimit(resource, Rlimit { current: within(soft), maximum: within(hard) })?)
}

/// How many threads this user runs on the machine.
fn threads_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;

    let user = getuid().as_raw();
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let own = entries.flatten().filter(|entry| {
        let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        is_process && entry.metadata().is_ok_and(|metadata| metadata.uid() == user)
    });
    let threads = own.map(|process| {
        let tasks = std::fs::read_dir(process.path().join("task"));
        tasks.map_or(0, |tasks| tasks.count() as u64)
    });
    threads.sum()
}
