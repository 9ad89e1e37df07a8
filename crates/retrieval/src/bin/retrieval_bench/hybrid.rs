//! Searching by meaning, with vectors of chance: how fast it is does not depend on what they mean.

use std::{hint::black_box, path::Path, time::Instant};

use rusqlite::Connection;
use skein_retrieval::{
    EmbeddedIndex,
    embed::{Embedder, EmbeddingOptions, Matrix, packed},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::TaskTracker;

use crate::{Outcome, say, speed::percentiles};

const DIMENSIONS: usize = 384;
const VECTORS: usize = 100_000;

/// Gives every passage a vector and opens the index with an endpoint for those of questions.
pub(crate) async fn index(path: &Path) -> Outcome<EmbeddedIndex> {
    Connection::open(path)?.execute(
        "INSERT OR IGNORE INTO embeddings SELECT org_id, 'bench', sha256, CAST(x'6F12833B' || randomblob(384) AS BLOB)
         FROM chunks",
        [],
    )?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    TaskTracker::new().spawn(async move {
        let tracker = TaskTracker::new();
        while let Ok((stream, _)) = listener.accept().await {
            tracker.spawn(serve(stream));
        }
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let embedder = Embedder::new(EmbeddingOptions::new(url, "bench"))?;
    Ok(EmbeddedIndex::open(path)?.with_embedder(embedder))
}

/// Answers every request with one vector.
async fn serve(mut stream: TcpStream) {
    let numbers: Vec<String> =
        chance(7).take(DIMENSIONS).map(|number| format!("{number:.4}")).collect();
    let body = format!("{{\"data\":[{{\"index\":0,\"embedding\":[{}]}}]}}", numbers.join(","));
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut request = vec![0; 64 * 1024];
    // A question fits into one packet.
    while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// What was chosen between: one byte or four a dimension.
pub(crate) fn scans() -> Outcome<()> {
    let mut numbers = chance(11);
    let vectors: Vec<f32> = (&mut numbers).take(VECTORS * DIMENSIONS).collect();
    let mut matrix = Matrix::default();
    for (row, vector) in vectors.chunks(DIMENSIONS).enumerate() {
        matrix.push(row as i64, &packed(vector));
    }
    let question: Vec<f32> = numbers.take(DIMENSIONS).collect();
    let bytes = timed(|| drop(black_box(matrix.nearest(&question, 100))));
    let floats = timed(|| {
        let likeness = vectors.chunks(DIMENSIONS).map(|vector| dot(vector, &question));
        black_box(likeness.fold(f32::MIN, f32::max));
    });
    say(&format!(
        "scan of {VECTORS} x {DIMENSIONS}: bytes, best 100: p50 {:.1} ms ({:.0} MB); floats on one core, best 1: p50 {:.1} ms ({:.0} MB)",
        bytes,
        matrix.bytes() as f64 / 1e6,
        floats,
        vectors.len() as f64 * 4.0 / 1e6
    ))
}

fn timed(mut work: impl FnMut()) -> f64 {
    let times = (0..30).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    percentiles(times.collect())[0]
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for (a, b) in a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0) {
        for (sum, (x, y)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += x * y;
        }
    }
    sums.iter().sum()
}

/// The same numbers in every run, from -1 to 1.
fn chance(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / 8_388_608.0) - 1.0
    })
}
