//! Bodies kept out of the turn row.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

use super::{LogId, PayloadId};

/// What is known of a payload without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadMeta {
    pub id: PayloadId,
    pub log: LogId,
    pub sha256: Sha256Hash,
    pub size_bytes: u64,
    pub media_type: String,
}

/// A SHA-256 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Hash([u8; 32]);

impl Sha256Hash {
    /// Stands where a hash was not told. Nothing has it.
    pub const UNKNOWN: Self = Self([0; 32]);

    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the parts one after the other.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

/// The text is not 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 in lower-case hex")]
pub struct InvalidSha256;

impl FromStr for Sha256Hash {
    type Err = InvalidSha256;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidSha256);
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidSha256)?;
        Ok(Self(bytes))
    }
}

impl serde::Serialize for Sha256Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Sha256Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
