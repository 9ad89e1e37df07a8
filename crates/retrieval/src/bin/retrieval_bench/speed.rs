//! How fast a work tree is indexed, updated and searched.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use skein_core::ports::{PassageIndex, RetrievalQuery};
use skein_retrieval::{
    EmbeddedIndex,
    chunk::Chunker,
    detect,
    tokens::token_text,
    walk::{FileReader, SkippedCounts, WorkTree},
};

use crate::{
    Outcome, hybrid,
    quality::{copy, temporary_directory},
    repo, say, scope, update,
};

/// Questions as people ask them; each is asked in several rounds.
const QUESTIONS: &[&str] = &[
    "where is the connection pool created?",
    "how are errors converted to responses",
    "parse_header",
    "what happens when a timeout expires while reading",
    "default buffer size",
    "HashMap insert",
    "how is a request body streamed to the client",
    "serialize struct fields to json",
    "window event listener",
    "CanvasRenderingContext2d draw image",
    "where are file descriptors closed",
    "set value of attribute",
    "self",
    "new",
    "how does the scheduler wake a task",
    "unsafe pointer cast",
    "audio node connect",
    "thread local storage key",
    "signal handler registration on unix",
    "compare two strings ignoring case",
];
const ROUNDS: usize = 20;

/// Files that are measured together.
const BLOCK: usize = 1_000;

/// Prints figures for the work tree, then for as many copies of it as give `chunks` passages.
pub(crate) async fn run(root: &Path, chunks: u64) -> Outcome<()> {
    parsing(root)?;
    let home = temporary_directory()?;
    let tree = home.join("tree");
    copy(root, &tree.join("0"))?;
    std::fs::create_dir_all(tree.join(".git"))?;
    let index = EmbeddedIndex::open(&home.join("index.db"))?;

    let started = Instant::now();
    let status = update(&index, &tree).await?;
    let took = started.elapsed();
    say(&format!(
        "cold index: {} files, {} chunks in {:.2} s ({:.0} files/s)",
        status.files,
        status.chunks,
        took.as_secs_f64(),
        status.files as f64 / took.as_secs_f64()
    ))?;
    updates(&index, &tree).await?;

    let mut copies = 1;
    let mut known = status.chunks;
    while known < chunks {
        copy(root, &tree.join(copies.to_string()))?;
        copies += 1;
        known += status.chunks;
    }
    let started = Instant::now();
    let status = update(&index, &tree).await?;
    say(&format!(
        "grown to {} files, {} chunks in {:.2} s; index file {:.0} MB",
        status.files,
        status.chunks,
        started.elapsed().as_secs_f64(),
        std::fs::metadata(home.join("index.db"))?.len() as f64 / 1e6
    ))?;
    searches(&index, "words", status.chunks).await?;
    memory()?;
    drop(index);
    let index = hybrid::index(&home.join("index.db")).await?;
    searches(&index, "words and meaning", status.chunks).await?;
    drop(index);
    hybrid::scans()?;
    memory()?;
    Ok(std::fs::remove_dir_all(home)?)
}

/// Prints figures of an index that `index` made.
pub(crate) async fn search(index: &Path) -> Outcome<()> {
    let words = EmbeddedIndex::open(index)?;
    let status = words.index_status(&scope(), repo()).await?.ok_or("the index is empty")?;
    searches(&words, "words", status.chunks).await?;
    drop(words);
    searches(&hybrid::index(index).await?, "words and meaning", status.chunks).await
}

