//! Finds passages by their words, and by their meaning when that is known.
//!
//! Qdrant gives candidates, by words and by meaning in one request; those by words are then ranked as in the embedded
//! index, and the two orders are put together by reciprocal ranks. A fusion in Qdrant would come before that ranking.

use std::collections::HashMap;

use serde_json::{Value, json};
use skein_core::{
    model::OrgId,
    ports::{Chunk, Origin, RetrievalQuery},
};
use uuid::Uuid;

use super::{
    Inner, QdrantError,
    client::{Fields, Point},
    filters::{all, any, at_most, is, of_logs, of_repo, open_at},
    points::{DocumentState, Kind, Passage},
    sparse::{self, WORDS},
    upkeep::vector_name,
};
use crate::{
    filter::PathFilter,
    fusion::fused,
    query::Question,
    rank::{Ranking, Subject, add_company},
    tokens::tokens,
};

/// Candidates that are ranked, and how many are asked for when a glob leaves too few of them.
const CANDIDATES: usize = 128;
const MORE: [usize; 2] = [1_024, 8_192];
/// Passages that are compared by their meaning.
const BY_MEANING: usize = 100;
/// No caller needs more at once.
const MAX_LIMIT: usize = 1_000;
/// How often a search begins again because a run has ended meanwhile.
const ATTEMPTS: usize = 10;
/// More documents of one session are not looked at.
const MAX_DOCUMENTS: usize = 10_000;

/// What can be seen at a moment.
#[derive(Debug, PartialEq, Eq)]
struct Visible {
    /// And whether it is that of a commit.
    generation: Option<(i64, bool)>,
    documents: Vec<DocumentState>,
}

/// What is looked for.
struct Search<'a> {
    org: OrgId,
    query: &'a RetrievalQuery,
    question: Question,
    paths: PathFilter,
    /// A vector of the question, and the name of those it is compared with.
    meaning: Option<(String, Vec<f32>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Repo,
    Documents,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Words,
    Meaning,
}

struct Hit {
    id: Uuid,
    file: Uuid,
    chunk: Chunk,
}

impl Inner {
    /// The best passages first. Looks again when what can be seen has changed under its eyes.
    pub(super) async fn search(
        &self,
        org: OrgId,
        query: &RetrievalQuery,
        meaning: Option<Vec<f32>>,
    ) -> Result<Vec<Chunk>, QdrantError> {
        let mut visible = self.visible(org, query).await?;
        let search = Search {
            org,
            query,
            question: Question::of(&query.text),
            paths: PathFilter::new(&query.paths),
            meaning: self.named(meaning).await?,
        };
        for _ in 0..ATTEMPTS {
            let found = self.look(&search, &visible).await?;
            let now = self.visible(org, query).await?;
            if now == visible {
                return Ok(found);
            }
            visible = now;
        }
        Err(QdrantError::Restless)
    }

    /// The question's vector with the name of its kind, if passages have such.
    async fn named(
        &self,
        vector: Option<Vec<f32>>,
    ) -> Result<Option<(String, Vec<f32>)>, QdrantError> {
        let Some((embedder, vector)) = self.embedder.as_ref().zip(vector) else { return Ok(None) };
        let name = vector_name(embedder.model(), vector.len());
        let names = self.vector_names().await?.unwrap_or_default();
        Ok(names.contains(&name).then_some((name, vector)))
    }

    async fn visible(&self, org: OrgId, query: &RetrievalQuery) -> Result<Visible, QdrantError> {
        let generation = async {
            let Some(repo) = query.repo else { return Ok(None) };
            let state = self.repo_state(org, repo).await?;
            let state = state.filter(|state| !state.is_removed && state.updated_at.is_some());
            Ok(state.map(|state| (state.visible, state.is_of_commit)))
        };
        let documents = async {
            if query.documents.is_empty() {
                return Ok(Vec::new());
            }
            let filter = all(of_logs(org, &query.documents, Kind::Document));
            let fields = Fields { payload: &["document", "version"], vector: None };
            let found = self.client.scroll(&filter, fields, (MAX_DOCUMENTS, None)).await?;
            let mut found: Vec<DocumentState> =
                found.0.into_iter().map(|point| point.payload).collect();
            found.sort();
            Ok(found)
        };
        let (generation, documents) = tokio::try_join!(generation, documents)?;
        Ok(Visible { generation, documents })
    }

