//! `skein __confine`: what the server starts around an agent. It talks to the server over its standard input.

use std::process::ExitCode;

use skein_runtimes::confine;

/// Becomes the supervisor of an agent, or, when only asked whether it could, says where it is.
pub(crate) fn run(probe: bool) -> ExitCode {
    match probe {
        true => confine::locate(),
        false => confine::supervise(),
    }
}
