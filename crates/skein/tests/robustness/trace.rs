//! Reads a system call trace and finds acknowledgements that were sent before their commit was synced.
//!
//! There are two rules, both for callers that wait for each answer before they send the next request.
//! [`read`] is for requests that leave nothing running behind: every write to the write-ahead log that
//! began before an acknowledgement belongs to it or to an earlier one, and must have been synced.
//! [`read_marked`] is for requests that go on in the background: each carries a mark that is found again
//! in the write of its commit.

use std::collections::HashMap;

/// What is wrong with one acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Writes to the log that no completed sync covers.
    NotSynced { line: usize, writes: usize },
    /// Nothing was written since the acknowledgement before.
    NothingWritten { line: usize },
    /// A marked request was acknowledged before the write with its mark was synced, or written.
    MarkNotSynced { mark: String },
}

/// What a trace shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) acknowledgements: usize,
    pub(crate) writes: usize,
    pub(crate) syncs: usize,
    pub(crate) violations: Vec<Violation>,
}

/// A call that has an effect here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    LogWrite,
    LogSync,
    Acknowledgement,
}

/// The state of the log while the trace is read.
#[derive(Debug, Default)]
struct Reading {
    findings: Findings,
    /// Writes that have begun, and how many of them have ended.
    begun: usize,
    ended: usize,
    /// So many of the writes are known to be on disk.
    synced: usize,
    at_last_acknowledgement: usize,
    /// Calls that have begun and not ended, by thread, with what a sync will cover.
    open: HashMap<u32, (Call, usize)>,
    marks: Marks,
}

/// Marks in the order of their requests, and where the trace stands with them.
#[derive(Debug, Default)]
struct Marks {
    wanted: Vec<String>,
    /// By mark: how many writes had begun with the first one that carries it.
    written: HashMap<String, usize>,
    acknowledged: usize,
}

/// Reads what `strace -f -y` wrote.
pub(crate) fn read(trace: &str) -> Findings {
    read_with(trace, Marks::default())
}

/// As [`read`], where the answers are `202`s to requests with these marks, in this order.
pub(crate) fn read_marked(trace: &str, marks: &[String]) -> Findings {
    read_with(trace, Marks { wanted: marks.to_vec(), ..Marks::default() })
}

fn read_with(trace: &str, marks: Marks) -> Findings {
    let mut reading = Reading { marks, ..Reading::default() };
    for (index, line) in trace.lines().enumerate() {
        reading.take(index + 1, line);
    }
    reading.findings
}

impl Reading {
    fn take(&mut self, line_number: usize, line: &str) {
        let Some((thread, rest)) = thread_of(line) else { return };
        if rest.starts_with("<... ") {
            if let Some((call, covers)) = self.open.remove(&thread) {
                self.end(call, covers, succeeded(rest));
            }
            return;
        }
        let Some(call) = call_of(rest) else { return };
        let covers = self.begin(line_number, call);
        if call == Call::LogWrite {
            self.marks.find(rest, self.begun);
        }
        if rest.contains("<unfinished ...>") {
            self.open.insert(thread, (call, covers));
        } else {
            self.end(call, covers, succeeded(rest));
        }
    }

    /// Gives back how many writes a sync that begins now covers.
    fn begin(&mut self, line: usize, call: Call) -> usize {
        match call {
            Call::LogWrite => self.begun += 1,
            Call::LogSync => {}
            Call::Acknowledgement if self.marks.wanted.is_empty() => self.acknowledge(line),
            Call::Acknowledgement => self.acknowledge_marked(),
        }
        // A write that is still going on may or may not be covered, so none is.
        if self.begun == self.ended { self.ended } else { 0 }
    }

    fn end(&mut self, call: Call, covers: usize, succeeded: bool) {
        match call {
            Call::LogWrite => {
                self.ended += 1;
                self.findings.writes += 1;
            }
            Call::LogSync if succeeded => {
                self.findings.syncs += 1;
                self.synced = self.synced.max(covers);
            }
            Call::LogSync | Call::Acknowledgement => {}
        }
    }

    fn acknowledge(&mut self, line: usize) {
        self.findings.acknowledgements += 1;
        if self.synced < self.begun {
            let writes = self.begun - self.synced;
            self.findings.violations.push(Violation::NotSynced { line, writes });
        } else if self.begun == self.at_last_acknowledgement {
            self.findings.violations.push(Violation::NothingWritten { line });
        }
        self.at_last_acknowledgement = self.begun;
    }
}

impl Reading {
    fn acknowledge_marked(&mut self) {
        let Some(mark) = self.marks.wanted.get(self.marks.acknowledged) else { return };
        self.marks.acknowledged += 1;
        self.findings.acknowledgements += 1;
        let written = self.marks.written.get(mark);
        if written.is_none_or(|written| self.synced < *written) {
            let mark = mark.clone();
            self.findings.violations.push(Violation::MarkNotSynced { mark });
        }
    }
}

impl Marks {
    fn find(&mut self, text: &str, writes: usize) {
        // A mark is not written before its request is sent, so only the next one can be new.
        if let Some(mark) = self.wanted.get(self.acknowledged)
            && text.contains(mark.as_str())
        {
            self.written.entry(mark.clone()).or_insert(writes);
        }
    }
}

/// `1234 pwrite64(…` → the thread and the call.
fn thread_of(line: &str) -> Option<(u32, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    Some((thread.parse().ok()?, rest.trim_start()))
}

