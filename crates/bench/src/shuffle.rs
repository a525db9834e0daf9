//! A permutation that a seed decides, computed place by place. Pure.
//!
//! Four rounds of a Feistel network permute the numbers of an even count of bits; what falls outside of the range goes
//! through them again until it falls inside. The range is a quarter of the numbers at least, so that is soon.

/// Rounds of the network.
const ROUNDS: u64 = 4;

/// Where `number` stands in the permutation of `0..count` that belongs to the seed; 0 when there is nothing to permute.
pub(crate) fn place(number: u64, count: u64, seed: u64) -> u64 {
    if count < 2 {
        return 0;
    }
    let half = (u64::BITS - (count - 1).leading_zeros()).div_ceil(2);
    let mut value = number % count;
    loop {
        value = permute(value, half, seed);
        // The way leads back to where it began, which is inside, so it ends.
        if value < count {
            return value;
        }
    }
}

/// Permutes the numbers of twice `half` bits; `half` is 1-32.
fn permute(value: u64, half: u32, seed: u64) -> u64 {
    let mask = (1_u64 << half) - 1;
    let (mut left, mut right) = (value >> half, value & mask);
    for round in 0..ROUNDS {
        (left, right) = (right, left ^ (mix(right, seed, round) & mask));
    }
    (left << half) | right
}

/// Bits that look like chance: the finaliser of SplitMix64.
fn mix(value: u64, seed: u64, round: u64) -> u64 {
    let mut bits = seed.wrapping_add((round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ value;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        // Powers of two, one beside them, and multiples of a prime.
        for count in [1, 2, 3, 4, 5, 255, 256, 257, 7_919, 15_838] {
            let mut places: Vec<u64> = (0..count).map(|number| place(number, count, 7)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..count).collect::<Vec<_>>(), "of {count}");
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let order = |seed| (0..1_000).map(|number| place(number, 1_000, seed)).collect::<Vec<_>>();
        assert_eq!(order(5), order(5));
        assert_ne!(order(5), order(6));
        assert_ne!(order(5), (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn no_count_overflows() {
        assert_eq!(place(3, 0, 1), 0);
        let places = [0, 1, u64::MAX - 1].map(|number| place(number, u64::MAX, 1));
        assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2], "{places:?}");
    }
}
