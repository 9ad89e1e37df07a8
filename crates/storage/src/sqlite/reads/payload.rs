//! Payloads, whole and checked.

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
    rows::{Columns, key},
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
        let org = scope.org;
        self.readers
            .read(move |connection| {
                let meta = find(connection, org, payload)?.ok_or(Conflict::Missing("payload"))?;
                let body = body(connection, org, payload)?;
                if body.len() as u64 != meta.size_bytes || Sha256Hash::of(&body) != meta.sha256 {
                    return Err(corrupt("its body does not match its SHA-256").into());
                }
                Ok(Bytes::from(body))
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

fn body(connection: &Connection, org: OrgId, payload: PayloadId) -> Result<Vec<u8>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT location, part_count, body, log_id, event_seq FROM payloads
         WHERE org_id = ?1 AND id = ?2",
    )?;
    let mut rows = statement.query(params![key(&org), key(&payload)])?;
    let row = rows.next()?.ok_or(Conflict::Missing("payload"))?;
    let mut columns = Columns::new("payload", row);
    let location: String = columns.get()?;
    let part_count: Option<u32> = columns.get()?;
    match location.as_str() {
        "db" => Ok(columns.bytes()?.into_owned()),
        "parts" => parts(connection, org, payload, part_count.unwrap_or(0)),
        "event" => {
            let _: Option<Vec<u8>> = columns.get()?;
            event_text(connection, columns.get()?, columns.get()?)
        }
        other => Err(columns.corrupt(format!("its location {other:?} is unknown"))),
    }
}

fn parts(
    connection: &Connection,
    org: OrgId,
    payload: PayloadId,
    count: u32,
) -> Result<Vec<u8>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT body FROM payload_parts
         WHERE org_id = ?1 AND payload_id = ?2 AND part < ?3 ORDER BY part",
    )?;
    let mut rows = statement.query(params![key(&org), key(&payload), count])?;
    let mut body = Vec::new();
    while let Some(row) = rows.next()? {
        body.extend_from_slice(&Columns::new("payload", row).bytes()?);
    }
    Ok(body)
}

fn event_text(connection: &Connection, log: [u8; 16], seq: i64) -> Result<Vec<u8>, Fault> {
    let (name, stored): (String, Vec<u8>) = connection
        .prepare_cached("SELECT type, data FROM events WHERE log_id = ?1 AND seq = ?2")?
        .query_row(params![log, seq], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| corrupt("the event with its text is missing"))?;
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
