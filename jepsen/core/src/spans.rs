//! Stretches of time, and the questions that checkers ask of them.

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;

/// A set of stretches of time, merged where they overlap. Both ends belong to a stretch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    /// Apart from each other and in order.
    merged: Vec<(u64, u64)>,
    /// How much time the stretches before each one cover, in ns.
    before: Vec<u64>,
}

impl Spans {
    /// The union of these stretches, each (from, until) in ns.
    pub fn of(stretches: impl IntoIterator<Item = (u64, u64)>) -> Spans {
        let mut sorted: Vec<(u64, u64)> =
            stretches.into_iter().filter(|(from, until)| from <= until).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, until) in sorted {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => merged.push((from, until)),
            }
        }
        let mut covered = 0;
        let mut before = Vec::with_capacity(merged.len());
        for (from, until) in &merged {
            before.push(covered);
            covered += until - from;
        }
        Spans { merged, before }
    }

    /// Both together.
    pub fn and(&self, other: &Spans) -> Spans {
        Spans::of(self.merged.iter().chain(&other.merged).copied())
    }

    /// Each stretch with so much time after it, in ns.
    pub fn followed_by(&self, after: u64) -> Spans {
        Spans::of(self.merged.iter().map(|(from, until)| (*from, until.saturating_add(after))))
    }

    /// Whether any part of this time lies in one of the stretches.
    pub fn touch(&self, from: u64, until: u64) -> bool {
        let first_ending_late = self.merged.partition_point(|span| span.1 < from);
        self.merged.get(first_ending_late).is_some_and(|span| span.0 <= until)
    }

    /// How much of the time from `from` to `until` lies in the stretches, in ns.
    pub fn covered(&self, from: u64, until: u64) -> u64 {
        self.covered_before(until).saturating_sub(self.covered_before(from))
    }

    fn covered_before(&self, instant: u64) -> u64 {
        let begun = self.merged.partition_point(|span| span.0 < instant);
        let Some(last) = begun.checked_sub(1) else { return 0 };
        let (from, until) = self.merged[last];
        self.before[last] + until.min(instant) - from
    }
}

/// Answers for the greatest of the values in any stretch of a series, in constant time after n log n.
#[derive(Debug, Clone, Default)]
pub struct RangeMax {
    times: Vec<u64>,
    /// Level k holds the greatest of each 2^k values.
    levels: Vec<Vec<i64>>,
}

impl RangeMax {
    /// From (time, value) in order of time.
    pub fn of(series: impl IntoIterator<Item = (u64, i64)>) -> RangeMax {
        let (times, values): (Vec<u64>, Vec<i64>) = series.into_iter().unzip();
        let mut levels = vec![values];
        let mut width = 1;
        while width * 2 <= times.len() {
            let last = &levels[levels.len() - 1];
            let next = (0..=times.len() - width * 2).map(|at| last[at].max(last[at + width])).collect();
            levels.push(next);
            width *= 2;
        }
        RangeMax { times, levels }
    }

    /// The greatest value between these instants; none where the series has none.
    pub fn within(&self, from: u64, until: u64) -> Option<i64> {
        let first = self.times.partition_point(|time| *time < from);
        let end = self.times.partition_point(|time| *time <= until);
        let count = end.checked_sub(first).filter(|count| *count > 0)?;
        let level = count.ilog2();
        let row = &self.levels[level as usize];
        Some(row[first].max(row[end - (1 << level)]))
    }
}

/// The value that this share (0-1) of a sorted list does not exceed; none when it is empty.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    // A share of a length: small and not negative.
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_merge_and_answer() {
        let spans = Spans::of([(10, 20), (15, 30), (50, 60), (9, 8)]);
        assert!(spans.touch(0, 10) && spans.touch(30, 40) && spans.touch(12, 13));
        assert!(!spans.touch(31, 49) && !spans.touch(0, 9) && !spans.touch(61, 99));
        assert_eq!(spans.covered(0, 100), 30);
        assert_eq!(spans.covered(15, 55), 20);
        assert_eq!(spans.covered(31, 49), 0);
        assert_eq!(Spans::default().covered(0, 9), 0);
    }

    #[test]
    fn the_greatest_of_any_stretch_is_that_of_a_scan() {
        let series: Vec<(u64, i64)> = (0..37).map(|at| (at * 10, (at as i64 * 7_919) % 31 - 15)).collect();
        let fast = RangeMax::of(series.clone());
        for from in (0..380).step_by(7) {
            for until in (from..400).step_by(11) {
                let slow = series.iter().filter(|(at, _)| (from..=until).contains(at)).map(|(_, v)| *v).max();
                assert_eq!(fast.within(from, until), slow, "{from}-{until}");
            }
        }
        assert_eq!(RangeMax::of([]).within(0, 9), None);
    }

    #[test]
    fn quantiles_of_small_lists() {
        assert_eq!(quantile::<u64>(&[], 0.5), None);
        assert_eq!(quantile(&[7], 0.99), Some(7));
        assert_eq!((quantile(&[1, 9], 0.5), quantile(&[1, 9], 1.0)), (Some(1), Some(9)));
        assert_eq!(quantile(&[1, 2, 3, 4, 5], 0.5), Some(3));
        assert_eq!(quantile(&[1, 2, 3, 4, 5], 0.99), Some(5));
    }
}
