//! From a listener to a drained server.

use std::{convert::Infallible, future::Future, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, body::Body};
use http::Request;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{interval, sleep, timeout},
};
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, info, warn};

use crate::{App, ServerSettings, metrics::UPKEEP, router, stall::StallGuard};

/// Also how long an idle connection is kept; longer than common clients keep theirs, so that they close first.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// For connections and requests to end once their streams were closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// When the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` resolves, then drains: not ready at once, no new turns, time for the running
/// ones, and requests are answered meanwhile. Streams end last. Returns when every connection has ended or
/// had its time.
pub async fn serve(
    listener: TcpListener,
    app: App,
    settings: ServerSettings,
    shutdown: impl Future<Output = ()>,
) {
    let connections = TaskTracker::new();
    let drain = settings.drain;
    let server = Server {
        router: router(app.clone(), settings.clone()),
        connections: connections.clone(),
        app: app.clone(),
        settings,
    };
    let mut serving = pin!(async { tokio::join!(server.accept(&listener), upkeep(&app)) });

    tokio::select! {
        (never, _) = &mut serving => match never {},
        () = shutdown => {}
    }
    info!("draining: no new turns; running ones may finish");
    app.lifecycle.set_draining();
    app.orchestrator.stop_accepting();
    tokio::select! {
        (never, _) = &mut serving => match never {},
        drained = timeout(drain, app.orchestrator.drain()) => {
            if drained.is_err() {
                warn!("turns are still running; they are recovered at the next start");
            }
        }
    }
    app.lifecycle.close();
    connections.close();
    app.requests.close();
    let ended = async { tokio::join!(connections.wait(), app.requests.wait()) };
    if timeout(CLOSE_TIMEOUT, ended).await.is_err() {
        let (connections, requests) = (connections.len(), app.requests.len());
        warn!(connections, requests, "some are still open; they are cut");
    }
}

struct Server {
    router: Router,
    connections: TaskTracker,
    app: App,
    settings: ServerSettings,
}

impl Server {
    async fn accept(&self, listener: &TcpListener) -> Infallible {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.begin(stream, peer),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "TCP_NODELAY is not to be had");
        }
        let io = TokioIo::new(StallGuard::new(stream, self.settings.slow_reader));
        let service =
            self.router.clone().map_request(|request: Request<Incoming>| request.map(Body::new));
        let closing = self.app.lifecycle.closing().clone();
        self.connections.spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(io, TowerToHyperService::new(service));
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                debug!(%error, %peer, "a connection ended early");
            }
        });
    }
}

/// Takes samples in, so that they do not pile up between visits of Prometheus.
async fn upkeep(app: &App) -> Infallible {
    let mut ticks = interval(UPKEEP);
    loop {
        ticks.tick().await;
        app.metrics.run_upkeep();
    }
}
