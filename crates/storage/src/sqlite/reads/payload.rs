//! Payloads, whole and checked.

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skein_core::{
    model::{
        EventBody, MessageContent, OrgId, PayloadId, PayloadMeta, Scope, SessionId, Sha256Hash,
    },
    ports::{Conflict, PayloadReads, StoreError},
};

use super::super::{
    SqliteStore,
    error::Fault,
    rows::{Columns, key, key_list},
};
use crate::codec;

#[async_trait]
impl PayloadReads for SqliteStore {
    async fn find_payload(
        &self,
        scope: &Scope,
        payload: PayloadId,
    ) -> Result<Option<PayloadMeta>, StoreError> {
        let org = scope.org;
        self.readers.read(move |connection| find(connection, org, payload)).await
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
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT body FROM payload_parts
                     WHERE org_id = ?1 AND payload_id = ?2 AND part = ?3",
                )?;
                let mut rows = statement.query(params![key(&org), key(&payload), part])?;
                let Some(row) = rows.next()? else { return Ok(None) };
                let body = Columns::new("payload part", row).bytes()?.into_owned();
                Ok(Some(Bytes::from(body)))
            })
            .await
    }

    async fn payload_bodies(
        &self,
        scope: &Scope,
        payloads: &[PayloadId],
    ) -> Result<Vec<(PayloadId, Bytes)>, StoreError> {
        if payloads.is_empty() {
            return Ok(Vec::new());
        }
        let (org, ids) = (scope.org, payloads.to_vec());
        self.readers
            .read(move |connection| {
                let _snapshot = connection.unchecked_transaction()?;
                let found = bodies(connection, org, &ids)?;
                let body = |id: PayloadId| found.get(&id).map(|body| (id, body.clone()));
                Ok(ids.into_iter().filter_map(body).collect())
            })
            .await
    }

    async fn payload_readers(
        &self,
        scope: &Scope,
        payload: PayloadId,
    ) -> Result<Vec<SessionId>, StoreError> {
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT g.session_id FROM payloads p
                     JOIN session_segments g ON g.org_id = p.org_id AND g.log_id = p.log_id
                     WHERE p.org_id = ?1 AND p.id = ?2
                     ORDER BY g.to_seq IS NOT NULL, g.session_id",
                )?;
                let mut rows = statement.query(params![key(&org), key(&payload)])?;
                let mut sessions = Vec::new();
                while let Some(row) = rows.next()? {
                    sessions.push(Columns::new("session segment", row).id()?);
                }
                Ok(sessions)
            })
            .await
    }
}

fn find(
    connection: &Connection,
    org: OrgId,
    payload: PayloadId,
) -> Result<Option<PayloadMeta>, Fault> {
    let read = |row: &Row<'_>| {
        let mut columns = Columns::new("payload", row);
        Ok(PayloadMeta {
            id: columns.id()?,
            log: columns.id()?,
            sha256: columns.hash()?,
            size_bytes: columns.counter()?,
            media_type: columns.get()?,
        })
    };
    connection
        .prepare_cached(
            "SELECT id, log_id, sha256, size, media_type FROM payloads
             WHERE org_id = ?1 AND id = ?2",
        )?
        .query_row(params![key(&org), key(&payload)], |row| Ok(read(row)))
        .optional()?
        .transpose()
}

/// A payload's row: its body, or where it is.
struct Stored {
    sha256: Sha256Hash,
    size_bytes: u64,
    body: Body,
}

enum Body {
    Whole(Vec<u8>),
    Parts,
}

/// Those that are there, whole and checked.
fn bodies(
    connection: &Connection,
    org: OrgId,
    ids: &[PayloadId],
) -> Result<HashMap<PayloadId, Bytes>, Fault> {
    let stored = stored(connection, org, ids)?;
    let in_parts =
        |(id, stored): &(PayloadId, Stored)| matches!(stored.body, Body::Parts).then_some(*id);
    let in_parts: Vec<PayloadId> = stored.iter().filter_map(in_parts).collect();
    let mut parts =
        if in_parts.is_empty() { HashMap::new() } else { parts(connection, org, &in_parts)? };
    stored
        .into_iter()
        .map(|(id, stored)| {
            let body = match stored.body {
                Body::Whole(body) => body,
                Body::Parts => parts.remove(&id).unwrap_or_default(),
            };
            if body.len() as u64 != stored.size_bytes || Sha256Hash::of(&body) != stored.sha256 {
                return Err(corrupt("its body does not match its SHA-256").into());
            }
            Ok((id, Bytes::from(body)))
        })
        .collect()
}

fn stored(
    connection: &Connection,
    org: OrgId,
    ids: &[PayloadId],
) -> Result<Vec<(PayloadId, Stored)>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT p.id, p.sha256, p.size, p.location, p.body, e.type, e.data FROM payloads p
         LEFT JOIN events e ON e.log_id = p.log_id AND e.seq = p.event_seq
         WHERE p.org_id = ?1 AND p.id IN (SELECT unhex(value) FROM json_each(?2))",
    )?;
    let mut rows = statement.query(params![key(&org), key_list(ids)])?;
    let mut found = Vec::with_capacity(ids.len());
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new("payload", row);
        let (id, sha256, size_bytes) = (columns.id()?, columns.hash()?, columns.counter()?);
        let location: String = columns.get()?;
        let body = match location.as_str() {
            "db" => Body::Whole(columns.bytes()?.into_owned()),
            "parts" => Body::Parts,
            "event" => {
                let _: Option<Vec<u8>> = columns.get()?;
                Body::Whole(event_text(columns.get()?, columns.get()?)?)
            }
            other => return Err(columns.corrupt(format!("its location {other:?} is unknown"))),
        };
        found.push((id, Stored { sha256, size_bytes, body }));
    }
    Ok(found)
}

/// The parts that the payloads name, put together.
fn parts(
    connection: &Connection,
    org: OrgId,
    ids: &[PayloadId],
) -> Result<HashMap<PayloadId, Vec<u8>>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT q.payload_id, q.body FROM payloads p
         JOIN payload_parts q ON q.org_id = p.org_id AND q.payload_id = p.id AND q.part < p.part_count
         WHERE p.org_id = ?1 AND p.id IN (SELECT unhex(value) FROM json_each(?2))
         ORDER BY q.payload_id, q.part",
    )?;
    let mut rows = statement.query(params![key(&org), key_list(ids)])?;
    let mut bodies: HashMap<PayloadId, Vec<u8>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new("payload", row);
        bodies.entry(columns.id()?).or_default().extend_from_slice(&columns.bytes()?);
    }
    Ok(bodies)
}

/// The text that the log keeps anyway.
fn event_text(name: Option<String>, stored: Option<Vec<u8>>) -> Result<Vec<u8>, Fault> {
    let (name, stored) =
        name.zip(stored).ok_or_else(|| corrupt("the event with its text is missing"))?;
    let data = codec::unpack("payload", &stored)?;
    match EventBody::decode(&name, &data) {
        Ok(EventBody::MessageCompleted(message)) => match message.content {
            MessageContent::Text { text, .. } => Ok(text.into_bytes()),
            _ => Err(corrupt("the event with its text has none").into()),
        },
        Ok(_) => Err(corrupt("the event with its text is not a message").into()),
        Err(error) => Err(corrupt(&error.to_string()).into()),
    }
}

fn corrupt(reason: &str) -> StoreError {
    StoreError::Corrupt { entity: "payload", reason: reason.to_owned() }
}
