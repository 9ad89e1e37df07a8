//! Finds passages by their words.
//!
//! The full-text table gives candidates for the tokens that tell most; each candidate is then read and ranked with
//! all of the question. So the cost does not grow with tokens that are everywhere.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params};
use skein_core::{
    model::{LogId, OrgId, Sha256Hash},
    ports::{Chunk, Origin, RetrievalQuery},
};
use uuid::Uuid;

use super::{
    Inner,
    candidates::candidates,
    corpus::{Corpus, Subject},
    dense::{Meaning, dense},
};
use crate::{
    fault::Fault,
    filter::PathFilter,
    fusion::fused,
    query::Question,
    rank::{self, Ranking, add_company},
};

/// Candidates that are read and ranked.
const CANDIDATES: usize = 96;

/// Passages that are looked up to find candidates that pass the filters.
const MAX_LOOKED_UP: usize = 20_000;

/// No caller needs more at once.
const MAX_LIMIT: usize = 1_000;

/// A passage with its row, before it is handed out.
pub(super) struct Hit {
    pub row: i64,
    pub file: i64,
    pub corpus: i64,
    /// Whether its words were compared.
    pub is_ranked: bool,
    pub chunk: Chunk,
}

/// What is looked for and where.
pub(super) struct Search<'a> {
    pub org: OrgId,
    pub query: &'a RetrievalQuery,
    pub question: Question,
    pub paths: PathFilter,
}

impl<'a> Search<'a> {
    pub(super) fn new(org: OrgId, query: &'a RetrievalQuery) -> Self {
        let paths = PathFilter::new(&query.paths);
        Self { org, query, question: Question::of(&query.text), paths }
    }

    pub(super) fn limit(&self) -> usize {
        (self.query.limit as usize).min(MAX_LIMIT)
    }

    fn is_wanted(&self, part: Part<'_>, path: &str, language: Option<&str>) -> bool {
        match part {
            // Who uploads a document wants it looked at, whatever files are in question.
            Part::Documents(_) => true,
            Part::Repo => {
                let wanted = self.query.language.as_deref();
                wanted.is_none_or(|wanted| {
                    language.is_some_and(|own| own.eq_ignore_ascii_case(wanted))
                }) && self.paths.matches(path)
            }
        }
    }
}

/// Which part of the index is searched.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Repo,
    Documents(&'a [LogId]),
}

/// The best passages first: by words, and by meaning when that is known.
pub(super) fn search(
    inner: &Inner,
    org: OrgId,
    query: &RetrievalQuery,
    meaning: Option<&Meaning<'_>>,
) -> Result<Vec<Chunk>, Fault> {
    let search = Search::new(org, query);
    let hits = inner.readers.take()?.snapshot(|db| {
        let mut hits = lexical(inner, db, &search)?;
        if let Some(meaning) = meaning {
            hits = together(hits, dense(inner, db, &search, meaning)?);
        }
        hits.truncate(search.limit());
        compare_words(inner, db, &search, &mut hits)?;
        Ok::<_, Fault>(hits)
    })?;
    Ok(hits.into_iter().map(|hit| hit.chunk).collect())
}

fn together(by_words: Vec<Hit>, by_meaning: Vec<Hit>) -> Vec<Hit> {
    let rows = |hits: &[Hit]| hits.iter().map(|hit| hit.row).collect::<Vec<_>>();
    let scores = fused(&[rows(&by_words), rows(&by_meaning)]);
    let mut seen = HashSet::new();
    let mut hits: Vec<Hit> =
        by_words.into_iter().chain(by_meaning).filter(|hit| seen.insert(hit.row)).collect();
    for hit in &mut hits {
        hit.chunk.score = scores.get(&hit.row).copied().unwrap_or_default();
    }
    sort(&mut hits);
    hits
}

/// What was found by its meaning has words too.
fn compare_words(
    inner: &Inner,
    db: &Connection,
    search: &Search<'_>,
    hits: &mut [Hit],
) -> Result<(), Fault> {
    if hits.iter().all(|hit| hit.is_ranked) {
        return Ok(());
    }
    for (subject, _) in parts(search) {
        let Some(corpus) = Corpus::find(db, &subject)? else { continue };
        let frequencies = inner.frequencies.of(db, &corpus, &search.question.terms)?;
        let ranking = Ranking::new(&search.question, &frequencies, corpus.chunks);
        for hit in hits.iter_mut().filter(|hit| !hit.is_ranked && hit.corpus == corpus.id) {
            hit.chunk.lexical = ranking.score(&rank::Subject::of(&hit.chunk));
        }
    }
    Ok(())
}

/// Passages of the repository and of the documents, the best first.
pub(super) fn lexical(
    inner: &Inner,
    db: &Connection,
    search: &Search<'_>,
) -> Result<Vec<Hit>, Fault> {
    let mut hits = Vec::new();
    for (subject, part) in parts(search) {
        if let Some(corpus) = Corpus::find(db, &subject)? {
            hits.extend(in_corpus(inner, db, search, (&corpus, part))?);
        }
    }
    sort(&mut hits);
    Ok(hits)
}

