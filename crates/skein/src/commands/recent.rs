//! The last session of each directory, kept in the home and never in the directory.

use std::{fs, io::ErrorKind, os::unix::fs::DirBuilderExt, path::PathBuf};

use serde::{Deserialize, Serialize};
use skein_core::model::Sha256Hash;

use super::{Context, place::Place};
use crate::{
    failure::{Exit, Failure},
    home, output,
};

/// Longer than any record that is written here.
const MAX_BYTES: u64 = 64 * 1024;

/// Where the last session of one directory is noted.
#[derive(Debug, Clone)]
pub(super) struct Recent {
    file: PathBuf,
    directory: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    /// For people who look into the file.
    directory: String,
    session_id: String,
}

impl Recent {
    /// Another server has other sessions.
    pub(super) fn new(context: &Context, place: &Place) -> Self {
        let server = context.environment.get("SKEIN_URL").unwrap_or_default();
        let directory = place.root.display().to_string();
        let key = Sha256Hash::of_parts([server.as_bytes(), b"\0", directory.as_bytes()]);
        Self { file: context.home.path().join("recent").join(format!("{key}.json")), directory }
    }

    pub(super) fn find(&self) -> Result<String, Failure> {
        let unreadable = |error: Box<dyn std::error::Error + Send + Sync>| {
            Failure::new(Exit::Failed, format!("cannot read {}", self.file.display()))
                .because(error)
                .hint("name the session with its id")
        };
        match fs::metadata(&self.file) {
            Ok(meta) if meta.len() > MAX_BYTES => return Err(unreadable("it is too large".into())),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let message = format!("no session was begun in {}", self.directory);
                return Err(Failure::new(Exit::NotFound, message)
                    .hint("begin one with skein ask, or name one with its id"));
            }
            Err(error) => return Err(unreadable(error.into())),
        }
        let text = fs::read(&self.file).map_err(|error| unreadable(error.into()))?;
        let record: Record =
            serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))?;
        Ok(record.session_id)
    }

    /// A note that cannot be made only costs the comfort of `--continue`.
    pub(super) fn note(&self, session: &str) {
        let record = Record { directory: self.directory.clone(), session_id: session.to_owned() };
        let written = serde_json::to_vec(&record).map_err(Into::into).and_then(|text| {
            let folder = self.file.parent().unwrap_or(&self.file);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            home::write_private(&self.file, &text)
        });
        if let Err(error) = written {
            output::note(&format!("warning: the session is not remembered here: {error}"));
        }
    }
}
