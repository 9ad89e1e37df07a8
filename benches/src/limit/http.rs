//! The paths of the product that the workloads use, with nothing behind them but the rows.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures::stream;
use rusqlite::{Connection, Row, params};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::{
    rows::{Source, Unpacker, Work},
    store::ORG,
    writer::Writer,
};
use crate::{
    subject::{CHUNK_BYTES, REPLY_BYTES},
    text::Noise,
};

/// What every handler needs.
#[derive(Clone)]
pub(super) struct App {
    writer: Arc<Writer>,
    reader: Arc<Mutex<Connection>>,
    ids: Arc<Mutex<Source>>,
    reply: Arc<str>,
    streams: Arc<Mutex<HashMap<Uuid, broadcast::Sender<Bytes>>>>,
    tasks: TaskTracker,
    chunks: usize,
}

impl App {
    pub(super) fn new(writer: Arc<Writer>, reader: Connection, chunks: usize) -> Self {
        Self {
            writer,
            reader: Arc::new(Mutex::new(reader)),
            ids: Arc::new(Mutex::new(Source::new(13))),
            reply: Noise::new(12).text(REPLY_BYTES).into(),
            streams: Arc::default(),
            tasks: TaskTracker::new(),
            chunks,
        }
    }

    fn new_id(&self) -> Uuid {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    fn stream(&self, session: Uuid) -> broadcast::Sender<Bytes> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.entry(session).or_insert_with(|| broadcast::channel(64).0).clone()
    }

    /// Reads on a thread where waiting is allowed.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, Failed> {
        let reader = Arc::clone(&self.reader);
        let reading = move || read(&reader.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(tokio::task::spawn_blocking(reading).await??)
    }
}

pub(super) fn router(app: App) -> Router {
    Router::new()
        .route("/readyz", get(|| async { "ready" }))
        .route("/api/sessions", post(create_session).get(list_sessions))
        .route("/api/ai/agent/execute", post(execute))
        .route("/api/sessions/{id}/messages", get(messages))
        .route("/api/sessions/{id}/events", get(events))
        .route("/api/sessions/{id}/prompt", post(prompt))
        .with_state(app)
}

/// Any failure: the run is then worth nothing.
struct Failed(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("{:#}", self.0)).into_response()
    }
}

async fn create_session(State(app): State<App>) -> Result<impl IntoResponse, Failed> {
    let session = app.new_id();
    app.writer.write(Work::Open { session }).await?;
    Ok((StatusCode::CREATED, Json(json!({"id": session}))))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execute {
    session_id: Uuid,
    instruction: String,
}

async fn execute(
    State(app): State<App>,
    Json(request): Json<Execute>,
) -> Result<impl IntoResponse, Failed> {
    let (session, turn) = (request.session_id, app.new_id());
    app.writer.write(Work::Begin { session, turn, instruction: request.instruction }).await?;
    app.writer.write(Work::Finish { session, turn }).await?;
    let text = &*app.reply;
    Ok(Json(json!({
        "kind": "answer", "sessionId": session, "turnId": turn, "conversationId": session,
        "text": text, "sources": [], "fileBundle": null, "warnings": [], "errorCode": null,
        "errorMessage": null, "usage": null,
        "context": {"bytesSent": 200, "bytesSaved": 0, "chain": "start"},
    })))
}

async fn list_sessions(State(app): State<App>) -> Result<impl IntoResponse, Failed> {
    let sessions = app.read(|reader| {
        let mut statement = reader.prepare_cached(
            "SELECT id, created_at FROM sessions WHERE org_id = ?1 AND state = 'active'
             ORDER BY created_at DESC, id DESC LIMIT 20",
        )?;
        let session = |row: &Row<'_>| {
            Ok(json!({"id": Uuid::from_bytes(row.get(0)?), "createdAt": row.get::<_, i64>(1)?}))
        };
        Ok(statement.query_map(params![ORG], session)?.collect::<Result<Vec<_>, _>>()?)
    });
    Ok(Json(json!({"sessions": sessions.await?})))
}

#[derive(Deserialize)]
struct Last {
    last: Option<i64>,
}

#[derive(Deserialize)]
struct StoredMessage<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

