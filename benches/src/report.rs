//! The table of results, beside the limit program, the targets and the fastest durable peer.

use std::{fmt::Write as _, time::Duration};

use crate::process::{load, machine};

/// agno AgentOS 3.1.10 over HTTP with one sync a turn, the fastest peer that keeps what it accepts.
pub(crate) const PEER_W1_TURNS_PER_SECOND: f64 = 62.0;
pub(crate) const PEER_W2_TURNS_PER_SECOND: f64 = 95.0;

/// Others may use this much of the machine before a run is called disturbed.
const TOLERATED_PROCESSORS: f64 = 0.15;

/// What is to be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// At most this much above 1.
    Within(f64),
}

impl Target {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Within(part) => value <= 1.0 + part,
        }
    }

    fn show(self, unit: Unit) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {}", unit.show(least)),
            Self::AtMost(most) => format!("≤ {}", unit.show(most)),
            Self::Within(part) => format!("≤ {}", unit.show(1.0 + part)),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Number,
    Percent,
    Times,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Number => number(value),
            Self::Percent => format!("{:.0} %", value * 100.0),
            Self::Times => format!("{} ×", number(value)),
        }
    }
}

/// Rows in the order in which they were measured.
pub(crate) struct Report {
    load_before: String,
    rows: Vec<[String; 7]>,
    notes: Vec<String>,
}

const HEAD: [&str; 7] = ["", "measure", "Skein", "limit", "Skein / limit", "target", "reached"];

impl Report {
    pub(crate) fn new() -> Self {
        Self { load_before: load(), rows: Vec::new(), notes: Vec::new() }
    }

    /// More is better.
    pub(crate) fn paired(&mut self, workload: &str, name: &str, ours: f64, limit: f64) {
        self.push(workload, name, &Line { ours, limit: Some(limit), ..Line::default() });
    }

    /// Less is better.
    pub(crate) fn costs(&mut self, workload: &str, name: &str, ours: f64, limit: f64) {
        self.paired(workload, name, ours, limit);
    }

    /// Without a limit to compare with.
    pub(crate) fn plain(&mut self, workload: &str, name: &str, ours: f64) {
        self.push(workload, name, &Line { ours, ..Line::default() });
    }

    /// With a target to reach, and a limit where there is one.
    pub(crate) fn judged(
        &mut self,
        workload: &str,
        name: &str,
        (ours, limit): (f64, Option<f64>),
        target: Target,
    ) {
        self.push(workload, name, &Line { ours, limit, target: Some(target), ..Line::default() });
    }

    /// A share, shown in per cent.
    pub(crate) fn ratio(&mut self, workload: &str, name: &str, ours: f64, target: Target) {
        let line = Line { ours, target: Some(target), unit: Some(Unit::Percent), limit: None };
        self.push(workload, name, &line);
    }

    /// How many times a peer's figure.
    pub(crate) fn peer(&mut self, workload: &str, name: &str, ours: f64, target: Option<Target>) {
        self.push(workload, name, &Line { ours, target, unit: Some(Unit::Times), limit: None });
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Says when others used the machine meanwhile: then the figures are not to be trusted.
    pub(crate) fn others(&mut self, workload: &str, processors: Vec<f64>) {
        let busy = median(&processors);
        if busy > TOLERATED_PROCESSORS {
            self.note(format!(
                "**The machine was not idle in {workload}**: others kept {busy:.1} processors busy. Only CPU \
                 times, sizes and, roughly, ratios hold."
            ));
        }
    }

    fn push(&mut self, workload: &str, name: &str, line: &Line) {
        let unit = line.unit.unwrap_or(Unit::Number);
        let reached = |target: Target| if target.is_reached(line.ours) { "yes" } else { "**no**" };
        self.rows.push([
            workload.to_owned(),
            name.to_owned(),
            unit.show(line.ours),
            line.limit.map(|limit| unit.show(limit)).unwrap_or_default(),
            line.limit.map(|limit| Unit::Percent.show(line.ours / limit)).unwrap_or_default(),
            line.target.map(|target| target.show(unit)).unwrap_or_default(),
            line.target.map(reached).unwrap_or_default().to_owned(),
        ]);
    }

    /// Readable as it is, and ready for `docs/benchmarks.md`.
    pub(crate) fn to_markdown(&self) -> String {
        let head = HEAD.map(str::to_owned);
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        let mut text = format!(
            "{}. Load average before: {}; after: {}.\n\n",
            machine(),
            self.load_before,
            load()
        );
        push_row(&mut text, &head, &widths);
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        push_row(&mut text, &rule, &widths);
        for row in &self.rows {
            push_row(&mut text, row, &widths);
        }
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }
}

#[derive(Default)]
struct Line {
    ours: f64,
    limit: Option<f64>,
    target: Option<Target>,
    unit: Option<Unit>,
}

fn push_row(text: &mut String, cells: &[String], widths: &[usize]) {
    for (cell, width) in cells.iter().zip(widths) {
        let padding = " ".repeat(width - cell.chars().count());
        let _ = write!(text, "| {cell}{padding} ");
    }
    text.push_str("|\n");
}

/// Three digits that matter, thousands set apart.
fn number(value: f64) -> String {
    if value.abs() < 1.0 {
        return format!("{value:.3}");
    }
    if value.abs() < 10.0 {
        return format!("{value:.2}");
    }
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        let shown = [0.1234, 1.26, 99.96, 1234.5, 1_234_567.0].map(number);

        assert_eq!(shown, ["0.123", "1.26", "100.0", "1,234", "1,234,567"]);
    }

    #[test]
    fn a_missed_target_stands_out() {
        let mut report = Report::new();

        report.ratio("W2", "share", 0.55, Target::AtLeast(0.6));

        assert_eq!(report.rows[0][2..], ["55 %", "", "", "≥ 60 %", "**no**"]);
    }
}
