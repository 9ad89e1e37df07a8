//! Which paths a search looks at.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Path patterns: with `*`, `?`, `[` or `{` a glob, else a file or a directory with everything below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathFilter {
    prefixes: Vec<String>,
    globs: Option<GlobSet>,
    is_everywhere: bool,
}

impl PathFilter {
    pub(crate) fn new(patterns: &[String]) -> Self {
        let mut prefixes = Vec::new();
        let mut globs = GlobSetBuilder::new();
        let mut glob_count = 0;
        for pattern in patterns {
            let pattern = pattern.trim_start_matches("./").trim_matches('/');
            match glob(pattern) {
                Some(glob) => {
                    globs.add(glob);
                    glob_count += 1;
                }
                None => prefixes.push(pattern.to_owned()),
            }
        }
        let globs = if glob_count > 0 { globs.build().ok() } else { None };
        let is_everywhere =
            patterns.is_empty() || prefixes.iter().any(|prefix| prefix.is_empty() || prefix == ".");
        Self { prefixes, globs, is_everywhere }
    }

    pub(crate) fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        let is_below = |prefix: &String| {
            path.strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.is_everywhere
            || self.prefixes.iter().any(is_below)
            || self.globs.as_ref().is_some_and(|globs| globs.is_match(path))
    }
}

/// None when the pattern is a plain path, or no glob after all. Without a `/` it means names at any depth.
fn glob(pattern: &str) -> Option<globset::Glob> {
    if !pattern.contains(['*', '?', '[', '{']) {
        return None;
    }
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    GlobBuilder::new(&anywhere).literal_separator(true).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(pattern: &str) -> Vec<&'static str> {
        let filter = PathFilter::new(&[pattern.to_owned()]);
        let paths = ["src/a.rs", "src/deep/b.rs", "srcs/c.rs", "d.rs", "docs/[x].md"];
        paths.into_iter().filter(|path| filter.matches(path)).collect()
    }

    #[test]
    fn a_path_means_itself_and_what_is_below_it() {
        assert_eq!(matching("src"), ["src/a.rs", "src/deep/b.rs"]);
        assert_eq!(matching("./src/deep/"), ["src/deep/b.rs"]);
        assert_eq!(matching("d.rs"), ["d.rs"]);
        assert_eq!(
            matching("."),
            ["src/a.rs", "src/deep/b.rs", "srcs/c.rs", "d.rs", "docs/[x].md"]
        );
    }

    #[test]
    fn a_glob_means_what_it_matches() {
        assert_eq!(matching("src/*.rs"), ["src/a.rs"]);
        assert_eq!(matching("src/**/*.rs"), ["src/a.rs", "src/deep/b.rs"]);
        assert_eq!(matching("*.md"), ["docs/[x].md"]);
        assert_eq!(matching("{d,a}.rs"), ["src/a.rs", "d.rs"]);
    }

    #[test]
    fn what_is_no_glob_is_a_path() {
        assert_eq!(matching("docs/[x"), [] as [&str; 0]);
        assert!(PathFilter::new(&[]).matches("anything"));
    }
}