/// The newest messages, ascending.
async fn messages(
    State(app): State<App>,
    Path(session): Path<Uuid>,
    Query(query): Query<Last>,
) -> Result<impl IntoResponse, Failed> {
    let body = app.read(move |reader| {
        let mut statement = reader.prepare_cached(
            "SELECT seq, turn_id, at, message_id, role, data FROM (
                 SELECT * FROM events
                 WHERE log_id = (SELECT log_id FROM sessions WHERE org_id = ?1 AND id = ?2)
                   AND role IS NOT NULL ORDER BY seq DESC LIMIT ?3)
             ORDER BY seq",
        )?;
        let mut rows =
            statement.query(params![ORG, session.as_bytes(), query.last.unwrap_or(-1)])?;
        let mut unpacker = Unpacker::new()?;
        let mut body = String::from("[");
        while let Some(row) = rows.next()? {
            if body.len() > 1 {
                body.push(',');
            }
            push_message(&mut body, session, unpacker.unpack(row.get_ref(5)?.as_blob()?)?, row)?;
        }
        body.push(']');
        Ok(body)
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], body.await?))
}

fn push_message(
    body: &mut String,
    session: Uuid,
    data: &[u8],
    row: &Row<'_>,
) -> anyhow::Result<()> {
    use std::fmt::Write as _;

    let id = |column: usize| row.get(column).map(Uuid::from_bytes);
    let stored: StoredMessage<'_> = serde_json::from_slice(data)?;
    write!(
        body,
        r#"{{"id":"{}","sessionId":"{session}","turnId":"{}","seq":{},"role":"{}","content":{},"timestamp":{}}}"#,
        id(3)?,
        id(1)?,
        row.get::<_, i64>(0)?,
        row.get_ref(4)?.as_str()?,
        stored.content,
        row.get::<_, i64>(2)?,
    )?;
    Ok(())
}

async fn events(State(app): State<App>, Path(session): Path<Uuid>) -> impl IntoResponse {
    let receiver = app.stream(session).subscribe();
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let frames = receiver.recv().await.ok()?;
        Some((Ok::<_, Infallible>(frames), receiver))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames))
}

async fn prompt(
    State(app): State<App>,
    Path(session): Path<Uuid>,
) -> Result<impl IntoResponse, Failed> {
    let turn = app.new_id();
    let instruction = "stream".to_owned();
    app.writer.write(Work::Begin { session, turn, instruction }).await?;
    let streaming = app.clone();
    app.tasks.spawn(async move {
        if let Err(error) = stream_chunks(streaming, session, turn).await {
            eprintln!("error: {error:#}");
        }
    });
    Ok((StatusCode::ACCEPTED, Json(json!({"turnId": turn}))))
}

/// The first chunk is made durable at once, the rest while that goes on: two commits, as in the product.
async fn stream_chunks(app: App, session: Uuid, turn: Uuid) -> anyhow::Result<()> {
    let (message, mut noise) = (app.new_id(), Noise::new(14));
    let data: Vec<String> = (0..app.chunks)
        .map(|_| {
            let text = noise.text(CHUNK_BYTES);
            format!(r#"{{"messageId":"{message}","role":"agent","text":"{text}"}}"#)
        })
        .collect();
    let (first, rest) = data.split_at(1.min(data.len()));
    for data in [first, rest] {
        let work = Work::Deltas { session, turn, data: data.to_vec() };
        let last_seq = app.writer.write(work).await?.last_seq;
        let first_seq = last_seq + 1 - i64::try_from(data.len())?;
        let frames: String =
            (first_seq..).zip(data).map(|(seq, data)| frame(seq, (session, turn), data)).collect();
        // Nobody listens: then nobody misses it.
        let _ = app.stream(session).send(Bytes::from(frames));
    }
    app.writer.write(Work::Finish { session, turn }).await?;
    Ok(())
}

fn frame(seq: i64, (session, turn): (Uuid, Uuid), data: &str) -> String {
    format!(
        "id: {seq}\nevent: message.delta\ndata: {{\"seq\":{seq},\"type\":\"message.delta\",\
         \"sessionId\":\"{session}\",\"turnId\":\"{turn}\",\"at\":\"2026-11-15T18:10:34.499Z\",\
         \"data\":{data}}}\n\n"
    )
}
