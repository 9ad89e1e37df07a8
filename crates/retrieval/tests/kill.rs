//! A run that is killed at any moment leaves an index that the next run makes whole.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use rusqlite::{Connection, types::Value};

const FILES: usize = 400;
const KILLS: usize = 24;

#[test]
fn a_killed_run_and_another_give_the_same_rows_as_one_from_scratch() {
    let home = tempfile::tempdir().unwrap();
    let (tree, index) = (home.path().join("tree"), home.path().join("index.db"));
    let mut random = StdRng::seed_from_u64(7);
    grow(&tree);
    let started = Instant::now();
    run(&tree, &home.path().join("scratch-0.db"));
    let whole = started.elapsed();

    for kill in 0..KILLS {
        change(&tree, &mut random);
        kill_within(&tree, &index, whole.mul_f64(random.random_range(0.0..1.1)));
        if random.random_bool(0.5) {
            continue;
        }
        change(&tree, &mut random);
        kill_within(&tree, &index, whole.mul_f64(random.random_range(0.0..1.1)));
        run(&tree, &index);

        let scratch = home.path().join(format!("scratch-{}.db", kill + 1));
        run(&tree, &scratch);
        assert_eq!(rows(&index), rows(&scratch), "after kill {kill}");
    }
}

fn grow(tree: &Path) {
    fs::create_dir_all(tree.join(".git")).unwrap();
    for number in 0..FILES {
        let body = "    let value = compute(with, several, arguments);\n".repeat(number % 37);
        let text = format!("/// Number {number}.\npub fn function_{number}() {{\n{body}}}\n");
        let path = tree.join(format!("src/part_{}/file_{number}.rs", number % 11));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Changes, removes, adds and renames some files.
fn change(tree: &Path, random: &mut StdRng) {
    for _ in 0..random.random_range(1..60) {
        let part = tree.join(format!("src/part_{}", random.random_range(0..11)));
        let files: Vec<_> = fs::read_dir(&part).unwrap().map(|file| file.unwrap().path()).collect();
        let number: u32 = random.random();
        let new = part.join(format!("new_{number}.rs"));
        let text = format!("pub fn new_{number}() {{}}\n// {}\n", "x".repeat(number as usize % 50));
        match (random.random_range(0..4), files.choose(random)) {
            (0, Some(file)) => fs::remove_file(file).unwrap(),
            (1, Some(file)) => fs::rename(file, new).unwrap(),
            (2, Some(file)) => fs::write(file, text).unwrap(),
            _ => fs::write(new, text).unwrap(),
        }
    }
}

fn command(tree: &Path, index: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrieval-bench"));
    command.arg("index").arg(tree).arg(index).stdout(Stdio::null());
    command
}

fn run(tree: &Path, index: &Path) {
    assert!(command(tree, index).status().unwrap().success());
}

fn kill_within(tree: &Path, index: &Path, time: Duration) {
    let mut child = command(tree, index).spawn().unwrap();
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Everything that the index holds, without the numbers that rows happen to have.
fn rows(index: &Path) -> Vec<Vec<Value>> {
    let db = Connection::open(index).unwrap();
    let corpus: i64 = db.query_row("SELECT id FROM corpora", [], |row| row.get(0)).unwrap();
    let mut found = Vec::new();
    for sql in [
        "SELECT org_id, subject, kind, is_removed, commit_id, files, chunks, skipped, updated_at, error, note FROM corpora",
        "SELECT org_id, path, language, sha256, chunks, to_gen FROM files ORDER BY path, sha256",
        "SELECT f.path, c.org_id, c.ordinal, c.chunk_id, c.symbol, c.start_line, c.end_line, c.sha256, c.text
         FROM chunks c LEFT JOIN files f ON f.id = c.file ORDER BY f.path, c.ordinal",
        &format!("SELECT term, doc, cnt FROM vocab_{corpus} ORDER BY term"),
        &format!("SELECT count(*) FROM fts_{corpus}_docsize"),
        "PRAGMA integrity_check",
    ] {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let of_row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
        found.extend(statement.query_map([], of_row).unwrap().map(Result::unwrap));
    }
    found
}
