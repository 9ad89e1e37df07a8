//! Small parts that many types share.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};
use skein_core::model::{InvalidId, PayloadId, Timestamp};
use utoipa::ToSchema;
use uuid::Uuid;

/// How the error of a field that should hold an id begins; the server answers it with `invalid_id`.
pub const INVALID_ID: &str = "invalid id: ";

/// A moment in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-11-15T18:10:34.499Z")]
#[serde(transparent)]
pub struct Time(pub Timestamp);

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An id in a request: accepted in its canonical form only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id<T>(pub T);

impl<'de, T: FromStr<Err = InvalidId>> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let id = text.parse().map_err(|error| de::Error::custom(format!("{INVALID_ID}{error}")));
        id.map(Self)
    }
}

/// Something by its id, with a text for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Ref {
    pub id: Uuid,
    pub text: String,
}

/// What retrieval is limited to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetrievalScope {
    /// Path patterns such as `src/**`.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// Where a payload is read.
pub fn payload_url(payload: PayloadId) -> String {
    format!("/api/payloads/{payload}")
}

/// For a field that may be left out but, when present, must have a value or be null: `Some(None)` clears it.
pub(crate) fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}
