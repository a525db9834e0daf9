//! What a test asks for, short or long.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Whether the long form was asked for: `ORLOJ_LONG=1`.
pub fn long() -> bool {
    std::env::var_os("ORLOJ_LONG").is_some_and(|value| value != "0")
}

/// `short` in `make test`, `long` in the long form.
pub fn pick<T>(short: T, long: T) -> T {
    if self::long() { long } else { short }
}

/// A source of chance whose seed is printed, and taken from `ORLOJ_SEED` where that is set.
///
/// # Panics
/// `ORLOJ_SEED` is not a number.
pub fn seeded(name: &str) -> StdRng {
    let seed = match std::env::var("ORLOJ_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("ORLOJ_SEED={text:?}: {error}")),
        Err(_) => rand::rng().random(),
    };
    println!("{name}: ORLOJ_SEED={seed}");
    StdRng::seed_from_u64(seed)
}
