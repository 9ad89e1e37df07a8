//! Which files a request brings along, and what becomes of each.

use std::{collections::HashSet, sync::Arc};

use crate::{
    Error,
    model::{FileFate, Sha256Hash, TurnFile},
    policy::delta::GivenFile,
};

/// Larger files are skipped; one of exactly this size is sent.
pub const MAX_FILE_BYTES: u64 = 102_400;

/// As long as Linux lets a path be.
const MAX_PATH_BYTES: usize = 4096;

/// A file as a client names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActiveFile {
    pub path: String,
    /// May be left out only above [`MAX_FILE_BYTES`].
    pub content: Option<String>,
    pub content_hash: Option<String>,
    pub size_bytes: Option<u64>,
    pub is_touched: bool,
    pub is_open: bool,
    pub is_named: bool,
}

/// Checks every file and records what it is; whether it is sent depends on the agent.
pub fn check(files: Vec<ActiveFile>, max_files: usize) -> Result<Vec<GivenFile>, Error> {
    if files.len() > max_files {
        let (size, limit) = (files.len() as u64, max_files as u64);
        return Err(Error::TooLarge { what: "activeFiles", size, limit });
    }
    let mut seen = HashSet::with_capacity(files.len());
    let mut checked = Vec::with_capacity(files.len());
    for mut file in files {
        file.path = normal_path(&file.path)?;
        if !seen.insert(file.path.clone()) {
            let reason = format!("{:?} is listed twice", file.path);
            return Err(Error::Invalid { field: "activeFiles", reason });
        }
        checked.push(check_file(file)?);
    }
    Ok(checked)
}

/// The one spelling of a path: `./a//b` is `a/b`. Files are told apart by it.
///
/// It stays inside the workspace by its own words: relative, and never upwards.
pub fn normal_path(path: &str) -> Result<String, Error> {
    if path.len() > MAX_PATH_BYTES {
        let (size, limit) = (path.len() as u64, MAX_PATH_BYTES as u64);
        return Err(Error::TooLarge { what: "activeFiles.path", size, limit });
    }
    let is_step = |step: &&str| !step.is_empty() && *step != ".";
    let normal = path.split('/').filter(is_step).collect::<Vec<_>>().join("/");
    let names_folder = !path.split('/').next_back().is_some_and(|last| is_step(&last));
    let is_absolute = path.starts_with('/') && !normal.is_empty();
    let drive = normal.as_bytes().get(1) == Some(&b':');
    let escapes = normal.split(['/', '\\']).any(|part| part == "..");
    if is_absolute || normal.starts_with(['\\', '~']) || drive || escapes {
        return Err(Error::PathOutsideWorkspace { path: path.chars().take(256).collect() });
    }
    if names_folder || path.contains('\0') {
        let reason = "must name a file, not a directory, and not contain NUL characters".to_owned();
        return Err(Error::Invalid { field: "activeFiles.path", reason });
    }
    Ok(normal)
}

fn check_file(file: ActiveFile) -> Result<GivenFile, Error> {
    let given = file.content_hash.as_deref().map(parse_hash).transpose()?;
    let (sha256, size_bytes, fate, reason) = match &file.content {
        Some(content) => {
            let actual = Sha256Hash::of(content.as_bytes());
            if given.is_some_and(|given| given != actual) {
                return Err(Error::HashMismatch { path: file.path });
            }
            let size = content.len() as u64;
            if file.size_bytes.is_some_and(|given| given != size) {
                let reason = format!("the content of {:?} has {size} bytes", file.path);
                return Err(Error::Invalid { field: "activeFiles.sizeBytes", reason });
            }
            let (fate, reason) = fate_of(content, size);
            (actual, size, fate, reason)
        }
        None => {
            let size = file.size_bytes.unwrap_or(0);
            if i64::try_from(size).is_err() {
                let reason = "is larger than any file".to_owned();
                return Err(Error::Invalid { field: "activeFiles.sizeBytes", reason });
            }
            if size <= MAX_FILE_BYTES {
                let path = &file.path;
                let reason = format!(
                    "{path:?} has none; only over {MAX_FILE_BYTES} bytes it may be left out"
                );
                return Err(Error::Invalid { field: "activeFiles.content", reason });
            }
            let sha256 = given.unwrap_or(Sha256Hash::UNKNOWN);
            (sha256, size, FileFate::TooLarge, too_large(size))
        }
    };
    let is_sendable = fate == FileFate::NotUsed;
    let content = file.content.filter(|_| is_sendable).map(Arc::from);
    let file = TurnFile {
        path: file.path,
        sha256,
        size_bytes,
        is_touched: file.is_touched,
        is_open: file.is_open,
        is_named: file.is_named,
        fate,
        reason,
    };
    Ok(GivenFile { file, content })
}

fn fate_of(content: &str, size: u64) -> (FileFate, String) {
    if size > MAX_FILE_BYTES {
        (FileFate::TooLarge, too_large(size))
    } else if content.contains('\0') {
        (FileFate::Binary, "contains NUL bytes".to_owned())
    } else {
        (FileFate::NotUsed, "this agent takes no files".to_owned())
    }
}

