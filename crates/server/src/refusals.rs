//! Refusals of callers that nobody knows: counted, and one of many in the log.

use std::{sync::Mutex, time::Duration};

use metrics::counter;
use tokio::time::Instant;
use tracing::warn;

use crate::{
    error::{Code, Problem},
    limits::lock,
};

/// At most one line in this time, whatever comes.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Keeps a flood of refused requests from becoming a flood of log lines.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Sampled>);

#[derive(Debug, Default)]
struct Sampled {
    logged_at: Option<Instant>,
    since: u64,
}

impl Refusals {
    /// Takes note of a refusal that came before anyone was authenticated; others are left alone.
    pub(crate) fn note(&self, problem: &Problem, request: &str) {
        let code = match problem.code {
            code @ (Code::Unauthenticated | Code::OriginNotAllowed | Code::HostNotAllowed) => code,
            _ => return,
        };
        counter!("skein_refused_unauthenticated_total", "code" => code.as_str()).increment(1);
        if let Some(others) = self.is_due(Instant::now()) {
            let code = code.as_str();
            warn!(code, request, others, "a request of an unknown caller was refused");
        }
    }

    /// Whether this one is to be logged, with how many came since the last that was.
    fn is_due(&self, now: Instant) -> Option<u64> {
        let mut sampled = lock(&self.0);
        if sampled.logged_at.is_some_and(|at| now.saturating_duration_since(at) < LOG_EVERY) {
            sampled.since += 1;
            return None;
        }
        sampled.logged_at = Some(now);
        Some(std::mem::take(&mut sampled.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_logged_and_says_how_many_there_were() {
        let refusals = Refusals::default();
        let start = Instant::now();

        let logged =
            [0, 1, 9, 10, 11].map(|second| refusals.is_due(start + Duration::from_secs(second)));

        assert_eq!(logged, [Some(0), None, None, Some(2), None]);
    }
}
