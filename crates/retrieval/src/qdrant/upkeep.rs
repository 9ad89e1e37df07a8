//! Gets the vectors that passages do not have yet, beside runs and searches.

use std::collections::{BTreeMap, HashMap};

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use skein_core::model::{OrgId, RepoId, Sha256Hash};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Inner, QdrantError,
    client::{Fields, Point},
    filters::{all, any, is, of_repo},
    lock,
    points::Kind,
};
use crate::{
    embed::{Embedder, HARMLESS, refused_note},
    fault::causes,
};

/// Points that have the same text are few; those beyond this are embedded again.
const SAME_TEXTS: usize = 4;

/// The field of a passage that names the model which does not take it.
const REFUSED_BY: &str = "refused_by";

/// By text; `None` where the model does not take it.
type Vectors = BTreeMap<[u8; 32], Option<Vec<f32>>>;

/// A passage that has no vector yet.
#[derive(Debug, Deserialize)]
struct Pending {
    sha256: Sha256Hash,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Embedded {
    sha256: Sha256Hash,
}

/// The name of a model's vectors. Those of another length are others.
pub(super) fn vector_name(model: &str, dimensions: usize) -> String {
    format!("{}{dimensions}", prefix(model))
}

fn prefix(model: &str) -> String {
    let digest = Sha256Hash::of(model.as_bytes()).to_string();
    format!("meaning-{}-", &digest[..12])
}

impl Inner {
    /// Returns when no passage is without a vector, or when those that are cannot get one now.
    pub(super) async fn embed_missing(&self, stop: &CancellationToken) -> Result<(), QdrantError> {
        let Some(embedder) = &self.embedder else { return Ok(()) };
        // One at a time: the second would send the same texts.
        let _turn = self.embedding.lock().await;
        let outcome = self.embed_all(embedder, stop).await;
        if let Err(error) = &outcome {
            self.note_missing(error);
        }
        outcome
    }

    async fn embed_all(
        &self,
        embedder: &Embedder,
        stop: &CancellationToken,
    ) -> Result<(), QdrantError> {
        let (mut is_asked, mut offset) = (embedder.dimensions().is_some(), None);
        while !stop.is_cancelled() {
            let Some(names) = self.vector_names().await? else { return Ok(()) };
            let (pending, next) = self.pending(embedder, &names, offset.take()).await?;
            let texts: BTreeMap<[u8; 32], &str> = pending
                .iter()
                .map(|point| (*point.payload.sha256.as_bytes(), point.payload.text.as_str()))
                .collect();
            if pending.is_empty() && is_asked {
                break;
            }
            // There are vectors; whether they are as long as the model's today is not known yet.
            let asked: Vec<&str> =
                if texts.is_empty() { vec![HARMLESS] } else { texts.values().copied().collect() };
            let embedded = tokio::select! {
                embedded = embedder.embed_each(&asked) => embedded,
                () = stop.cancelled() => return Ok(()),
            };
            let vectors = match embedded {
                Ok(vectors) => vectors,
                Err(error) => {
                    self.note_missing(&error);
                    return Ok(());
                }
            };
            let vectors: BTreeMap<_, _> = texts.into_keys().zip(vectors).collect();
            self.keep_vectors(embedder, &pending, &vectors).await?;
            self.keep_refused(embedder, &pending, &vectors).await?;
            if is_asked && next.is_none() {
                break;
            }
            // From the beginning when the length was only guessed.
            offset = next.filter(|_| is_asked);
            is_asked = true;
        }
        if !stop.is_cancelled() {
            *lock(&self.note) = None;
        }
        Ok(())
    }

    fn note_missing(&self, error: &dyn std::error::Error) {
        let note = Some(format!("embeddings are missing: {}", causes(error)));
        let mut known = lock(&self.note);
        if *known != note {
            tracing::warn!(note, "passages are found by their words only");
        }
        *known = note;
    }

    /// The dense vectors that the collection has. None when there is no collection.
    pub(super) async fn vector_names(&self) -> Result<Option<Vec<String>>, QdrantError> {
        let known = lock(&self.vectors).clone();
        if let Some(known) = known {
            return Ok(Some(known.into_iter().collect()));
        }
        let described = self.client.describe().await?;
        Ok(described.map(|described| super::vectors_of(&described).into_iter().collect()))
    }

    /// Passages without the model's vector, as far as its name is known.
    async fn pending(
        &self,
        embedder: &Embedder,
        names: &[String],
        offset: Option<Value>,
    ) -> Result<(Vec<Point<Pending>>, Option<Value>), QdrantError> {
        let model = embedder.model();
        let name = match embedder.dimensions() {
            Some(dimensions) => Some(vector_name(model, dimensions)),
            None => names.iter().find(|name| name.starts_with(&prefix(model))).cloned(),
        };
        let mut done = vec![is(REFUSED_BY, prefix(model))];
        if let Some(name) = name.filter(|name| names.contains(name)) {
            done.push(json!({"has_vector": name}));
        }
        let filter = json!({"must": [is("kind", Kind::Chunk.name())], "must_not": done});
        let fields = Fields { payload: &["sha256", "text"], vector: None };
        self.client.scroll(&filter, fields, (embedder.batch(), offset)).await
    }

