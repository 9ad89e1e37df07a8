//! The agent's environment: a few variables of ours, its own, and nothing else.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// Where programs are looked for when nobody says.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What is handed on from Skein's own environment, besides `LC_*`.
const INHERITED: [&str; 14] = [
    "PATH",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TZ",
    "NO_COLOR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Handed on too; each names a file or directory that must then be readable.
const CERTIFICATES: [&str; 6] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
];

/// Where temporary files go, below the home.
pub(super) const TEMPORARY: &str = ".cache/tmp";

/// Every variable of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Ours, then those about the home, then the agent's own.
    pub(super) fn new(home: &Path, own: Vec<(String, String)>) -> Self {
        Self::from_inherited(std::env::vars_os(), home, own)
    }

    fn from_inherited(
        inherited: impl Iterator<Item = (OsString, OsString)>,
        home: &Path,
        own: Vec<(String, String)>,
    ) -> Self {
        let mut variables: BTreeMap<_, _> =
            inherited.filter(|(name, _)| is_inherited(name)).collect();
        variables.entry("PATH".into()).or_insert_with(|| USUAL_PATH.into());
        let places = [
            ("HOME", ""),
            ("TMPDIR", TEMPORARY),
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
        ];
        for (name, place) in places {
            let value = if place.is_empty() { home.to_owned() } else { home.join(place) };
            variables.insert(name.into(), value.into());
        }
        variables.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
        Self(variables)
    }

    pub(super) fn path(&self) -> Option<&OsStr> {
        self.0.get(OsStr::new("PATH")).map(OsString::as_os_str)
    }

    /// What certificate variables point at.
    pub(super) fn certificates(&self) -> Vec<PathBuf> {
        let values = CERTIFICATES.iter().filter_map(|name| self.0.get(OsStr::new(name)));
        values.map(PathBuf::from).filter(|path| path.is_absolute()).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter()
    }
}

/// The search path of Skein itself.
pub(super) fn search_path() -> Option<OsString> {
    std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, value)| value)
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    name.starts_with("LC_") || INHERITED.contains(&name) || CERTIFICATES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_are_handed_on_and_the_agents_own_win() {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOME", "/home/me"),
            ("SKEIN_TOKEN", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("TERM", "dumb"),
        ];
        let own = vec![("TERM".to_owned(), "xterm".to_owned()), ("KEY".to_owned(), "v".to_owned())];

        let ours = ours.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let variables = Variables::from_inherited(ours.into_iter(), Path::new("/h"), own);

        let shown: Vec<_> = variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            shown,
            [
                "HOME=/h",
                "KEY=v",
                "LC_ALL=C",
                "PATH=/bin",
                "TERM=xterm",
                "TMPDIR=/h/.cache/tmp",
                "XDG_CACHE_HOME=/h/.cache",
                "XDG_CONFIG_HOME=/h/.config",
                "XDG_DATA_HOME=/h/.local/share",
                "XDG_STATE_HOME=/h/.local/state",
            ]
        );
    }
}
