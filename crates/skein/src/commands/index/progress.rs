//! How a run is followed to its end: a bar on a terminal, lines of JSON for programs.

use std::{
    fmt,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde_json::{Value, json};

use crate::{
    commands::registered::Registered,
    failure::{Exit, Failure},
    output,
    transport::{Call, Client, Target},
};

const FIRST_LOOK: Duration = Duration::from_millis(15);
const SLOWEST_LOOK: Duration = Duration::from_millis(250);
/// Between two lines of JSON.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// How progress is shown.
pub(in crate::commands) enum Progress {
    Bar(ProgressBar),
    Lines { next: Instant },
    Silent,
}

impl Progress {
    /// A bar for people at a terminal, lines for everyone else.
    pub(in crate::commands) fn new(name: &str) -> Self {
        match std::io::stderr().is_terminal() {
            true => Self::bar(name),
            false => Self::Lines { next: Instant::now() },
        }
    }

    /// A bar for people at a terminal, nothing for everyone else.
    pub(in crate::commands) fn bar_or_nothing(name: &str) -> Self {
        if std::io::stderr().is_terminal() { Self::bar(name) } else { Self::Silent }
    }

    fn bar(name: &str) -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {told}") {
            let told = |state: &ProgressState, text: &mut dyn fmt::Write| {
                let _ = text.write_str(&Shown::of(state).text());
            };
            bar.set_style(style.with_key("told", told));
        }
        bar.set_prefix(format!("indexing {}", output::printable(name)));
        Self::Bar(bar)
    }

    fn show(&mut self, progress: &Value, began: Instant) {
        let (done, total) = (progress["filesDone"].as_u64(), progress["filesTotal"].as_u64());
        match self {
            Self::Bar(bar) => {
                if let Some(total) = total {
                    bar.set_length(total);
                }
                bar.set_position(done.unwrap_or_default());
            }
            Self::Lines { next } if Instant::now() >= *next => {
                *next = Instant::now() + LINE_EVERY;
                output::note(&line(progress, began).to_string());
            }
            Self::Lines { .. } | Self::Silent => {}
        }
    }

    fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// What is written beside the bar.
struct Shown {
    done: u64,
    total: Option<u64>,
    per_second: f64,
    left: Duration,
}

impl Shown {
    fn of(state: &ProgressState) -> Self {
        let (done, total) = (state.pos(), state.len());
        Self { done, total, per_second: state.per_sec(), left: state.eta() }
    }

    /// How long it will take is not known before the number of files is.
    fn text(&self) -> String {
        let done = HumanCount(self.done);
        let rate = HumanCount(self.per_second.max(0.0).round() as u64);
        match self.total {
            None => format!("{done} files · {rate}/s"),
            Some(total) => {
                let (total, left) = (HumanCount(total), HumanDuration(self.left));
                format!("{done}/{total} files · {rate}/s · {left:#} left")
            }
        }
    }
}

fn line(progress: &Value, began: Instant) -> Value {
    let (done, total) = (progress["filesDone"].as_u64(), progress["filesTotal"].as_u64());
    let done = done.unwrap_or_default() as f64;
    let per_second = done / began.elapsed().as_secs_f64().max(0.001);
    let left = total.filter(|_| per_second > 0.0).map(|total| (total as f64 - done) / per_second);
    json!({
        "filesDone": progress["filesDone"],
        "filesTotal": total,
        "chunks": progress["chunks"],
        "filesPerSecond": per_second.round(),
        "etaSeconds": left.map(|left| left.max(0.0).round()),
    })
}

/// Sets a run going and waits for its end. A run that failed is an answer too.
pub(in crate::commands) async fn run(
    client: &Client,
    repo: &Registered,
    commit: Option<&str>,
    mut progress: Progress,
) -> Result<Value, Failure> {
    let began = Instant::now();
    let target = || Target::new(&["api", "repos", repo.id(), "index"]);
    let body = commit.map_or_else(|| json!({}), |commit| json!({"commit": commit}));
    let mut status = client.call(Call::post(target(), body)).await?.value;
    let mut pause = FIRST_LOOK;
    while status["state"] == "indexing" {
        progress.show(&status["progress"], began);
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(SLOWEST_LOOK);
        status = client.call(Call::get(target())).await?.value;
    }
    progress.end();
    let is_other = |asked: &str| !status["commit"].as_str().unwrap_or_default().starts_with(asked);
    if let Some(asked) = commit.filter(|asked| status["state"] == "ready" && is_other(asked)) {
        output::note(&format!("note: {asked} was followed by another run"));
    }
    Ok(status)
}

/// A run that did not end well.
pub(in crate::commands) fn check(repo: &Registered, status: &Value) -> Result<(), Failure> {
    if status["state"] == "ready" {
        return Ok(());
    }
    let name = repo.name();
    let why = status["error"].as_str().unwrap_or("the run was stopped");
    Err(Failure::new(Exit::Failed, format!("{name} could not be indexed: {why}"))
        .hint("what was indexed before stays as it was; skein index update tries again"))
}

/// `312 files, 4012 passages at 1f2e3d4c; left out: 3 binary, 1 too_large`
pub(in crate::commands) fn summary(status: &Value) -> String {
    let count = |field: &str| status[field].as_u64().unwrap_or_default();
    let mut text = format!("{} files, {} passages", count("files"), count("chunks"));
    if let Some(commit) = status["commit"].as_str() {
        text.push_str(&format!(" at {}", commit.get(..8).unwrap_or(commit)));
    }
    let skipped = status["skipped"].as_object().into_iter().flatten();
    let skipped: Vec<String> = skipped.map(|(reason, count)| format!("{count} {reason}")).collect();
    if !skipped.is_empty() {
        text.push_str(&format!("; left out: {}", skipped.join(", ")));
    }
    // An index that can be used may still miss something.
    if let Some(note) = status["error"].as_str().filter(|_| status["state"] == "ready") {
        text.push_str(&format!("; {note}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_when_the_number_of_files_is_known() {
        let begun =
            Shown { done: 5_120, total: None, per_second: 14_146.603_6, left: Duration::ZERO };
        let counted = Shown { total: Some(50_000), left: Duration::from_millis(3_200), ..begun };

        assert_eq!(counted.text(), "5,120/50,000 files · 14,147/s · 3s left");
        assert_eq!(Shown { total: None, ..counted }.text(), "5,120 files · 14,147/s");
    }
}
