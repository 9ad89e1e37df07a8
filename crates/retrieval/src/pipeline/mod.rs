//! The walk, the threads that read and take apart, and the channel to the one that writes. The same for every engine.

mod ahead;
mod batch;
mod known;
mod prepare;
mod telling;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use skein_core::{
    model::{OrgId, Sha256Hash},
    ports::{IndexJob, IndexProgress},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    ahead::Walked,
    batch::{Batch, file_system_time_ns},
    known::{Evidence, Kept, Known},
    prepare::{NewFile, NewPassage, Text, prepare},
    telling::told,
};
use crate::{
    chunk::Chunker,
    fault::Fault,
    language::detect,
    walk::{
        BlobReader, CommitTree, Content, FileReader, Found, Git, Skipped, SkippedCounts, Source,
        WalkError, WorkTree,
    },
};

/// Files are handed on in parcels: most of a run looks at files that have not changed, and handing on costs more
/// than that.
const PARCEL_FILES: usize = 64;

/// What was taken apart is handed on when it has this size.
const PARCEL_BYTES: usize = 512 * 1024;

/// Parcels that wait to be read.
const FOUND_AHEAD: usize = 8;

/// Parcels that wait to be written: some 10 MB at most.
const READY_AHEAD: usize = 8;

/// What an index knows about the files that a run looks at.
pub(crate) trait Ledger: Sync {
    /// Names what it knows about one version of a file.
    type Id: Copy + Send;

    /// For each file what is visible or was put there by a run before, the visible version first.
    fn known(&self, files: &[Found]) -> Result<Vec<Vec<Known<Self::Id>>>, Fault>;
}

/// What a run needs from its caller.
pub(crate) struct Order {
    pub org: OrgId,
    pub job: IndexJob,
    pub progress: watch::Sender<IndexProgress>,
    pub stop: CancellationToken,
}

/// What is to be read.
pub(crate) struct Input {
    pub root: PathBuf,
    pub git: Git,
    /// The commit's full id; without it, the work tree.
    pub commit: Option<String>,
    pub skipped: Arc<SkippedCounts>,
    pub org: [u8; 16],
    pub repo: [u8; 16],
    /// The file system's time when the run began.
    pub now_ns: i64,
    pub stop: CancellationToken,
}

/// What became of a file.
pub(crate) enum Outcome<I> {
    Kept(Kept<I>),
    New(Box<NewFile>),
    LeftOut,
}

/// Gives every file's outcome to `receive`, which runs on the calling thread. Ends early when that fails.
pub(crate) fn run<L: Ledger>(
    input: &Input,
    ledger: &L,
    walked: &Walked,
    mut receive: impl FnMut(Outcome<L::Id>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(8);
    let (found_sender, found) = sync_channel::<Vec<Found>>(FOUND_AHEAD);
    let (ready, outcomes) = sync_channel::<Result<Vec<Outcome<L::Id>>, Fault>>(READY_AHEAD);
    let found = Mutex::new(found);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let ready = ready.clone();
                let found = &found;
                scope.spawn(move || Worker::run(input, ledger, found, &ready))
            })
            .collect();
        let walk_ready = ready.clone();
        let walker = scope.spawn(move || {
            let done = walk(input, walked, found_sender);
            if let Err(fault) = done {
                let _ = walk_ready.send(Err(fault));
            }
        });
        let counter = scope.spawn(|| walked.count_ahead(input));
        drop(ready);
        let received =
            outcomes.iter().try_for_each(|parcel| parcel?.into_iter().try_for_each(&mut receive));
        // Nobody can send any more, so all of them end.
        drop(outcomes);
        walked.leave();
        let mut are_whole = walker.join().is_ok() && counter.join().is_ok();
        for thread in threads {
            are_whole &= thread.join().is_ok();
        }
        received?;
        if are_whole { Ok(()) } else { Err(Fault::Broken) }
    })
}

fn walk(input: &Input, walked: &Walked, sender: SyncSender<Vec<Found>>) -> Result<(), Fault> {
    let mut parcel = Vec::new();
    let found = |file: Found| {
        walked.found();
        parcel.push(file);
        if parcel.len() >= PARCEL_FILES && sender.send(std::mem::take(&mut parcel)).is_err() {
            return false;
        }
        !input.stop.is_cancelled()
    };
    let skipped = Arc::clone(&input.skipped);
    let done = match &input.commit {
        Some(commit) => CommitTree::new(input.git.clone(), commit.clone(), skipped).walk(found),
        None => WorkTree::new(&input.root, skipped).tracked_by(input.git.clone()).walk(found),
    };
    match done {
        Err(_) if input.stop.is_cancelled() => Err(Fault::Cancelled),
        // The receiver has gone, and knows why.
        Err(WalkError::Stopped) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => {
            let _ = sender.send(parcel);
            walked.end();
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

type Ready<I> = SyncSender<Result<Vec<Outcome<I>>, Fault>>;
type Parcels = Mutex<Receiver<Vec<Found>>>;

impl<'a> Worker<'a> {
    fn run<L: Ledger>(input: &'a Input, ledger: &L, found: &Parcels, ready: &Ready<L::Id>) {
        let outcome = Self::work(input, ledger, found, ready);
        if let Err(fault) = outcome {
            let fault = if input.stop.is_cancelled() { Fault::Cancelled } else { fault };
            let _ = ready.send(Err(fault));
        }
    }

    fn work<L: Ledger>(
        input: &'a Input,
        ledger: &L,
        found: &Parcels,
        ready: &Ready<L::Id>,
    ) -> Result<(), Fault> {
        let source = match input.commit {
            Some(_) => Reading::Blobs(Box::new(BlobReader::new(&input.git)?)),
            None => Reading::Files(FileReader::new(&input.root)?),
        };
        let mut worker = Self { input, source, chunker: Chunker::default() };
        loop {
            let next = found.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(parcel) = next else { return Ok(()) };
            let known = ledger.known(&parcel)?;
            if !worker.parcel(parcel, &known, ready)? {
                return Ok(());
            }
        }
    }

    /// False when nobody wants to know any more.
    fn parcel<I: Copy>(
        &mut self,
        parcel: Vec<Found>,
        known: &[Vec<Known<I>>],
        ready: &Ready<I>,
    ) -> Result<bool, Fault> {
        let (mut outcomes, mut bytes) = (Vec::with_capacity(parcel.len()), 0);
        for (file, known) in parcel.into_iter().zip(known) {
            if self.input.stop.is_cancelled() {
                return Err(Fault::Cancelled);
            }
            let outcome = self.file(file, known)?;
            bytes += match &outcome {
                Outcome::New(file) => file.bytes(),
                Outcome::Kept(_) | Outcome::LeftOut => 0,
            };
            outcomes.push(outcome);
            if bytes >= PARCEL_BYTES {
                bytes = 0;
                if ready.send(Ok(std::mem::take(&mut outcomes))).is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(ready.send(Ok(outcomes)).is_ok())
    }

    fn file<I: Copy>(&mut self, found: Found, known: &[Known<I>]) -> Result<Outcome<I>, Fault> {
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