    async fn look(
        &self,
        search: &Search<'_>,
        visible: &Visible,
    ) -> Result<Vec<Chunk>, QdrantError> {
        let parts = [
            (Part::Repo, search.in_repo(visible)),
            (Part::Documents, search.in_documents(visible)),
        ];
        let parts: Vec<(Part, Value)> =
            parts.into_iter().filter_map(|(part, filter)| Some((part, filter?))).collect();
        if parts.is_empty() || search.limit() == 0 {
            return Ok(Vec::new());
        }
        let (mut by_words, mut by_meaning) = (Vec::new(), Vec::new());
        for (by, found) in self.candidates(search, &parts).await? {
            match by {
                By::Words => by_words.extend(search.ranked(found)),
                By::Meaning => by_meaning.extend(hits(found)),
            }
        }
        sort(&mut by_words);
        if search.meaning.is_some() {
            sort(&mut by_meaning);
            by_words = search.together(by_words, by_meaning);
        }
        by_words.truncate(search.limit());
        let is_of_commit = visible.generation.is_some_and(|(_, is_of_commit)| is_of_commit);
        let handed_out = |hit: Hit| match hit.chunk.origin {
            Origin::WorkTree if is_of_commit => Chunk { origin: Origin::Commit, ..hit.chunk },
            _ => hit.chunk,
        };
        Ok(by_words.into_iter().map(handed_out).collect())
    }

    /// Asks for more when the filters that Qdrant does not know leave too few.
    async fn candidates(
        &self,
        search: &Search<'_>,
        parts: &[(Part, Value)],
    ) -> Result<Vec<(By, Vec<Point<Passage>>)>, QdrantError> {
        let wanted = CANDIDATES.max(search.limit());
        let mut more = MORE.into_iter();
        let mut limit = wanted;
        loop {
            let (kinds, requests) = search.requests(parts, limit);
            if requests.is_empty() {
                return Ok(Vec::new());
            }
            let lists = match self.client.query::<Passage>(&requests).await {
                // The collection has gone, and everything in it.
                Err(error) if error.is_missing() => return Ok(Vec::new()),
                lists => lists?,
            };
            let mut is_short = false;
            let mut found = Vec::with_capacity(lists.len());
            for ((part, by), mut points) in kinds.into_iter().zip(lists) {
                let is_full = points.len() >= limit;
                points.retain(|point| {
                    part == Part::Documents || search.paths.matches(&point.payload.path)
                });
                is_short |= by == By::Words && is_full && points.len() < wanted;
                points.truncate(if by == By::Words { wanted } else { BY_MEANING });
                found.push((by, points));
            }
            match more.find(|more| *more > limit).filter(|_| is_short) {
                Some(more) => limit = more,
                None => return Ok(found),
            }
        }
    }
}

