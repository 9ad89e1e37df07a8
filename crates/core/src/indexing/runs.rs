//! What goes on with repositories in this process: one run each, and what is to come after it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::{
    model::{OrgId, RepoId, Scope},
    ports::{IndexJob, IndexProgress, IndexWatch},
};

/// The runs of this process, by org and repository.
#[derive(Default)]
pub(super) struct Runs {
    going_on: Mutex<HashMap<Key, Arc<Run>>>,
    /// Why the last run failed: an index that cannot be written to cannot tell.
    failures: Mutex<HashMap<Key, String>>,
}

pub(super) type Key = (OrgId, RepoId);

/// A run, and for whom.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) scope: Scope,
    pub(super) job: IndexJob,
}

impl Request {
    fn key(&self) -> Key {
        (self.scope.org, self.job.repo)
    }
}

/// A repository that is being worked on.
pub(super) struct Run {
    progress: Mutex<IndexProgress>,
    /// None while the index is removed.
    commit: Option<Option<String>>,
    /// What was asked for meanwhile; the latest counts.
    next: Mutex<Option<Request>>,
    pub(super) stop: CancellationToken,
    ended: CancellationToken,
}

impl IndexWatch for Run {
    fn progress(&self, progress: IndexProgress) {
        *lock(&self.progress) = progress;
    }
}

impl Run {
    fn new(commit: Option<Option<String>>, stop: &CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            progress: Mutex::default(),
            commit,
            next: Mutex::default(),
            stop: stop.child_token(),
            ended: CancellationToken::new(),
        })
    }

    /// A commit's tree is the same whenever it is read; a work tree may have changed behind the run.
    fn covers(&self, job: &IndexJob) -> bool {
        job.commit.is_some() && self.commit.as_ref() == Some(&job.commit)
    }
}

impl Runs {
    /// Begins a run. `None` when something goes on with the repository: the run begins after it, unless it would do the
    /// same.
    pub(super) fn enter(&self, request: &Request, stop: &CancellationToken) -> Option<Arc<Run>> {
        let mut runs = lock(&self.going_on);
        if let Some(run) = runs.get(&request.key()) {
            if !run.covers(&request.job) {
                *lock(&run.next) = Some(request.clone());
            }
            return None;
        }
        let run = Run::new(Some(request.job.commit.clone()), stop);
        runs.insert(request.key(), Arc::clone(&run));
        Some(run)
    }

    /// Ends a run; returns the one that comes after it, which has begun.
    pub(super) fn follow(
        &self,
        key: Key,
        run: &Run,
        stop: &CancellationToken,
    ) -> Option<(Request, Arc<Run>)> {
        let mut runs = lock(&self.going_on);
        let next = lock(&run.next).take().filter(|_| !run.stop.is_cancelled());
        let follower = next.map(|request| {
            let run = Run::new(Some(request.job.commit.clone()), stop);
            (request, run)
        });
        match &follower {
            Some((_, run)) => runs.insert(key, Arc::clone(run)),
            None => runs.remove(&key),
        };
        run.ended.cancel();
        follower
    }

    /// Stops what goes on with a repository, and keeps runs from beginning until [`Self::follow`].
    pub(super) async fn stop(&self, key: Key, stop: &CancellationToken) -> Arc<Run> {
        loop {
            let other = {
                let mut runs = lock(&self.going_on);
                match runs.get(&key) {
                    Some(run) => Arc::clone(run),
                    None => {
                        let removal = Run::new(None, stop);
                        runs.insert(key, Arc::clone(&removal));
                        return removal;
                    }
                }
            };
            if other.commit.is_some() {
                other.stop.cancel();
            }
            other.ended.cancelled().await;
        }
    }

    pub(super) fn progress(&self, key: Key) -> Option<IndexProgress> {
        let run = lock(&self.going_on).get(&key).map(Arc::clone)?;
        let progress = *lock(&run.progress);
        Some(progress)
    }

    pub(super) fn failed(&self, key: Key, why: Option<String>) {
        let mut failures = lock(&self.failures);
        match why {
            Some(why) => failures.insert(key, why),
            None => failures.remove(&key),
        };
    }

    pub(super) fn failure(&self, key: Key) -> Option<String> {
        lock(&self.failures).get(&key).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::{Timestamp, UserId};

    fn request(commit: Option<&str>) -> Request {
        let id = Uuid::from_u128(1);
        let job = IndexJob {
            repo: RepoId::from_uuid(id),
            root: "/srv/web".to_owned(),
            commit: commit.map(str::to_owned),
            at: Timestamp::from_millis(0),
        };
        Request { scope: Scope::on_behalf_of(OrgId::from_uuid(id), UserId::from_uuid(id)), job }
    }

    fn commit(request: &Request) -> Option<&str> {
        request.job.commit.as_deref()
    }

    #[test]
    fn what_is_asked_for_during_a_run_comes_after_it_and_the_latest_counts() {
        let (runs, stop) = (Runs::default(), CancellationToken::new());
        let key = request(None).key();
        let first = runs.enter(&request(Some("c1")), &stop).unwrap();
        assert!(runs.enter(&request(Some("c2")), &stop).is_none());
        assert!(runs.enter(&request(Some("c3")), &stop).is_none());

        let (next, second) = runs.follow(key, &first, &stop).unwrap();

        assert_eq!(commit(&next), Some("c3"));
        assert!(runs.progress(key).is_some(), "it goes on");
        assert!(runs.follow(key, &second, &stop).is_none());
        assert!(runs.progress(key).is_none());
    }

    #[test]
    fn the_same_commit_is_not_run_twice_but_a_work_tree_is() {
        let (runs, stop) = (Runs::default(), CancellationToken::new());
        let key = request(None).key();
        for (asked, runs_again) in [(Some("c1"), false), (None, true)] {
            let run = runs.enter(&request(asked), &stop).unwrap();
            assert!(runs.enter(&request(asked), &stop).is_none());

            let next = runs.follow(key, &run, &stop);

            assert_eq!(next.is_some(), runs_again, "{asked:?}");
            if let Some((_, run)) = next {
                runs.follow(key, &run, &stop);
            }
        }
    }

    #[tokio::test]
    async fn a_removal_stops_the_run_and_what_is_asked_for_then_comes_after_it() {
        let (runs, stop) = (Runs::default(), CancellationToken::new());
        let key = request(None).key();
        let run = runs.enter(&request(None), &stop).unwrap();
        runs.enter(&request(Some("c1")), &stop);
        let removed = runs.stop(key, &stop);
        let ended = async {
            run.stop.cancelled().await;
            runs.follow(key, &run, &stop)
        };

        let (removal, follower) = tokio::join!(removed, ended);

        assert!(follower.is_none(), "what waited behind it is dropped");
        assert!(runs.enter(&request(Some("c2")), &stop).is_none());
        let (next, _) = runs.follow(key, &removal, &stop).unwrap();

        assert_eq!(commit(&next), Some("c2"));
    }
}
