//! The texts of a turn, as they are kept.

use crate::{Error, model::SentTexts, ports::StoreError};

pub(super) fn encode(texts: &SentTexts) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(texts).map_err(corrupt)
}

pub(super) fn decode(body: &[u8]) -> Result<SentTexts, Error> {
    serde_json::from_slice(body).map_err(corrupt)
}

fn corrupt(error: serde_json::Error) -> Error {
    StoreError::Corrupt { entity: "texts", reason: error.to_string() }.into()
}
