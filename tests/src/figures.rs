//! What the tests measure and print.

use std::fmt;

/// A set of durations or other numbers, for its percentiles.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    sorted: Vec<i64>,
}

impl Figures {
    /// The percentile `part` in 0-100, by nearest rank.
    ///
    /// # Panics
    /// There are no figures.
    pub fn percentile(&self, part: f64) -> i64 {
        assert!(!self.sorted.is_empty(), "no figures to take a percentile of");
        let rank = (part / 100.0 * self.sorted.len() as f64).ceil() as usize;
        self.sorted[rank.clamp(1, self.sorted.len()) - 1]
    }

    /// The smallest.
    pub fn min(&self) -> i64 {
        self.percentile(0.0)
    }

    /// The largest.
    pub fn max(&self) -> i64 {
        self.percentile(100.0)
    }
}

impl FromIterator<i64> for Figures {
    fn from_iter<I: IntoIterator<Item = i64>>(values: I) -> Self {
        let mut sorted: Vec<i64> = values.into_iter().collect();
        sorted.sort_unstable();
        Figures { sorted }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sorted.is_empty() {
            return f.write_str("none");
        }
        let (p50, p99) = (self.percentile(50.0), self.percentile(99.0));
        write!(f, "min {} p50 {p50} p99 {p99} max {} of {}", self.min(), self.max(), self.sorted.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let figures: Figures = (1..=100).rev().collect();
        assert_eq!((figures.percentile(50.0), figures.percentile(99.0)), (50, 99));
        assert_eq!((figures.min(), figures.max()), (1, 100));
        assert_eq!(Figures::default().to_string(), "none");
        let one: Figures = [7].into_iter().collect();
        assert_eq!(one.to_string(), "min 7 p50 7 p99 7 max 7 of 1");
    }
}
