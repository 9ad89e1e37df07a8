//! What an instruction asks for.

use super::words;
pub(super) use super::words::Term;

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
/// Words of those who want to know where something is used: wherever they stand, at the end or before a place, and
/// after the one who does it.
const USES: &[&str] = &["uses", "usages", "caller", "callers"];
const USED: &[&str] = &["used", "called", "referenced", "invoked", "usage"];
const USE: &[&str] = &["use", "using", "call", "calls", "calling", "references", "invokes"];
const AT: &[&str] = &["by", "in", "of", "from", "anywhere", "elsewhere"];
const WHO: &[&str] = &["who", "what", "which", "that"];
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

impl Question {
    /// `earlier` is oldest first, and counts only when the instruction does not stand alone.
    pub(super) fn of(instruction: &str, earlier: &[&str]) -> Self {
        let plain = words::plain(instruction);
        let wants = match (0..plain.len()).any(|at| asks_for_uses(&plain, at)) {
            true => Wants::Uses,
            false => Wants::Definition,
        };
        let is_follow_up = is_follow_up(instruction);
        let mut terms = words::telling(instruction);
        if is_about_the_whole(&plain, &terms) && (earlier.is_empty() || !is_follow_up) {
            return Self { subject: Subject::Whole, terms: Vec::new(), recalled: 0, wants };
        }
        let remembered = if is_follow_up { remembered(earlier) } else { Vec::new() };
        let subject = subject_terms(instruction, &plain);
        // Without a subject, what is wanted is all there is to look for.
        if !subject.is_empty() || !remembered.is_empty() {
            terms = subject;
        }
        let own = terms.len();
        for term in remembered {
            if !terms.iter().any(|known| known.stem == term.stem) {
                terms.push(term);
            }
        }
        Self { subject: Subject::Part, recalled: terms.len() - own, terms, wants }
    }

    /// The words to look for: those of the person about the subject, and those that they left out.
    pub(super) fn search_text(&self, instruction: &str) -> String {
        let plain = words::plain(instruction);
        let is_wanting = |word: &str| {
            let of_word = words::plain(word);
            let is_term = self.terms.iter().any(|term| of_word.contains(&term.word));
            !is_term
                && (0..plain.len())
                    .any(|at| asks_for_uses(&plain, at) && of_word.contains(&plain[at]))
        };
        let mut text: Vec<&str> =
            instruction.split_whitespace().filter(|word| !is_wanting(word)).collect();
        for term in self.recalled_terms() {
            if !text.contains(&term.written.as_str()) {
                text.push(&term.written);
            }
        }
        text.join(" ")
    }

    pub(super) fn recalled_terms(&self) -> &[Term] {
        &self.terms[self.terms.len() - self.recalled..]
    }
}

/// What earlier questions were about: back to the last one that stood alone.
fn remembered(earlier: &[&str]) -> Vec<Term> {
    let mut terms = Vec::new();
    for before in earlier.iter().rev() {
        terms.extend(subject_terms(before, &words::plain(before)));
        if !is_follow_up(before) {
            break;
        }
    }
    terms
}

/// Whether an instruction needs those before it to be understood.
pub(super) fn is_follow_up(instruction: &str) -> bool {
    let plain = words::plain(instruction);
    let terms = subject_terms(instruction, &plain);
    if names_the_whole(&plain, &terms) {
        return false;
    }
    let begins =
        |words: &[&str]| plain.iter().zip(words).filter(|(a, b)| a == b).count() == words.len();
    let goes_on = begins(&["and"])
        || begins(&["what", "about"])
        || begins(&["how", "about"])
        || begins(&["why"]);
    let points_back = plain.iter().any(|word| PRONOUNS.contains(&word.as_str()));
    // "And Expectation?" has a subject of its own.
    let goes_on = goes_on && !words::has_name(instruction);
    terms.is_empty() || terms.len() <= FEW_TERMS && (points_back || goes_on)
}

/// The terms without what is wanted to know about them: "calls" in "who calls it", and not in "tool calls".
fn subject_terms(instruction: &str, plain: &[String]) -> Vec<Term> {
    let wanting: Vec<&String> =
        (0..plain.len()).filter(|at| asks_for_uses(plain, *at)).map(|at| &plain[at]).collect();
    words::telling(instruction).into_iter().filter(|term| !wanting.contains(&&term.word)).collect()
}

/// Whether the word at this place is what somebody does with the subject.
fn asks_for_uses(plain: &[String], at: usize) -> bool {
    let is =
        |list: &[&str], at: usize| plain.get(at).is_some_and(|word| list.contains(&word.as_str()));
    let is_last = at + 1 == plain.len();
    is(USES, at)
        || is(USED, at) && (is_last || is(AT, at + 1))
        || is(USE, at) && at > 0 && (is(WHO, at - 1) || is(&["who"], 0))
}

/// "This project" and nothing else; "it" may be anything.
fn names_the_whole(plain: &[String], terms: &[Term]) -> bool {
    let is_whole = |word: &String| WHOLE.contains(&word.as_str());
    let points_elsewhere = |at: usize| {
        PRONOUNS.contains(&plain[at].as_str()) && !plain.get(at + 1).is_some_and(is_whole)
    };
    plain.iter().any(is_whole)
        && terms.iter().all(|term| is_whole(&term.word))
        && !(0..plain.len()).any(points_elsewhere)
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

        assert_eq!(words(&question), ["tested", "tokens", "revoked"]);
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

    #[test]
    fn a_conversation_keeps_its_subject_until_there_is_another() {
        let asked = [
            ("where is ChangeSet defined?", vec!["change", "set"], Wants::Definition),
            ("and where is it used?", vec!["change", "set"], Wants::Uses),
            ("who calls it?", vec!["change", "set"], Wants::Uses),
            ("why?", vec!["change", "set"], Wants::Definition),
            ("what is it?", vec!["change", "set"], Wants::Definition),
            ("and Expectation?", vec!["expectation"], Wants::Definition),
            ("who uses it?", vec!["expectation"], Wants::Uses),
        ];
        let mut earlier = Vec::new();
        for (instruction, terms, wants) in asked {
            let question = Question::of(instruction, &earlier);

            assert_eq!((words(&question), question.wants), (terms, wants), "{instruction}");
            earlier.push(instruction);
        }
        let whole = Question::of("what is this project?", &earlier);
        assert_eq!((whole.subject, words(&whole)), (Subject::Whole, vec![]));
    }

    #[test]
    fn what_is_wanted_is_looked_for_only_when_it_is_the_subject() {
        let looked_for = |instruction, earlier: &[&str]| {
            Question::of(instruction, earlier).search_text(instruction)
        };

        assert_eq!(looked_for("who calls it?", &["where is ChangeSet?"]), "who it? ChangeSet");
        assert_eq!(looked_for("who calls ChangeSet?", &[]), "who ChangeSet?");
        assert_eq!(looked_for("how are tool calls run?", &[]), "how are tool calls run?");
        assert_eq!(words(&Question::of("how are tool calls run?", &[])), ["tool", "calls", "run"]);
        assert_eq!(words(&Question::of("who calls it?", &[])), ["calls"]);
        for (instruction, wants) in [
            ("how are tool calls run?", Wants::Definition),
            ("where is the called number kept?", Wants::Definition),
            ("where is ChangeSet called from?", Wants::Uses),
            ("callers of ChangeSet", Wants::Uses),
            ("who is using ChangeSet?", Wants::Uses),
        ] {
            assert_eq!(Question::of(instruction, &[]).wants, wants, "{instruction}");
        }
    }
}
