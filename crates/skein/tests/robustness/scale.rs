//! How much is tried, and with which random numbers.

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// The small number, or the large one when that was asked for.
pub(crate) fn choose<T>(small: T, large: T) -> T {
    match variable("SKEIN_ROBUSTNESS").as_deref() {
        Some("large") => large,
        Some(other) => panic!("SKEIN_ROBUSTNESS={other:?}: the only other size is large"),
        None => small,
    }
}

/// Random numbers that can be had again.
pub(crate) fn random(test: &str) -> StdRng {
    let seed = match variable("SKEIN_SEED") {
        Some(text) => text.parse().expect("SKEIN_SEED is a number"),
        None => rand::rng().random(),
    };
    eprintln!("{test}: SKEIN_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

#[expect(clippy::disallowed_methods, reason = "these settings are the tests' own")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
