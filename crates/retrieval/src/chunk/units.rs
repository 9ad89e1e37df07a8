//! Ranges of lines that belong together, and how they become passages.

use skein_core::model::Sha256Hash;

use super::{MAX_BYTES, MAX_LINES, Passage, lines::Lines};

/// Neighbours are put together until a passage has this size: enough to be understood, and still about one thing.
const JOINED_BYTES: usize = 900;
const JOINED_LINES: usize = 40;

/// A window ends at the blank line nearest to its end, if one is in its last part.
const WINDOW_BYTES: usize = 1_800;
const WINDOW_LINES: usize = 60;

/// Names that a passage bears at most.
pub(super) const MAX_SYMBOLS: usize = 12;

/// Lines that belong together, counted from 0, both ends inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    pub first: usize,
    pub last: usize,
    pub symbols: Vec<String>,
    /// Not to be put together with what comes before it.
    pub is_apart: bool,
}

impl Unit {
    pub(super) const fn plain(first: usize, last: usize) -> Self {
        Self { first, last, symbols: Vec::new(), is_apart: false }
    }

    pub(super) fn is_small(&self, lines: &Lines<'_>) -> bool {
        fits(lines, self.first, self.last, (MAX_BYTES, MAX_LINES))
    }
}

pub(super) fn fits(lines: &Lines<'_>, first: usize, last: usize, limit: (usize, usize)) -> bool {
    last + 1 - first <= limit.1 && lines.bytes(first, last) <= limit.0
}

/// The whole text as one unit.
pub(super) fn whole(lines: &Lines<'_>) -> Vec<Unit> {
    match lines.count() {
        0 => Vec::new(),
        count => vec![Unit::plain(0, count - 1)],
    }
}

/// Units in the order of their lines become passages of a good size that cover every line that is not blank.
pub(super) fn passages(lines: &Lines<'_>, units: Vec<Unit>) -> Vec<Passage> {
    let covered = cover(lines, units);
    let mut passages = Vec::new();
    for unit in join(lines, covered) {
        if unit.is_small(lines) {
            emit(lines, &unit, &mut passages);
        } else {
            windows(lines, &unit, &mut passages);
        }
    }
    passages
}

/// Makes units disjoint, and gives lines between two of them to the first.
fn cover(lines: &Lines<'_>, units: Vec<Unit>) -> Vec<Unit> {
    let mut covered: Vec<Unit> = Vec::with_capacity(units.len());
    let has_text = |from: usize, to: usize| (from..to).any(|row| !lines.is_blank(row));
    for mut unit in units {
        match covered.last_mut() {
            Some(before) if unit.first <= before.last => {
                before.last = before.last.max(unit.last);
                before.symbols.append(&mut unit.symbols);
                continue;
            }
            Some(before) if has_text(before.last + 1, unit.first) => before.last = unit.first - 1,
            None if has_text(0, unit.first) => unit.first = 0,
            _ => {}
        }
        covered.push(unit);
    }
    if let Some(last) = covered.last_mut() {
        last.last = lines.count().saturating_sub(1).max(last.last);
    } else {
        covered = whole(lines);
    }
    covered
}

/// Puts small neighbours together.
fn join(lines: &Lines<'_>, units: Vec<Unit>) -> Vec<Unit> {
    let mut joined: Vec<Unit> = Vec::with_capacity(units.len());
    for mut unit in units {
        match joined.last_mut() {
            Some(before)
                if !unit.is_apart
                    && fits(lines, before.first, unit.last, (JOINED_BYTES, JOINED_LINES)) =>
            {
                before.last = unit.last;
                before.symbols.append(&mut unit.symbols);
            }
            _ => joined.push(unit),
        }
    }
    joined
}

fn windows(lines: &Lines<'_>, unit: &Unit, passages: &mut Vec<Passage>) {
    let mut first = unit.first;
    while first <= unit.last {
        if lines.bytes(first, first) > MAX_BYTES {
            cut_line(lines, first, &unit.symbols, passages);
            first += 1;
            continue;
        }
        let mut last = first;
        while last < unit.last && fits(lines, first, last + 1, (WINDOW_BYTES, WINDOW_LINES)) {
            last += 1;
        }
        if last < unit.last {
            last = at_blank(lines, first, last).unwrap_or(last);
        }
        let window = Unit { first, last, symbols: unit.symbols.clone(), is_apart: true };
        emit(lines, &window, passages);
        first = last + 1;
    }
}

/// The last blank line in the second half of a window.
fn at_blank(lines: &Lines<'_>, first: usize, last: usize) -> Option<usize> {
    let middle = first + (last - first) / 2;
    (middle + 1..=last).rev().find(|row| lines.is_blank(*row))
}

fn emit(lines: &Lines<'_>, unit: &Unit, passages: &mut Vec<Passage>) {
    let rows = || unit.first..=unit.last;
    let Some(first) = rows().find(|row| !lines.is_blank(*row)) else { return };
    let last = rows().rev().find(|row| !lines.is_blank(*row)).unwrap_or(first);
    push(lines.range(first, last), (first, last), &unit.symbols, passages);
}

/// A line that is too long for a passage, in parts.
fn cut_line(lines: &Lines<'_>, row: usize, symbols: &[String], passages: &mut Vec<Passage>) {
    let mut rest = lines.line(row);
    while !rest.is_empty() {
        let mut end = rest.len().min(WINDOW_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, after) = rest.split_at(end);
        if !part.trim().is_empty() {
            push(part, (row, row), symbols, passages);
        }
        rest = after;
    }
}

fn push(text: &str, rows: (usize, usize), symbols: &[String], passages: &mut Vec<Passage>) {
    let number = |row: usize| u32::try_from(row + 1).unwrap_or(u32::MAX);
    let mut names: Vec<String> = Vec::with_capacity(symbols.len().min(MAX_SYMBOLS));
    for symbol in symbols {
        if names.len() < MAX_SYMBOLS && !names.contains(symbol) {
            names.push(symbol.clone());
        }
    }
    passages.push(Passage {
        symbols: names,
        start_line: number(rows.0),
        end_line: number(rows.1),
        text: text.to_owned(),
        sha256: Sha256Hash::of(text.as_bytes()),
    });
}
