//! The files of a repository: of its work tree as it is, or of one commit.

mod commit;
mod content;
mod git;
mod ignored;
mod reason;
mod secrets;
mod tree;

use std::path::PathBuf;

pub use self::{
    commit::{BlobReader, CommitTree},
    content::{Content, check},
    git::{Git, GitError},
    reason::{Skipped, SkippedCounts},
    tree::{FileReader, Stat, WorkTree},
};

/// 100 KB: larger files are left out, equal ones are not.
pub const MAX_FILE_BYTES: u64 = 102_400;

/// Grows when files that were indexed may no longer be: then those that have not changed are looked at again too.
pub const RULES: u32 = 1;

/// A file that may be indexed, before it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Relative to the root, with `/`.
    pub path: String,
    pub source: Source,
}

/// What tells one version of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File(Stat),
    Blob { oid: String },
}

/// Why a tree could not be walked to its end.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{} cannot be read", .0.display())]
    Root(PathBuf, #[source] std::io::Error),
    /// The receiver of the files has gone.
    #[error("the walk was stopped")]
    Stopped,
}

/// Names of files that usually hold secrets.
pub fn is_secret_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        ".netrc",
        ".pgpass",
        ".htpasswd",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        ".dockercfg",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "credentials",
        "credentials.json",
        "credentials.toml",
        "credentials.yml",
        "credentials.yaml",
        "credentials.ini",
        "credentials.xml",
        "secrets.json",
        "secrets.toml",
        "secrets.yml",
        "secrets.yaml",
        "service-account.json",
        "service_account.json",
        "client_secret.json",
        "master.key",
        "kubeconfig",
        "wp-config.php",
    ];
    const ENDINGS: &[&str] = &[
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".jks",
        ".keystore",
        ".kdbx",
        ".ppk",
        ".asc",
        ".gpg",
        ".tfstate",
        ".tfvars",
        ".ovpn",
    ];
    const TEMPLATES: &[&str] = &[".example", ".sample", ".template", ".dist"];
    let name = name.to_ascii_lowercase();
    let is_environment = name == ".env"
        || name.ends_with(".env")
        || name.starts_with(".env.") && !TEMPLATES.iter().any(|end| name.ends_with(end));
    is_environment
        || NAMES.contains(&name.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
