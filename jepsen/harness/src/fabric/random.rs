//! The seeded numbers of one link: SplitMix64, which is small, fast and the same on every machine.

/// A stream of numbers that its seed alone decides.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed` for the link `from` -> `to`; different links have unrelated streams.
    pub fn of_link(seed: u64, from: usize, to: usize) -> Self {
        let mut random = Self(seed);
        let salt = random.next() ^ ((from as u64) << 32 | to as u64);
        let mut random = Self(salt);
        Self(random.next())
    }

    /// The next number, any of the 2^64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Whether an event of this share happens. A share of 0 draws no number.
    pub fn chance(&mut self, share: f64) -> bool {
        // 53 bits fill the fraction of an f64 exactly.
        share > 0.0 && ((self.next() >> 11) as f64 / (1u64 << 53) as f64) < share
    }

    /// A number from 0 to `most`, both included. A `most` of 0 draws no number.
    pub fn up_to(&mut self, most: u64) -> u64 {
        match most {
            0 => 0,
            u64::MAX => self.next(),
            // The bias of the remainder is below `most` / 2^64.
            _ => self.next() % (most + 1),
        }
    }
}
