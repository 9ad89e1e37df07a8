//! Payloads and their parts.

use bytes::Bytes;
use skein_core::{
    model::PayloadId,
    ports::{Conflict, NewPayload, PayloadBody},
};

use super::{
    super::{
        connection::values,
        error::Fault,
        rows::{int, small},
    },
    Applying,
};
use crate::codec;

/// The columns that say where a payload's bytes are.
#[derive(Default)]
struct Place {
    location: &'static str,
    body: Option<Vec<u8>>,
    event_seq: Option<i64>,
    part_count: Option<i32>,
}

impl<'a> Applying<'a> {
    pub(super) fn put_payload(&mut self, payload: &'a NewPayload) -> Result<(), Fault> {
        self.log(payload.log)?;
        let place = self.place(payload)?;
        self.later(
            "INSERT INTO payloads (org_id, id, log_id, sha256, size, media_type, location,
                                   event_seq, part_count, body)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            values![
                self.org(),
                payload.id.as_uuid(),
                payload.log.as_uuid(),
                payload.sha256.as_bytes().as_slice(),
                int(payload.size_bytes),
                &payload.media_type,
                place.location,
                place.event_seq,
                place.part_count,
                place.body,
            ],
        );
        Ok(())
    }

    pub(super) fn put_payload_part(&mut self, payload: PayloadId, part: u32, body: &Bytes) {
        self.later(
            "INSERT INTO payload_parts (org_id, payload_id, part, body) VALUES ($1, $2, $3, $4)
             ON CONFLICT (org_id, payload_id, part) DO NOTHING",
            values![self.org(), *payload.as_uuid(), small(part), codec::pack(body)],
        );
    }

    fn place(&self, payload: &NewPayload) -> Result<Place, Fault> {
        Ok(match &payload.body {
            PayloadBody::Inline(body) => {
                Place { location: "db", body: Some(codec::pack(body)), ..Place::default() }
            }
            PayloadBody::Parts { count } => {
                Place { location: "parts", part_count: Some(small(*count)), ..Place::default() }
            }
            PayloadBody::EventText { event_index } => {
                let seq = self.seq_of(*event_index).ok_or(Conflict::Missing("event"))?;
                Place { location: "event", event_seq: Some(int(seq)), ..Place::default() }
            }
        })
    }
}
