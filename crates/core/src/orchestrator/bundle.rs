//! Files that an agent in edit mode wants written, against the versions that it was shown.

use std::{collections::HashMap, sync::Arc};

use super::{Orchestrator, run::Job, texts};
use crate::{
    Error,
    model::{ChainDecision, ChainItemKind, FileBundle, PayloadId, Scope, Sha256Hash},
    policy::file_bundle::{self, Base, Proposal},
    ports::StoreError,
};

/// What came of an agent's proposals.
#[derive(Default)]
pub(super) struct Proposed {
    pub(super) bundle: Option<FileBundle>,
    pub(super) warnings: Vec<String>,
}

impl Orchestrator {
    /// The bundle that the agent proposed. A malformed call is a warning, and the text of the answer stays.
    pub(super) async fn bundle(&self, job: &Job, proposals: &[String]) -> Result<Proposed, Error> {
        let mut proposed = Proposed::default();
        let Some(arguments) = proposals.last() else { return Ok(proposed) };
        if proposals.len() > 1 {
            let notice = "the agent proposed files more than once; the last proposal counts";
            proposed.warnings.push(notice.to_owned());
        }
        match file_bundle::parse(arguments) {
            Ok(proposal) => {
                let bases = self.bases(job, &proposal).await?;
                let (bundle, mut warnings) = proposal.bundle(&bases);
                proposed.warnings.append(&mut warnings);
                proposed.bundle = Some(bundle);
            }
            Err(reason) => {
                let warning = format!("the agent's file proposal is unusable: {reason}");
                proposed.warnings.push(warning);
            }
        }
        Ok(proposed)
    }

    /// A bundle as it was kept.
    pub(super) async fn stored_bundle(
        &self,
        scope: &Scope,
        payload: Option<PayloadId>,
    ) -> Result<Option<Arc<FileBundle>>, Error> {
        let Some(payload) = payload else { return Ok(None) };
        let body = self.platform.store.payload_body(scope, payload).await?;
        let bundle = serde_json::from_slice(&body).map_err(|error| StoreError::Corrupt {
            entity: "file bundle",
            reason: error.to_string(),
        })?;
        Ok(Some(Arc::new(bundle)))
    }

    /// The versions that the agent was shown: by this turn, or earlier in the chain that it goes on with.
    async fn bases(&self, job: &Job, proposal: &Proposal) -> Result<HashMap<String, Base>, Error> {
        let mut bases: HashMap<String, Base> = HashMap::new();
        for file in &job.prompt.files {
            let sha256 = Sha256Hash::of(file.content.as_bytes());
            let content = Some(Arc::from(file.content.as_str()));
            bases.insert(file.path.clone(), Base { sha256, content });
        }
        let plan = job.turn.plan.as_ref();
        let goes_on = plan.is_some_and(|plan| plan.chain.decision == ChainDecision::Continue);
        let unknown: Vec<String> =
            proposal.paths().filter(|path| !bases.contains_key(*path)).map(str::to_owned).collect();
        if unknown.is_empty() || !goes_on {
            return Ok(bases);
        }
        let store = &self.platform.store;
        let view = store.chain_view(&job.scope, job.turn.log, &unknown, &[]).await?;
        let shown = view.map(|view| view.held).unwrap_or_default();
        let ids: Vec<_> = shown.iter().map(|item| item.texts).collect();
        let bodies = store.payload_bodies(&job.scope, &ids).await?;
        for item in shown.into_iter().filter(|item| item.kind == ChainItemKind::File) {
            let body = bodies.iter().find(|(id, _)| *id == item.texts);
            let texts = body.map(|(_, body)| texts::decode(body)).transpose()?.unwrap_or_default();
            let file = texts.files.into_iter().find(|file| file.path == item.item);
            let content = file.map(|file| Arc::from(file.content));
            bases.insert(item.item, Base { sha256: item.sha256, content });
        }
        Ok(bases)
    }
}
