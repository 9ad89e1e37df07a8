//! Why a command did not succeed, and the exit code that says so to scripts.

use std::{error::Error as StdError, fmt};

use crate::config::ConfigProblem;

/// What a caller of the program can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Success = 0,
    /// A turn failed, something is broken, or what happened was not foreseen.
    Failed = 1,
    /// The command line, a setting or the request is wrong.
    Usage = 2,
    NotFound = 3,
    /// The token is missing, wrong or not allowed to do this.
    Auth = 4,
    /// Something is in the way: a running turn, another state, another server on the same home.
    Conflict = 5,
    /// Try again later.
    Unavailable = 6,
    Interrupted = 130,
}

/// What is printed as `error:`, its causes, and `hint:`.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) cause: Option<Box<dyn StdError + Send + Sync>>,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), cause: None, hint: None }
    }

    pub(crate) fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Ctrl-C: nothing needs to be said.
    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted")
    }

    /// The causes, outermost first. Errors that only repeat their source are left out.
    pub(crate) fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        let mut next: Option<&dyn StdError> = match &self.cause {
            Some(cause) => Some(cause.as_ref()),
            None => None,
        };
        while let Some(error) = next {
            let text = error.to_string();
            if causes.last() != Some(&text) {
                causes.push(text);
            }
            next = error.source();
        }
        causes
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ConfigProblem> for Failure {
    fn from(problem: ConfigProblem) -> Self {
        let failure = Self::new(Exit::Usage, problem.to_string());
        match problem.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
