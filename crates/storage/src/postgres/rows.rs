//! Between columns and the model's types.

use std::{
    fmt::Display,
    str::FromStr,
    time::{Duration, SystemTime},
};

use serde::{Serialize, de::DeserializeOwned};
use skein_core::{
    model::{Sha256Hash, Timestamp},
    ports::StoreError,
};
use tokio_postgres::{Row, types::FromSqlOwned};
use uuid::Uuid;

use super::error::Fault;
use crate::codec;

/// A time as its column holds it.
pub(super) fn moment(at: Timestamp) -> SystemTime {
    let distance = Duration::from_millis(at.as_millis().unsigned_abs());
    if at.as_millis() < 0 {
        SystemTime::UNIX_EPOCH - distance
    } else {
        SystemTime::UNIX_EPOCH + distance
    }
}

/// Milliseconds since 1970.
pub(super) fn millis(at: SystemTime) -> i64 {
    let clamped = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => clamped(after),
        Err(before) => -clamped(before.duration()),
    }
}

/// A counter as its column holds it; none of ours comes near the end of the range.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A small counter as its column holds it.
pub(super) fn small(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Where a list in the order of ids begins: behind the given one, or before all of them.
pub(super) fn first_or(after: Option<&Uuid>) -> Uuid {
    after.copied().unwrap_or(Uuid::nil())
}

/// Packed JSON, or nothing for an empty list, which is the usual case.
pub(super) fn pack_list<T: Serialize>(
    entity: &'static str,
    list: &[T],
) -> Result<Option<Vec<u8>>, StoreError> {
    if list.is_empty() { Ok(None) } else { codec::pack_json(entity, &list).map(Some) }
}

/// Reads a row's columns by name.
pub(super) struct Columns<'a> {
    entity: &'static str,
    row: &'a Row,
}

impl<'a> Columns<'a> {
    /// `entity` names the row when a column does not fit the model.
    pub(super) fn new(entity: &'static str, row: &'a Row) -> Self {
        Self { entity, row }
    }

    pub(super) fn get<T: FromSqlOwned>(&self, column: &str) -> Result<T, Fault> {
        self.row.try_get(column).map_err(|error| self.corrupt(error))
    }

    pub(super) fn id<I>(&self, column: &str, from_uuid: fn(Uuid) -> I) -> Result<I, Fault> {
        self.get(column).map(from_uuid)
    }

    pub(super) fn opt_id<I>(
        &self,
        column: &str,
        from_uuid: fn(Uuid) -> I,
    ) -> Result<Option<I>, Fault> {
        Ok(self.get::<Option<Uuid>>(column)?.map(from_uuid))
    }

    pub(super) fn time(&self, column: &str) -> Result<Timestamp, Fault> {
        Ok(Timestamp::from_millis(millis(self.get(column)?)))
    }

    pub(super) fn opt_time(&self, column: &str) -> Result<Option<Timestamp>, Fault> {
        let at: Option<SystemTime> = self.get(column)?;
        Ok(at.map(|at| Timestamp::from_millis(millis(at))))
    }

    pub(super) fn hash(&self, column: &str) -> Result<Sha256Hash, Fault> {
        let bytes: Vec<u8> = self.get(column)?;
        let digest = bytes.try_into().map_err(|_| self.corrupt("a digest is not 32 bytes long"))?;
        Ok(Sha256Hash::from_bytes(digest))
    }

    pub(super) fn counter(&self, column: &str) -> Result<u64, Fault> {
        let value: i64 = self.get(column)?;
        u64::try_from(value).map_err(|error| self.corrupt(error))
    }

    pub(super) fn opt_counter(&self, column: &str) -> Result<Option<u64>, Fault> {
        let value: Option<i64> = self.get(column)?;
        value.map(|value| u64::try_from(value).map_err(|error| self.corrupt(error))).transpose()
    }

    pub(super) fn small(&self, column: &str) -> Result<u32, Fault> {
        let value: i32 = self.get(column)?;
        u32::try_from(value).map_err(|error| self.corrupt(error))
    }

    /// A word of one of the model's closed lists.
    pub(super) fn word<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, Fault> {
        self.opt_word(column)?.ok_or_else(|| self.corrupt("a word is missing"))
    }

    pub(super) fn opt_word<T: FromStr<Err: Display>>(
        &self,
        column: &str,
    ) -> Result<Option<T>, Fault> {
        let text: Option<&str> = self.row.try_get(column).map_err(|error| self.corrupt(error))?;
        text.map(|text| text.parse().map_err(|error| self.corrupt(error))).transpose()
    }

    /// Packed bytes, as they were before they were packed.
    pub(super) fn bytes(&self, column: &str) -> Result<std::borrow::Cow<'a, [u8]>, Fault> {
        let stored: &'a [u8] = self.row.try_get(column).map_err(|error| self.corrupt(error))?;
        Ok(codec::unpack(self.entity, stored)?)
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, Fault> {
        serde_json::from_slice(&self.bytes(column)?).map_err(|error| self.corrupt(error))
    }

    pub(super) fn opt_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, Fault> {
        let stored: Option<&[u8]> =
            self.row.try_get(column).map_err(|error| self.corrupt(error))?;
        Ok(stored.map(|stored| codec::unpack_json(self.entity, stored)).transpose()?)
    }

    /// What [`pack_list`] gave.
    pub(super) fn list<T: DeserializeOwned>(&self, column: &str) -> Result<Vec<T>, Fault> {
        Ok(self.opt_json(column)?.unwrap_or_default())
    }

    pub(super) fn corrupt(&self, reason: impl Display) -> Fault {
        StoreError::Corrupt { entity: self.entity, reason: reason.to_string() }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_and_after_1970_come_back_to_the_millisecond() {
        for at in [i64::MIN, -1_001, -1, 0, 1, 1_794_766_234_499, i64::MAX] {
            let at = Timestamp::from_millis(at);

            assert_eq!(Timestamp::from_millis(millis(moment(at))), at);
        }
    }
}
