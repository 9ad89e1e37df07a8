//! What is said after an answer: proposed files, sources, warnings and the footer.

use std::time::Duration;

use serde_json::Value;

use super::text;
use crate::{
    failure::{Exit, Failure},
    output,
};

const SHOWN_SOURCES: usize = 20;

/// The differences that were not written, on stdout, as `git apply` takes them.
pub(in crate::commands) fn print_differences(bundle: &Value) -> Result<(), Failure> {
    for file in bundle["files"].as_array().into_iter().flatten() {
        match file["diff"].as_str() {
            Some(diff) => output::prose(diff)?,
            None => output::note(&format!(
                "{} {}: the agent has not seen this file, so there is no difference to show",
                output::printable(text(file, "action")),
                output::printable(text(file, "path")),
            )),
        }
    }
    Ok(())
}

/// Sources and warnings of an answer.
pub(super) fn print_notes(answer: &Value) {
    print_sources(&answer["sources"]);
    print_warnings(answer);
}

/// Passages that the agent had at hand.
pub(in crate::commands) fn print_sources(sources: &Value) {
    let sources = sources.as_array().map(Vec::as_slice).unwrap_or_default();
    for source in sources.iter().take(SHOWN_SOURCES) {
        let path = output::printable(text(source, "path"));
        output::aside(&format!("  {path}:{}-{}", source["startLine"], source["endLine"]));
    }
    if sources.len() > SHOWN_SOURCES {
        output::aside(&format!("  and {} more", sources.len() - SHOWN_SOURCES));
    }
}

pub(in crate::commands) fn print_warnings(value: &Value) {
    for warning in value["warnings"].as_array().into_iter().flatten() {
        output::note(&format!("warning: {}", output::printable(warning.as_str().unwrap_or(""))));
    }
}

/// The failure of a turn, in the agent's or provider's words.
pub(super) fn failed(answer: &Value) -> Failure {
    let message = match text(answer, "errorMessage") {
        "" => "the turn failed",
        message => message,
    };
    Failure::new(Exit::Failed, format!("{message} ({})", text(answer, "errorCode")))
}

/// `✓ 3.2 s · first token 0.8 s · sent 4.1 KB, saved 38.6 KB (90 %)`.
pub(in crate::commands) fn footer(
    (whole, first): (Duration, Option<Duration>),
    context: &Value,
) -> String {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let first = first.map(|first| format!("first token {}", seconds(first)));
    let bytes = |field: &str| context[field].as_u64().unwrap_or(0);
    let traffic = output::traffic(bytes("bytesSent"), bytes("bytesSaved"));
    let parts = [Some(format!("✓ {}", seconds(whole))), first, Some(traffic)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_footer_tells_times_and_what_was_saved() {
        let context = json!({"bytesSent": 4_200, "bytesSaved": 39_526});
        let times = (Duration::from_millis(3_240), Some(Duration::from_millis(810)));

        let whole = footer(times, &context);
        let silent = footer((Duration::from_millis(40), None), &json!({"bytesSent": 11}));

        assert_eq!(whole, "✓ 3.2 s · first token 0.8 s · sent 4.1 KB, saved 38.6 KB (90 %)");
        assert_eq!(silent, "✓ 0.0 s · sent 11 B");
    }
}
