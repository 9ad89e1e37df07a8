//! Landlock: the kernel's own rules about what a process and its descendants may open.

use std::{io, os::fd::AsFd, path::Path, thread};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use super::{
    Network,
    message::{Plan, Walls},
};

/// The newest rules that this code was tested with.
const TESTED: ABI = ABI::V6;

/// Devices that hold nothing, and the one that says who may use which terminal.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Places that bubblewrap makes anew, so that what is in them is the agent's own.
const OWN_PLACES: [&str; 2] = ["/tmp", "/dev/shm"];
const OWN_TERMINALS: [&str; 3] = ["/dev/pts", "/dev/ptmx", "/dev/tty"];

/// Which version of Landlock the kernel has.
pub(super) fn version() -> Option<i32> {
    // Only a restriction tells, so a thread is restricted that ends with it.
    let asked = thread::spawn(|| {
        let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock)?.create()?;
        ruleset.restrict_self()
    });
    match asked.join().ok()?.ok()?.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            Some(kernel_abi.unwrap_or(effective_abi as i32))
        }
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => None,
    }
}

/// The rules of a plan. They bind nobody until [`restrict`].
pub(super) fn rules(plan: &Plan, workspace: impl AsFd) -> io::Result<RulesetCreated> {
    let ruleset = ruleset(plan).map_err(io::Error::other)?;
    let reading = AccessFs::from_read(TESTED);
    let terminals = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let mut rules = Rules(ruleset);
    rules.allow(workspace, writing())?;
    for path in &plan.writable {
        rules.allow_path(path, writing())?;
    }
    for path in &plan.readable {
        rules.allow_path(path, reading)?;
    }
    rules.allow_path("/proc", AccessFs::ReadFile | AccessFs::ReadDir)?;
    for device in DEVICES {
        rules.allow_path(device, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    if plan.walls == Walls::Namespaces {
        for place in OWN_PLACES {
            rules.allow_path(place, writing())?;
        }
        for terminal in OWN_TERMINALS {
            rules.allow_path(terminal, terminals)?;
        }
    }
    Ok(rules.0)
}

/// Restricts this thread and what it starts.
pub(super) fn restrict(rules: RulesetCreated) -> io::Result<()> {
    rules.restrict_self().map(drop).map_err(io::Error::other)
}

fn ruleset(plan: &Plan) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(TESTED))?
        .scope(Scope::from_all(TESTED))?;
    // In a network namespace of its own the agent may talk to itself.
    if plan.walls == Walls::Bare && plan.network == Network::Deny {
        ruleset = ruleset.handle_access(AccessNet::from_all(TESTED))?;
    }
    ruleset.create()
}

/// Everything but devices.
fn writing() -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    AccessFs::from_all(TESTED) & !devices
}

struct Rules(RulesetCreated);

impl Rules {
    /// What is not there needs no rule.
    fn allow_path(
        &mut self,
        path: impl AsRef<Path>,
        access: impl Into<BitFlags<AccessFs>>,
    ) -> io::Result<()> {
        match PathFd::new(path) {
            Ok(handle) => self.allow(handle, access.into()),
            Err(_) => Ok(()),
        }
    }

    fn allow(&mut self, handle: impl AsFd, access: BitFlags<AccessFs>) -> io::Result<()> {
        let kind = rustix::fs::fstat(&handle)?.st_mode;
        let is_directory = rustix::fs::FileType::from_raw_mode(kind).is_dir();
        let fitting = if is_directory { access } else { access & AccessFs::from_file(TESTED) };
        let rule = PathBeneath::new(handle, fitting);
        (&mut self.0).add_rule(rule).map(drop).map_err(io::Error::other)
    }
}
