//! The passages of a turn: what is looked for, where, and what of it the agent gets.

use std::{collections::HashMap, time::Duration};

use tracing::warn;

use super::Orchestrator;
use crate::{
    Error,
    agents::Agent,
    indexing::causes,
    model::{LogId, RepoId, Scope, Session, SessionId, Turn, TurnState},
    policy::freshness::relocated,
    ports::{Asked, Chunk, Found, Origin, RetrievalQuery, RetrieveError, TurnPage},
};

/// A turn does not wait longer than this for its passages.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);

impl Orchestrator {
    /// Passages for the instruction. When they cannot be had, the turn goes on without, and says so.
    pub(super) async fn retrieve(
        &self,
        scope: &Scope,
        (session, agent): (&Session, &Agent),
        turn: &mut Turn,
        instruction: &str,
    ) -> Result<Vec<Chunk>, Error> {
        let mut query = RetrievalQuery {
            text: instruction.to_owned(),
            repo: self.repo_of(scope, session, turn).await?,
            documents: self.logs_of(scope, session).await?,
            paths: turn.request.scope_paths.clone(),
            language: turn.request.language.clone(),
            collection: agent.collection.clone(),
            limit: self.platform.context.passages,
        };
        let lookup = agent.runtime.lookup();
        let mut earlier = Vec::new();
        if let Some(lookup) = lookup {
            earlier = self.earlier(scope, session.id, turn, lookup.recalls(instruction)).await?;
            let wanted = lookup.look_for(Asked { instruction, earlier: &earlier });
            (query.text, query.limit) = (wanted.text, wanted.limit);
            if query.paths.is_empty() {
                query.paths = wanted.paths;
            }
        }
        let search = self.platform.retriever.search(scope, &query);
        let searched = tokio::time::timeout(SEARCH_LIMIT, search)
            .await
            .unwrap_or_else(|_| Err(RetrieveError::Unavailable("the search took too long".into())));
        let searched = match searched {
            Ok(Found { chunks, notes }) => {
                turn.warnings.extend(notes);
                Ok(self.still_there(scope, query.repo, turn, chunks).await?)
            }
            Err(error) => Err(error),
        };
        match (searched, lookup) {
            (Ok(found), Some(lookup)) => {
                Ok(lookup.choose(Asked { instruction, earlier: &earlier }, found))
            }
            (Ok(found), None) => Ok(found),
            (Err(error), _) => {
                warn!(error = causes(&error), "no passages for this turn");
                turn.warnings.push(format!("no passages could be looked for: {error}"));
                Ok(Vec::new())
            }
        }
    }

    /// Leaves out passages that are not in their work tree any more: nobody is to be shown lines that are not there.
    async fn still_there(
        &self,
        scope: &Scope,
        repo: Option<RepoId>,
        turn: &mut Turn,
        found: Vec<Chunk>,
    ) -> Result<Vec<Chunk>, Error> {
        let mut paths: Vec<String> = found
            .iter()
            .filter(|chunk| chunk.origin == Origin::WorkTree)
            .map(|chunk| chunk.path.clone())
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let repo = match repo.filter(|_| !paths.is_empty()) {
            Some(repo) => self.platform.store.find_repo(scope, repo).await?,
            None => None,
        };
        let Some(repo) = repo else { return Ok(found) };
        // A work tree that is away says nothing about its files.
        let read = self.platform.workspaces.read(scope.org, &repo.path, paths.clone());
        let Ok(texts) = read.await else { return Ok(found) };
        let texts: HashMap<String, Option<String>> = paths.into_iter().zip(texts).collect();
        let count = found.len();
        let current = |chunk: Chunk| match chunk.origin {
            Origin::WorkTree => {
                let text = texts.get(&chunk.path)?.as_deref()?;
                relocated(chunk, text)
            }
            Origin::Commit | Origin::Document => Some(chunk),
        };
        let current: Vec<Chunk> = found.into_iter().filter_map(current).collect();
        if current.len() < count {
            turn.warnings.push(out_of_date(count - current.len()));
        }
        Ok(current)
    }

    /// The logs whose documents the session sees: its own, and those that a fork took over.
    async fn logs_of(&self, scope: &Scope, session: &Session) -> Result<Vec<LogId>, Error> {
        match session.lineage {
            None => Ok(vec![session.log]),
            Some(_) => Ok(self.platform.store.logs_of(scope, session.id).await?),
        }
    }

    /// The session's repository, else the one that the request names.
    async fn repo_of(
        &self,
        scope: &Scope,
        session: &Session,
        turn: &Turn,
    ) -> Result<Option<RepoId>, Error> {
        match (session.binding.repo_id, &turn.request.repo) {
            (Some(id), _) => Ok(Some(id)),
            (None, Some(name)) => {
                let named = self.platform.store.find_repo_named(scope, name).await?;
                Ok(named.map(|repo| repo.id))
            }
            (None, None) => Ok(None),
        }
    }

    /// The last instructions before this turn that were answered, oldest first.
    async fn earlier(
        &self,
        scope: &Scope,
        session: SessionId,
        turn: &Turn,
        count: u32,
    ) -> Result<Vec<String>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        // A turn that is not stored yet has no number, and is the newest.
        let page = if turn.number == 0 { TurnPage::Last } else { TurnPage::Before(turn.number) };
        let turns = self.platform.store.list_turns(scope, session, page, count).await?;
        let answered = turns.into_iter().map(|record| record.turn);
        let answered = answered.filter(|turn| matches!(turn.state, TurnState::Completed(_)));
        Ok(answered.map(|turn| turn.request.instruction_summary).collect())
    }
}

fn out_of_date(count: usize) -> String {
    let passages = if count == 1 { "a passage was" } else { "passages were" };
    format!(
        "{passages} left out, because the file has changed since it was indexed; run: skein index update"
    )
}
