//! A keep-alive HTTP/1.1 client on a bare socket, so that the client costs little of what is measured.

use std::{io::Write as _, net::SocketAddr, time::Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, BytesMut};
use memchr::memmem;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::sse::ChunkedDecoder;

/// Where a server listens, and what it wants to see on every request.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

/// One connection, one request at a time.
pub(crate) struct Connection {
    stream: TcpStream,
    /// The lines that are the same in every request.
    common_head: String,
    request: Vec<u8>,
    received: BytesMut,
    body: Vec<u8>,
}

/// How the length of a body is told.
enum Framing {
    Length(usize),
    Chunked,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(endpoint.address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let token = endpoint.token.as_ref();
        let authorization =
            token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let common_head = format!("Host: {}\r\n{authorization}", endpoint.address);
        Ok(Self {
            stream,
            common_head,
            request: Vec::new(),
            received: BytesMut::with_capacity(64 * 1024),
            body: Vec::new(),
        })
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<&[u8]> {
        self.exchange("GET", path, &[]).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> anyhow::Result<&[u8]> {
        self.exchange("POST", path, body).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> anyhow::Result<&[u8]> {
        self.exchange("DELETE", path, &[]).await
    }

    pub(crate) async fn post_json<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &[u8],
    ) -> anyhow::Result<T> {
        let answer = self.post(path, body).await?;
        serde_json::from_slice(answer).with_context(|| format!("{path}: unexpected answer"))
    }

    /// Asks for a stream of events and hands over the socket once the server has agreed, with
    /// whatever of the stream has arrived by then.
    pub(crate) async fn subscribe(mut self, path: &str) -> anyhow::Result<(TcpStream, BytesMut)> {
        self.send("GET", path, &[], "text/event-stream").await?;
        let (status, framing) = self.read_head().await?;
        ensure!(status == 200, "GET {path}: status {status}");
        ensure!(matches!(framing, Framing::Chunked), "GET {path}: the stream is not chunked");
        Ok((self.stream, self.received))
    }

    /// Asks for a stream of events, tells when the first one of this kind came, and reads on to the end.
    pub(crate) async fn post_until(
        &mut self,
        path: &str,
        body: &[u8],
        wanted: &[u8],
    ) -> anyhow::Result<(Instant, &[u8])> {
        self.send("POST", path, body, "text/event-stream").await?;
        let (status, framing) = self.read_head().await?;
        ensure!(status == 200, "POST {path}: status {status}");
        ensure!(matches!(framing, Framing::Chunked), "POST {path}: the stream is not chunked");
        self.body.clear();
        let (mut decoder, mut found, mut searched) = (ChunkedDecoder::default(), None, 0_usize);
        loop {
            let body = &mut self.body;
            decoder.decode(&self.received, |data| body.extend_from_slice(data))?;
            self.received.clear();
            if found.is_none() && memmem::find(&self.body[searched..], wanted).is_some() {
                found = Some(Instant::now());
            }
            searched = self.body.len().saturating_sub(wanted.len());
            if decoder.is_done() {
                let shown = || String::from_utf8_lossy(&self.body).into_owned();
                let found = found.with_context(|| format!("POST {path}: {}", shown()))?;
                return Ok((found, &self.body));
            }
            self.read_more().await?;
        }
    }

    async fn exchange(&mut self, method: &str, path: &str, body: &[u8]) -> anyhow::Result<&[u8]> {
        self.send(method, path, body, "*/*").await?;
        let (status, framing) = self.read_head().await?;
        self.read_body(framing).await?;
        if !(200..300).contains(&status) {
            bail!("{method} {path}: status {status}: {}", String::from_utf8_lossy(&self.body));
        }
        Ok(&self.body)
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
        accept: &str,
    ) -> anyhow::Result<()> {
        self.request.clear();
        let (head, length) = (&self.common_head, body.len());
        write!(self.request, "{method} {path} HTTP/1.1\r\n{head}Accept: {accept}\r\n")?;
        if length > 0 {
            self.request.extend_from_slice(b"Content-Type: application/json\r\n");
        }
        write!(self.request, "Content-Length: {length}\r\n\r\n")?;
        self.request.extend_from_slice(body);
        self.stream.write_all(&self.request).await?;
        Ok(())
    }

    async fn read_head(&mut self) -> anyhow::Result<(u16, Framing)> {
        let end = loop {
            if let Some(end) = memmem::find(&self.received, b"\r\n\r\n") {
                break end;
            }
            self.read_more().await?;
        };
        let head = std::str::from_utf8(&self.received[..end])?.to_ascii_lowercase();
        let status = head.get(9..12).context("no status line")?.parse()?;
        let header =
            |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let framing = match (header("transfer-encoding"), header("content-length")) {
            (Some("chunked"), _) => Framing::Chunked,
            (_, Some(length)) => Framing::Length(length.trim().parse()?),
            _ => Framing::Length(0),
        };
        self.received.advance(end + 4);
        Ok((status, framing))
    }

    async fn read_body(&mut self, framing: Framing) -> anyhow::Result<()> {
        self.body.clear();
        match framing {
            Framing::Length(length) => {
                while self.received.len() < length {
                    self.read_more().await?;
                }
                self.body.extend_from_slice(&self.received[..length]);
                self.received.advance(length);
            }
            Framing::Chunked => {
                let mut decoder = ChunkedDecoder::default();
                loop {
                    let body = &mut self.body;
                    decoder.decode(&self.received, |data| body.extend_from_slice(data))?;
                    // Requests are not pipelined, so nothing follows the end of a body.
                    self.received.clear();
                    if decoder.is_done() {
                        break;
                    }
                    self.read_more().await?;
                }
            }
        }
        Ok(())
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        self.received.reserve(16 * 1024);
        let read = self.stream.read_buf(&mut self.received).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}
