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

/// Text of an agent: exact for programs, and without what a terminal would obey for people.
pub(crate) fn prose(text: &str) -> Result<(), Failure> {
    match stdout_is_terminal() {
        true => data(printable_lines(text).as_bytes()),
        false => data(text.as_bytes()),
    }
}

/// A line for people. When stderr is closed there is nobody to tell.
pub(crate) fn note(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}

/// A line for people that is not the point.
pub(crate) fn aside(text: &str) {
    note(&format!("{DIM}{text}{PLAIN}"));
}

/// The same without an end of line.
pub(crate) fn murmur(text: &str) {
    drop(write!(anstream::stderr(), "{DIM}{text}{PLAIN}"));
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

/// Whether a person can read what is told and type an answer.
pub(crate) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks the person at the terminal. `true` when there is none.
pub(crate) fn confirm(question: &str) -> Result<bool, Failure> {
    if !somebody_is_there() {
        return Ok(true);
    }
    drop(write!(anstream::stderr(), "{question} [y/N] "));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(Exit::Failed, "cannot read the answer").because(error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A text as a shell takes it for one word.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,".contains(c);
    let shown = printable(text);
    match !shown.is_empty() && shown.chars().all(is_plain) {
        true => shown,
        false => format!("'{}'", shown.replace('\'', "'\\''")),
    }
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

/// An amount of text: `812 B`, `4.1 KB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1_024.0;
    let mut unit = 0;
    // What would be shown as 1024.0 belongs to the next unit.
    while amount >= 1_023.95 && unit + 1 < UNITS.len() {
        amount /= 1_024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// What was sent, and what did not have to be: `sent 4.1 KB, saved 38.6 KB (90 %)`.
pub(crate) fn traffic(sent_bytes: u64, saved_bytes: u64) -> String {
    let sent = size(sent_bytes);
    if saved_bytes == 0 {
        return format!("sent {sent}");
    }
    let share = 100.0 * saved_bytes as f64 / (sent_bytes as f64 + saved_bytes as f64);
    format!("sent {sent}, saved {} ({share:.0} %)", size(saved_bytes))
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
    fn traffic_is_told_in_fitting_units_with_the_share_that_was_saved() {
        assert_eq!(size(812), "812 B");
        assert_eq!(size(1_048_575), "1.0 MB");
        assert_eq!(traffic(4_200, 39_526), "sent 4.1 KB, saved 38.6 KB (90 %)");
        assert_eq!(traffic(0, 0), "sent 0 B");
    }

    #[test]
    fn text_of_strangers_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\nc"), "a [31mb c");
        assert_eq!(printable_lines("a\x1b[31mb\nc\td"), "a[31mb\nc\td");
    }
}