    async fn keep_vectors(
        &self,
        embedder: &Embedder,
        pending: &[Point<Pending>],
        vectors: &Vectors,
    ) -> Result<(), QdrantError> {
        let Some(dimensions) = embedder.dimensions() else { return Ok(()) };
        let name = vector_name(embedder.model(), dimensions);
        let is_looked_at = lock(&self.vectors).is_some();
        if !is_looked_at {
            self.prepare().await?;
        }
        let is_known = lock(&self.vectors).as_ref().is_some_and(|known| known.contains(&name));
        if !is_known {
            let body = json!({"dense": {"size": dimensions, "distance": "Cosine"}});
            let path = format!("/vectors/{name}");
            self.client.change(Method::PUT, &path, &body).await?;
            lock(&self.vectors).get_or_insert_default().insert(name.clone());
        }
        let points: Vec<Value> = pending
            .iter()
            .filter_map(|point| {
                let vector = vectors.get(point.payload.sha256.as_bytes())?.as_ref()?;
                Some(json!({"id": point.id, "vector": {&name: vector}}))
            })
            .collect();
        if points.is_empty() {
            return Ok(());
        }
        let body = json!({"points": points});
        match self.client.change(Method::PUT, "/points/vectors", &body).await {
            // A run has removed some of them meanwhile; the others were written.
            Err(error) if error.is_missing() => Ok(()),
            done => done,
        }
    }

    /// Notes the passages that the model does not take, so that they are not sent again.
    async fn keep_refused(
        &self,
        embedder: &Embedder,
        pending: &[Point<Pending>],
        vectors: &Vectors,
    ) -> Result<(), QdrantError> {
        let is_refused = |point: &&Point<Pending>| {
            vectors.get(point.payload.sha256.as_bytes()).is_some_and(Option::is_none)
        };
        let refused: Vec<Uuid> = pending.iter().filter(is_refused).map(|point| point.id).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let body = json!({"payload": {REFUSED_BY: prefix(embedder.model())}, "points": refused});
        match self.client.change(Method::POST, "/points/payload", &body).await {
            Err(error) if error.is_missing() => Ok(()),
            done => done,
        }
    }

    /// Why some of a repository's passages have no vector, if that is so.
    pub(super) async fn note(
        &self,
        org: OrgId,
        repo: RepoId,
    ) -> Result<Option<String>, QdrantError> {
        let Some(embedder) = &self.embedder else { return Ok(None) };
        if let Some(note) = lock(&self.note).clone() {
            return Ok(Some(note));
        }
        let mut conditions = of_repo(org, repo, Kind::Chunk);
        conditions.push(is(REFUSED_BY, prefix(embedder.model())));
        Ok(refused_note(self.client.count(&all(conditions)).await?))
    }

    /// Writes passages, with the vectors that the same texts have elsewhere in the org.
    pub(super) async fn upsert_passages(
        &self,
        org: OrgId,
        points: &mut Vec<Value>,
    ) -> Result<(), QdrantError> {
        if points.is_empty() {
            return Ok(());
        }
        let name = self.embedder.as_ref().and_then(|embedder| {
            let known = lock(&self.vectors).clone().unwrap_or_default();
            let own = prefix(embedder.model());
            let name = embedder.dimensions().map(|count| vector_name(embedder.model(), count));
            let is_own = |known: &&String| known.starts_with(&own);
            name.filter(|name| known.contains(name)).or_else(|| known.iter().find(is_own).cloned())
        });
        if let Some(name) = name {
            let vectors = self.vectors_of_texts(org, points, &name).await?;
            for point in points.iter_mut() {
                let sha256 = point["payload"]["sha256"].as_str().unwrap_or_default();
                if let Some(vector) = vectors.get(sha256) {
                    point["vector"][&name] = vector.clone();
                }
            }
        }
        self.client.upsert(&std::mem::take(points)).await
    }

    async fn vectors_of_texts(
        &self,
        org: OrgId,
        points: &[Value],
        name: &str,
    ) -> Result<HashMap<String, Value>, QdrantError> {
        let texts: Vec<&Value> = points.iter().map(|point| &point["payload"]["sha256"]).collect();
        let filter = json!({"must": [
            is("org", org.to_string()),
            is("kind", Kind::Chunk.name()),
            any("sha256", &texts),
            {"has_vector": name},
        ]});
        let fields = Fields { payload: &["sha256"], vector: Some(name) };
        let limit = texts.len() * SAME_TEXTS;
        let (found, _) = self.client.scroll::<Embedded>(&filter, fields, (limit, None)).await?;
        let vectors = found.into_iter().filter_map(|mut point| {
            let vector = point.vector.remove(name)?;
            Some((point.payload.sha256.to_string(), vector))
        });
        Ok(vectors.collect())
    }
}
