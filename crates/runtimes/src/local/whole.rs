//! "What is this?": the beginning of the README, and the manifest.

use skein_core::ports::{Chunk, LookFor};

const READMES: &[&str] = &[
    "README.md",
    "Readme.md",
    "readme.md",
    "README",
    "README.rst",
    "README.txt",
    "README.adoc",
    "README.markdown",
];
const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "go.mod",
    "pom.xml",
    "setup.py",
    "setup.cfg",
    "composer.json",
    "Gemfile",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
];
/// A first passage of fewer lines says little: what follows it is shown too.
const FEW_LINES: u32 = 8;
/// Every passage of a long README, so that the first is among them.
const LIMIT: u32 = 64;

/// Files at the root only.
pub(super) fn look_for() -> LookFor {
    let names = READMES.iter().chain(MANIFESTS);
    LookFor {
        text: "readme cargo toml package json pyproject go mod pom xml setup manifest".to_owned(),
        paths: names.map(|name| (*name).to_owned()).collect(),
        limit: LIMIT,
    }
}

/// The beginning of the README, then that of the manifest.
pub(super) fn choose(mut found: Vec<Chunk>) -> Vec<Chunk> {
    found.sort_by_key(|chunk| chunk.start_line);
    let of = |names: &'static [&'static str], most: usize| {
        let name = names.iter().find(|name| found.iter().any(|chunk| chunk.path == **name));
        let passages = found.iter().filter(move |chunk| Some(&chunk.path.as_str()) == name);
        passages.take(most).cloned().collect::<Vec<_>>()
    };
    let mut chosen = of(READMES, 2);
    if chosen.first().is_some_and(|first| first.end_line - first.start_line >= FEW_LINES) {
        chosen.truncate(1);
    }
    chosen.extend(of(MANIFESTS, 1));
    chosen
}

pub(super) fn is_manifest(path: &str) -> bool {
    MANIFESTS.contains(&path)
}
