//! What an instruction asks for.

use super::words;

/// Words that are about the whole and not about a part of it.
const WHOLE: &[&str] = &[
    "repository",
    "repo",
    "project",
    "codebase",
    "program",
    "app",
    "application",
    "package",
    "library",
    "crate",
    "tool",
    "overview",
    "purpose",
    "summary",
    "introduction",
    "readme",
    "software",
    "describe",
    "summarize",
    "summarise",
];
/// Words that stand for something said before.
const PRONOUNS: &[&str] = &[
    "it", "its", "itself", "they", "them", "their", "that", "those", "this", "these", "there",
    "one", "ones", "same",
];
/// Who asks for these does not want the definition first.
const USES: &[&str] =
    &["call", "calls", "called", "caller", "callers", "uses", "used", "usage", "usages", "using"];
/// A follow-up says little of its own.
const FEW_TERMS: usize = 2;

/// A question, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) subject: Subject,
    pub(super) terms: Vec<Term>,
    /// How many of the terms come from earlier questions; they are the last ones.
    pub(super) recalled: usize,
    pub(super) wants: Wants,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// "What is this?"
    Whole,
    Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Definition,
    Uses,
}

/// A word that tells what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// As the person wrote it, in lower case.
    pub(super) word: String,
    pub(super) stem: String,
}

impl Question {
    /// `earlier` is oldest first, and counts only when the instruction does not stand alone.
    pub(super) fn of(instruction: &str, earlier: &[&str]) -> Self {
        let plain = words::plain(instruction);
        let wants = match plain.iter().any(|word| USES.contains(&word.as_str())) {
            true => Wants::Uses,
            false => Wants::Definition,
        };
        let mut terms = own_terms(instruction);
        if is_about_the_whole(&plain, &terms) && (earlier.is_empty() || !is_follow_up(instruction))
        {
            return Self { subject: Subject::Whole, terms: Vec::new(), recalled: 0, wants };
        }
        let own = terms.len();
        if is_follow_up(instruction) {
            for before in earlier.iter().rev() {
                for term in own_terms(before) {
                    if !terms.iter().any(|known| known.stem == term.stem) {
                        terms.push(term);
                    }
                }
                if !is_follow_up(before) {
                    break;
                }
            }
        }
        Self { subject: Subject::Part, recalled: terms.len() - own, terms, wants }
    }

    /// The words to look for: those of the person, and those that they left out.
    pub(super) fn search_text(&self, instruction: &str) -> String {
        let recalled = self.recalled_terms().iter().map(|term| term.word.as_str());
        std::iter::once(instruction).chain(recalled).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn recalled_terms(&self) -> &[Term] {
        &self.terms[self.terms.len() - self.recalled..]
    }
}

/// Whether an instruction needs those before it to be understood.
pub(super) fn is_follow_up(instruction: &str) -> bool {
    let plain = words::plain(instruction);
    let terms = own_terms(instruction).len();
    let begins =
        |words: &[&str]| plain.iter().zip(words).filter(|(a, b)| a == b).count() == words.len();
    let goes_on = begins(&["and"])
        || begins(&["what", "about"])
        || begins(&["how", "about"])
        || begins(&["why"]);
    let points_back = plain.iter().any(|word| PRONOUNS.contains(&word.as_str()));
    terms == 0 || terms <= FEW_TERMS && (points_back || goes_on)
}

fn own_terms(instruction: &str) -> Vec<Term> {
    let telling = words::telling(instruction).into_iter();
    telling.map(|(word, stem)| Term { word, stem }).collect()
}

/// "What is this project about?": it names the whole, or nothing at all.
fn is_about_the_whole(plain: &[String], terms: &[Term]) -> bool {
    let names_whole = plain.iter().any(|word| WHOLE.contains(&word.as_str()));
    let points = plain.iter().any(|word| matches!(word.as_str(), "this" | "it" | "here"));
    let asks = plain
        .iter()
        .any(|word| matches!(word.as_str(), "what" | "explain" | "describe" | "about" | "tell"));
    let is_rest_empty = terms.iter().all(|term| WHOLE.contains(&term.word.as_str()));
    is_rest_empty && (names_whole || points && asks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(question: &Question) -> Vec<&str> {
        question.terms.iter().map(|term| term.word.as_str()).collect()
    }

    #[test]
    fn the_whole_is_told_from_its_parts() {
        for whole in [
            "what is this?",
            "What does this project do?",
            "describe the repository",
            "tell me about this codebase",
            "overview",
        ] {
            assert_eq!(Question::of(whole, &[]).subject, Subject::Whole, "{whole}");
        }
        for part in ["what is a session?", "where are projects registered?", "hello"] {
            assert_eq!(Question::of(part, &[]).subject, Subject::Part, "{part}");
        }
    }

    #[test]
    fn a_follow_up_is_about_what_was_asked_before() {
        let earlier = ["where are tokens revoked?", "and where is that tested?"];

        let question = Question::of("who calls it?", &earlier);

        assert_eq!(words(&question), ["calls", "tested", "tokens", "revoked"]);
        assert_eq!((question.recalled, question.wants), (3, Wants::Uses));
    }

    #[test]
    fn a_question_that_stands_alone_forgets_what_was_asked_before() {
        let question =
            Question::of("where is the audit log sealed?", &["where are tokens revoked?"]);

        assert_eq!(words(&question), ["audit", "log", "sealed"]);
        assert_eq!(question.wants, Wants::Definition);
    }

    #[test]
    fn what_is_it_means_the_subject_of_before() {
        let question = Question::of("what is it?", &["where is WorkTicket used"]);

        assert_eq!((question.subject, words(&question)), (Subject::Part, vec!["work", "ticket"]));
    }
}
