//! Payloads, put together and checked against their hash.

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use skein_core::{
    model::{
        EventBody, LogId, MessageContent, PayloadId, PayloadMeta, Scope, SessionId, Sha256Hash,
    },
    ports::{Conflict, PayloadReads, StoreError},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{
    PostgresStore,
    connection::Transaction,
    error::Fault,
    rows::{Columns, small},
};
use crate::codec;

#[async_trait]
impl PayloadReads for PostgresStore {
    async fn find_payload(
        &self,
        scope: &Scope,
        payload: PayloadId,
    ) -> Result<Option<PayloadMeta>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let row = transaction
            .query_opt(
                "SELECT id, log_id, sha256, size, media_type FROM payloads
                 WHERE org_id = $1 AND id = $2",
                &[scope.org.as_uuid(), payload.as_uuid()],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        let row = Columns::new("payload", &row);
        Ok(Some(PayloadMeta {
            id: row.id("id", PayloadId::from_uuid)?,
            log: row.id("log_id", LogId::from_uuid)?,
            sha256: row.hash("sha256")?,
            size_bytes: row.counter("size")?,
            media_type: row.get("media_type")?,
        }))
    }

    async fn payload_body(&self, scope: &Scope, payload: PayloadId) -> Result<Bytes, StoreError> {
        let found = self.payload_bodies(scope, &[payload]).await?.pop();
        Ok(found.map(|(_, body)| body).ok_or(Conflict::Missing("payload"))?)
    }

    async fn payload_part(
        &self,
        scope: &Scope,
        payload: PayloadId,
        part: u32,
    ) -> Result<Option<Bytes>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let row = transaction
            .query_opt(
                "SELECT body FROM payload_parts
                 WHERE org_id = $1 AND payload_id = $2 AND part = $3",
                &[scope.org.as_uuid(), payload.as_uuid(), &small(part)],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Bytes::from(Columns::new("payload part", &row).bytes("body")?.into_owned())))
    }

    async fn payload_bodies(
        &self,
        scope: &Scope,
        payloads: &[PayloadId],
    ) -> Result<Vec<(PayloadId, Bytes)>, StoreError> {
        if payloads.is_empty() {
            return Ok(Vec::new());
        }
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let found = bodies(&transaction, scope, payloads).await?;
        let body = |id: &PayloadId| found.get(id.as_uuid()).map(|body| (*id, body.clone()));
        Ok(payloads.iter().filter_map(body).collect())
    }

    async fn payload_readers(
        &self,
        scope: &Scope,
        payload: PayloadId,
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut client = self.client().await?;
        let transaction = Transaction::reading(&mut client, scope);
        let rows = transaction
            .query(
                "SELECT s.id
                 FROM payloads p
                 JOIN session_segments g ON g.org_id = p.org_id AND g.log_id = p.log_id
                 JOIN sessions s ON s.org_id = g.org_id AND s.id = g.session_id
                 WHERE p.org_id = $1 AND p.id = $2
                 GROUP BY s.id, s.log_id, p.log_id
                 ORDER BY s.log_id <> p.log_id, s.id",
                &[scope.org.as_uuid(), payload.as_uuid()],
            )
            .await?;
        let read: Result<Vec<SessionId>, Fault> = rows
            .iter()
            .map(|row| Columns::new("session", row).id("id", SessionId::from_uuid))
            .collect();
        Ok(read?)
    }
}

/// Those that are there, whole and checked.
async fn bodies(
    transaction: &Transaction<'_>,
    scope: &Scope,
    ids: &[PayloadId],
) -> Result<HashMap<Uuid, Bytes>, Fault> {
    let ids: Vec<Uuid> = ids.iter().map(|id| *id.as_uuid()).collect();
    let rows = transaction
        .query(
            "SELECT p.id, p.sha256, p.location, p.body, p.part_count, e.type, e.data
             FROM payloads p
             LEFT JOIN events e ON e.org_id = p.org_id AND e.log_id = p.log_id AND e.seq = p.event_seq
             WHERE p.org_id = $1 AND p.id = ANY ($2)",
            &[scope.org.as_uuid(), &ids],
        )
        .await?;
    let mut parts = parts(transaction, scope, &rows).await?;
    rows.iter()
        .map(|row| {
            let row = Columns::new("payload", row);
            let (id, location): (Uuid, String) = (row.get("id")?, row.get("location")?);
            let body = match location.as_str() {
                "db" => Bytes::from(row.bytes("body")?.into_owned()),
                "parts" => joined(&row, parts.remove(&id).unwrap_or_default())?,
                "event" => event_text(&row)?,
                unknown => return Err(row.corrupt(format!("its place {unknown:?} is unknown"))),
            };
            if Sha256Hash::of(&body) != row.hash("sha256")? {
                return Err(row.corrupt("its SHA-256 does not match"));
            }
            Ok((id, body))
        })
        .collect()
}

/// The parts of those payloads that have any, by payload.
async fn parts(
    transaction: &Transaction<'_>,
    scope: &Scope,
    payloads: &[Row],
) -> Result<HashMap<Uuid, Vec<Vec<u8>>>, Fault> {
    let mut in_parts: Vec<Uuid> = Vec::new();
    for row in payloads {
        let row = Columns::new("payload", row);
        if row.get::<String>("location")? == "parts" {
            in_parts.push(row.get("id")?);
        }
    }
    let mut parts: HashMap<Uuid, Vec<Vec<u8>>> = HashMap::new();
    if in_parts.is_empty() {
        return Ok(parts);
    }
    let rows = transaction
        .query(
            "SELECT payload_id, body FROM payload_parts
             WHERE org_id = $1 AND payload_id = ANY ($2) ORDER BY payload_id, part",
            &[scope.org.as_uuid(), &in_parts],
        )
        .await?;
    for row in &rows {
        let row = Columns::new("payload part", row);
        let body = row.bytes("body")?.into_owned();
        parts.entry(row.get("payload_id")?).or_default().push(body);
    }
    Ok(parts)
}

fn joined(row: &Columns<'_>, parts: Vec<Vec<u8>>) -> Result<Bytes, Fault> {
    let count = row.small("part_count")?;
    if parts.len() != usize::try_from(count).unwrap_or(usize::MAX) {
        return Err(row.corrupt(format!("it has {} parts of {count}", parts.len())));
    }
    Ok(Bytes::from(parts.concat()))
}

/// The text that the log keeps anyway.
fn event_text(row: &Columns<'_>) -> Result<Bytes, Fault> {
    let (name, data): (Option<String>, Option<Vec<u8>>) = (row.get("type")?, row.get("data")?);
    let (name, data) = name.zip(data).ok_or_else(|| row.corrupt("its event is not there"))?;
    let data = codec::unpack("event", &data)?;
    match EventBody::decode(&name, &data).map_err(|error| row.corrupt(error))? {
        EventBody::MessageCompleted(message) => match message.content {
            MessageContent::Text { text, .. } => Ok(Bytes::from(text)),
            _ => Err(row.corrupt("its event has no text")),
        },
        _ => Err(row.corrupt("its event closes no message")),
    }
}
