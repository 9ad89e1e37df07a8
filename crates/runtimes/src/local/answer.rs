//! The answer as people read it: quotations with their places, and what they have of the question.

use skein_core::ports::{Passage, Prompt};

use super::{
    question::{Question, Subject, Term, Wants},
    quote::{self, Quote},
    rank::Match,
    whole,
};

/// Lines that are shown of the first passage, and of each after it.
const FIRST_LINES: usize = 30;
const MORE_LINES: usize = 14;
const MAX_QUOTES: usize = 5;

const SIGNATURE: &str =
    "*From Skein's `local` agent, which searches and quotes. No language model wrote this.*\n";
const HOW_TO_INDEX: &str = "\
    This agent quotes what is in the index. In the work tree of a repository, `skein index add .` puts it there, and \
    `skein index status` says where it stands; documents are added with `POST /api/sessions/{id}/documents`.\n";

/// A place in a file with its lines.
struct Found<'a> {
    path: &'a str,
    quote: Quote,
    hit: Match,
    origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Index,
    /// A file that came with the request.
    Caller,
}

/// The answer in the pieces that it is told in.
pub(super) fn answer(prompt: &Prompt, question: &Question) -> Vec<String> {
    // What was shown in earlier turns comes again, without a score.
    let fresh: Vec<&Passage> =
        prompt.passages.iter().filter(|passage| passage.score > 0.0).collect();
    if question.subject == Subject::Whole {
        return overview(question, &fresh);
    }
    if question.terms.is_empty() {
        return vec![
            format!("There is no word in this to look for. {HOW_TO_INDEX}\n"),
            SIGNATURE.to_owned(),
        ];
    }
    let found = find(prompt, question, &fresh);
    if found.is_empty() {
        return nothing(question, &fresh);
    }
    let mut pieces = vec![lead(question, &found)];
    pieces.extend(found.iter().map(|found| section(question, found)));
    pieces.push(SIGNATURE.to_owned());
    pieces
}

/// Passages in the order in which they were chosen, with the caller's own files where they belong.
fn find<'a>(prompt: &'a Prompt, question: &Question, fresh: &[&'a Passage]) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    for passage in fresh {
        let chunk = &passage.chunk;
        let most = if found.is_empty() { FIRST_LINES } else { MORE_LINES };
        let hit = Match::of(question, &chunk.path, None, &chunk.text);
        let quote = quote::around(question, &chunk.text, chunk.start_line, most);
        if let Some(quote) = quote.filter(|_| hit.is_answer()) {
            found.push(Found { path: &chunk.path, quote, hit, origin: Origin::Index });
        }
    }
    let most = found.iter().map(|found| found.hit.coverage).fold(0.0, f64::max);
    for file in &prompt.files {
        let Some(quote) = quote::around(question, &file.content, 1, MORE_LINES) else { continue };
        let hit = Match::of(question, &file.path, None, &quote.text);
        if !hit.is_answer_beside(most) {
            continue;
        }
        let is_first = question.wants == Wants::Definition && quote.defines.is_some();
        let place = if is_first { 0 } else { found.len() };
        found.insert(place, Found { path: &file.path, quote, hit, origin: Origin::Caller });
    }
    found.truncate(MAX_QUOTES);
    found
}

