//! One run over a repository: stage what has changed, then let searches see all of it at once.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use skein_core::ports::IndexProgress;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::{
    Inner, QdrantError,
    client::{Fields, Point},
    filters::{all, at_most, of_files, of_repo, open_at},
    ledger::Ledger,
    points::{self, Kind, RepoState, point_id},
};
use crate::{
    fault::{Fault, causes},
    pipeline::{self, Batch, Input, NewFile, Order, Outcome, Walked, file_system_time_ns},
    walk::{Git, RULES, SkippedCounts},
};

/// Points in one request.
const POINTS_AT_ONCE: usize = 128;
/// Files that are closed, opened or removed by one request.
const FILES_AT_ONCE: usize = 250;
const PAGE: usize = 1_000;

/// Runs to the end, and remembers why when it cannot.
pub(super) fn run(inner: &Inner, handle: &Handle, order: &Order) -> Result<(), Fault> {
    // Whatever broke when the run was stopped broke because of that.
    let stopped = |fault| if order.stop.is_cancelled() { Fault::Cancelled } else { fault };
    let outcome = begin(inner, handle, order).map_err(stopped);
    match &outcome {
        // Nobody has to be told of what they asked for.
        Ok(()) | Err(Fault::Cancelled) => {}
        Err(fault) => {
            // When Qdrant is what failed, this fails too.
            let _ = handle.block_on(note_error(inner, order, causes(fault)));
        }
    }
    outcome
}

async fn note_error(inner: &Inner, order: &Order, error: String) -> Result<(), QdrantError> {
    let key = (order.org, order.job.repo);
    match inner.repo_state(key.0, key.1).await? {
        Some(state) if !state.is_removed => {
            inner.keep_repo_state(key, &RepoState { error: Some(error), ..state }).await
        }
        _ => Ok(()),
    }
}

fn begin(inner: &Inner, handle: &Handle, order: &Order) -> Result<(), Fault> {
    let git = Git::at(Path::new(&order.job.root), order.stop.clone())?;
    let commit = match &order.job.commit {
        Some(commit) => Some(git.commit(commit)?),
        None => None,
    };
    let key = (order.org, order.job.repo);
    let state = handle.block_on(async {
        inner.prepare().await?;
        let state = inner.repo_state(key.0, key.1).await?;
        if let Some(state) = state.clone().filter(|state| !state.is_removed) {
            return Ok(state);
        }
        // Ends what a removal that was cut off had begun.
        inner.clear(key.0, key.1).await?;
        let visible = state.map_or(0, |state| state.visible);
        let state = RepoState { visible, ..RepoState::default() };
        inner.keep_repo_state(key, &state).await?;
        Ok::<_, QdrantError>(state)
    })?;
    Run { inner, handle, order, state }.whole(git, commit)
}

struct Run<'a> {
    inner: &'a Inner,
    handle: &'a Handle,
    order: &'a Order,
    /// As it was when the run began.
    state: RepoState,
}

/// What a run has seen so far.
#[derive(Default)]
struct Seen {
    /// Files that stay or were added.
    ids: HashSet<Uuid>,
    files: u64,
    chunks: u64,
    left_out: u64,
}

/// Where a file's points stand.
#[derive(Deserialize)]
struct Standing {
    from: i64,
    #[serde(default)]
    to: Option<i64>,
}

/// Whose passage it is.
#[derive(Deserialize)]
struct OfFile {
    file: Uuid,
}

/// Files by what is to be done with them.
#[derive(Default)]
struct Settled {
    stale: Vec<Uuid>,
    closed: Vec<Uuid>,
    reopened: Vec<Uuid>,
    is_grown: bool,
}