impl Search<'_> {
    fn limit(&self) -> usize {
        (self.query.limit as usize).min(MAX_LIMIT)
    }

    fn in_repo(&self, visible: &Visible) -> Option<Value> {
        let (repo, (generation, _)) = self.query.repo.zip(visible.generation)?;
        let mut conditions = of_repo(self.org, repo, Kind::Chunk);
        conditions.extend([at_most("from", generation), open_at(generation)]);
        if let Some(language) = &self.query.language {
            conditions.push(is("language", language.to_ascii_lowercase()));
        }
        if let Some(places) = self.paths.places() {
            conditions.push(any("places", &places));
        }
        Some(all(conditions))
    }

    /// Who uploads a document wants it looked at, whatever files are in question.
    fn in_documents(&self, visible: &Visible) -> Option<Value> {
        if visible.documents.is_empty() {
            return None;
        }
        let mut conditions = of_logs(self.org, &self.query.documents, Kind::Chunk);
        let versions: Vec<Uuid> =
            visible.documents.iter().map(|document| document.version).collect();
        conditions.push(any("version", &versions));
        Some(all(conditions))
    }

    /// What each request is about, and the request.
    fn requests(&self, parts: &[(Part, Value)], limit: usize) -> (Vec<(Part, By)>, Vec<Value>) {
        let (mut kinds, mut requests) = (Vec::new(), Vec::new());
        let mut add = |part, by, request| {
            kinds.push((part, by));
            requests.push(request);
        };
        for (part, filter) in parts {
            if !self.question.terms.is_empty() {
                let words = sparse::of_question(&self.question.terms);
                let request = json!({"query": words, "using": WORDS, "filter": filter, "limit": limit, "with_payload": true});
                add(*part, By::Words, request);
            }
            if let Some((name, vector)) = &self.meaning {
                let request = json!({"query": vector, "using": name, "filter": filter, "limit": limit, "with_payload": true});
                add(*part, By::Meaning, request);
            }
        }
        (kinds, requests)
    }

    /// By all of the question. How rare a token is shows in how many candidates have it.
    fn ranked(&self, found: Vec<Point<Passage>>) -> Vec<Hit> {
        let mut hits = hits(found);
        let ranking = self.ranking(&hits);
        let mut scores: Vec<f64> =
            hits.iter().map(|hit| ranking.score(&Subject::of(&hit.chunk))).collect();
        add_company(&mut scores, &hits.iter().map(|hit| hit.file).collect::<Vec<_>>());
        for (hit, score) in hits.iter_mut().zip(scores) {
            (hit.chunk.score, hit.chunk.lexical) = (score, score);
        }
        // Another token may have the same dimension.
        hits.retain(|hit| hit.chunk.score > 0.0);
        hits
    }

    fn ranking(&self, hits: &[Hit]) -> Ranking<'_> {
        let terms = &self.question.terms;
        let at: HashMap<&str, usize> =
            terms.iter().enumerate().map(|(at, term)| (term.as_str(), at)).collect();
        let mut counts = vec![0; terms.len()];
        for hit in hits {
            let mut has = vec![false; terms.len()];
            let texts =
                [hit.chunk.symbol.as_deref().unwrap_or_default(), &hit.chunk.path, &hit.chunk.text];
            for text in texts {
                tokens(text, |token| {
                    if let Some(at) = at.get(token) {
                        has[*at] = true;
                    }
                });
            }
            counts.iter_mut().zip(has).for_each(|(count, has)| *count += u64::from(has));
        }
        Ranking::new(&self.question, &counts, hits.len() as u64)
    }

    /// What was found by its meaning has words too.
    fn together(&self, by_words: Vec<Hit>, by_meaning: Vec<Hit>) -> Vec<Hit> {
        let ids = |hits: &[Hit]| hits.iter().map(|hit| hit.id).collect::<Vec<_>>();
        let scores = fused(&[ids(&by_words), ids(&by_meaning)]);
        let ranking = self.ranking(&by_words);
        let mut hits: HashMap<Uuid, Hit> = HashMap::new();
        for mut hit in by_meaning {
            hit.chunk.lexical = ranking.score(&Subject::of(&hit.chunk));
            hits.insert(hit.id, hit);
        }
        hits.extend(by_words.into_iter().map(|hit| (hit.id, hit)));
        let mut hits: Vec<Hit> = hits.into_values().collect();
        for hit in &mut hits {
            hit.chunk.score = scores.get(&hit.id).copied().unwrap_or_default();
        }
        sort(&mut hits);
        hits
    }
}

fn hits(found: Vec<Point<Passage>>) -> Vec<Hit> {
    let hit = |Point { id, payload, score, .. }: Point<Passage>| {
        let file = payload.file;
        Hit { id, file, chunk: Chunk { score, ..payload.into() } }
    };
    found.into_iter().map(hit).collect()
}

/// Best first; what is equally good in the order of the repository.
fn sort(hits: &mut [Hit]) {
    hits.sort_by(|a, b| {
        let place =
            |hit: &Hit| (hit.chunk.path.clone(), hit.chunk.start_line, hit.chunk.id.clone());
        b.chunk.score.total_cmp(&a.chunk.score).then_with(|| place(a).cmp(&place(b)))
    });
}
