//! Ids of passages: the same for the same text at the same place, whoever computes them.

use std::collections::HashMap;

use skein_core::model::Sha256Hash;
use uuid::{Builder, Uuid};

use crate::chunk::Passage;

/// Gives the passages of one file their ids. A passage keeps its id when only others around it change.
pub(crate) struct PassageIds<'a> {
    /// Tenant, and repository or document.
    owner: [&'a [u8]; 2],
    path: &'a str,
    /// Same texts in one file are told apart by their order.
    seen: HashMap<[u8; 32], u32>,
}

impl<'a> PassageIds<'a> {
    pub(crate) fn new(owner: [&'a [u8]; 2], path: &'a str) -> Self {
        Self { owner, path, seen: HashMap::new() }
    }

    pub(crate) fn next(&mut self, passage: &Passage) -> Uuid {
        let count = self.seen.entry(*passage.sha256.as_bytes()).or_default();
        let nth = count.to_be_bytes();
        *count += 1;
        let symbols = passage.symbols.join("\n");
        let length = |part: &str| (part.len() as u64).to_be_bytes();
        let digest = Sha256Hash::of_parts([
            b"skein passage 1".as_slice(),
            self.owner[0],
            self.owner[1],
            &length(self.path),
            self.path.as_bytes(),
            &length(&symbols),
            symbols.as_bytes(),
            &nth,
            passage.sha256.as_bytes(),
        ]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.as_bytes()[..16]);
        Builder::from_custom_bytes(bytes).into_uuid()
    }
}
