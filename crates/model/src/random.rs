//! Randomness, as a thing that is passed in. The model itself never draws any.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bytes.
pub trait Random: Send + Sync + 'static {
    /// Fills the bytes. In the product they come from the operating system and cannot be guessed.
    fn fill(&self, bytes: &mut [u8]);

    /// A number from 0 to `most`, both included, each as likely as the others.
    fn up_to(&self, most: u64) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        // The high half of the product; a bias of less than `most` in 2^64 is nothing to anybody.
        let scaled = u128::from(u64::from_le_bytes(bytes)) * (u128::from(most) + 1);
        (scaled >> 64) as u64
    }
}

/// A source that repeats itself, bit for bit, for the same seed (splitmix64). Only for tests and simulations:
/// whoever knows the seed knows everything that is drawn.
#[derive(Debug, Default)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        SeededRandom(AtomicU64::new(seed))
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_tells_everything_that_is_drawn() {
        let draw = |seed| {
            let (random, mut bytes) = (SeededRandom::new(seed), [0; 21]);
            random.fill(&mut bytes);
            (bytes, random.up_to(1000))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_number_reaches_both_ends_and_no_further() {
        struct Fixed(u8);
        impl Random for Fixed {
            fn fill(&self, bytes: &mut [u8]) {
                bytes.fill(self.0);
            }
        }
        assert_eq!((Fixed(0).up_to(1000), Fixed(u8::MAX).up_to(1000)), (0, 1000));
        assert_eq!((Fixed(u8::MAX).up_to(0), Fixed(u8::MAX).up_to(u64::MAX)), (0, u64::MAX));
        let random = SeededRandom::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| random.up_to(9)).collect();
        assert_eq!(drawn, (0..=9).collect());
    }
}
