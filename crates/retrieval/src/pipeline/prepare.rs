//! Makes a file's rows out of its text, away from the writer.

use skein_core::model::Sha256Hash;

use super::Evidence;
use crate::{
    chunk::{Chunker, Passage},
    language::Language,
    passage_id::PassageIds,
    tokens::token_text,
};

/// A file as it will be written.
pub(crate) struct NewFile {
    pub path: String,
    pub language: Option<&'static str>,
    pub sha256: Sha256Hash,
    pub evidence: Evidence,
    pub path_tokens: String,
    pub passages: Vec<NewPassage>,
}

pub(crate) struct NewPassage {
    pub id: [u8; 16],
    pub symbol: Option<String>,
    pub symbol_tokens: String,
    pub text_tokens: String,
    pub passage: Passage,
}

impl NewFile {
    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let of =
            |passage: &NewPassage| passage.passage.text.len() + passage.text_tokens.len() + 256;
        self.passages.iter().map(of).sum::<usize>() + 512
    }
}

/// A text with what is known about it.
pub(crate) struct Text<'a> {
    pub path: &'a str,
    pub text: &'a str,
    pub language: Option<Language>,
    pub sha256: Sha256Hash,
    /// Tenant, and repository or document: what ids are made of.
    pub owner: [&'a [u8]; 2],
}

pub(crate) fn prepare(chunker: &mut Chunker, text: &Text<'_>, evidence: Evidence) -> NewFile {
    let mut ids = PassageIds::new(text.owner, text.path);
    let passages = chunker.split(text.text, text.language).into_iter().map(|passage| {
        let symbol = (!passage.symbols.is_empty()).then(|| passage.symbols.join(", "));
        NewPassage {
            id: *ids.next(&passage).as_bytes(),
            symbol_tokens: symbol.as_deref().map(token_text).unwrap_or_default(),
            text_tokens: token_text(&passage.text),
            symbol,
            passage,
        }
    });
    NewFile {
        path: text.path.to_owned(),
        language: text.language.map(|language| language.name),
        sha256: text.sha256,
        evidence,
        path_tokens: token_text(text.path),
        passages: passages.collect(),
    }
}
