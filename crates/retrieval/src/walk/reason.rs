//! Why files are left out, and how many.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// Why a file is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skipped {
    /// Its name, or that of a directory above it, begins with a dot.
    Hidden,
    /// Git ignores it, or the directory above it: that counts as one.
    Ignored,
    /// It has a NUL byte.
    Binary,
    TooLarge,
    /// Its name or its content looks like a secret.
    Secret,
    /// Its name or its content.
    NotUtf8,
    Unreadable,
    /// Links are not followed.
    Symlink,
    /// A device, a pipe or a socket.
    NotAFile,
    /// Another repository inside of this one.
    NestedRepository,
}

impl Skipped {
    const ALL: [Self; 10] = [
        Self::Hidden,
        Self::Ignored,
        Self::Binary,
        Self::TooLarge,
        Self::Secret,
        Self::NotUtf8,
        Self::Unreadable,
        Self::Symlink,
        Self::NotAFile,
        Self::NestedRepository,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Ignored => "ignored",
            Self::Binary => "binary",
            Self::TooLarge => "too_large",
            Self::Secret => "secret",
            Self::NotUtf8 => "not_utf8",
            Self::Unreadable => "unreadable",
            Self::Symlink => "symlink",
            Self::NotAFile => "not_a_file",
            Self::NestedRepository => "nested_repository",
        }
    }
}

/// How many files were left out; may be counted by several threads.
#[derive(Debug, Default)]
pub struct SkippedCounts([AtomicU64; Skipped::ALL.len()]);

impl SkippedCounts {
    pub fn add(&self, reason: Skipped) {
        if let Some(at) = Skipped::ALL.iter().position(|known| *known == reason) {
            self.0[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Those that occurred.
    pub fn by_reason(&self) -> BTreeMap<String, u64> {
        let counts = Skipped::ALL.iter().zip(&self.0);
        counts
            .map(|(reason, count)| (reason.name().to_owned(), count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}
