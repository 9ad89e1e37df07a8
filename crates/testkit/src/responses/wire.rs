//! Connections that break, stall or end exactly where a script says.

use std::{
    convert::Infallible,
    future::pending,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{Router, body::Body, extract::Request};
use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use super::script::Wire;

/// Breaks one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Cut {
    armed: Arc<AtomicBool>,
    due: CancellationToken,
}

impl Cut {
    /// Breaks the connection as it is.
    pub(super) fn now(&self) {
        self.due.cancel();
    }

    /// Breaks the connection once all that was said so far is on the wire.
    fn once_flushed(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }
}

/// Serves one connection until it ends, is cut, or the server closes.
pub(super) async fn serve(stream: TcpStream, router: Router, closing: CancellationToken) {
    let cut = Cut::default();
    // A delta goes out when it is written, not when there is more of it.
    let _nodelay = stream.set_nodelay(true);
    let tap = Tap { stream, cut: cut.clone() };
    let inner = TowerToHyperService::new(router);
    let due = cut.due.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(cut.clone());
        inner.call(request)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(tap), service);
    tokio::select! {
        // A client that goes away is not an error of the server.
        _ended = connection => {}
        () = due.cancelled() => {}
        () = closing.cancelled() => {}
    }
}

/// A body of these blocks, with whatever the script does to the wire. `held` lives as long as the body.
pub(super) fn body(
    blocks: BoxStream<'static, Bytes>,
    wire: Option<Wire>,
    cut: Cut,
    held: impl Send + 'static,
) -> Body {
    let state = Sender { blocks, wire, cut, sent: 0, broken: false, held };
    Body::from_stream(stream::unfold(state, |mut sender| async {
        let block = sender.next().await?;
        Some((Ok::<_, Infallible>(block), sender))
    }))
}

struct Sender<H> {
    blocks: BoxStream<'static, Bytes>,
    wire: Option<Wire>,
    cut: Cut,
    sent: usize,
    /// Half of something was said, and the other half never will be.
    broken: bool,
    #[expect(dead_code, reason = "it is there to be dropped")]
    held: H,
}

impl<H> Sender<H> {
    async fn next(&mut self) -> Option<Bytes> {
        match self.wire {
            _ if self.broken => self.break_off().await,
            Some(Wire::CutAfter(count)) if self.sent == count => self.break_off().await,
            Some(Wire::StallAfter(count)) if self.sent == count => pending().await,
            Some(Wire::EndAfter(count)) if self.sent == count => return None,
            _ => {}
        }
        let block = self.blocks.next().await?;
        let part = match self.wire {
            Some(Wire::CutInEvent(count)) if self.sent == count => Some(block.len() / 2),
            Some(Wire::CutInCharacter(count)) if self.sent >= count => inside_character(&block),
            _ => None,
        };
        self.sent += 1;
        self.broken = part.is_some();
        Some(block.slice(..part.unwrap_or(block.len())))
    }

    async fn break_off(&mut self) {
        self.cut.once_flushed();
        pending().await
    }
}

/// A place between two bytes of one character.
fn inside_character(block: &[u8]) -> Option<usize> {
    block.iter().position(|byte| *byte >= 0xC0).map(|first| first + 1)
}

/// A connection that knows when hyper has handed everything over.
struct Tap {
    stream: TcpStream,
    cut: Cut,
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    /// hyper flushes after each look at the body, and only with its own buffer empty.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() && self.cut.armed.load(Ordering::SeqCst) {
            self.cut.now();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
