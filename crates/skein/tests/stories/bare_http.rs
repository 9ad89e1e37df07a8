//! Bad input below JSON: bodies that are too large, and bytes that are not HTTP.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::refusals::World;

/// Longer than the server waits for a body that it will not take.
const SILENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_announced_body_over_32_mib_is_refused_before_it_is_sent() {
    let world = World::new().await;
    let before = world.snapshot().await;

    for expect in ["", "expect: 100-continue\r\n"] {
        let length = 33 * 1024 * 1024;
        let head = world.head(&format!("content-length: {length}\r\n{expect}"));
        let reply = raw(world.server.address(), head.as_bytes()).await;

        assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
        assert!(reply.contains("payload_too_large"), "{reply}");
    }

    assert_eq!(world.snapshot().await, before);
}

#[tokio::test]
async fn a_chunked_body_is_refused_once_it_passes_32_mib() {
    let world = World::new().await;
    let before = world.snapshot().await;
    let mut body = b"a\r\n{\"name\": \"\r\n".to_vec();
    let piece = "x".repeat(1024 * 1024);
    for _ in 0..40 {
        body.extend_from_slice(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes());
    }
    body.extend_from_slice(b"2\r\n\"}\r\n0\r\n\r\n");

    let head = world.head("transfer-encoding: chunked\r\n");
    let reply = raw(world.server.address(), &[head.as_bytes(), &body].concat()).await;

    assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
    assert!(reply.contains("payload_too_large"), "{reply}");
    assert_eq!(world.snapshot().await, before);
}

#[tokio::test]
async fn broken_http_is_answered_or_cut_off_and_the_server_goes_on() {
    let world = World::new().await;
    let before = world.snapshot().await;
    let address = world.server.address();

    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/sessions HTTP/1.1\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"POST /api/sessions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -5\r\n\r\n",
        b"POST /api/sessions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let reply = raw(address, bytes).await;
        let is_server_error = reply.starts_with("HTTP/1.1 5");
        assert!(!is_server_error, "{bytes:?}: {reply}");
    }

    assert_eq!(world.snapshot().await, before);
    assert!(!world.server.log().contains("panicked"), "{}", world.server.log());
}

/// Sends bytes and reads what comes back, until the server hangs up or has said a whole problem.
async fn raw(address: &str, bytes: &[u8]) -> String {
    let (mut reading, mut writing) = TcpStream::connect(address).await.unwrap().into_split();
    // The server may answer and hang up while the bytes are still being sent.
    let send = async { drop(writing.write_all(bytes).await) };
    let receive = async {
        let mut reply = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match timeout(SILENCE, reading.read(&mut buffer)).await {
                Ok(Ok(count @ 1..)) => reply.extend_from_slice(&buffer[..count]),
                Ok(Ok(0) | Err(_)) | Err(_) => break,
            }
            if reply.ends_with(b"}") {
                break;
            }
        }
        String::from_utf8_lossy(&reply).into_owned()
    };
    tokio::join!(send, receive).1
}
