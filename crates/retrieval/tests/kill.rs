//! A run that is killed at any moment leaves an index that the next run makes whole.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use rusqlite::Connection;
use serde_json::Value;
use skein_retrieval::qdrant::QdrantOptions;

const FILES: usize = 400;
const KILLS: usize = 24;

/// Where the killed runs write, where those from scratch do, and how what is there is read.
trait Engine {
    fn place(&self, name: &str) -> String;
    fn rows(&self, place: &str) -> Vec<Vec<String>>;
}

#[test]
fn a_killed_run_and_another_give_the_same_rows_as_one_from_scratch() {
    let home = tempfile::tempdir().unwrap();

    check(home.path(), &Embedded { home: home.path() }, KILLS);
}

#[test]
fn a_killed_run_and_another_give_the_same_points_as_one_from_scratch() {
    let home = tempfile::tempdir().unwrap();
    match common::qdrant(home.path()) {
        Ok(options) => check(home.path(), &Qdrant { options }, KILLS / 2),
        Err(reason) => eprintln!("skipped: {reason}"),
    }
}

fn check(home: &Path, engine: &impl Engine, kills: usize) {
    let (tree, index) = (home.join("tree"), engine.place("killed"));
    let mut random = StdRng::seed_from_u64(7);
    grow(&tree);
    let started = Instant::now();
    run(&tree, &engine.place("scratch"));
    let whole = started.elapsed();
    for kill in 0..kills {
        change(&tree, &mut random);
        kill_within(&tree, &index, whole.mul_f64(random.random_range(0.0..1.1)));
        if random.random_bool(0.5) {
            continue;
        }
        change(&tree, &mut random);
        kill_within(&tree, &index, whole.mul_f64(random.random_range(0.0..1.1)));
        run(&tree, &index);

        let scratch = engine.place(&format!("scratch-{kill}"));
        run(&tree, &scratch);
        assert_eq!(engine.rows(&index), engine.rows(&scratch), "after kill {kill}");
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

fn command(tree: &Path, index: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retrieval-bench"));
    command.arg("index").arg(tree).arg(index).stdout(Stdio::null());
    command
}

fn run(tree: &Path, index: &str) {
    assert!(command(tree, index).status().unwrap().success());
}

fn kill_within(tree: &Path, index: &str, time: Duration) {
    let mut child = command(tree, index).spawn().unwrap();
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
}

struct Embedded<'a> {
    home: &'a Path,
}

impl Engine for Embedded<'_> {
    fn place(&self, name: &str) -> String {
        self.home.join(format!("{name}.db")).to_str().unwrap().to_owned()
    }

    /// Everything that the index holds, without the numbers that rows happen to have.
    fn rows(&self, place: &str) -> Vec<Vec<String>> {
        let db = Connection::open(place).unwrap();
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
            let of_row = |row: &rusqlite::Row<'_>| {
                (0..columns).map(|at| Ok(format!("{:?}", row.get_ref(at)?))).collect()
            };
            found.extend(statement.query_map([], of_row).unwrap().map(Result::unwrap));
        }
        found
    }
}

struct Qdrant {
    options: QdrantOptions,
}

impl Engine for Qdrant {
    fn place(&self, name: &str) -> String {
        format!("{}#{}-{name}", self.options.url, self.options.collection)
    }

    /// Every point with its vectors, without generations and what is made of them.
    fn rows(&self, place: &str) -> Vec<Vec<String>> {
        let (url, collection) = place.split_once('#').unwrap();
        let points = common::every_point(url, collection);
        let row = |mut point: Value| {
            let payload = point["payload"].as_object_mut().unwrap();
            for field in
                ["visible", "from", "file", "blob", "size", "mtime_ns", "ctime_ns", "inode"]
            {
                payload.remove(field);
            }
            // The order of keys is the engine's.
            let payload: BTreeMap<_, _> = payload.iter().collect();
            vec![format!("{payload:?}"), point["vector"].to_string()]
        };
        let mut rows: Vec<Vec<String>> = points.into_iter().map(row).collect();
        rows.sort();
        rows
    }
}
