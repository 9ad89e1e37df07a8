//! What this machine has to confine agents with, and what it lacks.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use super::{Confinement, Launcher, Network, bubblewrap, landlock, message::Walls};

/// The first Landlock that keeps a process from truncating files that it may not open.
const LANDLOCK_TRUNCATES: i32 = 3;
/// The first that keeps signals and abstract sockets inside.
const LANDLOCK_SCOPES: i32 = 6;

/// What was found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// The version of Landlock in the kernel.
    pub landlock: Option<i32>,
    pub bubblewrap: Bubblewrap,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bubblewrap {
    Works {
        version: String,
        /// Older ones cannot forbid namespaces inside of theirs.
        nesting: Nesting,
    },
    /// Not installed, or switched off.
    Missing,
    /// Installed, but not allowed to do its work here.
    Fails { reason: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    Forbidden,
    Possible,
}

static FOUND: Mutex<Option<HashMap<Launcher, Support>>> = Mutex::new(None);

impl Support {
    /// Tries things out the first time, which takes some ten milliseconds.
    pub fn of(launcher: &Launcher) -> Self {
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let known = found.get_or_insert_default();
        if let Some(support) = known.get(launcher) {
            return support.clone();
        }
        let support =
            Self { landlock: landlock::version(), bubblewrap: bubblewrap::try_out(launcher) };
        known.insert(launcher.clone(), support.clone());
        support
    }

    pub(super) fn walls(&self) -> Walls {
        match self.bubblewrap {
            Bubblewrap::Works { .. } => Walls::Namespaces,
            Bubblewrap::Missing | Bubblewrap::Fails { .. } => Walls::Bare,
        }
    }

    /// One sentence per thing that cannot be had.
    pub(super) fn shortcomings(&self, confinement: &Confinement) -> Vec<String> {
        let mut sentences = Vec::new();
        let without = "the agent sees which other processes run, can change modes and times of files that it \
                       cannot open, and gets no Unix sockets and no terminals";
        match &self.bubblewrap {
            Bubblewrap::Works { .. } => {}
            Bubblewrap::Missing => {
                sentences.push(format!("bubblewrap is not installed: {without}"))
            }
            Bubblewrap::Fails { reason } => {
                sentences.push(format!("bubblewrap does not work here ({reason}): {without}"));
            }
        }
        sentences.extend(self.landlock_shortcoming(confinement.network));
        if confinement.limits.processes.is_some() && rustix::process::getuid().is_root() {
            sentences.push("the number of processes cannot be limited for root".to_owned());
        }
        sentences
    }

    fn landlock_shortcoming(&self, network: Network) -> Option<String> {
        let sentence = match (self.landlock, self.walls()) {
            (None, Walls::Bare) => {
                "neither bubblewrap nor Landlock can be had: nothing keeps the agent in its directory"
                    .to_owned()
            }
            (None, Walls::Namespaces) => {
                "this kernel has no Landlock: only bubblewrap keeps the agent in its directory".to_owned()
            }
            (Some(version), Walls::Bare) if version < LANDLOCK_TRUNCATES => format!(
                "this kernel has version {version} of Landlock: the agent can truncate files that it cannot open, \
                 and signal processes that are not its own"
            ),
            (Some(version), Walls::Bare) if version < LANDLOCK_SCOPES => format!(
                "this kernel has version {version} of Landlock: the agent can signal processes that are not its own"
            ),
            (Some(version), Walls::Namespaces)
                if version < LANDLOCK_SCOPES && network == Network::Allow =>
            {
                format!(
                    "this kernel has version {version} of Landlock: the agent can connect to abstract Unix sockets \
                     that are not its own"
                )
            }
            (Some(_), _) => return None,
        };
        Some(sentence)
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match (&self.bubblewrap, self.landlock) {
            (Bubblewrap::Missing, _) => "apt install bubblewrap, or your system's equivalent",
            (Bubblewrap::Fails { .. }, _) => {
                "allow user namespaces to this user: sysctl kernel.unprivileged_userns_clone=1, or a profile for bwrap"
            }
            (Bubblewrap::Works { .. }, None) => {
                "boot a kernel of 5.13 or newer with landlock in its lsm= list"
            }
            (Bubblewrap::Works { .. }, Some(_)) => "use a newer kernel",
        }
    }
}
