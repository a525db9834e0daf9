//! Throughput over time: a rate for each slice, so that a fall shows. Pure.

/// A count at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Everything counted until then.
    pub count: u64,
}

/// The rate a second in each whole slice of `width_s` seconds, from samples in order of time. A last slice that
/// no sample reaches the end of is left out. Between two samples the count is taken to grow evenly.
pub fn rates(samples: &[Sample], width_s: f64) -> Vec<f64> {
    let Some(last) = samples.last() else { return Vec::new() };
    let slices = (last.at_s / width_s).floor() as usize;
    let bounds: Vec<f64> = (0..=slices).map(|slice| count_at(samples, slice as f64 * width_s)).collect();
    bounds.windows(2).map(|pair| ((pair[1] - pair[0]) / width_s * 10.0).round() / 10.0).collect()
}

fn count_at(samples: &[Sample], at_s: f64) -> f64 {
    let next = samples.partition_point(|sample| sample.at_s < at_s);
    let before = match next {
        0 => Sample { at_s: 0.0, count: 0 },
        next => samples[next - 1],
    };
    let Some(after) = samples.get(next) else { return before.count as f64 };
    let span = after.at_s - before.at_s;
    let part = if span > 0.0 { (at_s - before.at_s) / span } else { 1.0 };
    before.count as f64 + part * (after.count - before.count) as f64
}

/// How throughput went on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// The mean of the first slices: a tenth of all, and two at least.
    pub first: f64,
    /// The mean of the last quarter.
    pub last: f64,
    /// How much lower the second is than the first, in per cent; less than 0 when it is higher.
    pub fall_pct: f64,
}

/// How these rates went on from the beginning to the end. What comes before the first slice is not in it, so a workload
/// that warms up does that before. `None` below four slices, and when nothing was done in the first ones.
pub fn course(rates: &[f64]) -> Option<Course> {
    if rates.len() < 4 {
        return None;
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let first = mean(&rates[..(rates.len() / 10).max(2)]);
    let last = mean(&rates[rates.len() - rates.len().div_ceil(4)..]);
    let fall_pct = ((first - last) / first * 1_000.0).round() / 10.0;
    (first > 0.0).then_some(Course { first, last, fall_pct })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(points: &[(f64, u64)]) -> Vec<Sample> {
        points.iter().map(|(at_s, count)| Sample { at_s: *at_s, count: *count }).collect()
    }

    #[test]
    fn each_whole_slice_has_its_rate() {
        let even = samples(&[(0.0, 0), (4.0, 400), (12.0, 1_200), (21.0, 1_650)]);
        assert_eq!(rates(&even, 10.0), vec![100.0, 60.0]);
        assert_eq!(rates(&samples(&[(3.0, 30)]), 10.0), Vec::<f64>::new());
        assert_eq!(rates(&[], 10.0), Vec::<f64>::new());
    }

    #[test]
    fn a_stall_is_not_smoothed_away() {
        let stalled = samples(&[(0.0, 0), (10.0, 1_000), (20.0, 1_000), (30.0, 2_000)]);
        assert_eq!(rates(&stalled, 10.0), vec![100.0, 0.0, 100.0]);
    }

    #[test]
    fn a_fall_is_told_against_the_beginning() {
        let six = course(&[100.0, 100.0, 95.0, 90.0, 80.0, 70.0]);
        assert_eq!(six, Some(Course { first: 100.0, last: 75.0, fall_pct: 25.0 }));
    }

    #[test]
    fn what_falls_early_and_stays_down_is_a_fall() {
        let mut rates = vec![90.0; 60];
        rates[..12].fill(140.0);
        let course = course(&rates).unwrap();
        assert_eq!((course.first, course.last, course.fall_pct), (140.0, 90.0, 35.7));
    }

    #[test]
    fn too_few_slices_and_an_empty_beginning_have_no_course() {
        assert_eq!(course(&[1.0; 3]), None);
        assert_eq!(course(&[0.0, 0.0, 5.0, 5.0]), None);
        assert_eq!(course(&[10.0, 10.0, 10.0, 12.0]).unwrap().fall_pct, -20.0);
    }
}
