//! A clock that processes of one machine can compare.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "two processes compare what the machine's clock says"
)]
pub fn wall_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
