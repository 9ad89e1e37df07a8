//! Finds passages by their words.
//!
//! The full-text table gives candidates for the tokens that tell most; each candidate is then read and ranked with
//! all of the question. So the cost does not grow with tokens that are everywhere.

use rusqlite::{Connection, OptionalExtension, params};
use skein_core::{
    model::{LogId, OrgId, Sha256Hash},
    ports::{Chunk, RetrievalQuery},
};
use uuid::Uuid;

use super::{
    Inner,
    corpus::{Corpus, Subject},
    fault::Fault,
    rank::{self, Ranking, add_company},
};
use crate::{filter::PathFilter, query::Question};

/// Occurrences that are looked at for one question, unless its rarest token alone has more.
const MAX_OCCURRENCES: u64 = 4_000;

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

/// The best passages first.
pub(super) fn search(
    inner: &Inner,
    org: OrgId,
    query: &RetrievalQuery,
) -> Result<Vec<Chunk>, Fault> {
    let search = Search::new(org, query);
    let mut hits = inner.readers.take()?.snapshot(|db| lexical(inner, db, &search))?;
    hits.truncate(search.limit());
    Ok(hits.into_iter().map(|hit| hit.chunk).collect())
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
    let chosen = telling(terms, &frequencies);
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let rows = candidates(db, corpus, &expression(&chosen, part))?;
    let ranking = Ranking::new(&search.question, &frequencies, corpus.chunks);
    let wanted = CANDIDATES.max(search.limit());
    let mut hits = Vec::new();
    for row in rows.into_iter().take(MAX_LOOKED_UP) {
        if let Some(mut hit) = read(db, search, (corpus, part), row)? {
            hit.chunk.score = ranking.score(&rank::Subject {
                symbol: hit.chunk.symbol.as_deref(),
                path: &hit.chunk.path,
                text: &hit.chunk.text,
            });
            hits.push(hit);
        }
        if hits.len() >= wanted {
            break;
        }
    }
    let mut scores: Vec<f64> = hits.iter().map(|hit| hit.chunk.score).collect();
    add_company(&mut scores, &hits.iter().map(|hit| hit.file).collect::<Vec<_>>());
    for (hit, score) in hits.iter_mut().zip(scores) {
        hit.chunk.score = score;
    }
    Ok(hits)
}

/// Best first; what is equally good in the order of the repository.
pub(super) fn sort(hits: &mut [Hit]) {
    hits.sort_by(|a, b| {
        let place =
            |hit: &Hit| (hit.chunk.path.clone(), hit.chunk.start_line, hit.chunk.id.clone());
        b.chunk.score.total_cmp(&a.chunk.score).then_with(|| place(a).cmp(&place(b)))
    });
}

/// The rarest tokens, as many as can be afforded.
fn telling<'a>(terms: &'a [String], frequencies: &[u64]) -> Vec<&'a str> {
    let mut known: Vec<(u64, &str)> = frequencies
        .iter()
        .zip(terms)
        .filter(|(count, _)| **count > 0)
        .map(|(count, term)| (*count, term.as_str()))
        .collect();
    known.sort_unstable();
    let mut sum = 0;
    let mut chosen = Vec::new();
    for (count, term) in known {
        sum += count;
        if !chosen.is_empty() && sum > MAX_OCCURRENCES {
            break;
        }
        chosen.push(term);
    }
    chosen
}

/// Tokens are letters and digits, so nothing in a question can be taken for syntax.
fn expression(terms: &[&str], part: Part<'_>) -> String {
    let any = |words: &mut dyn Iterator<Item = String>| {
        words.map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ")
    };
    let words = any(&mut terms.iter().map(|term| term.replace('"', "")));
    match part {
        Part::Repo => format!("{{symbol path text}} : ({words})"),
        Part::Documents(logs) => {
            let logs = any(&mut logs.iter().map(|log| log.as_uuid().simple().to_string()));
            format!("(scope : ({logs})) AND ({{symbol path text}} : ({words}))")
        }
    }
}

/// Rows by what the full-text table thinks of them.
fn candidates(db: &Connection, corpus: &Corpus, expression: &str) -> rusqlite::Result<Vec<i64>> {
    let id = corpus.id;
    let mut statement = db.prepare_cached(&format!(
        "SELECT rowid, bm25(fts_{id}, 0.0, 4.0, 2.5, 1.0) FROM fts_{id} WHERE fts_{id} MATCH ?1"
    ))?;
    let rows = statement.query_map([expression], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut rows: Vec<(i64, f64)> = rows.collect::<rusqlite::Result<_>>()?;
    rows.sort_unstable_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    Ok(rows.into_iter().map(|(row, _)| row).collect())
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
            chunk: Chunk {
                id: Uuid::from_bytes(found.get(5)?).hyphenated().to_string(),
                path,
                start_line: found.get(6)?,
                end_line: found.get(7)?,
                language,
                symbol: found.get(8)?,
                sha256: Sha256Hash::from_bytes(found.get(9)?),
                file_sha256: Some(Sha256Hash::from_bytes(found.get(2)?)),
                text: found.get(10)?,
                score: 0.0,
            },
        }))
    });
    found.optional().map(Option::flatten)
}
