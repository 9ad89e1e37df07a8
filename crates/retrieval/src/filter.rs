//! Which paths a search looks at.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Path patterns: with `*`, `?`, `[` or `{` a glob, else a file or a directory with everything below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathFilter {
    prefixes: Vec<String>,
    globs: Option<GlobSet>,
    /// For each glob the directory that everything it matches is in, if there is one.
    glob_places: Vec<Option<String>>,
    is_everywhere: bool,
}

impl PathFilter {
    pub(crate) fn new(patterns: &[String]) -> Self {
        let mut prefixes = Vec::new();
        let mut globs = GlobSetBuilder::new();
        let mut glob_places = Vec::new();
        for pattern in patterns {
            let pattern = normal(pattern);
            match glob(&pattern) {
                Some(glob) => {
                    globs.add(glob);
                    glob_places.push(place(&pattern));
                }
                None => prefixes.push(pattern),
            }
        }
        let globs = if !glob_places.is_empty() { globs.build().ok() } else { None };
        let is_everywhere = patterns.is_empty() || prefixes.iter().any(String::is_empty);
        Self { prefixes, globs, glob_places, is_everywhere }
    }

    /// Files and directories that everything wanted is in. None when it may be anywhere.
    pub(crate) fn places(&self) -> Option<Vec<&str>> {
        if self.is_everywhere {
            return None;
        }
        let of_globs = self.glob_places.iter().map(|place| place.as_deref());
        self.prefixes.iter().map(|prefix| Some(prefix.as_str())).chain(of_globs).collect()
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

/// As paths are spelled in an index: `./a//b/` is `a/b`, and `.` is nothing.
fn normal(pattern: &str) -> String {
    let steps = pattern.split('/').filter(|step| !step.is_empty() && *step != ".");
    steps.collect::<Vec<_>>().join("/")
}

/// The part of a glob before its first directory that is a pattern.
fn place(glob: &str) -> Option<String> {
    let literal = &glob[..glob.find(['*', '?', '[', '{', '\\'])?];
    literal.rfind('/').map(|end| literal[..end].to_owned())
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
        assert_eq!(matching(".//src/./deep"), ["src/deep/b.rs"]);
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
        assert_eq!(matching("src//./*.rs"), ["src/a.rs"]);
        assert_eq!(matching("*.md"), ["docs/[x].md"]);
        assert_eq!(matching("{d,a}.rs"), ["src/a.rs", "d.rs"]);
    }

    #[test]
    fn what_is_wanted_is_in_known_places_or_anywhere() {
        let places = |patterns: &[&str]| {
            let patterns: Vec<String> =
                patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            let filter = PathFilter::new(&patterns);
            filter.places().map(|places| places.join(" "))
        };

        assert_eq!(places(&["src", "a.rs"]).unwrap(), "src a.rs");
        assert_eq!(places(&["src/deep/*.rs", "docs"]).unwrap(), "docs src/deep");
        assert_eq!(places(&["src/de*/a.rs"]).unwrap(), "src");
        assert_eq!(places(&["src", "*.rs"]), None);
        assert_eq!(places(&["src", "."]), None);
        assert_eq!(places(&[]), None);
    }

    #[test]
    fn what_is_no_glob_is_a_path() {
        assert_eq!(matching("docs/[x"), [] as [&str; 0]);
        assert!(PathFilter::new(&[]).matches("anything"));
    }
}
