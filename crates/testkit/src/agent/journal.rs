//! What happened to the agent, for a test that reads along.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

/// A file that lines are appended to, or nothing.
#[derive(Debug, Default)]
pub(super) struct Journal(Option<Mutex<File>>);

impl Journal {
    /// A journal that cannot be written is none: the agent may be confined.
    pub(super) fn open(path: Option<&Path>) -> Self {
        let open = |path| File::options().create(true).append(true).open(path).ok();
        Self(path.and_then(open).map(Mutex::new))
    }

    /// Whole lines only, so that a reader never sees a part of one.
    pub(super) fn note(&self, what: &Value) {
        if let Some(file) = &self.0 {
            let line = format!("{what}\n");
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let _written = file.write_all(line.as_bytes());
        }
    }
}
