//! What is wrong with a setting, where it stands, and what would be right.

use std::path::Path;

use figment::error::Kind;

use super::origin;

/// A setting that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {}{reason}", key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
pub(crate) struct ConfigProblem {
    /// The file, variable or flag.
    pub(crate) origin: String,
    pub(crate) key: Option<String>,
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
}

impl ConfigProblem {
    pub(super) fn from_figment(error: figment::Error, file: &Path) -> Self {
        let origin = error.metadata.as_ref().map_or_else(|| file.display().to_string(), origin);
        let mut path = error.path;
        let (reason, hint) = match error.kind {
            Kind::UnknownField(name, known) => {
                if path.last() != Some(&name) {
                    path.push(name);
                }
                ("there is no such setting".to_owned(), known_names(&path, known))
            }
            Kind::UnknownVariant(name, known) => {
                (format!("{name:?} is not known here"), Some(format!("use {}", known.join(", "))))
            }
            other => (other.to_string().trim().to_owned(), None),
        };
        let key = (!path.is_empty()).then(|| path.join("."));
        Self { origin, key, reason, hint }
    }
}

fn known_names(path: &[String], known: &[&str]) -> Option<String> {
    let (_, parents) = path.split_last()?;
    let place = match parents {
        [] => "the sections are".to_owned(),
        parents => format!("[{}] has", parents.join(".")),
    };
    Some(format!("{place} {}", known.join(", ")))
}
