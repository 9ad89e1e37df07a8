//! The passages of a turn: what is looked for, where, and what of it the agent gets.

use std::time::Duration;

use tracing::warn;

use super::Orchestrator;
use crate::{
    Error,
    agents::Agent,
    indexing::causes,
    model::{LogId, RepoId, Scope, Session, SessionId, Turn, TurnState},
    ports::{Asked, Chunk, RetrievalQuery, RetrieveError, TurnPage},
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
