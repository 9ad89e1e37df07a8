//! How bytes are kept in a row: one mark that says how to read them, then the bytes. The same on every engine.

use std::{borrow::Cow, cell::RefCell};

use serde::{Serialize, de::DeserializeOwned};
use skein_core::ports::StoreError;

/// Below this, compression gains less than it costs.
const COMPRESS_FROM_BYTES: usize = 512;

/// No row holds more than this once it is unpacked, so a damaged length cannot exhaust memory.
pub const MAX_DECODED_BYTES: usize = 64 * 1024 * 1024;

const LEVEL: i32 = 1;

/// How the bytes after the mark are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Codec {
    Plain = 0,
    Zstd = 1,
}

thread_local! {
    /// A compressor costs more to set up than to use, and so does its counterpart.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Marks the bytes, and compresses them where that helps.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() >= COMPRESS_FROM_BYTES
        && let Some(compressed) = compress(bytes)
        && compressed.len() + compressed.len() / 16 < bytes.len()
    {
        return marked(Codec::Zstd, &compressed);
    }
    marked(Codec::Plain, bytes)
}

/// Reads back what [`pack`] gave. `entity` names the row when it cannot be read.
pub fn unpack<'a>(entity: &'static str, stored: &'a [u8]) -> Result<Cow<'a, [u8]>, StoreError> {
    let corrupt = |reason: &str| StoreError::Corrupt { entity, reason: reason.to_owned() };
    match stored.split_first() {
        Some((0, bytes)) => Ok(Cow::Borrowed(bytes)),
        Some((1, bytes)) => {
            let size = zstd::zstd_safe::get_frame_content_size(bytes)
                .ok()
                .flatten()
                .and_then(|size| usize::try_from(size).ok())
                .filter(|size| *size <= MAX_DECODED_BYTES)
                .ok_or_else(|| corrupt("its compressed size is out of bounds"))?;
            decompress(bytes, size)
                .map(Cow::Owned)
                .ok_or_else(|| corrupt("it cannot be decompressed"))
        }
        Some(_) => Err(corrupt("its codec is unknown")),
        None => Err(corrupt("it is empty")),
    }
}

/// A value as packed JSON.
pub fn pack_json<T: Serialize>(entity: &'static str, value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map(|json| pack(&json)).map_err(|error| unreadable(entity, &error))
}

/// A value as JSON that is hashed before it is packed.
pub fn json<T: Serialize>(entity: &'static str, value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| unreadable(entity, &error))
}

/// A value as JSON that goes to the engine as an argument.
pub fn json_text<T: Serialize>(entity: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unreadable(entity, &error))
}

/// What a row cannot be written without.
pub fn required<T>(entity: &'static str, value: Option<T>) -> Result<T, StoreError> {
    value.ok_or_else(|| StoreError::Corrupt { entity, reason: "it says nothing".to_owned() })
}

/// Reads back what [`pack_json`] gave.
pub fn unpack_json<T: DeserializeOwned>(
    entity: &'static str,
    stored: &[u8],
) -> Result<T, StoreError> {
    serde_json::from_slice(&unpack(entity, stored)?).map_err(|error| unreadable(entity, &error))
}

fn unreadable(entity: &'static str, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt { entity, reason: error.to_string() }
}

fn marked(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(bytes.len() + 1);
    stored.push(codec as u8);
    stored.extend_from_slice(bytes);
    stored
}

fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        slot.as_mut()?.compress(bytes).ok()
    })
}

fn decompress(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Decompressor::new().ok();
        }
        slot.as_mut()?.decompress(bytes, size).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_and_empty_bytes_come_back_as_they_were() {
        for bytes in [Vec::new(), b"short".to_vec(), b"long ".repeat(10_000)] {
            let stored = pack(&bytes);

            assert_eq!(unpack("row", &stored).unwrap(), bytes);
        }
    }

    #[test]
    fn bytes_are_compressed_only_where_that_helps() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(4_096)
        .collect();

        let marks =
            [b"a".repeat(511), b"a".repeat(512), noise.clone()].map(|bytes| pack(&bytes)[0]);

        assert_eq!(marks, [0, 1, 0]);
        assert_eq!(pack(&noise).len(), noise.len() + 1);
    }

    #[test]
    fn damaged_rows_are_named_and_never_trusted_with_memory() {
        let mut bomb = vec![1];
        bomb.extend(zstd::bulk::compress(&vec![0; MAX_DECODED_BYTES + 1], 1).unwrap());

        let reasons: Vec<String> = [vec![], vec![9, 1], vec![1, 2, 3], bomb]
            .iter()
            .map(|stored| unpack("event", stored).unwrap_err().to_string())
            .collect();

        assert_eq!(
            reasons,
            [
                "stored event is corrupt: it is empty",
                "stored event is corrupt: its codec is unknown",
                "stored event is corrupt: its compressed size is out of bounds",
                "stored event is corrupt: its compressed size is out of bounds",
            ]
        );
    }
}
