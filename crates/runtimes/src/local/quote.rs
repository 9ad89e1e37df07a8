//! The lines of a passage that are shown. Never a line that is not in it.

use super::{
    definition::{defined_name, likeness},
    question::Question,
    words,
};

/// A part of a file, as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) start_line: u32,
    pub(super) end_line: u32,
    pub(super) text: String,
    /// The line and name of the definition that is asked for, if it is among them.
    pub(super) defines: Option<(u32, String)>,
}

/// The lines around those that match best, at most so many. `None` when there is nothing to show.
pub(super) fn around(
    question: &Question,
    text: &str,
    first_line: u32,
    most: usize,
) -> Option<Quote> {
    let lines: Vec<&str> = text.lines().collect();
    let worth: Vec<f64> = lines.iter().map(|line| worth(question, line)).collect();
    let start = match lines.len() <= most {
        true => 0,
        false => best_start(&worth, most),
    };
    cut(question, &lines, first_line, start..lines.len().min(start + most))
}

/// The first lines, at most so many.
pub(super) fn head(question: &Question, text: &str, first_line: u32, most: usize) -> Option<Quote> {
    let lines: Vec<&str> = text.lines().collect();
    cut(question, &lines, first_line, 0..lines.len().min(most))
}

/// A definition is worth more than a mention.
fn worth(question: &Question, line: &str) -> f64 {
    let stems = words::stems(line);
    let named = question.terms.iter().filter(|term| stems.contains(&term.stem)).count();
    let definition = defined_name(line).map_or(0.0, |name| likeness(name, question));
    named as f64 + 4.0 * definition
}

/// The earliest of the best windows, begun a little before the first line that matters in it.
fn best_start(worth: &[f64], most: usize) -> usize {
    const LEAD: usize = 3;
    let sum = |start: usize| worth[start..start + most].iter().sum::<f64>();
    let last = worth.len() - most;
    let mut best = 0;
    for start in 1..=last {
        if sum(start) > sum(best) {
            best = start;
        }
    }
    let first = (best..best + most).find(|at| worth[*at] > 0.0).unwrap_or(best);
    first.saturating_sub(LEAD).clamp(best.min(last), last)
}

fn cut(
    question: &Question,
    lines: &[&str],
    first_line: u32,
    range: std::ops::Range<usize>,
) -> Option<Quote> {
    let is_text = |at: &usize| !lines[*at].trim().is_empty();
    let is_closing = |at: &usize| lines[*at].chars().all(|c| " \t})];,".contains(c));
    // What only closes something says nothing at the beginning.
    let start = range.clone().find(|at| is_text(at) && !is_closing(at))?;
    let end = range.rev().find(is_text)?;
    let number = |at: usize| first_line.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
    let defined = (start..=end).filter_map(|at| {
        let name = defined_name(lines[at])?;
        Some((likeness(name, question), at, name))
    });
    // The first of the best.
    let best = defined.fold(None, |best: Option<(f64, usize, &str)>, next| match best {
        Some(best) if best.0 >= next.0 => Some(best),
        _ => Some(next),
    });
    let best = best.filter(|(likeness, _, _)| *likeness > 0.5);
    Some(Quote {
        start_line: number(start),
        end_line: number(end),
        text: lines[start..=end].join("\n"),
        defines: best.map(|(_, at, name)| (number(at), name.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_passage_is_cut_around_what_is_asked_for() {
        let mut lines: Vec<String> = (1..=100).map(|line| format!("line {line}")).collect();
        lines[59] = "fn seal_log() {".to_owned();
        let question = Question::of("where is the log sealed?", &[]);

        let quote = around(&question, &lines.join("\n"), 11, 10).unwrap();

        assert_eq!(quote.defines, Some((70, "seal_log".to_owned())));
        assert_eq!(quote.text.lines().count(), 10);
        assert!(quote.start_line <= 70 && quote.end_line >= 70, "{quote:?}");
        let at = quote.start_line as usize - 11;
        assert_eq!(quote.text, lines[at..at + 10].join("\n"));
    }

    #[test]
    fn blank_lines_at_the_ends_are_left_out_and_nothing_gives_no_quote() {
        let question = Question::of("x", &[]);

        let quote = head(&question, "\n\na\n\nb\n\n", 5, 30).unwrap();

        assert_eq!((quote.start_line, quote.end_line, quote.text.as_str()), (7, 9, "a\n\nb"));
        assert_eq!(head(&question, "\n \n", 1, 30), None);
    }
}
