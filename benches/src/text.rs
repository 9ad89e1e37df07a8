//! Text that hardly compresses, so that no codec makes a measurement look better than it is.

const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";

/// A stream of random text that is the same in every run.
#[derive(Debug, Clone)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Plain ASCII that needs no escaping in JSON.
    pub(crate) fn text(&mut self, bytes: usize) -> String {
        (0..bytes).map(|_| char::from(ALPHABET[(self.next() >> 58) as usize])).collect()
    }
}
