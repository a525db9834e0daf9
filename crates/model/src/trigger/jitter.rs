//! Jitter that needs no memory: a hash of the job and the instant.

use crate::id::Millis;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// By how many milliseconds a fire is put off: 0 to `most`, both included, each about as likely as the others, and
/// always the same for one job and one instant, whichever leader computes it and however often. The hash (64-bit
/// FNV-1a over the job's id, a zero byte and the instant in eight little-endian bytes, finished as splitmix64 does)
/// never changes: a new leader of another release must find the same due time.
pub fn jitter_ms(job: &str, scheduled_at: Millis, most: u64) -> u64 {
    let bytes = job.bytes().chain([0]).chain(scheduled_at.to_le_bytes());
    let mut hash = bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    ((u128::from(hash) * (u128::from(most) + 1)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jitter_of_an_instant_never_changes() {
        // Golden values: see the comment on the function.
        let golden: Vec<u64> = (0..4).map(|n| jitter_ms("nightly", 1_800_000_000_000 + n, 60_000)).collect();
        assert_eq!(golden, GOLDEN);
        assert_ne!(jitter_ms("nightly", 1, 60_000), jitter_ms("hourly", 1, 60_000));
    }

    const GOLDEN: [u64; 4] = [54_119, 36_648, 52_549, 11_330];

    #[test]
    fn the_jitter_fills_its_range_and_no_more() {
        assert_eq!(jitter_ms("a", 7, 0), 0);
        let mut counts = [0; 11];
        for at in 0..11_000 {
            counts[jitter_ms("a", at * 1_000, 10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        let _ = jitter_ms("a", Millis::MAX, u64::MAX);
    }
}
