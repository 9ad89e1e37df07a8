//! What is written together.

use std::{os::unix::fs::MetadataExt, path::Path};

use super::{Kept, NewFile};

/// A batch is written when it has one of these.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
const BATCH_FILES: usize = 512;

/// Files to be written together.
pub(crate) struct Batch<I> {
    pub new: Vec<NewFile>,
    pub kept: Vec<Kept<I>>,
    bytes: usize,
}

impl<I> Default for Batch<I> {
    fn default() -> Self {
        Self { new: Vec::new(), kept: Vec::new(), bytes: 0 }
    }
}

impl<I> Batch<I> {
    pub(crate) fn push(&mut self, file: NewFile) {
        self.bytes += file.bytes();
        self.new.push(file);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.new.len() + self.kept.len() >= BATCH_FILES
    }
}

/// What the file system takes the time to be: file times are compared with it, so no other clock will do.
pub(crate) fn file_system_time_ns(index: &Path) -> std::io::Result<i64> {
    let mut name = index.as_os_str().to_owned();
    name.push("-clock");
    let file = std::fs::File::create(&name)?;
    let meta = file.metadata();
    let _ = std::fs::remove_file(&name);
    let meta = meta?;
    Ok(meta.ctime().saturating_mul(1_000_000_000).saturating_add(meta.ctime_nsec()))
}
