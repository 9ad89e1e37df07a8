//! Between columns and the model's types.

use std::{fmt::Display, str::FromStr};

use rusqlite::{Row, types::FromSql};
use serde::{Serialize, de::DeserializeOwned};
use skein_core::{
    model::{
        AgentContextId, BasketId, CheckpointId, ConversationContextId, DocumentId, LogId,
        MessageId, OrgId, PayloadId, RepoId, SessionId, Sha256Hash, TicketId, Timestamp, TokenId,
        TurnId, UserId,
    },
    ports::StoreError,
};
use uuid::Uuid;

use super::error::Fault;
use crate::codec;

/// An id that is kept as 16 bytes.
pub(super) trait Id: Sized {
    fn from_uuid(uuid: Uuid) -> Self;
    fn uuid(&self) -> &Uuid;
}

macro_rules! impl_id {
    ($($name:ident),+ $(,)?) => {$(
        impl Id for $name {
            fn from_uuid(uuid: Uuid) -> Self {
                $name::from_uuid(uuid)
            }

            fn uuid(&self) -> &Uuid {
                self.as_uuid()
            }
        }
    )+};
}

impl_id!(
    AgentContextId,
    BasketId,
    DocumentId,
    CheckpointId,
    ConversationContextId,
    LogId,
    MessageId,
    OrgId,
    PayloadId,
    RepoId,
    SessionId,
    TicketId,
    TokenId,
    TurnId,
    UserId,
);

/// An id as its column holds it.
pub(super) fn key<I: Id>(id: &I) -> &[u8; 16] {
    id.uuid().as_bytes()
}

/// An optional id as its column holds it.
pub(super) fn opt_key<I: Id>(id: &Option<I>) -> Option<&[u8; 16]> {
    id.as_ref().map(key)
}

/// Ids as one argument: `SELECT unhex(value) FROM json_each(?)` gives their columns' values.
pub(super) fn key_list<I: Id>(ids: &[I]) -> String {
    let keys: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.uuid().simple())).collect();
    format!("[{}]", keys.join(","))
}

/// A time as its column holds it.
pub(super) fn opt_millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// A counter as its column holds it; none of ours comes near the end of the range.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Packed JSON, or nothing for an empty list, which is the usual case.
pub(super) fn pack_list<T: Serialize>(
    entity: &'static str,
    list: &[T],
) -> Result<Option<Vec<u8>>, StoreError> {
    if list.is_empty() { Ok(None) } else { codec::pack_json(entity, &list).map(Some) }
}

/// Reads a row's columns in the order in which they were selected.
pub(super) struct Columns<'a, 'stmt> {
    entity: &'static str,
    row: &'a Row<'stmt>,
    next: usize,
}

impl<'a, 'stmt> Columns<'a, 'stmt> {
    /// `entity` names the row when a column does not fit the model.
    pub(super) fn new(entity: &'static str, row: &'a Row<'stmt>) -> Self {
        Self { entity, row, next: 0 }
    }

    /// Begins behind the first `skipped` columns.
    pub(super) fn after(entity: &'static str, row: &'a Row<'stmt>, skipped: usize) -> Self {
        Self { entity, row, next: skipped }
    }

    pub(super) fn get<T: FromSql>(&mut self) -> Result<T, Fault> {
        let column = self.next;
        self.next += 1;
        self.row.get(column).map_err(|error| match error {
            rusqlite::Error::SqliteFailure(..) => error.into(),
            misfit => self.corrupt(misfit),
        })
    }

    pub(super) fn id<I: Id>(&mut self) -> Result<I, Fault> {
        Ok(I::from_uuid(Uuid::from_bytes(self.get()?)))
    }

    pub(super) fn opt_id<I: Id>(&mut self) -> Result<Option<I>, Fault> {
        Ok(self.get::<Option<[u8; 16]>>()?.map(|bytes| I::from_uuid(Uuid::from_bytes(bytes))))
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Fault> {
        Ok(Timestamp::from_millis(self.get()?))
    }

    pub(super) fn opt_time(&mut self) -> Result<Option<Timestamp>, Fault> {
        Ok(self.get::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    pub(super) fn hash(&mut self) -> Result<Sha256Hash, Fault> {
        Ok(Sha256Hash::from_bytes(self.get()?))
    }

    pub(super) fn counter(&mut self) -> Result<u64, Fault> {
        let value: i64 = self.get()?;
        u64::try_from(value).map_err(|error| self.corrupt(error))
    }

    /// A word of one of the model's closed lists.
    pub(super) fn word<T: FromStr<Err: Display>>(&mut self) -> Result<T, Fault> {
        self.opt_word()?.ok_or_else(|| self.corrupt("a word is missing"))
    }

    pub(super) fn opt_word<T: FromStr<Err: Display>>(&mut self) -> Result<Option<T>, Fault> {
        let column = self.next;
        self.next += 1;
        let text =
            self.row.get_ref(column)?.as_str_or_null().map_err(|error| self.corrupt(error))?;
        text.map(|text| text.parse().map_err(|error| self.corrupt(error))).transpose()
    }

    /// Packed bytes, as they were before they were packed.
    pub(super) fn bytes(&mut self) -> Result<std::borrow::Cow<'a, [u8]>, Fault> {
        let column = self.next;
        self.next += 1;
        let stored = self.row.get_ref(column)?.as_blob().map_err(|error| self.corrupt(error))?;
        Ok(codec::unpack(self.entity, stored)?)
    }

    /// A text as it is stored, which need not be valid if somebody else wrote it.
    pub(super) fn text_bytes(&mut self) -> Result<Vec<u8>, Fault> {
        let column = self.next;
        self.next += 1;
        let stored = self.row.get_ref(column)?;
        stored.as_bytes().map(<[u8]>::to_vec).map_err(|error| self.corrupt(error))
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<T, Fault> {
        let json = self.bytes()?;
        serde_json::from_slice(&json).map_err(|error| self.corrupt(error))
    }

    pub(super) fn opt_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Fault> {
        let stored: Option<Vec<u8>> = self.get()?;
        Ok(stored.map(|stored| codec::unpack_json(self.entity, &stored)).transpose()?)
    }

    pub(super) fn corrupt(&self, reason: impl Display) -> Fault {
        StoreError::Corrupt { entity: self.entity, reason: reason.to_string() }.into()
    }
}
