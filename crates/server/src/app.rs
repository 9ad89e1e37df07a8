//! What the server serves, and where it stands in its life.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use metrics_exporter_prometheus::PrometheusHandle;
use skein_core::{
    auditing::Auditing, history::History, hosting::Hosting, indexing::Indexing,
    orchestrator::Orchestrator, people::People, permissions::Permissions, platform::Platform,
    registry::Registry, sessions::Sessions,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    ServerSettings, admission::Admission, hosts::Hosts, limits::Streams, refusals::Refusals,
};

/// The services behind the routes.
#[derive(Clone)]
pub struct App {
    pub platform: Arc<Platform>,
    pub sessions: Sessions,
    pub orchestrator: Arc<Orchestrator>,
    pub history: History,
    pub people: People,
    pub registry: Registry,
    pub indexing: Indexing,
    pub auditing: Auditing,
    pub permissions: Permissions,
    pub hosting: Arc<Hosting>,
    /// Requests that change something run here to their end, whether or not their caller still waits.
    pub requests: TaskTracker,
    pub lifecycle: Lifecycle,
    /// What `/metrics` shows; see [`crate::install_metrics`].
    pub metrics: PrometheusHandle,
}

/// Whether the server starts, works, drains or closes. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle {
    phase: Arc<AtomicU8>,
    closing: CancellationToken,
}

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

impl Lifecycle {
    /// Recovery is done: `/readyz` answers 200, unless the server is draining already.
    pub fn set_ready(&self) {
        let changed =
            self.phase.compare_exchange(STARTING, READY, Ordering::SeqCst, Ordering::SeqCst);
        if changed.is_err() {
            tracing::debug!("not starting any more");
        }
    }

    /// `/readyz` answers 503 from now on.
    pub fn set_draining(&self) {
        self.phase.store(DRAINING, Ordering::SeqCst);
    }

    /// Ends every stream and every wait, so that connections can close.
    pub fn close(&self) {
        self.set_draining();
        self.closing.cancel();
    }

    pub fn is_ready(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == READY
    }

    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

/// What handlers and extractors work with.
pub(crate) struct Shared {
    pub(crate) app: App,
    pub(crate) settings: ServerSettings,
    pub(crate) streams: Streams,
    pub(crate) admission: Admission,
    pub(crate) refusals: Refusals,
    pub(crate) hosts: Hosts,
}

pub(crate) type Context = Arc<Shared>;

impl Shared {
    pub(crate) fn new(app: App, settings: ServerSettings) -> Context {
        let streams = Streams::new(settings.streams_per_user);
        let admission = Admission::new(&settings);
        let hosts = Hosts::new(&settings);
        let refusals = Refusals::default();
        Arc::new(Self { app, settings, streams, admission, refusals, hosts })
    }
}
