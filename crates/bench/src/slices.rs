//! Throughput over time: a rate for each slice, so that a fall shows; and what a task cost meanwhile, so that a fall can be
//! told from a machine that slows down. Pure.

use std::ops::Range;

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
    let points: Vec<(f64, f64)> = samples.iter().map(|sample| (sample.at_s, sample.count as f64)).collect();
    let bounds: Vec<f64> = (0..=slices).map(|slice| sum_at(&points, slice as f64 * width_s)).collect();
    bounds.windows(2).map(|pair| ((pair[1] - pair[0]) / width_s * 10.0).round() / 10.0).collect()
}

/// A sum that only grows, 0 at first, at an instant between two at which it is known.
fn sum_at(points: &[(f64, f64)], at_s: f64) -> f64 {
    let next = points.partition_point(|(known_s, _)| *known_s < at_s);
    let (before_s, before) = next.checked_sub(1).map_or((0.0, 0.0), |place| points[place]);
    let Some((after_s, after)) = points.get(next) else { return before };
    let span_s = after_s - before_s;
    let part = if span_s > 0.0 { (at_s - before_s) / span_s } else { 1.0 };
    before + part * (after - before)
}

/// Which slices are the first ones and which the last ones, of so many: a tenth of all, and two at least; and a quarter.
/// `None` below four.
fn ends(slices: usize) -> Option<(Range<usize>, Range<usize>)> {
    (slices >= 4).then(|| (0..(slices / 10).max(2), slices - slices.div_ceil(4)..slices))
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
    let (first, last) = ends(rates.len())?;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&rates[first]), mean(&rates[last]));
    (first > 0.0).then(|| Course { first, last, fall_pct: fall_pct(first, last) })
}

/// How much lower the second is than the first, in per cent, to one place.
fn fall_pct(first: f64, last: f64) -> f64 {
    ((first - last) / first * 1_000.0).round() / 10.0
}

/// CPU time that was spent until an instant, in s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// Seconds since the start.
    pub at_s: f64,
    /// Of all replicas.
    pub replicas_s: f64,
    /// Of the load and the executors.
    pub clients_s: f64,
}

/// CPU time for each task in some slices, in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Of all replicas.
    pub replicas_ms: f64,
    /// Of the load and the executors.
    pub clients_ms: f64,
}

/// What a task cost in the slices that [`Course`] compares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// In the first slices.
    pub first: Cost,
    /// In the last quarter.
    pub last: Cost,
    /// [`Course::fall_pct`], had the clients needed as much for a task at the end as at the beginning: the least that the
    /// product falls, for memory and caches that others use as well slow down both. It excuses more than the machine did
    /// where something else than the processor is scarce, and since what clients do each second weighs more on fewer tasks.
    pub fall_at_pace_pct: f64,
}

/// What a task cost at the beginning and at the end of these slices. `None` where [`course`] is, and where one of the two
/// has no tasks or no CPU time.
pub fn costs(rates: &[f64], width_s: f64, spent: &[Spent]) -> Option<Costs> {
    let (first, last) = ends(rates.len())?;
    let course = course(rates)?;
    let replicas: Vec<(f64, f64)> = spent.iter().map(|spent| (spent.at_s, spent.replicas_s)).collect();
    let clients: Vec<(f64, f64)> = spent.iter().map(|spent| (spent.at_s, spent.clients_s)).collect();
    let cost = |slices: &Range<usize>| {
        let tasks = rates[slices.clone()].iter().sum::<f64>() * width_s;
        let within = |points: &[(f64, f64)]| {
            let until = |slice: usize| sum_at(points, slice as f64 * width_s);
            (until(slices.end) - until(slices.start)) * 1e3 / tasks
        };
        Cost { replicas_ms: within(&replicas), clients_ms: within(&clients) }
    };
    let (first, last) = (cost(&first), cost(&last));
    let at_pace = course.last * (last.clients_ms / first.clients_ms);
    let known = [first, last].iter().all(|cost| cost.clients_ms > 0.0 && cost.clients_ms.is_finite());
    known.then(|| Costs { first, last, fall_at_pace_pct: fall_pct(course.first, at_pace) })
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

    /// CPU time at the end of each slice of 10 s, of which the replicas have twice as much as the clients.
    fn spent(clients_ms: &[f64], rates: &[f64]) -> Vec<Spent> {
        let mut sum_s = 0.0;
        let each = clients_ms.iter().zip(rates).enumerate().map(|(slice, (ms, rate))| {
            sum_s += ms / 1e3 * rate * 10.0;
            Spent { at_s: (slice + 1) as f64 * 10.0, replicas_s: 2.0 * sum_s, clients_s: sum_s }
        });
        each.collect()
    }

    #[test]
    fn a_machine_that_slows_down_is_not_a_fall_of_the_product() {
        let (rates, clients_ms) = ([100.0, 100.0, 90.0, 80.0], [0.4, 0.4, 0.45, 0.5]);
        let slowed = costs(&rates, 10.0, &spent(&clients_ms, &rates)).unwrap();
        let near = |is: f64, shall: f64| assert!((is - shall).abs() < 1e-9, "{is} instead of {shall}");
        near(slowed.first.clients_ms, 0.4);
        near(slowed.last.clients_ms, 0.5);
        near(slowed.last.replicas_ms, 1.0);
        near(slowed.fall_at_pace_pct, 0.0);
        let steady = costs(&rates, 10.0, &spent(&[0.4; 4], &rates)).unwrap();
        near(steady.fall_at_pace_pct, 20.0);
    }

    #[test]
    fn without_cpu_time_there_is_no_cost() {
        assert_eq!(costs(&[10.0; 4], 10.0, &[]), None);
        assert_eq!(costs(&[10.0; 3], 10.0, &spent(&[0.4; 3], &[10.0; 3])), None);
        assert_eq!(costs(&[10.0, 10.0, 10.0, 0.0], 10.0, &spent(&[0.4; 4], &[10.0; 4])), None);
    }

    #[test]
    fn too_few_slices_and_an_empty_beginning_have_no_course() {
        assert_eq!(course(&[1.0; 3]), None);
        assert_eq!(course(&[0.0, 0.0, 5.0, 5.0]), None);
        assert_eq!(course(&[10.0, 10.0, 10.0, 12.0]).unwrap().fall_pct, -20.0);
    }
}
