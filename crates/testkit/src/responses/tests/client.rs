//! HTTP by hand: what came, and whether the reply was whole.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::responses::ResponsesServer;

/// One reply, as far as it came.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    /// Whether the reply ended as HTTP says, rather than with the connection.
    pub(super) whole: bool,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The data of the events, without the type in their first line, which has to be the same.
    pub(super) fn events(&self) -> Vec<Value> {
        events(&self.text())
    }
}

pub(super) fn events(text: &str) -> Vec<Value> {
    text.split_terminator("\n\n")
        .map(|block| {
            let (name, data) = block.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
            data
        })
        .collect()
}

/// A reply whose body is read bit by bit.
pub(super) struct Incoming {
    stream: BufReader<TcpStream>,
    pub(super) status: u16,
    head: String,
    length: Option<usize>,
}

impl Incoming {
    /// The next piece of the body, or nothing at its end; an error if the connection ended first.
    pub(super) async fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        if let Some(length) = self.length {
            let mut body = vec![0; length];
            self.stream.read_exact(&mut body).await?;
            self.length = Some(0);
            return Ok((length > 0).then_some(body));
        }
        let size = line(&mut self.stream).await?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut piece = vec![0; size + 2];
        self.stream.read_exact(&mut piece).await?;
        piece.truncate(size);
        Ok((size > 0).then_some(piece))
    }

    /// The next event of a stream; the server sends each as one piece.
    pub(super) async fn event(&mut self) -> Value {
        let piece = self.chunk().await.unwrap().unwrap();
        events(std::str::from_utf8(&piece).unwrap()).remove(0)
    }

    pub(super) async fn rest(mut self) -> Reply {
        let mut body = Vec::new();
        let whole = loop {
            match self.chunk().await {
                Ok(Some(piece)) => body.extend(piece),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        Reply { status: self.status, head: self.head, body, whole }
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n") {
        bytes.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(bytes).unwrap())
}

/// Sends a request and reads the head of its reply; nothing if the connection ended before that.
pub(super) async fn open(
    server: &ResponsesServer,
    line_and_headers: &str,
    body: &[u8],
) -> Option<Incoming> {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head =
        format!("{line_and_headers}\r\nhost: double\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push_str(&line(&mut stream).await.ok()?);
    }
    let status: u16 = head[9..12].parse().unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map(|length| length.parse().unwrap())
        .or_else(|| (status == 204).then_some(0));
    Some(Incoming { stream, status, head, length })
}

/// `POST /v1/responses` with the right key.
pub(super) async fn post(server: &ResponsesServer, body: &Value) -> Option<Incoming> {
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nauthorization: Bearer {}\r\ncontent-type: application/json",
        server.key()
    );
    open(server, &head, body.to_string().as_bytes()).await
}

pub(super) async fn create(server: &ResponsesServer, body: &Value) -> Reply {
    post(server, body).await.unwrap().rest().await
}

/// Any other request: `GET /v1/responses/…`.
pub(super) async fn ask(server: &ResponsesServer, line: &str) -> Reply {
    let head = format!("{line} HTTP/1.1\r\nauthorization: Bearer {}", server.key());
    open(server, &head, b"").await.unwrap().rest().await
}

/// A plain request.
pub(super) fn says(text: &str) -> Value {
    json!({"model": "test-model", "input": text})
}

pub(super) fn streams(text: &str) -> Value {
    json!({"model": "test-model", "input": text, "stream": true})
}

/// The text of a response that is not a stream.
pub(super) fn answer(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap()
}