pub(super) fn parts<'a>(search: &Search<'a>) -> Vec<(Subject, Part<'a>)> {
    let repo = search.query.repo.map(|repo| (Subject::Repo(search.org, repo), Part::Repo));
    let logs = &search.query.documents;
    let documents = (Subject::Documents(search.org), Part::Documents(logs));
    repo.into_iter().chain((!logs.is_empty()).then_some(documents)).collect()
}

fn in_corpus(
    inner: &Inner,
    db: &Connection,
    search: &Search<'_>,
    (corpus, part): (&Corpus, Part<'_>),
) -> Result<Vec<Hit>, Fault> {
    let terms = &search.question.terms;
    let frequencies = inner.frequencies.of(db, corpus, terms)?;
    let counted: Vec<(u64, &str)> =
        frequencies.iter().copied().zip(terms.iter().map(String::as_str)).collect();
    let rows = candidates(db, corpus, part, &counted)?;
    let ranking = Ranking::new(&search.question, &frequencies, corpus.chunks);
    let wanted = CANDIDATES.max(search.limit());
    let mut hits = Vec::new();
    let mut is_first_unseen = true;
    for row in rows.take(MAX_LOOKED_UP) {
        if let Some(mut hit) = read(db, search, (corpus, part), row)? {
            hit.chunk.score = ranking.score(&rank::Subject::of(&hit.chunk));
            hits.push(hit);
        } else if std::mem::take(&mut is_first_unseen) {
            must_be_there(db, row)?;
        }
        if hits.len() >= wanted {
            break;
        }
    }
    let mut scores: Vec<f64> = hits.iter().map(|hit| hit.chunk.score).collect();
    add_company(&mut scores, &hits.iter().map(|hit| hit.file).collect::<Vec<_>>());
    for (hit, score) in hits.iter_mut().zip(scores) {
        (hit.chunk.score, hit.chunk.lexical) = (score, score);
        hit.is_ranked = true;
    }
    Ok(hits)
}

/// The full-text table and the passages change together. If one has what the other has not, nothing would be found
/// and nobody would know why.
fn must_be_there(db: &Connection, row: i64) -> Result<(), Fault> {
    let mut statement = db.prepare_cached("SELECT 1 FROM chunks WHERE id = ?1")?;
    if statement.exists([row])? { Ok(()) } else { Err(Fault::Damaged) }
}

/// Best first; what is equally good in the order of the repository.
pub(super) fn sort(hits: &mut [Hit]) {
    hits.sort_by(|a, b| {
        let place =
            |hit: &Hit| (hit.chunk.path.clone(), hit.chunk.start_line, hit.chunk.id.clone());
        b.chunk.score.total_cmp(&a.chunk.score).then_with(|| place(a).cmp(&place(b)))
    });
}

/// None when the passage cannot be seen, or is not wanted.
pub(super) fn read(
    db: &Connection,
    search: &Search<'_>,
    (corpus, part): (&Corpus, Part<'_>),
    row: i64,
) -> rusqlite::Result<Option<Hit>> {
    let mut statement = db.prepare_cached(
        "SELECT f.path, f.language, f.sha256, f.id, f.log_id, c.chunk_id, c.start_line, c.end_line, c.symbol, c.sha256,
                c.text
         FROM chunks c JOIN files f ON f.id = c.file
         WHERE c.id = ?1 AND c.org_id = ?2 AND f.org_id = ?2 AND f.corpus = ?3
           AND f.from_gen <= ?4 AND (f.to_gen IS NULL OR f.to_gen > ?4)",
    )?;
    let org = search.org.as_uuid().as_bytes();
    let found = statement.query_row(params![row, org, corpus.id, corpus.visible], |found| {
        let path: String = found.get(0)?;
        let language: Option<String> = found.get(1)?;
        let log: Option<[u8; 16]> = found.get(4)?;
        let is_of_log = match part {
            Part::Repo => log.is_none(),
            Part::Documents(logs) => {
                log.is_some_and(|log| logs.iter().any(|wanted| wanted.as_uuid().as_bytes() == &log))
            }
        };
        if !is_of_log || !search.is_wanted(part, &path, language.as_deref()) {
            return Ok(None);
        }
        Ok(Some(Hit {
            row,
            file: found.get(3)?,
            corpus: corpus.id,
            is_ranked: false,
            chunk: Chunk {
                id: Uuid::from_bytes(found.get(5)?).hyphenated().to_string(),
                path,
                start_line: found.get(6)?,
                end_line: found.get(7)?,
                language,
                symbol: found.get(8)?,
                sha256: Sha256Hash::from_bytes(found.get(9)?),
                file_sha256: Some(Sha256Hash::from_bytes(found.get(2)?)),
                origin: match part {
                    Part::Documents(_) => Origin::Document,
                    Part::Repo if corpus.is_of_commit => Origin::Commit,
                    Part::Repo => Origin::WorkTree,
                },
                text: found.get(10)?,
                score: 0.0,
                lexical: 0.0,
            },
        }))
    });
    found.optional().map(Option::flatten)
}
