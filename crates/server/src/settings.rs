//! What an operator may change about the server.

use std::{net::SocketAddr, time::Duration};

use crate::Rate;

/// How requests are admitted and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where the server listens, if it does: its own address is always an allowed host.
    pub listen: Option<SocketAddr>,
    /// Hosts beside loopback names and the listen address, as `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Origins that pages may come from beside the server's own, as `https://name[:port]`.
    pub allowed_origins: Vec<String>,
    pub body_bytes: usize,
    pub streams_per_user: usize,
    pub rate_per_user: Rate,
    pub rate_per_org: Rate,
    /// Requests of one organisation that are worked on at the same time.
    pub in_flight_per_org: usize,
    pub page_default: u32,
    pub page_max: u32,
    /// A stream is never silent for longer.
    pub ping_interval: Duration,
    /// A reader that takes nothing for this long is closed.
    pub slow_reader: Duration,
    /// How often a stream asks whether its token still opens it.
    pub token_check: Duration,
    /// A body that has not arrived by then is given up.
    pub body_timeout: Duration,
    /// How long running turns may go on after the server was asked to stop.
    pub drain: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            body_bytes: 32 * 1024 * 1024,
            streams_per_user: 1_000,
            rate_per_user: Rate { per_second: 20_000, burst: 20_000 },
            rate_per_org: Rate { per_second: 40_000, burst: 40_000 },
            in_flight_per_org: 1_000,
            page_default: 20,
            page_max: 200,
            ping_interval: Duration::from_secs(15),
            slow_reader: Duration::from_secs(10),
            token_check: Duration::from_secs(2),
            body_timeout: Duration::from_secs(60),
            drain: Duration::from_secs(25),
        }
    }
}
