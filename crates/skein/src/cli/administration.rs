//! The commands of those who look after an installation or an organisation.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List what was done, oldest first
    List {
        /// Begin after this number; 0 is the start of the log
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// At most this many, up to 200
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Check the whole log; exits with 1 and names the first line that is not as it was written
    Verify {
        /// A head that was kept elsewhere: the log must still contain it
        #[arg(long, value_name = "NUMBER:HASH")]
        seen: Option<String>,
    },
    /// Check the log and print its newest sealed line as NUMBER:HASH, to be kept elsewhere
    Head,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user; the secret of their token is shown once
    Add {
        /// What they are called
        name: String,
        /// What they may do
        #[arg(long, default_value = "member")]
        role: UserRole,
        /// The organisation's id [default: your own]
        #[arg(long, value_name = "ID")]
        org: Option<String>,
    },
    /// List the users of your organisation, oldest first
    List {
        /// At most this many, up to 200
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Go on from the nextCursor of the page before
        #[arg(long)]
        cursor: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UserRole {
    Viewer,
    Member,
    Admin,
    Owner,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OrgCommand {
    /// Make an organisation; only the owner of the server may
    Add {
        /// What it is called
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// Register a Git work tree under the server's workspace root
    Add {
        /// Its directory
        path: PathBuf,
        /// What it is called [default: the name of the directory]
        #[arg(long)]
        name: Option<String>,
    },
    /// List the repositories of your organisation, oldest first
    List {
        /// At most this many, up to 200
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Go on from the nextCursor of the page before
        #[arg(long)]
        cursor: Option<String>,
    },
}
