//! The sessions that the agent remembers, one file each in its home, so that another process goes on with them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// What was said in one session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Conversation {
    pub(super) id: String,
    pub(super) cwd: String,
    pub(super) said: Vec<Said>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Said {
    /// `user` or `agent`.
    pub(super) by: String,
    pub(super) text: String,
}

/// Where conversations are kept; nowhere for an agent that forgets.
#[derive(Debug)]
pub(super) struct Memory {
    directory: Option<PathBuf>,
}

impl Conversation {
    pub(super) fn add(&mut self, by: &str, text: &str) {
        self.said.push(Said { by: by.to_owned(), text: text.to_owned() });
    }

    /// One line for everything that was said.
    pub(super) fn told(&self) -> String {
        let lines: Vec<_> =
            self.said.iter().map(|said| format!("{}: {}", said.by, said.text.trim())).collect();
        lines.join("\n")
    }
}

impl Memory {
    pub(super) fn in_home(home: &Path) -> Self {
        Self { directory: Some(home.join(".scripted-agent")) }
    }

    pub(super) fn none() -> Self {
        Self { directory: None }
    }

    pub(super) fn keep(&self, conversation: &Conversation) {
        let Some(directory) = &self.directory else { return };
        let _made = fs::create_dir_all(directory);
        let text = serde_json::to_vec(conversation).expect("a conversation is JSON");
        // Whole or not at all: a kill may come in between.
        let (path, fresh) = (self.path(&conversation.id), directory.join("fresh"));
        if fs::write(&fresh, text).is_ok() {
            let _renamed = path.map(|path| fs::rename(&fresh, path));
        }
    }

    pub(super) fn recall(&self, id: &str) -> Option<Conversation> {
        serde_json::from_slice(&fs::read(self.path(id)?).ok()?).ok()
    }

    pub(super) fn all(&self) -> Vec<Conversation> {
        let entries = self.directory.as_ref().and_then(|directory| fs::read_dir(directory).ok());
        let files = entries.into_iter().flatten().flatten();
        let texts = files.filter_map(|file| fs::read(file.path()).ok());
        texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect()
    }

    /// Ids are hexadecimal; anything else is not one of ours.
    fn path(&self, id: &str) -> Option<PathBuf> {
        let is_ours = id.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '-');
        let directory = self.directory.as_ref().filter(|_| is_ours)?;
        Some(directory.join(format!("{id}.json")))
    }
}
