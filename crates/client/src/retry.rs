//! Which failures pass, and how long to wait before the next try. Pure.

use std::time::Duration;

/// The longest delay between two tries that the server did not ask for.
const LONGEST: Duration = Duration::from_secs(2);

/// Whether the same call, signed again, may succeed later.
pub(crate) fn passes(status: u16) -> bool {
    matches!(status, 408 | 429 | 503)
}

/// The delay after try number `tries` (from 1): doubling from `first`, between half and all of it by
/// `chance` (0-1), and never less than the server asks for.
pub(crate) fn delay(first: Duration, tries: u32, chance: f64, asked: Option<Duration>) -> Duration {
    let doubled = first.saturating_mul(1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX));
    let jittered = doubled.min(LONGEST).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
    jittered.max(asked.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_heed_the_server() {
        let first = Duration::from_millis(50);
        assert_eq!(delay(first, 1, 1.0, None), first);
        assert_eq!(delay(first, 1, 0.0, None), first / 2);
        assert_eq!(delay(first, 3, 1.0, None), first * 4);
        assert_eq!(delay(first, 200, 1.0, None), LONGEST);
        let asked = Some(Duration::from_secs(5));
        assert_eq!(delay(first, 1, 0.5, asked), Duration::from_secs(5));
    }

    #[test]
    fn only_passing_failures_are_tried_again() {
        assert!([408, 429, 503].into_iter().all(passes));
        assert!(![200, 400, 401, 404, 409, 422, 500].into_iter().any(passes));
    }
}
