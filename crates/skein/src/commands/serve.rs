//! `skein serve` and `skein up`: from settings to a server that is ready, and to a clean end.

use std::{path::Path, sync::Arc, time::Duration};

use serde::Serialize;
use skein_core::{
    model::{SystemScope, Timestamp},
    ports::Clock,
    recovery::{self, Recovered},
};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Context, Format, up};
use crate::{
    cli::Listen,
    config::{Config, Flags},
    failure::{Exit, Failure},
    home::HomeLock,
    output,
    system::System,
    telemetry,
    wiring::Instance,
};

/// Leftovers are removed soon after the start, then every hour.
const FIRST_SWEEP: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(60 * 60);
/// Idempotency keys are promised for a day.
const SWEEP_AGE: Duration = Duration::from_secs(25 * 60 * 60);

/// What is said when the server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    Short,
    /// For people who have just typed `skein`: what there is, and the index of where they are.
    Welcome,
}

pub(super) async fn run(
    context: &Context,
    listen: Listen,
    greeting: Greeting,
) -> Result<(), Failure> {
    let flags = Flags { listen: listen.listen, workspace_root: listen.workspace_root };
    let config = context.load_config_with(&flags)?;
    telemetry::start(&config.settings, context.environment.get("SKEIN_LOG"))?;
    let mut signals = Signals::new()?;
    let Started { lock, listener, mut instance, recovered } = tokio::select! {
        started = start(context, &config) => started?,
        () = signals.next() => return Err(Failure::interrupted()),
    };

    let url = url_of(&listener)?;
    instance.app.lifecycle.set_ready();
    announce(context, &lock, &url)?;
    let stop = CancellationToken::new();
    let displaced = instance.displaced();
    let greeting = async {
        if greeting == Greeting::Welcome {
            up::welcome(context, &config, &url).await;
        }
    };
    let serving = serve(listener, instance, recovered, stop.clone());
    tokio::select! {
        // What was promised is durable, and what is left belongs to whoever has the store now.
        failure = displaced => return Err(failure),
        _ = async { tokio::join!(serving, stop.run_until_cancelled(greeting)) } => {}
        () = stop_at_second_signal(&mut signals, &stop) => {
            output::note("stopped at once; unfinished turns are recovered at the next start");
            // Not even the store may hold this up: what was promised is on disk already.
            std::process::exit(i32::from(Exit::Interrupted as u8));
        }
    }
    drop(lock);
    Ok(())
}

/// Serves until it is told to stop, and closes everything in order.
async fn serve(
    listener: TcpListener,
    instance: Instance,
    recovered: Recovered,
    stop: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let orchestrator = Arc::clone(&instance.app.orchestrator);
    tasks.spawn(async move { recovery::go_on(&orchestrator, recovered).await });
    let sweeping = sweep(Arc::clone(&instance.app.platform));
    tasks.spawn(stop.clone().run_until_cancelled_owned(sweeping));
    tasks.spawn(stop.clone().run_until_cancelled_owned(instance.sweeping_homes()));
    tasks.spawn(stop.clone().run_until_cancelled_owned(instance.sealing()));
    let indexing = instance.app.indexing.clone();
    let upkeep = async move { indexing.keep_up().await };
    tasks.spawn(stop.clone().run_until_cancelled_owned(upkeep));
    tasks.close();
    let (app, settings) = (instance.app.clone(), instance.server.clone());
    skein_server::serve(listener, app, settings, stop.cancelled_owned()).await;
    instance.app.indexing.close().await;
    tasks.wait().await;
    instance.close_store().await;
    tracing::info!("stopped");
}

/// Everything that must be there before the server is ready.
struct Started {
    lock: HomeLock,
    listener: TcpListener,
    instance: Instance,
    recovered: Recovered,
}

async fn start(context: &Context, config: &Config) -> Result<Started, Failure> {
    let lock = context.home.lock_alone().await?;
    let listener = bind(config).await?;
    let instance = Instance::open(&context.home, config).await?;
    let recovered = instance.recover().await?;
    Ok(Started { lock, listener, instance, recovered })
}

/// The first signal begins the end; resolves with the second.
async fn stop_at_second_signal(signals: &mut Signals, stop: &CancellationToken) {
    signals.next().await;
    stop.cancel();
    signals.next().await;
}

async fn bind(config: &Config) -> Result<TcpListener, Failure> {
    let listen = &config.settings.server.listen;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::AddrInUse => Exit::Conflict,
            _ => Exit::Unavailable,
        };
        Failure::new(exit, format!("cannot listen on {listen}"))
            .because(error)
            .hint("name another address with --listen; port 0 takes a free one")
    })?;
    if listener.local_addr().is_ok_and(|address| !address.ip().is_loopback()) {
        tracing::warn!(%listen, "other machines can reach this server; traffic is not encrypted");
    }
    Ok(listener)
}

/// An address that a client on this machine can use.
fn url_of(listener: &TcpListener) -> Result<String, Failure> {
    let mut address = listener.local_addr().map_err(|error| {
        Failure::new(Exit::Unavailable, "the address of the server is not known").because(error)
    })?;
    if address.ip().is_unspecified() {
        match address {
            std::net::SocketAddr::V4(_) => address.set_ip(std::net::Ipv4Addr::LOCALHOST.into()),
            std::net::SocketAddr::V6(_) => address.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
        }
    }
    Ok(format!("http://{address}"))
}

/// The line that programs wait for, in the order that is documented.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready<'a> {
    url: &'a str,
    token_file: &'a Path,
    pid: u32,
}

/// Tells everyone that the server is ready: commands through the lock, people and programs in words.
fn announce(context: &Context, lock: &HomeLock, url: &str) -> Result<(), Failure> {
    if let Err(error) = lock.announce(url) {
        // On a full disk, for example. The server works; it only has to be named.
        tracing::warn!(%error, "commands will not find this server by its home");
    }
    let token_file = context.home.token_file();
    if context.format == Format::Json {
        let ready = Ready { url, token_file: &token_file, pid: std::process::id() };
        let ready = serde_json::to_string(&ready).map_err(|error| {
            Failure::new(Exit::Failed, "cannot say that the server is ready").because(error)
        })?;
        return output::line(&ready);
    }
    let token_file = token_file.display();
    output::note(&format!("Skein is ready at {url}"));
    output::note(&format!("The owner's token is in {token_file}"));
    Ok(())
}

/// Removes what nobody needs any more, again and again.
async fn sweep(platform: Arc<skein_core::platform::Platform>) {
    let start = tokio::time::Instant::now() + FIRST_SWEEP;
    let mut due = tokio::time::interval_at(start, SWEEP_EVERY);
    loop {
        due.tick().await;
        let age = i64::try_from(SWEEP_AGE.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(System.now().as_millis().saturating_sub(age));
        match platform.store.sweep(SystemScope::for_purpose("sweep"), before).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "swept"),
            Err(error) => tracing::warn!(%error, "the sweep failed and will be repeated"),
        }
    }
}

/// The signals that ask for an end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Unavailable, "signals cannot be received").because(error)
            })
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