fn call_of(text: &str) -> Option<Call> {
    let (name, arguments) = text.split_once('(')?;
    let (target, data) = arguments.split_once('>')?;
    let is_log = target.ends_with("-wal");
    match name {
        "write" | "pwrite64" | "pwritev" | "pwritev2" | "writev" if is_log => Some(Call::LogWrite),
        "fsync" | "fdatasync" if is_log => Some(Call::LogSync),
        "write" | "writev" | "sendto" | "sendmsg" if data.contains("\"HTTP/1.1 2") => {
            Some(Call::Acknowledgement)
        }
        _ => None,
    }
}

fn succeeded(text: &str) -> bool {
    text.rsplit_once("= ").is_some_and(|(_, result)| !result.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = r#"11 pwrite64(9</h/skein.db-wal>, "7\177"..., 4120, 32) = 4120"#;
    const SYNC: &str = "11 fdatasync(9</h/skein.db-wal>) = 0";
    const ANSWER: &str = r#"12 sendto(20<socket:[77]>, "HTTP/1.1 201 Created"..., 900, MSG_NOSIGNAL, NULL, 0) = 900"#;
    const OTHER_ANSWER: &str =
        r#"12 writev(20<socket:[77]>, [{iov_base="HTTP/1.1 404 Not F"..., iov_len=3}], 1) = 3"#;

    fn violations(lines: &[&str]) -> Vec<Violation> {
        read(&lines.join("\n")).violations
    }

    #[test]
    fn an_answer_behind_its_sync_is_fine() {
        let findings = read(&[WRITE, WRITE, SYNC, ANSWER, WRITE, SYNC, ANSWER].join("\n"));

        let expected =
            Findings { acknowledgements: 2, writes: 3, syncs: 2, violations: Vec::new() };
        assert_eq!(findings, expected);
    }

    #[test]
    fn an_answer_without_a_sync_is_reported() {
        assert_eq!(
            violations(&[WRITE, WRITE, ANSWER]),
            [Violation::NotSynced { line: 3, writes: 2 }]
        );
    }

    #[test]
    fn a_sync_that_comes_before_the_last_write_or_after_the_answer_does_not_count() {
        assert_eq!(
            violations(&[WRITE, SYNC, WRITE, ANSWER, SYNC]),
            [Violation::NotSynced { line: 4, writes: 1 }]
        );
    }

    #[test]
    fn a_sync_that_has_not_ended_or_has_failed_does_not_count() {
        let begun = "11 fdatasync(9</h/skein.db-wal> <unfinished ...>";
        let ended = "11 <... fdatasync resumed>) = 0";
        let failed = "11 fdatasync(9</h/skein.db-wal>) = -1 EIO (Input/output error)";
        let not_synced = |line| vec![Violation::NotSynced { line, writes: 1 }];

        assert_eq!(violations(&[WRITE, begun, ANSWER, ended]), not_synced(3));
        assert_eq!(violations(&[WRITE, failed, ANSWER]), not_synced(3));
        assert_eq!(violations(&[WRITE, begun, ended, ANSWER]), []);
    }

    #[test]
    fn a_sync_that_begins_during_a_write_does_not_cover_it() {
        let begun = r#"13 pwrite64(9</h/skein.db-wal>, "x"..., 24, 0 <unfinished ...>"#;
        let ended = "13 <... pwrite64 resumed>) = 24";

        assert_eq!(
            violations(&[begun, SYNC, ended, ANSWER]),
            [Violation::NotSynced { line: 4, writes: 1 }]
        );
    }

    #[test]
    fn an_answer_for_which_nothing_was_written_is_reported_and_refusals_are_not_answers() {
        assert_eq!(
            violations(&[WRITE, SYNC, ANSWER, ANSWER, OTHER_ANSWER]),
            [Violation::NothingWritten { line: 4 }]
        );
    }

    #[test]
    fn a_marked_request_may_be_followed_by_other_writes_but_its_own_must_be_synced() {
        let marked = |mark| format!(r#"11 pwrite64(9</h/skein.db-wal>, "x{mark}"..., 9, 0) = 9"#);
        let (one, two) = (marked("one"), marked("two"));
        let marks = ["one".to_owned(), "two".to_owned()];
        let violations = |lines: &[&str]| read_marked(&lines.join("\n"), &marks).violations;
        let not_synced = |mark: &str| vec![Violation::MarkNotSynced { mark: mark.to_owned() }];

        assert_eq!(violations(&[&one, SYNC, WRITE, ANSWER, &two, SYNC, ANSWER, WRITE]), []);
        assert_eq!(violations(&[&one, SYNC, ANSWER, &two, ANSWER, SYNC]), not_synced("two"));
        assert_eq!(violations(&[WRITE, SYNC, ANSWER, &two, SYNC, ANSWER]), not_synced("one"));
    }

    #[test]
    fn writes_to_other_files_and_syncs_of_them_do_not_count() {
        let database = r#"11 pwrite64(8</h/skein.db>, "x"..., 4096, 0) = 4096"#;
        let database_sync = "11 fdatasync(8</h/skein.db>) = 0";

        assert_eq!(violations(&[WRITE, SYNC, database, ANSWER]), []);
        assert_eq!(
            violations(&[WRITE, database_sync, ANSWER]),
            [Violation::NotSynced { line: 3, writes: 1 }]
        );
    }
}
