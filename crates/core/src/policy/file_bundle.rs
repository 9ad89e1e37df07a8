//! From what a model proposes to files that may be written.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::Deserialize;
use similar::TextDiff;

use crate::{
    model::{FileAction, FileBundle, FileChange, Sha256Hash},
    policy::active_files::normal_path,
};

/// More than this is not an edit.
const MAX_FILES: usize = 200;

/// The arguments of a `propose_files` call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    files: Vec<ProposedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposedFile {
    path: String,
    action: FileAction,
    #[serde(default)]
    content: Option<String>,
}

/// The version of a file that the model was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub sha256: Sha256Hash,
    /// None when only its hash is known.
    pub content: Option<Arc<str>>,
}

/// Reads a call's arguments. The reason is for the turn's warnings.
pub fn parse(arguments: &str) -> Result<Proposal, String> {
    let mut proposal: Proposal =
        serde_json::from_str(arguments).map_err(|error| error.to_string())?;
    if proposal.files.is_empty() {
        return Err("it names no file".to_owned());
    }
    if proposal.files.len() > MAX_FILES {
        return Err(format!("it names {} files, the limit is {MAX_FILES}", proposal.files.len()));
    }
    let mut seen = HashSet::new();
    for file in &mut proposal.files {
        file.path = normal_path(&file.path).map_err(|error| error.to_string())?;
        if !seen.insert(file.path.clone()) {
            return Err(format!("it names {:?} twice", file.path));
        }
        match (file.action, &file.content) {
            (FileAction::Create | FileAction::Update, None) => {
                return Err(format!("it has no content for {:?}", file.path));
            }
            (FileAction::Create | FileAction::Update, Some(_)) | (FileAction::Delete, _) => {}
        }
    }
    Ok(proposal)
}

impl Proposal {
    /// The files that are named, so that the versions which the model saw can be found.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    /// The bundle, with a warning for each file that the model never saw and yet wants to change.
    pub fn bundle(self, bases: &HashMap<String, Base>) -> (FileBundle, Vec<String>) {
        let mut warnings = Vec::new();
        let change = |file: ProposedFile| {
            let base = bases.get(&file.path);
            let action = match (file.action, base) {
                // What the model was shown is there already.
                (FileAction::Create, Some(_)) => FileAction::Update,
                (action, _) => action,
            };
            if base.is_none() && action != FileAction::Create {
                let path = &file.path;
                warnings.push(format!("the agent changes {path:?}, which it was not shown"));
            }
            let content = file.content.filter(|_| action != FileAction::Delete);
            let diff = diff(&file.path, base, content.as_deref(), action);
            let base_hash = base.map(|base| base.sha256);
            FileChange { path: file.path, action, base_hash, content, diff }
        };
        let files = self.files.into_iter().map(change).collect();
        (FileBundle { files }, warnings)
    }
}

fn diff(
    path: &str,
    base: Option<&Base>,
    content: Option<&str>,
    action: FileAction,
) -> Option<String> {
    let before = match (base, action) {
        (Some(base), _) => base.content.as_deref()?,
        (None, FileAction::Create) => "",
        (None, FileAction::Update | FileAction::Delete) => return None,
    };
    let (old, new) = (format!("a/{path}"), format!("b/{path}"));
    let (old, new) = match action {
        FileAction::Create => ("/dev/null", new.as_str()),
        FileAction::Update => (old.as_str(), new.as_str()),
        FileAction::Delete => (old.as_str(), "/dev/null"),
    };
    let lines = TextDiff::from_lines(before, content.unwrap_or_default());
    Some(lines.unified_diff().header(old, new).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_or_escaping_calls_are_refused_with_a_reason() {
        for (arguments, reason) in [
            ("{", "EOF"),
            (r#"{"files":[]}"#, "no file"),
            (r#"{"files":[{"path":"../x","action":"create","content":""}]}"#, "outside"),
            (r#"{"files":[{"path":"/x","action":"delete"}]}"#, "outside"),
            (r#"{"files":[{"path":"src/","action":"delete"}]}"#, "not a directory"),
            (r#"{"files":[{"path":"a","action":"update"}]}"#, "no content"),
            (r#"{"files":[{"path":"a","action":"move","content":""}]}"#, "unknown variant"),
            (
                r#"{"files":[{"path":"a","action":"delete"},{"path":"a","action":"delete"}]}"#,
                "twice",
            ),
            (
                r#"{"files":[{"path":"a/b","action":"delete"},{"path":"./a//b","action":"delete"}]}"#,
                "twice",
            ),
        ] {
            let refused = parse(arguments).unwrap_err();
            assert!(refused.contains(reason), "{arguments}: {refused}");
        }
    }

    #[test]
    fn a_bundle_has_the_base_that_the_model_saw_and_the_difference_to_it() {
        let content: Arc<str> = Arc::from("one\ntwo\n");
        let sha256 = Sha256Hash::of(content.as_bytes());
        let bases = HashMap::from([("a".to_owned(), Base { sha256, content: Some(content) })]);
        let proposal = parse(
            r#"{"files":[{"path":"a","action":"create","content":"one\n2\n"},
                {"path":"b","action":"create","content":"new\n"},
                {"path":"c","action":"delete","content":"ignored"}]}"#,
        )
        .unwrap();

        let (bundle, warnings) = proposal.bundle(&bases);

        let change = |path: &str, action, base_hash, content: Option<&str>, diff: Option<&str>| {
            let (content, diff) = (content.map(str::to_owned), diff.map(str::to_owned));
            FileChange { path: path.to_owned(), action, base_hash, content, diff }
        };
        let updated = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
        let created = "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+new\n";
        let expected = [
            change("a", FileAction::Update, Some(sha256), Some("one\n2\n"), Some(updated)),
            change("b", FileAction::Create, None, Some("new\n"), Some(created)),
            change("c", FileAction::Delete, None, None, None),
        ];
        assert_eq!(bundle.files, expected);
        assert_eq!(warnings, [r#"the agent changes "c", which it was not shown"#]);
    }
}
