//! A small TCP proxy that cuts connections.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rand::{Rng as _, rngs::StdRng};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

/// Forwards to one address, and stops when it is dropped.
pub(crate) struct Proxy {
    pub(crate) url: String,
    cuts: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

/// How many bytes pass in each direction before the connection is cut.
#[derive(Debug, Clone, Copy)]
struct Limits {
    request: usize,
    reply: usize,
    then: AfterRequest,
}

/// What happens once the first bytes of the request are on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterRequest {
    WaitForReply,
    /// The server works for somebody who has gone.
    HangUp,
}

impl Proxy {
    pub(crate) async fn start(target: &str, random: StdRng) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cuts = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target.to_owned(), Mutex::new(random), Arc::clone(&cuts)));
        Self { url, cuts, _tasks: tasks }
    }

    /// How many connections were cut so far.
    pub(crate) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    target: String,
    random: Mutex<StdRng>,
    cuts: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let limits = Limits::draw(&mut random.lock().unwrap());
        connections.spawn(forward(client, target.clone(), limits, Arc::clone(&cuts)));
    }
}

impl Limits {
    /// Some connections are left alone, some are cut inside the request or right behind it, most
    /// inside the reply.
    fn draw(random: &mut StdRng) -> Self {
        let whole =
            Self { request: usize::MAX, reply: usize::MAX, then: AfterRequest::WaitForReply };
        match random.random_range(0..10) {
            0..3 => whole,
            3 => Self { request: random.random_range(1..400), ..whole },
            4..6 => Self { then: AfterRequest::HangUp, ..whole },
            6 => Self { reply: 0, ..whole },
            _ => Self { reply: random.random_range(1..1_500), ..whole },
        }
    }
}

async fn forward(client: TcpStream, target: String, limits: Limits, cuts: Arc<AtomicUsize>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let cut = tokio::select! {
        cut = copy(from_client, to_server, limits.request, limits.then) => cut,
        // With nothing of the reply allowed, the connection is cut as soon as a reply begins.
        cut = copy(from_server, to_client, limits.reply, AfterRequest::WaitForReply) => cut,
    };
    if cut {
        cuts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Copies until one side hangs up, or the connection is to be cut: then `true`.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    limit: usize,
    then: AfterRequest,
) -> bool {
    let mut left = limit;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return false };
        let passed = count.min(left);
        if to.write_all(&buffer[..passed]).await.is_err() {
            return false;
        }
        left -= passed;
        if left == 0 || then == AfterRequest::HangUp {
            return true;
        }
    }
}
