//! Settings that keep Git from running anything but itself.

use std::{collections::BTreeSet, ffi::OsString, os::unix::ffi::OsStringExt};

use skein_core::ports::Ids;

use crate::system::System;

/// Overrules what the work tree's own settings say.
const OVERRULED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("diff.external", ""),
    ("submodule.recurse", "false"),
    // A directory that only looks like a repository, inside of the work tree.
    ("safe.bareRepository", "explicit"),
];

const VARIABLES: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Objects that are missing stay missing: fetching them would run what the remote's settings name.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_ATTR_NOSYSTEM", "1"),
];

/// What a filter can run, and that it must.
const FILTER_KEYS: &[(&str, &str)] =
    &[("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];

/// Settings for one work tree, stronger than its own.
pub(super) struct Disarmed {
    /// A setting that nobody can guess. When Git lists it, it takes settings from variables.
    proof: String,
    /// Names need not be UTF-8.
    settings: Vec<(OsString, &'static str)>,
}

impl Disarmed {
    pub(super) fn new() -> Self {
        let proof = format!("skein.proof-{}", System.next().simple());
        let overruled = OVERRULED.iter().map(|(key, value)| (OsString::from(key), *value));
        let proven = (OsString::from(&proof), "true");
        Self { settings: overruled.chain([proven]).collect(), proof }
    }

    /// Whether Git listed the proof.
    pub(super) fn is_obeyed(&self, listed: &[u8]) -> bool {
        listed.split(|byte| *byte == 0).any(|key| key == self.proof.as_bytes())
    }

    /// To compare a file with the index, Git runs the filter that `.gitattributes` names for it. All that are
    /// set do nothing from here on.
    pub(super) fn disarm_filters(&mut self, listed: &[u8]) {
        let names: BTreeSet<_> = listed.split(|byte| *byte == 0).filter_map(filter_of).collect();
        for name in names {
            let off = FILTER_KEYS.iter().map(|(key, value)| {
                let key = [b"filter.", name, b".", key.as_bytes()].concat();
                (OsString::from_vec(key), *value)
            });
            self.settings.extend(off);
        }
    }

    /// As variables, because names of filters may hold anything, also what `-c` would take for the end of one.
    pub(super) fn variables(&self) -> Vec<(String, OsString)> {
        let fixed = VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
        let count = ("GIT_CONFIG_COUNT".to_owned(), self.settings.len().to_string().into());
        let settings = self.settings.iter().enumerate().flat_map(|(index, (key, value))| {
            [
                (format!("GIT_CONFIG_KEY_{index}"), key.clone()),
                (format!("GIT_CONFIG_VALUE_{index}"), value.into()),
            ]
        });
        fixed.chain([count]).chain(settings).collect()
    }
}

/// `lfs` of `filter.lfs.clean`; names may have dots.
fn filter_of(key: &[u8]) -> Option<&[u8]> {
    let rest = key.strip_prefix(b"filter.")?;
    let dot = rest.iter().rposition(|byte| *byte == b'.')?;
    Some(&rest[..dot])
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn every_filter_is_switched_off_whatever_its_name() {
        let mut disarmed = Disarmed::new();
        let before = disarmed.settings.len();

        disarmed.disarm_filters(
            b"core.bare\0filter.lfs.clean\0filter.a=b.\xff.process\0filter.lfs.smudge\0",
        );

        let names: Vec<_> = disarmed.settings[before..].iter().map(|(key, _)| key).collect();
        let expected: [&[u8]; 8] = [
            b"filter.a=b.\xff.clean",
            b"filter.a=b.\xff.smudge",
            b"filter.a=b.\xff.process",
            b"filter.a=b.\xff.required",
            b"filter.lfs.clean",
            b"filter.lfs.smudge",
            b"filter.lfs.process",
            b"filter.lfs.required",
        ];
        assert_eq!(names, expected.map(OsStr::from_bytes));
    }

    #[test]
    fn only_a_git_that_takes_settings_from_variables_is_trusted() {
        let disarmed = Disarmed::new();

        assert!(disarmed.is_obeyed(format!("core.bare\0{}\0", disarmed.proof).as_bytes()));
        assert!(!disarmed.is_obeyed(b"core.bare\0skein.proof-0\0"));
    }
}
