//! The one place that writes to stdout and stderr: data on stdout, all else on stderr.

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table};
use skein_core::model::Timestamp;

use crate::failure::{Exit, Failure};

const MIN_TABLE_WIDTH: u16 = 60;

const BOLD_RED: &str = "\x1b[1;31m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Data, exactly as given, and at once.
pub(crate) fn data(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        // Whoever read this has seen enough, as `head` does.
        ErrorKind::BrokenPipe => Failure::new(Exit::Success, "nobody reads the output"),
        _ => Failure::new(Exit::Failed, "cannot write the output").because(error),
    })
}

/// A line of data.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    data(format!("{text}\n").as_bytes())
}

/// A line for people. When stderr is closed there is nobody to tell.
pub(crate) fn note(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}

/// A line for people that is not the point.
pub(crate) fn aside(text: &str) {
    note(&format!("{DIM}{text}{PLAIN}"));
}

/// `error:`, the causes, and `hint:`.
pub(crate) fn failure(failure: &Failure) {
    note(&format!("{BOLD_RED}error:{PLAIN} {}", printable(&failure.message)));
    for cause in failure.causes() {
        note(&format!("  caused by: {}", printable(&cause)));
    }
    if let Some(hint) = &failure.hint {
        note(&format!("{BOLD}hint:{PLAIN} {}", printable(hint)));
    }
}

/// A table on a terminal; else one line per row, columns divided by tabs, without the header.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    if !stdout_is_terminal() {
        let lines = rows.iter().map(|row| {
            let cells: Vec<_> = row.iter().map(|cell| printable(cell)).collect();
            cells.join("\t") + "\n"
        });
        return data(lines.collect::<String>().as_bytes());
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // Some terminals do not know their width, and nothing is readable in a few columns.
    if table.width().is_some_and(|width| width >= MIN_TABLE_WIDTH) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    line(&table.trim_fmt())
}

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Asks the person at the terminal. `true` when there is none.
pub(crate) fn confirm(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(true);
    }
    drop(write!(anstream::stderr(), "{question} [y/N] "));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(Exit::Failed, "cannot read the answer").because(error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Text of strangers without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same for text that may have lines.
pub(crate) fn printable_lines(text: &str) -> String {
    let keep = |c: char| c == '\n' || c == '\t' || !c.is_control();
    text.chars().filter(|c| keep(*c)).collect()
}

/// How long ago, for a terminal; the moment itself for everything else.
pub(crate) fn time(at: &str, now: Timestamp) -> String {
    match at.parse::<Timestamp>() {
        Ok(moment) if stdout_is_terminal() => ago(moment, now),
        _ => at.to_owned(),
    }
}

fn ago(moment: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(moment).as_secs();
    match seconds {
        0..5 => "now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400.. => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_by_its_largest_unit() {
        let now = Timestamp::from_millis(1_000_000_000);
        let ages = [0, 59, 60, 3_599, 7_200, 200_000];

        let told =
            ages.map(|seconds| ago(Timestamp::from_millis(1_000_000_000 - seconds * 1_000), now));

        assert_eq!(told, ["now", "59 s ago", "1 min ago", "59 min ago", "2 h ago", "2 d ago"]);
    }

    #[test]
    fn text_of_strangers_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\nc"), "a [31mb c");
        assert_eq!(printable_lines("a\x1b[31mb\nc\td"), "a[31mb\nc\td");
    }
}
