//! How many files a run will look at, before its own walk comes to the end: that is held back by what is read.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::Input;
use crate::walk::{CommitTree, Found, WorkTree};

/// How many files there are, as far as that is known.
#[derive(Default)]
pub(crate) struct Walked {
    count: AtomicU64,
    is_over: AtomicBool,
    /// 0 until there is something to go by.
    expected: AtomicU64,
    /// Nobody waits for the count any more.
    is_left: AtomicBool,
}

impl Walked {
    /// `files` is what the run before has found, or 0.
    pub(crate) fn expecting(files: u64) -> Self {
        Self { expected: AtomicU64::new(files), ..Self::default() }
    }

    /// Exact when the walk is over. Before that, what is expected, and never less than was found.
    pub(crate) fn total(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        match (self.is_over.load(Ordering::Acquire), self.expected.load(Ordering::Acquire)) {
            (true, _) => Some(self.count.load(Ordering::Relaxed)),
            (false, 0) => None,
            (false, expected) => Some(expected.max(count)),
        }
    }

    pub(super) fn found(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
    }

    fn is_of_interest(&self) -> bool {
        !self.is_over.load(Ordering::Acquire) && !self.is_left.load(Ordering::Acquire)
    }

    /// Walks the tree once more, only to count. A run that has one before it to go by does without.
    pub(super) fn count_ahead(&self, input: &Input) {
        if self.expected.load(Ordering::Acquire) > 0 {
            return;
        }
        let mut count = 0_u64;
        let found = |_: Found| {
            count += 1;
            self.is_of_interest() && !input.stop.is_cancelled()
        };
        let uncounted = Arc::default();
        let walked = match &input.commit {
            Some(commit) => {
                CommitTree::new(input.git.clone(), commit.clone(), uncounted).walk(found)
            }
            None => WorkTree::new(&input.root, uncounted).tracked_by(input.git.clone()).walk(found),
        };
        // What is wrong with the tree is told by the walk that counts for the index.
        if walked.is_ok() {
            self.expected.store(count, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::Path,
        thread,
        time::{Duration, Instant},
    };

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        fault::Fault,
        pipeline::{Known, Ledger, run},
        walk::Git,
    };

    /// More than wait between the walk and the one who writes.
    const FILES: u64 = 4_000;

    struct Nothing;

    impl Ledger for Nothing {
        type Id = i64;

        fn known(&self, files: &[Found]) -> Result<Vec<Vec<Known<i64>>>, Fault> {
            Ok(files.iter().map(|_| Vec::new()).collect())
        }
    }

    fn input(root: &Path) -> Input {
        fs::create_dir(root.join(".git")).unwrap();
        for number in 0..FILES {
            fs::write(root.join(format!("{number}.txt")), "walrus\n").unwrap();
        }
        Input {
            root: root.to_owned(),
            git: Git::at(root, CancellationToken::new()).unwrap(),
            commit: None,
            skipped: Arc::default(),
            org: [0; 16],
            repo: [0; 16],
            now_ns: 0,
            stop: CancellationToken::new(),
        }
    }

    #[test]
    fn the_number_of_files_is_known_while_the_first_is_written() {
        let home = tempfile::tempdir().unwrap();
        let input = input(home.path());
        let walked = Walked::default();
        let (mut told, mut received) = (None, 0);

        run(&input, &Nothing, &walked, |_| {
            let since = Instant::now();
            while told.is_none() && since.elapsed() < Duration::from_secs(30) {
                told = walked.total();
                thread::yield_now();
            }
            received += 1;
            if told.is_some() { Ok(()) } else { Err(Fault::Broken) }
        })
        .unwrap();

        assert_eq!((told, received, walked.total()), (Some(FILES), FILES, Some(FILES)));
    }

    #[test]
    fn the_run_before_is_gone_by_until_the_walk_is_over() {
        let walked = Walked::expecting(2);
        let mut told = vec![walked.total()];
        for _ in 0..3 {
            walked.found();
            told.push(walked.total());
        }
        walked.end();

        assert_eq!(told, [Some(2), Some(2), Some(2), Some(3)]);
        assert_eq!(walked.total(), Some(3));
    }
}
