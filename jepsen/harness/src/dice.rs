//! Random numbers for plans: splitmix64, so that a seed means the same plan with every version of every library.

/// A stream of random numbers that a seed decides.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A stream of its own, so that drawing more here changes nothing there.
    pub fn fork(&mut self) -> Dice {
        Dice(self.draw())
    }

    /// 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// In `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// In `[low, high]`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1).max(1);
        low + (self.unit() * span as f64) as u64
    }

    /// Exponentially distributed around `mean`.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// One of them; none of an empty list.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.between(0, of.len().checked_sub(1)? as u64) as usize)
    }

    /// A place in `weights`, the likelier the greater its weight; 0 when all are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let mut left = self.between(0, total.saturating_sub(1));
        for (at, weight) in weights.iter().enumerate() {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return at,
            }
        }
        0
    }

    /// Puts them in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.between(0, at as u64) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let mut dice = Dice::new(0);
        assert_eq!([dice.draw(), dice.draw()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn numbers_keep_to_their_bounds() {
        let mut dice = Dice::new(7);
        for _ in 0..1_000 {
            assert!((3..=5).contains(&dice.between(3, 5)));
            assert!((0.0..1.0).contains(&dice.unit()));
            assert_eq!(dice.weighted(&[0, 4, 0]), 1);
        }
        assert_eq!(dice.between(9, 3), 9);
        assert_eq!(dice.pick::<u8>(&[]), None);
        let mean = (0..10_000).map(|_| dice.exponential(6.0)).sum::<f64>() / 10_000.0;
        assert!((5.5..6.5).contains(&mean), "{mean}");
        let mut items = [1, 2, 3, 4, 5];
        dice.shuffle(&mut items);
        items.sort_unstable();
        assert_eq!(items, [1, 2, 3, 4, 5]);
    }
}
