//! The walk, the threads that read and take apart, and the channel to the one that writes.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use skein_core::model::Sha256Hash;
use tokio_util::sync::CancellationToken;

use super::{
    fault::Fault,
    known::{self, Evidence, Kept},
    prepare::{NewFile, Text, prepare},
    readers::Readers,
};
use crate::{
    chunk::Chunker,
    language::detect,
    walk::{
        BlobReader, CommitTree, Content, FileReader, Found, Git, Skipped, SkippedCounts, Source,
        WalkError, WorkTree,
    },
};

/// Files that were found and wait to be read.
const FOUND_AHEAD: usize = 256;

/// Files that were taken apart and wait to be written. With the largest files, some 20 MB.
const READY_AHEAD: usize = 32;

/// What is to be read.
pub(super) struct Input {
    pub root: PathBuf,
    pub git: Git,
    /// The commit's full id; without it, the work tree.
    pub commit: Option<String>,
    pub skipped: Arc<SkippedCounts>,
    pub corpus: i64,
    pub org: [u8; 16],
    pub repo: [u8; 16],
    /// The file system's time when the run began.
    pub now_ns: i64,
    pub stop: CancellationToken,
}

/// What became of a file.
pub(super) enum Outcome {
    Kept(Kept),
    New(Box<NewFile>),
    LeftOut,
}

/// How many files there are, once that is known.
#[derive(Default)]
pub(super) struct Walked {
    count: AtomicU64,
    is_over: AtomicBool,
}

impl Walked {
    pub(super) fn total(&self) -> Option<u64> {
        self.is_over.load(Ordering::Acquire).then(|| self.count.load(Ordering::Relaxed))
    }
}

/// Gives every file's outcome to `receive`, which runs on the calling thread. Ends early when that fails.
pub(super) fn run(
    input: &Input,
    readers: &Readers,
    walked: &Walked,
    mut receive: impl FnMut(Outcome) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(8);
    let (found_sender, found) = sync_channel::<Found>(FOUND_AHEAD);
    let (ready, outcomes) = sync_channel::<Result<Outcome, Fault>>(READY_AHEAD);
    let found = Mutex::new(found);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let ready = ready.clone();
                let found = &found;
                scope.spawn(move || Worker::run(input, readers, found, &ready))
            })
            .collect();
        let walk_ready = ready.clone();
        let walker = scope.spawn(move || {
            let done = walk(input, walked, found_sender);
            if let Err(fault) = done {
                let _ = walk_ready.send(Err(fault));
            }
        });
        drop(ready);
        let received = outcomes.iter().try_for_each(|outcome| receive(outcome?));
        // Nobody can send any more, so all of them end.
        drop(outcomes);
        let mut are_whole = walker.join().is_ok();
        for thread in threads {
            are_whole &= thread.join().is_ok();
        }
        received?;
        if are_whole { Ok(()) } else { Err(Fault::Broken) }
    })
}

fn walk(input: &Input, walked: &Walked, sender: SyncSender<Found>) -> Result<(), Fault> {
    let found = |file: Found| {
        walked.count.fetch_add(1, Ordering::Relaxed);
        !input.stop.is_cancelled() && sender.send(file).is_ok()
    };
    let skipped = Arc::clone(&input.skipped);
    let done = match &input.commit {
        Some(commit) => CommitTree::new(input.git.clone(), commit.clone(), skipped).walk(found),
        None => WorkTree::new(&input.root, skipped).walk(found),
    };
    match done {
        Err(_) if input.stop.is_cancelled() => Err(Fault::Cancelled),
        // The receiver has gone, and knows why.
        Err(WalkError::Stopped) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => {
            walked.is_over.store(true, Ordering::Release);
            Ok(())
        }
    }
}

struct Worker<'a> {
    input: &'a Input,
    source: Reading,
    chunker: Chunker,
}

enum Reading {
    Files(FileReader),
    Blobs(Box<BlobReader>),
}

type Ready = SyncSender<Result<Outcome, Fault>>;

impl<'a> Worker<'a> {
    fn run(input: &'a Input, readers: &Readers, found: &Mutex<Receiver<Found>>, ready: &Ready) {
        let outcome = Self::work(input, readers, found, ready);
        if let Err(fault) = outcome {
            let fault = if input.stop.is_cancelled() { Fault::Cancelled } else { fault };
            let _ = ready.send(Err(fault));
        }
    }

    fn work(
        input: &'a Input,
        readers: &Readers,
        found: &Mutex<Receiver<Found>>,
        ready: &Ready,
    ) -> Result<(), Fault> {
        let source = match input.commit {
            Some(_) => Reading::Blobs(Box::new(BlobReader::new(&input.git)?)),
            None => Reading::Files(FileReader::new(&input.root)?),
        };
        let mut worker = Self { input, source, chunker: Chunker::default() };
        let mut reader = readers.take()?;
        loop {
            let next = found.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(file) = next else { return Ok(()) };
            if input.stop.is_cancelled() {
                return Err(Fault::Cancelled);
            }
            let known = reader.snapshot(|db| known::rows(db, input.corpus, &file))?;
            let outcome = worker.file(file, &known)?;
            if ready.send(Ok(outcome)).is_err() {
                return Ok(());
            }
        }
    }

    fn file(&mut self, found: Found, known: &[known::Known]) -> Result<Outcome, Fault> {
        if let Some(kept) = known::shown(known, &found.source) {
            return Ok(Outcome::Kept(kept));
        }
        let (source, content) = match self.read(&found)? {
            Ok(read) => read,
            Err(reason) => {
                self.input.skipped.add(reason);
                return Ok(Outcome::LeftOut);
            }
        };
        let sha256 = Sha256Hash::of(content.text.as_bytes());
        let evidence = Evidence::of(&source, self.input.now_ns);
        if let Some(kept) = known::same(known, &sha256, &evidence) {
            return Ok(Outcome::Kept(kept));
        }
        let text = Text {
            path: &found.path,
            text: &content.text,
            language: detect(&found.path, &content.text),
            sha256,
            owner: [&self.input.org, &self.input.repo],
        };
        Ok(Outcome::New(Box::new(prepare(&mut self.chunker, &text, evidence))))
    }

    fn read(&mut self, found: &Found) -> Result<Result<(Source, Content), Skipped>, Fault> {
        Ok(match (&mut self.source, &found.source) {
            (Reading::Blobs(blobs), Source::Blob { oid }) => {
                blobs.read(oid)?.map(|content| (found.source.clone(), content))
            }
            (Reading::Files(files), _) => {
                files.read(&found.path).map(|(stat, content)| (Source::File(stat), content))
            }
            (Reading::Blobs(_), Source::File(_)) => Err(Skipped::Unreadable),
        })
    }
}
