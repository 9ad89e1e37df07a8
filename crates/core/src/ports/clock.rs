//! Time, ids and randomness, injected so that tests can fix them.

use uuid::Uuid;

use crate::model::Timestamp;

/// Tells the time of day. Waiting is done with the async runtime's own timers.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// Makes identifiers. Each is new, and later ones sort after earlier ones (UUIDv7).
pub trait Ids: Send + Sync {
    fn next(&self) -> Uuid;
}

/// Makes secrets from the operating system's randomness.
pub trait Secrets: Send + Sync {
    fn random_256_bits(&self) -> [u8; 32];
}
