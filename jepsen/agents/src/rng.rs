//! Random numbers from a seed: xoshiro256**, seeded by splitmix64 (both public domain, by Blackman and Vigna).
//!
//! Written out here so that a seed means the same for ever, whatever a dependency does.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng {
    seed: u64,
    state: [u64; 4],
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        Rng { seed, state: std::array::from_fn(|_| splitmix(&mut state)) }
    }

    /// The stream for one purpose. It depends on the seed and the purpose alone, not on what was drawn before:
    /// a draw more for one purpose leaves every other stream as it was.
    pub fn split(&self, purpose: &str) -> Rng {
        let hash = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut mixed = self.seed ^ hash;
        Rng::new(splitmix(&mut mixed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`; 0 when `bound` is 0. Its bias is below 2^-32 for every bound that is used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(u64::MAX)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether an event of this probability happens. Draws nothing when it is certain or impossible, so that a
    /// vice that is off does not move the stream.
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        probability >= 1.0 || self.unit() < probability
    }

    /// One of these; none when there is none.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        let at = self.below(among.len() as u64);
        among.get(usize::try_from(at).unwrap_or(usize::MAX))
    }

    /// The place of one of these weights, by its share; 0 when all are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let mut left = self.below(total);
        for (at, weight) in weights.iter().enumerate() {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return at,
            }
        }
        0
    }

    /// An exponential time with this mean, as between independent events; at most ten times the mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let factor = -(1.0 - self.unit()).ln();
        (mean as f64 * factor.min(10.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        // The first output of splitmix64 for seed 0, as its authors publish it.
        assert_eq!(splitmix(&mut 0), 0xe220_a839_7b1d_cdaf);
        let mut rng = Rng::new(42);
        let drawn: Vec<u64> = (0..3).map(|_| rng.bits()).collect();
        assert_eq!(drawn, [0x1578_0b2e_0c2e_c716, 0x6104_d986_6d11_3a7e, 0xae17_5332_39e4_99a1]);
    }

    #[test]
    fn purposes_do_not_disturb_each_other() {
        let rng = Rng::new(7);
        let mut used = rng.clone();
        used.bits();
        assert_eq!(rng.split("a").bits(), used.split("a").bits());
        assert_ne!(rng.split("a").bits(), rng.split("b").bits());
    }

    #[test]
    fn numbers_keep_their_bounds_and_shares() {
        let mut rng = Rng::new(1);
        let mut counts = [0_u32; 3];
        for _ in 0..30_000 {
            assert!(rng.below(7) < 7);
            assert!((5..=9).contains(&rng.between(5, 9)));
            assert!(rng.exponential(100) <= 1_000);
            counts[rng.weighted(&[1, 0, 2])] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((9_000..11_000).contains(&counts[0]), "{counts:?}");
        assert_eq!((rng.below(0), rng.weighted(&[0, 0])), (0, 0));
        let before = rng.clone().bits();
        assert!(!rng.chance(0.0) && rng.chance(1.0));
        assert_eq!(rng.bits(), before, "a certain event draws nothing");
    }
}
