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

/// How much lower the last quarter of the slices is than the second one, in per cent; less than 0 when it is
/// higher. The first quarter is left out: caches and files are still small there. `None` below eight slices.
pub fn fall_pct(rates: &[f64]) -> Option<f64> {
    let quarter = rates.len() / 4;
    if quarter < 2 {
        return None;
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (early, late) = (mean(&rates[quarter..2 * quarter]), mean(&rates[rates.len() - quarter..]));
    (early > 0.0).then(|| ((early - late) / early * 1_000.0).round() / 10.0)
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
    fn a_fall_is_told_in_per_cent() {
        let falling = [50.0, 50.0, 100.0, 100.0, 95.0, 95.0, 90.0, 90.0];
        assert_eq!(fall_pct(&falling), Some(10.0));
        assert_eq!(fall_pct(&[1.0; 7]), None);
    }
}