fn too_large(size: u64) -> String {
    format!("{size} bytes, the limit is {MAX_FILE_BYTES}")
}

fn parse_hash(text: &str) -> Result<Sha256Hash, Error> {
    text.parse().map_err(|_| Error::Invalid {
        field: "activeFiles.contentHash",
        reason: "must be a SHA-256 in lower-case hex".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> ActiveFile {
        ActiveFile {
            path: path.to_owned(),
            content: Some(content.to_owned()),
            ..Default::default()
        }
    }

    /// Of one file that is refused.
    fn wrong_field(file: ActiveFile) -> &'static str {
        match check(vec![file], 10) {
            Err(Error::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn paths_that_leave_the_workspace_are_refused() {
        for path in [
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a\\..\\b",
            "C:\\x",
            "./C:\\x",
            "~/x",
            ".//~/x",
            "\\\\host\\x",
        ] {
            let refused = check(vec![file(path, "")], 10);
            assert!(matches!(refused, Err(Error::PathOutsideWorkspace { .. })), "{path}");
        }
        for path in ["src/a.rs", "..a/b", "a..b", "...", ".github/x"] {
            assert!(check(vec![file(path, "")], 10).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_file_is_kept_by_the_one_spelling_of_its_path() {
        let written = ["a.rs", "./b.rs", "src//c.rs", "./src/./d.rs", "..e/.f"];

        let files = written.iter().map(|path| file(path, "")).collect();
        let kept: Vec<_> =
            check(files, 10).unwrap().into_iter().map(|given| given.file.path).collect();

        assert_eq!(kept, ["a.rs", "b.rs", "src/c.rs", "src/d.rs", "..e/.f"]);
    }

    #[test]
    fn a_file_of_exactly_the_limit_is_kept_and_a_larger_one_is_too_large() {
        let limit = usize::try_from(MAX_FILE_BYTES).unwrap();

        let planned =
            check(vec![file("a", &"x".repeat(limit)), file("b", &"x".repeat(limit + 1))], 10)
                .unwrap();

        let fates: Vec<_> = planned.iter().map(|given| given.file.fate).collect();
        assert_eq!(fates, [FileFate::NotUsed, FileFate::TooLarge]);
    }

    #[test]
    fn a_large_file_needs_neither_content_nor_hash() {
        let told = |content_hash: Option<&str>| ActiveFile {
            path: "a".to_owned(),
            size_bytes: Some(MAX_FILE_BYTES + 1),
            content_hash: content_hash.map(str::to_owned),
            ..Default::default()
        };

        let unnamed = check(vec![told(None)], 10).unwrap().remove(0).file;
        let hash = Sha256Hash::of(b"x");
        let named = check(vec![told(Some(&hash.to_string()))], 10).unwrap().remove(0).file;

        assert_eq!((unnamed.fate, unnamed.known_hash()), (FileFate::TooLarge, None));
        assert_eq!((named.fate, named.known_hash()), (FileFate::TooLarge, Some(hash)));
    }

    #[test]
    fn a_size_that_is_not_the_contents_is_refused() {
        let sized = |size_bytes| ActiveFile { size_bytes: Some(size_bytes), ..file("a", "äb") };

        assert!(check(vec![sized(3)], 10).is_ok());
        for wrong in [0, 2, 4, MAX_FILE_BYTES + 1] {
            assert_eq!(wrong_field(sized(wrong)), "activeFiles.sizeBytes", "{wrong}");
        }
    }

    #[test]
    fn duplicates_wrong_hashes_missing_contents_and_too_many_files_are_refused() {
        let wrong = ActiveFile { content_hash: Some("0".repeat(64)), ..file("a", "x") };
        let missing = ActiveFile {
            path: "a".to_owned(),
            size_bytes: Some(MAX_FILE_BYTES),
            ..Default::default()
        };

        for (one, other) in [("a", "a"), ("a", "./a"), ("a/b", "a//b"), ("a/./b", "a/b")] {
            let twice = check(vec![file(one, ""), file(other, "")], 10);
            assert!(matches!(twice, Err(Error::Invalid { .. })), "{one} {other}");
        }
        for nothing in ["", ".", "./", "./.", "/", "src/", "src/."] {
            let unnamed = check(vec![file(nothing, "")], 10);
            assert!(matches!(unnamed, Err(Error::Invalid { .. })), "{nothing:?}");
        }
        let endless = check(vec![file(&"a/".repeat(2_049), "")], 10);
        assert!(matches!(endless, Err(Error::TooLarge { .. })));
        let immense = ActiveFile { size_bytes: Some(u64::MAX), ..missing.clone() };
        assert!(matches!(check(vec![immense], 10), Err(Error::Invalid { .. })));
        assert!(matches!(check(vec![wrong], 10), Err(Error::HashMismatch { .. })));
        assert_eq!(wrong_field(missing), "activeFiles.content");
        assert!(matches!(
            check((0..11).map(|n| file(&n.to_string(), "")).collect(), 10),
            Err(Error::TooLarge { .. })
        ));
    }
}