fn lead(question: &Question, found: &[Found<'_>]) -> String {
    let mut text = String::new();
    let Some(first) = found.first() else { return text };
    let defined = found.iter().find_map(|found| Some((found.path, found.quote.defines.as_ref()?)));
    match defined.filter(|_| question.wants == Wants::Definition) {
        Some((path, (line, name))) if !name.contains(' ') => {
            text.push_str(&format!(
                "{} is defined in {}.",
                code(name),
                code(&format!("{path}:{line}"))
            ));
        }
        _ => text.push_str(&format!("The best match is in {}.", code(&place(first)))),
    }
    let recalled = question.recalled_terms();
    if !recalled.is_empty() {
        text.push_str(&format!(
            " Looked for {} too, from what you asked before.",
            listed(recalled)
        ));
    }
    let is_missing = |at: &usize| !found.iter().any(|found| found.hit.terms.contains(at));
    let missing: Vec<&Term> =
        (0..question.terms.len()).filter(is_missing).map(|at| &question.terms[at]).collect();
    if !missing.is_empty() {
        text.push_str(&format!(" No passage here has {}.", listed(missing)));
    }
    text.push_str("\n\n");
    text
}

fn section(question: &Question, found: &Found<'_>) -> String {
    let terms = found.hit.terms.iter().map(|at| &question.terms[*at]);
    let local = match found.origin {
        Origin::Index => "",
        Origin::Caller => " In the file as it came with your request.",
    };
    let matches = format!("Matches {}.{local}\n\n", listed(terms));
    format!("### {}\n\n{matches}{}\n\n", place(found), fenced(found.path, &found.quote.text))
}

/// The README's beginning and the manifest.
fn overview(question: &Question, fresh: &[&Passage]) -> Vec<String> {
    let mut pieces = Vec::new();
    for passage in fresh {
        let chunk = &passage.chunk;
        let most = if pieces.is_empty() { FIRST_LINES } else { MORE_LINES };
        let Some(quote) = quote::head(question, &chunk.text, chunk.start_line, most) else {
            continue;
        };
        let about = match whole::is_manifest(&chunk.path) {
            true => "The manifest:\n\n",
            false if pieces.is_empty() => "What the repository says of itself:\n\n",
            false => "",
        };
        let heading = format!("{}:{}-{}", chunk.path, quote.start_line, quote.end_line);
        pieces.push(format!("{about}### {heading}\n\n{}\n\n", fenced(&chunk.path, &quote.text)));
    }
    if pieces.is_empty() {
        pieces.push(format!(
            "Nothing found: there is no README and no manifest in the index.\n\n{HOW_TO_INDEX}\n"
        ));
    }
    pieces.push(SIGNATURE.to_owned());
    pieces
}

/// Below the threshold: what was looked for, and where some of it is.
fn nothing(question: &Question, fresh: &[&Passage]) -> Vec<String> {
    let mut pieces = vec![format!("Nothing found for {}.\n\n", listed(&question.terms))];
    if !fresh.is_empty() {
        let mut text = "The nearest places have little of it:\n\n".to_owned();
        for passage in fresh {
            let chunk = &passage.chunk;
            let hit = Match::of(question, &chunk.path, None, &chunk.text);
            let terms = hit.terms.iter().map(|at| &question.terms[*at]);
            let place = format!("{}:{}-{}", chunk.path, chunk.start_line, chunk.end_line);
            text.push_str(&format!("- {} has {}\n", code(&place), listed(terms)));
        }
        pieces.push(format!(
            "{text}\nOther words may find more: this agent compares words, not meanings.\n\n"
        ));
    } else {
        pieces.push(format!("{HOW_TO_INDEX}\n"));
    }
    pieces.push(SIGNATURE.to_owned());
    pieces
}

fn place(found: &Found<'_>) -> String {
    format!("{}:{}-{}", found.path, found.quote.start_line, found.quote.end_line)
}

/// `` `a`, `b` ``
fn listed<'a>(terms: impl IntoIterator<Item = &'a Term>) -> String {
    let words: Vec<String> = terms.into_iter().map(|term| code(&term.word)).collect();
    if words.is_empty() { "none of the words".to_owned() } else { words.join(", ") }
}

fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    format!("{fence}{text}{fence}")
}

/// Lines as they are, behind a fence that is in none of them.
fn fenced(path: &str, text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}{}\n{text}\n{fence}", language(path))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn language(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "rs" => "rust",
        "py" | "pyi" => "python",
        "js" | "mjs" | "cjs" | "jsx" => "javascript",
        "ts" | "mts" | "tsx" => "typescript",
        "go" => "go",
        "java" => "java",
        "cs" => "csharp",
        "c" | "h" => "c",
        "cpp" | "cc" | "cxx" | "hpp" | "hh" => "cpp",
        "md" | "markdown" => "markdown",
        "toml" => "toml",
        "json" => "json",
        "yaml" | "yml" => "yaml",
        "sql" => "sql",
        "sh" | "bash" => "sh",
        "html" => "html",
        "css" => "css",
        _ => "",
    }
}
