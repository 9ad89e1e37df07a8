//! Moments with millisecond precision, as they are stored and shown.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment in UTC, in milliseconds since 1970. Written `2026-11-15T18:10:34.499Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 moment that Skein can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time such as 2026-11-15T18:10:34.499Z")]
pub struct InvalidTimestamp(pub String);

impl Timestamp {
    /// Years 1–9999: what RFC 3339 can say and both engines can hold.
    const MIN_MS: i64 = -62_135_596_800_000;
    const MAX_MS: i64 = 253_402_207_200_000;

    /// Out-of-range values are clamped, so that every stored number can be written as text.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(Self::MIN_MS, Self::MAX_MS))
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    pub fn saturating_add(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Zero when `earlier` is in fact later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{moment:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|moment| Self::from_millis(moment.as_millisecond()))
            .map_err(|_| InvalidTimestamp(text.chars().take(64).collect()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_with_exactly_three_decimals_and_read_back() {
        let moment = Timestamp::from_millis(1_794_766_234_499);

        assert_eq!(moment.to_string(), "2026-11-15T18:10:34.499Z");
        assert_eq!("2026-11-15T19:10:34.499+01:00".parse(), Ok(moment));
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_extremes_can_still_be_written() {
        assert_eq!(Timestamp::from_millis(i64::MIN).to_string(), "0001-01-01T00:00:00.000Z");
        assert!(Timestamp::from_millis(i64::MAX).to_string().starts_with("9999-12-3"));
    }
}
