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
    let mut counted = skipped.by_reason();
    assert_eq!(counted.remove("ignored"), Some(1), "a directory counts as one");
    assert_eq!(counted.into_iter().collect::<Vec<_>>(), expected_skips());
}

/// The paths that a walk of the work tree gives, with what it leaves out.
fn walked(root: &Path) -> (Vec<String>, std::collections::BTreeMap<String, u64>) {
    let skipped = Arc::new(SkippedCounts::default());
    let git = Git::at(root, CancellationToken::new()).unwrap();
    let mut paths = Vec::new();
    let tree = WorkTree::new(root, Arc::clone(&skipped)).tracked_by(git);
    tree.walk(|found| {
        paths.push(found.path);
        true
    })
    .unwrap();
    paths.sort();
    (paths, skipped.by_reason())
}

fn small(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    git(home.path(), &["init", "-q", "-b", "main"]);
    for (path, content) in files {
        fs::create_dir_all(home.path().join(path).parent().unwrap()).unwrap();
        fs::write(home.path().join(path), content).unwrap();
    }
    home
}

#[test]
fn what_git_ignores_is_counted_file_by_file_and_directory_by_directory() {
    let home = small(&[
        (".gitignore", "*.log\n/out/\n!keep.log\n"),
        (".git/info/exclude", "mine.txt\n"),
        ("a.log", "a"),
        ("keep.log", "a"),
        ("mine.txt", "a"),
        ("out/one.txt", "a"),
        ("out/two/three.txt", "a"),
        ("src/.gitignore", "!b.log\nout/\n"),
        ("src/a.rs", "a"),
        ("src/b.log", "a"),
        ("src/c.log", "a"),
        ("src/deep/out/d.rs", "a"),
        ("src/deep/e.log", "a"),
        ("z/out/a.rs", "a"),
    ]);

    let (paths, skipped) = walked(home.path());

    assert_eq!(paths, ["keep.log", "src/a.rs", "src/b.log", "z/out/a.rs"]);
    // a.log, mine.txt, out, src/c.log, src/deep/out, src/deep/e.log
    assert_eq!(skipped["ignored"], 6, "{skipped:?}");
}

#[test]
fn a_tracked_file_is_not_ignored_in_a_work_tree_either() {
    let home = small(&[
        (".gitignore", "*.log\nout/\n"),
        ("kept.log", "a"),
        ("lost.log", "a"),
        ("out/deep/kept.rs", "a"),
        ("out/deep/lost.rs", "a"),
        ("out/lost/a.rs", "a"),
        ("src/a.rs", "a"),
    ]);
    git(home.path(), &["add", "-f", "kept.log", "out/deep/kept.rs", "src/a.rs"]);
    git(home.path(), &["commit", "-qm", "one"]);
    let git = Git::at(home.path(), CancellationToken::new()).unwrap();
    let commit = git.head().unwrap().unwrap();

    let (paths, skipped) = walked(home.path());
    let mut committed = Vec::new();
    CommitTree::new(git, commit, Arc::default())
        .walk(|found| {
            committed.push(found.path);
            true
        })
        .unwrap();

    committed.sort();
    assert_eq!(paths, ["kept.log", "out/deep/kept.rs", "src/a.rs"]);
    assert_eq!(committed, paths);
    // lost.log, out/deep/lost.rs, out/lost
    assert_eq!(skipped["ignored"], 3, "{skipped:?}");
}

#[test]
fn a_work_tree_of_another_repository_has_its_exclusions() {
    let home = small(&[("a.rs", "a")]);
    git(home.path(), &["add", "a.rs"]);
    git(home.path(), &["commit", "-qm", "one"]);
    let other = tempfile::tempdir().unwrap();
    let root = other.path().join("tree");
    git(home.path(), &["worktree", "add", "-q", root.to_str().unwrap()]);
    fs::write(home.path().join(".git/info/exclude"), "mine.txt\n").unwrap();
    fs::write(root.join("mine.txt"), "a").unwrap();

    let (paths, skipped) = walked(&root);

    assert_eq!(paths, ["a.rs"]);
    assert_eq!(skipped["ignored"], 1, "{skipped:?}");
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

    // The last is a tree.
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let zeros = "0000000000000000000000000000000000000000";
    for name in [zeros, "main", "--help", "HEAD", "", "abc", tree] {
        assert!(matches!(git.commit(name), Err(GitError::UnknownCommit(_))), "{name}");
    }
}

#[test]
fn a_repository_of_somebody_else_is_read() {
    let home = repository();
    git(home.path(), &["add", "README.md"]);
    git(home.path(), &["commit", "-qm", "one"]);
    let commit = Git::at(home.path(), CancellationToken::new()).unwrap().head().unwrap().unwrap();
    let somebody = Some(54_321);
    for path in [home.path().to_owned(), home.path().join(".git")] {
        if std::os::unix::fs::chown(path, somebody, somebody).is_err() {
            eprintln!("skipped: only root can give files away");
            return;
        }
    }
    let link = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(home.path(), link.path().join("link")).unwrap();

    for root in [home.path(), &link.path().join("link")] {
        let git = Git::at(root, CancellationToken::new()).unwrap();

        assert_eq!(git.commit(&commit).unwrap(), commit);
        assert_eq!(git.head().unwrap(), Some(commit.clone()));
    }
}

#[test]
fn a_repository_that_git_cannot_read_is_told_from_one_without_the_commit() {
    let home = repository();
    git(home.path(), &["add", "README.md"]);
    git(home.path(), &["commit", "-qm", "one"]);
    let git = Git::at(home.path(), CancellationToken::new()).unwrap();
    let commit = git.head().unwrap().unwrap();
    let nowhere = "0123456789012345678901234567890123456789";
    assert!(matches!(git.commit(nowhere), Err(GitError::UnknownCommit(_))));

    fs::write(home.path().join(".git/config"), "[core\n").unwrap();

    for name in [commit.as_str(), nowhere] {
        assert!(matches!(git.commit(name), Err(GitError::Unreadable(_))), "{name}");
    }
    assert_eq!(git.head().unwrap(), None, "the work tree can still be indexed");
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
