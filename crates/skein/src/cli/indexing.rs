//! The commands about indexes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Register a Git work tree and index it
    #[command(
        long_about = "Register a Git work tree and index it.\n\nOn this machine that vouches for exactly this work \
                      tree, whatever the workspace root is. With SKEIN_URL the path is one of that server's, \
                      below its workspace root. Files that Git ignores, hidden, binary, secret-looking and \
                      large ones are left out and counted. Doing it again brings the index up to date.\n\nA \
                      progress bar is shown on a terminal; else progress is JSON lines on stderr. Exits with \
                      1 when the run fails."
    )]
    Add {
        /// The work tree, or a directory in it
        #[arg(default_value = ".")]
        path: PathBuf,
        /// What the repository is called [default: the name of the directory]
        #[arg(long)]
        name: Option<String>,
    },
    /// Bring an index up to date; costs what has changed
    Update {
        /// Name or path of the repository [default: the work tree around the current directory]
        repo: Option<String>,
        /// Index the tree of this commit instead of the files as they are
        #[arg(long, value_name = "SHA")]
        commit: Option<String>,
    },
    /// Show where indexes stand
    Status {
        /// Name or path of the repository [default: the one around the current directory, else all]
        repo: Option<String>,
    },
    /// Find passages; the text has no syntax
    Search(IndexSearch),
    /// Forget an index; the repository stays registered
    Remove {
        /// Name or path of the repository [default: the work tree around the current directory]
        repo: Option<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct IndexSearch {
    /// What to look for
    #[arg(required = true)]
    pub(crate) text: Vec<String>,
    /// Name or path of the repository [default: the work tree around the current directory]
    #[arg(long, value_name = "REPO")]
    pub(crate) repo: Option<String>,
    /// Only below this path, or matching this pattern
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Only of this language
    #[arg(long)]
    pub(crate) language: Option<String>,
    /// At most this many, up to 100
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
}
