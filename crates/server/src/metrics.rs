//! What the operator's monitoring sees.

use std::{
    sync::{Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use http::{Method, StatusCode};
use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::app::Shared;

const REQUESTS: &str = "skein_http_requests_total";
const REQUEST_SECONDS: &str = "skein_http_request_seconds";
const BUCKETS: [f64; 11] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Samples wait in memory until they are taken in; this is how often that happens.
pub(crate) const UPKEEP: Duration = Duration::from_secs(5);

/// Makes this process count what it does. Later calls return the first one's handle.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let seconds = Matcher::Full(REQUEST_SECONDS.to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &BUCKETS)?;
    let handle = builder.install_recorder()?;
    *installed = Some(handle.clone());
    Ok(handle)
}

/// Routes are few and methods known, so the number of series is bounded.
pub(crate) fn count_request(route: &str, method: &Method, status: StatusCode, took: Duration) {
    let method = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    };
    let route = metrics::SharedString::from(route.to_owned());
    let labels = [
        ("route", route.clone()),
        ("method", method.into()),
        ("status", metrics::SharedString::from(status.as_u16().to_string())),
    ];
    counter!(REQUESTS, &labels).increment(1);
    histogram!(REQUEST_SECONDS, "route" => route).record(took);
}

/// The page that Prometheus reads. What others count is taken over at this moment.
pub(crate) fn render(shared: &Shared) -> String {
    let counts = shared.app.platform.feed.counts();
    counter!("skein_commits_total").absolute(counts.commits);
    counter!("skein_events_total").absolute(counts.events);
    counter!("skein_turns_begun_total").absolute(counts.turns_begun);
    counter!("skein_turns_completed_total").absolute(counts.turns_completed);
    counter!("skein_turns_failed_total").absolute(counts.turns_failed);
    let (sent, saved) = shared.app.orchestrator.bytes_sent_and_saved();
    counter!("skein_context_bytes_sent_total").absolute(sent);
    counter!("skein_context_bytes_saved_total").absolute(saved);
    let escapes = shared.app.platform.path_escapes.load(Ordering::Relaxed);
    counter!("skein_path_escapes_total").absolute(escapes);
    gauge!("skein_agents_active").set(f64::from(shared.app.hosting.active()));
    gauge!("skein_streams_open").set(as_f64(shared.streams.count()));
    gauge!("skein_requests_in_flight").set(as_f64(shared.admission.in_flight.count()));
    shared.app.metrics.render()
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
