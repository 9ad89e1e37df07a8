//! Tokens, estimated: no model's own tokenizer is at hand, and four bytes each is close enough to budget with.

use crate::model::Volume;

const BYTES_PER_TOKEN: u64 = 4;

pub fn estimate(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// So many bytes, with their estimated tokens.
pub fn volume(bytes: u64) -> Volume {
    Volume { bytes, tokens: estimate(bytes) }
}