/// Reading, parsing, chunking and tokenising on one thread, without the database.
fn parsing(root: &Path) -> Outcome<()> {
    let mut files = Vec::new();
    let reader = FileReader::new(root)?;
    WorkTree::new(root, Arc::new(SkippedCounts::default())).walk(|found| {
        files.push(found.path);
        true
    })?;
    let (mut chunker, mut bytes, mut passages, mut read) = (Chunker::default(), 0, 0, 0_u32);
    let (mut splitting, mut tokenising) = (Duration::ZERO, Duration::ZERO);
    // In blocks, because the thread's clock is coarse.
    for block in files.chunks(BLOCK) {
        let texts: Vec<(&String, String)> =
            block.iter().filter_map(|path| Some((path, reader.read(path).ok()?.1.text))).collect();
        let started = cpu()?;
        let found: Vec<_> =
            texts.iter().map(|(path, text)| chunker.split(text, detect(path, text))).collect();
        let split = cpu()?;
        bytes +=
            found.iter().flatten().map(|passage| token_text(&passage.text).len()).sum::<usize>();
        splitting += split - started;
        tokenising += cpu()? - split;
        passages += found.iter().map(Vec::len).sum::<usize>();
        read += u32::try_from(texts.len())?;
    }
    say(&format!(
        "one core: {read} files, {passages} passages; parse and chunk {:.0} files/s, tokenise {:.1} MB of tokens at {:.0} MB/s",
        f64::from(read) / splitting.as_secs_f64(),
        bytes as f64 / 1e6,
        bytes as f64 / 1e6 / tokenising.as_secs_f64()
    ))
}

/// What the thread has computed so far: other programs on the machine do not count.
fn cpu() -> Outcome<Duration> {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = spent.split(' ').next().unwrap_or_default().parse()?;
    Ok(Duration::from_nanos(nanos))
}

/// What the process has computed so far, in steps of 10 ms.
fn process_cpu() -> Outcome<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        rest.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum();
    Ok(Duration::from_millis(ticks * 10))
}

async fn updates(index: &EmbeddedIndex, tree: &Path) -> Outcome<()> {
    let changed = first_source(tree)?;
    let mut times = Vec::new();
    // The first one compares every file that was written just before it was indexed.
    for round in 0..6 {
        let text = std::fs::read_to_string(&changed)?;
        std::fs::write(&changed, format!("{text}\n// changed {round}\n"))?;
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let (started, spent) = (Instant::now(), process_cpu()?);
        update(index, tree).await?;
        times.push((started.elapsed(), process_cpu()? - spent));
    }
    let shown: Vec<String> = times
        .iter()
        .map(|(took, spent)| format!("{:.0} ({:.0})", millis(*took), millis(*spent)))
        .collect();
    say(&format!("update after one changed file (of that, computing): {} ms", shown.join(", ")))
}

fn first_source(directory: &Path) -> Outcome<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for entry in &entries {
        if entry.is_file() && entry.extension().is_some_and(|extension| extension == "rs") {
            return Ok(entry.clone());
        }
    }
    for entry in entries.iter().filter(|entry| entry.is_dir() && !entry.ends_with(".git")) {
        if let Ok(found) = first_source(entry) {
            return Ok(found);
        }
    }
    Err("there is no Rust source".into())
}

async fn searches(index: &dyn PassageIndex, by: &str, chunks: u64) -> Outcome<()> {
    let mut first = Vec::new();
    let mut times = Vec::new();
    let mut spent = Duration::ZERO;
    for round in 0..=ROUNDS {
        if round == 1 {
            spent = process_cpu()?;
        }
        for text in QUESTIONS {
            let query = query(text);
            let started = Instant::now();
            index.search(&scope(), &query).await?;
            let took = started.elapsed();
            if round == 0 { first.push(took) } else { times.push(took) }
        }
    }
    let spent = millis(process_cpu()? - spent) / times.len() as f64;
    let (first, times) = (percentiles(first), percentiles(times));
    say(&format!(
        "search by {by} at {chunks} chunks: p50 {:.2} ms, p95 {:.2} ms, max {:.2} ms; each question's first time: p50 {:.2} ms, p95 {:.2} ms; computing {spent:.2} ms on average",
        times[0], times[1], times[2], first[0], first[1]
    ))
}

fn query(text: &str) -> RetrievalQuery {
    RetrievalQuery {
        text: text.to_owned(),
        repo: Some(repo()),
        documents: Vec::new(),
        paths: Vec::new(),
        language: None,
        collection: None,
        limit: 12,
    }
}

/// p50, p95 and the largest, in milliseconds.
pub(crate) fn percentiles(mut times: Vec<Duration>) -> [f64; 3] {
    times.sort();
    let at = |share: usize| {
        times.get(times.len() * share / 100).or(times.last()).copied().map_or(0.0, millis)
    };
    [at(50), at(95), at(100)]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What the process has held at most.
pub(crate) fn memory() -> Outcome<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown");
    say(&format!("peak memory: {}", peak.trim()))
}