impl Run<'_> {
    fn whole(&self, git: Git, commit: Option<String>) -> Result<(), Fault> {
        let head = match &commit {
            Some(commit) => Some(commit.clone()),
            None => git.head()?,
        };
        let skipped = Arc::new(SkippedCounts::default());
        let input = Input {
            root: PathBuf::from(&self.order.job.root),
            git,
            commit,
            skipped: Arc::clone(&skipped),
            org: *self.order.org.as_uuid().as_bytes(),
            repo: *self.order.job.repo.as_uuid().as_bytes(),
            now_ns: file_system_time_ns(&self.inner.clock_file)?,
            stop: self.order.stop.clone(),
        };
        let seen = self.stage(&input)?;
        Ok(self.handle.block_on(self.publish(&seen, head, &skipped))?)
    }

    /// The one that becomes visible when the run ends.
    fn generation(&self) -> i64 {
        self.state.visible + 1
    }

    /// Writes what has changed into points that nobody sees yet.
    fn stage(&self, input: &Input) -> Result<Seen, Fault> {
        let walked = Walked::expecting(self.state.files);
        let mut seen = Seen::default();
        let mut batch = Batch::default();
        let (inner, handle, order) = (self.inner, self.handle, self.order);
        let ledger = Ledger { inner, handle, order, state: &self.state };
        pipeline::run(input, &ledger, &walked, |outcome| {
            match outcome {
                Outcome::Kept(kept) => {
                    seen.ids.insert(kept.id);
                    seen.files += 1;
                    seen.chunks += kept.chunks;
                    if kept.evidence.is_some() {
                        batch.kept.push(kept);
                    }
                }
                Outcome::New(file) => {
                    seen.files += 1;
                    seen.chunks += file.passages.len() as u64;
                    batch.push(*file);
                }
                Outcome::LeftOut => seen.left_out += 1,
            }
            if batch.is_full() {
                self.handle.block_on(self.write(&mut batch, &mut seen))?;
            }
            self.tell(&seen, &walked);
            if self.order.stop.is_cancelled() { Err(Fault::Cancelled) } else { Ok(()) }
        })?;
        if self.order.stop.is_cancelled() {
            return Err(Fault::Cancelled);
        }
        self.handle.block_on(self.write(&mut batch, &mut seen))?;
        self.tell(&seen, &walked);
        Ok(seen)
    }

    fn tell(&self, seen: &Seen, walked: &Walked) {
        self.order.progress.send_replace(IndexProgress {
            files_done: seen.files + seen.left_out,
            files_total: walked.total(),
            chunks: seen.chunks,
        });
    }

    /// A file is known from the moment on when all of its passages are there. Its point comes first too, so that
    /// nothing is ever there that no point tells of.
    async fn write(&self, batch: &mut Batch<Uuid>, seen: &mut Seen) -> Result<(), QdrantError> {
        let Batch { new, kept, .. } = std::mem::take(batch);
        let ids: Vec<Uuid> = new.iter().map(|file| self.file_id(file)).collect();
        let files = |is_complete: bool| -> Vec<Value> {
            new.iter().zip(&ids).map(|(file, id)| self.file_point(file, *id, is_complete)).collect()
        };
        self.inner.client.upsert(&files(false)).await?;
        let owner = json!({
            "org": self.order.org.to_string(),
            "repo": self.order.job.repo.to_string(),
            "from": self.generation(),
        });
        let mut points = Vec::new();
        for (file, id) in new.iter().zip(&ids) {
            for point in points::passages(*id, file, &owner) {
                points.push(point);
                if points.len() >= POINTS_AT_ONCE {
                    self.inner.upsert_passages(self.order.org, &mut points).await?;
                }
            }
        }
        self.inner.upsert_passages(self.order.org, &mut points).await?;
        self.inner.client.upsert(&files(true)).await?;
        seen.ids.extend(ids);
        let renewed = kept.iter().filter_map(|kept| {
            let evidence = points::evidence(kept.evidence.as_ref()?);
            Some(json!({"set_payload": {"payload": evidence, "points": [kept.id]}}))
        });
        let operations: Vec<Value> = renewed.collect();
        if !operations.is_empty() {
            let body = json!({"operations": operations});
            self.inner.client.change(Method::POST, "/points/batch", &body).await?;
        }
        Ok(())
    }

    /// Another for every version and generation.
    fn file_id(&self, file: &NewFile) -> Uuid {
        point_id(&[
            b"file",
            self.order.org.as_uuid().as_bytes(),
            self.order.job.repo.as_uuid().as_bytes(),
            file.path.as_bytes(),
            file.sha256.as_bytes(),
            &self.generation().to_be_bytes(),
        ])
    }

    fn file_point(&self, file: &NewFile, id: Uuid, is_complete: bool) -> Value {
        let mut payload = points::evidence(&file.evidence);
        let fields = json!({
            "kind": Kind::File.name(),
            "org": self.order.org.to_string(),
            "repo": self.order.job.repo.to_string(),
            "path": file.path,
            "sha256": file.sha256,
            "chunks": file.passages.len(),
            "from": self.generation(),
            "is_complete": is_complete,
        });
        if let (Value::Object(payload), Value::Object(fields)) = (&mut payload, fields) {
            payload.extend(fields);
        }
        json!({"id": id, "vector": {}, "payload": payload})
    }

    /// From the write of the state on, searches see the new files and no longer the old ones.
    async fn publish(
        &self,
        seen: &Seen,
        head: Option<String>,
        skipped: &SkippedCounts,
    ) -> Result<(), QdrantError> {
        let settled = self.settle(seen).await?;
        let (org, repo) = (self.order.org, self.order.job.repo);
        for stale in settled.stale.chunks(FILES_AT_ONCE) {
            for kind in [Kind::Chunk, Kind::File] {
                self.inner.client.delete(&of_files(org, repo, kind, stale)).await?;
            }
        }
        // Closed at the generation that is not visible yet: until then they are seen.
        let (client, generation) = (&self.inner.client, self.generation());
        for files in settled.closed.chunks(FILES_AT_ONCE) {
            for kind in [Kind::Chunk, Kind::File] {
                let filter = of_files(org, repo, kind, files);
                let body = json!({"payload": {"to": generation}, "filter": filter});
                client.change(Method::POST, "/points/payload", &body).await?;
            }
        }
        for files in settled.reopened.chunks(FILES_AT_ONCE) {
            for kind in [Kind::Chunk, Kind::File] {
                let body = json!({"keys": ["to"], "filter": of_files(org, repo, kind, files)});
                client.change(Method::POST, "/points/payload/delete", &body).await?;
            }
        }
        // An index that stays the same keeps its generation.
        let is_same = settled.closed.is_empty() && !settled.is_grown && self.state.visible > 0;
        let visible = if is_same { self.state.visible } else { generation };
        let state = RepoState {
            visible,
            is_removed: false,
            commit: head,
            is_of_commit: self.order.job.commit.is_some(),
            files: seen.files,
            chunks: seen.chunks,
            skipped: skipped.by_reason(),
            updated_at: Some(self.order.job.at.as_millis()),
            error: None,
            rules: RULES,
        };
        self.inner.keep_repo_state((org, repo), &state).await?;
        for kind in [Kind::Chunk, Kind::File] {
            let mut conditions = of_repo(org, repo, kind);
            conditions.push(at_most("to", visible));
            client.delete(&all(conditions)).await?;
        }
        self.drop_orphans(seen, visible).await
    }

    /// A request that a killed process had sent may be carried out after its leftovers were cleared away. Such passages
    /// belong to no file that is known, and show in the count.
    async fn drop_orphans(&self, seen: &Seen, visible: i64) -> Result<(), QdrantError> {
        let (org, repo) = (self.order.org, self.order.job.repo);
        let mut conditions = of_repo(org, repo, Kind::Chunk);
        conditions.extend([at_most("from", visible), open_at(visible)]);
        let filter = all(conditions);
        if self.inner.client.count(&filter).await? == seen.chunks {
            return Ok(());
        }
        let fields = Fields { payload: &["file"], vector: None };
        let (mut orphans, mut offset) = (HashSet::new(), None);
        loop {
            let page = self.inner.client.scroll::<OfFile>(&filter, fields, (PAGE, offset));
            let (points, next) = page.await?;
            let files = points.into_iter().map(|point| point.payload.file);
            orphans.extend(files.filter(|file| !seen.ids.contains(file)));
            match next {
                Some(next) => offset = Some(next),
                None => break,
            }
        }
        let orphans: Vec<Uuid> = orphans.into_iter().collect();
        for files in orphans.chunks(FILES_AT_ONCE) {
            self.inner.client.delete(&of_files(org, repo, Kind::Chunk, files)).await?;
        }
        Ok(())
    }

    /// Holds what is there against what was seen. A run that was cut off may have left anything.
    async fn settle(&self, seen: &Seen) -> Result<Settled, QdrantError> {
        let filter = all(of_repo(self.order.org, self.order.job.repo, Kind::File));
        let fields = Fields { payload: &["from", "to"], vector: None };
        let (mut settled, mut offset) = (Settled::default(), None);
        loop {
            let page = self.inner.client.scroll::<Standing>(&filter, fields, (PAGE, offset));
            let (points, next) = page.await?;
            for Point { id, payload: Standing { from, to }, .. } in points {
                let is_seen = seen.ids.contains(&id);
                let is_past = to.is_some_and(|to| to <= self.state.visible);
                match (is_seen, from > self.state.visible) {
                    _ if is_past => settled.stale.push(id),
                    (true, true) => settled.is_grown = true,
                    (false, true) => settled.stale.push(id),
                    (true, false) if to.is_some() => settled.reopened.push(id),
                    (true, false) => {}
                    (false, false) => settled.closed.push(id),
                }
            }
            match next {
                Some(next) => offset = Some(next),
                None => return Ok(settled),
            }
        }
    }
}
