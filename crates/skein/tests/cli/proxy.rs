//! A way to a server that can be cut.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{copy, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinSet,
};

/// It ends when this is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// Of the connections since the last cut.
    cut: Arc<Mutex<broadcast::Sender<()>>>,
    is_deaf: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(Mutex::new(broadcast::Sender::new(1)));
        let is_deaf = Arc::new(AtomicBool::new(false));
        let accepted = Arc::new(AtomicUsize::new(0));
        let mut accepting = JoinSet::new();
        let state = (Arc::clone(&cut), Arc::clone(&is_deaf), Arc::clone(&accepted));
        accepting.spawn(accept(listener, server.to_owned(), state));
        Self { address, cut, is_deaf, accepted, _accepting: accepting }
    }

    /// How many connections there have been.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Brings requests to the server and no replies back, until it is cut.
    pub(crate) fn swallow_replies(&self) {
        self.is_deaf.store(true, Ordering::SeqCst);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks every connection that is open now. New ones are let through.
    pub(crate) async fn cut(&self) {
        self.is_deaf.store(false, Ordering::SeqCst);
        // Those that come back at once belong to the next cut, and are not waited for.
        let cut = std::mem::replace(&mut *self.cut.lock().unwrap(), broadcast::Sender::new(1));
        cut.send(()).unwrap();
        cut.closed().await;
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    (cut, is_deaf, accepted): (
        Arc<Mutex<broadcast::Sender<()>>>,
        Arc<AtomicBool>,
        Arc<AtomicUsize>,
    ),
) {
    let mut connections = JoinSet::new();
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        accepted.fetch_add(1, Ordering::SeqCst);
        let mut far = TcpStream::connect(&server).await.unwrap();
        let mut cut = cut.lock().unwrap().subscribe();
        let is_deaf = is_deaf.load(Ordering::SeqCst);
        connections.spawn(async move {
            let copying = async {
                match is_deaf {
                    true => copy(&mut near, &mut far).await.map(drop),
                    false => copy_bidirectional(&mut near, &mut far).await.map(drop),
                }
            };
            tokio::select! {
                _ = copying => {}
                _ = cut.recv() => {}
            }
        });
    }
}
