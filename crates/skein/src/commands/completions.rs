//! `skein completions`

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{cli::Cli, failure::Failure, output};

pub(super) fn run(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "skein", &mut script);
    output::data(&script)
}
