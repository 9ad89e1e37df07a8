use std::{fs, os::unix::ffi::OsStrExt, path::Path, process::Command, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::*;

fn git(root: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(root)
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
}

/// A repository with one file of every kind.
fn repository() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::create_dir_all(root.join(".hidden/inner")).unwrap();
    fs::create_dir_all(root.join("build")).unwrap();
    for (path, content) in [
        ("README.md", "# A\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("src/deep/a.txt", "a\n"),
        (".hidden/one.txt", "a\n"),
        (".hidden/inner/two.txt", "a\n"),
        (".env", "TOKEN=1\n"),
        ("id_rsa", "a\n"),
        ("tls/server.pem", "a\n"),
        ("build/out.txt", "a\n"),
        (".gitignore", "build/\n"),
        ("bin.dat", "a\0b"),
    ] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), content).unwrap();
    }
    fs::write(root.join("latin.txt"), [b'a', 0xe9, b'\n']).unwrap();
    fs::write(root.join("equal.txt"), "x".repeat(102_400)).unwrap();
    fs::write(root.join("large.txt"), "x".repeat(102_401)).unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"n\xff.txt")), "a").unwrap();
    std::os::unix::fs::symlink("..", root.join("src/loop")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("passwd.txt")).unwrap();
    git(root, &["init", "-q", "-b", "main"]);
    home
}

fn expected_skips() -> Vec<(String, u64)> {
    [("binary", 1), ("hidden", 2), ("not_utf8", 2), ("secret", 3), ("symlink", 2), ("too_large", 1)]
        .map(|(reason, count)| (reason.to_owned(), count))
        .to_vec()
}

#[test]
fn the_work_tree_is_walked_and_what_is_left_out_is_counted() {
    let home = repository();
    let skipped = Arc::new(SkippedCounts::default());
    let reader = FileReader::new(home.path()).unwrap();
    let mut paths = Vec::new();

    let tree = WorkTree::new(home.path(), Arc::clone(&skipped));
    tree.walk(|found| {
        match reader.read(&found.path) {
            Ok((stat, _)) => {
                assert_eq!(found.source, Source::File(stat));
                paths.push(found.path);
            }
            Err(reason) => skipped.add(reason),
        }
        true
    })
    .unwrap();

    paths.sort();
    assert_eq!(paths, ["README.md", "equal.txt", "src/deep/a.txt", "src/main.rs"]);
    assert_eq!(skipped.by_reason().into_iter().collect::<Vec<_>>(), expected_skips());
}

#[test]
fn a_commit_gives_the_same_files_as_its_work_tree() {
    let home = repository();
    git(home.path(), &["add", "-A"]);
    git(home.path(), &["commit", "-qm", "all"]);
    fs::write(home.path().join("README.md"), "# changed later\n").unwrap();
    let git = Git::at(home.path(), CancellationToken::new()).unwrap();
    let commit = git.head().unwrap().unwrap();
    let skipped = Arc::new(SkippedCounts::default());
    let mut blobs = BlobReader::new(&git).unwrap();
    let mut files = Vec::new();

    let tree =
        CommitTree::new(git.clone(), git.commit(&commit[..12]).unwrap(), Arc::clone(&skipped));
    tree.walk(|found| {
        let Source::Blob { oid } = &found.source else { panic!("not of a commit") };
        match blobs.read(oid).unwrap() {
            Ok(content) => files.push((found.path, content.text.len())),
            Err(reason) => skipped.add(reason),
        }
        true
    })
    .unwrap();

    files.sort();
    let expected =
        [("README.md", 4), ("equal.txt", 102_400), ("src/deep/a.txt", 2), ("src/main.rs", 13)];
    assert_eq!(files, expected.map(|(path, size)| (path.to_owned(), size)));
    assert_eq!(skipped.by_reason().into_iter().collect::<Vec<_>>(), expected_skips());
}

#[test]
fn what_is_no_commit_is_unknown() {
    let home = repository();
    git(home.path(), &["add", "README.md"]);
    git(home.path(), &["commit", "-qm", "one"]);
    let git = Git::at(home.path(), CancellationToken::new()).unwrap();

    for name in ["0000000000000000000000000000000000000000", "main", "--help", "HEAD", "", "abc"] {
        assert!(matches!(git.commit(name), Err(GitError::UnknownCommit(_))), "{name}");
    }
}

#[test]
fn a_directory_without_git_is_no_work_tree() {
    let home = tempfile::tempdir().unwrap();

    let refused = Git::at(home.path(), CancellationToken::new());

    assert!(matches!(refused, Err(GitError::NotARepository(_))));
}

#[test]
fn a_repository_cannot_run_anything() {
    let home = repository();
    let root = home.path();
    git(root, &["add", "README.md"]);
    git(root, &["commit", "-qm", "one"]);
    let trap = root.join("sprung");
    let command = format!("touch {}", trap.display());
    for key in
        ["core.fsmonitor", "core.pager", "core.sshCommand", "alias.rev-parse", "alias.ls-tree"]
    {
        git(root, &["config", key, &format!("!{command}")]);
    }
    git(root, &["config", "core.fsmonitor", &command]);

    let asked = Git::at(root, CancellationToken::new()).unwrap();
    let commit = asked.head().unwrap().unwrap();
    CommitTree::new(asked, commit, Arc::default()).walk(|_| true).unwrap();

    assert!(!trap.exists());
}

#[test]
fn a_nested_repository_is_left_out() {
    let home = repository();
    let inner = home.path().join("vendor/inner");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join("a.rs"), "fn a() {}\n").unwrap();
    git(&inner, &["init", "-q"]);
    let skipped = Arc::new(SkippedCounts::default());

    let mut paths = Vec::new();
    let tree = WorkTree::new(home.path(), Arc::clone(&skipped));
    tree.walk(|found| {
        paths.push(found.path);
        true
    })
    .unwrap();

    assert!(!paths.iter().any(|path| path.starts_with("vendor")));
    assert_eq!(skipped.by_reason().get("nested_repository"), Some(&1));
}

#[test]
fn a_huge_file_and_a_pipe_are_left_out_without_being_read() {
    let home = tempfile::tempdir().unwrap();
    let huge = fs::File::create(home.path().join("huge.bin")).unwrap();
    huge.set_len(2 * 1024 * 1024 * 1024).unwrap();
    assert!(Command::new("mkfifo").arg(home.path().join("pipe")).status().unwrap().success());
    let skipped = Arc::new(SkippedCounts::default());

    WorkTree::new(home.path(), Arc::clone(&skipped)).walk(|_| panic!("nothing is left")).unwrap();
    let reader = FileReader::new(home.path()).unwrap();

    assert_eq!(skipped.by_reason().into_values().sum::<u64>(), 2);
    assert_eq!(reader.read("pipe"), Err(Skipped::NotAFile));
    assert_eq!(reader.read("../outside"), Err(Skipped::Unreadable));
}
