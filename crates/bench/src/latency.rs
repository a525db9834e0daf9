//! Latencies: recorded in HDR histograms, in µs, and told as percentiles in ms. Pure.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest that is told apart, in µs: an hour. What is longer counts as this.
const LONGEST_US: u64 = 3_600_000_000;
/// Each value is kept to one part in a thousand.
const DIGITS: u8 = 3;

/// Many latencies.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("the bounds are in order");
        Latency { histogram }
    }
}

impl Latency {
    /// Records one latency, in µs.
    pub fn record(&mut self, us: u64) {
        self.histogram.saturating_record(us);
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Everything about them; `None` when there are none.
    pub fn distribution(&self) -> Option<Distribution> {
        Some(Distribution { quantiles: self.quantiles()?, steps_us: self.clone() })
    }

    /// Their percentiles; `None` when there are none.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let all = &self.histogram;
        let at = |quantile| ms(all.value_at_quantile(quantile));
        (self.count() > 0).then(|| Quantiles {
            count: self.count(),
            min: ms(all.min()),
            mean: round(all.mean() / 1e3),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: ms(all.max()),
        })
    }
}

/// Percentiles, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many latencies.
    pub count: u64,
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Half of them are at most this long.
    pub p50: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// A whole distribution: its percentiles, and every step of the histogram, from which those of several runs can be
/// added up.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// The percentiles.
    #[serde(flatten)]
    pub quantiles: Quantiles,
    /// The steps: a latency in µs, and how many there are of it.
    pub steps_us: Latency,
}

fn ms(us: u64) -> f64 {
    round(us as f64 / 1e3)
}

/// To whole µs, so that the JSON is readable.
fn round(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())),
        )
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latency = Latency::default();
        for (us, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latency.histogram.record_n(us.min(LONGEST_US), count).map_err(D::Error::custom)?;
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_ms() {
        let mut latency = Latency::default();
        (1..=1_000).for_each(|ms| latency.record(ms * 1_000));
        let told = latency.quantiles().unwrap();
        assert_eq!(told.count, 1_000);
        for (told, want) in [(told.p50, 500.0), (told.p95, 950.0), (told.p99, 990.0), (told.max, 1_000.0)] {
            assert!((told - want).abs() <= want * 0.002, "{told} is not {want}");
        }
        assert_eq!(Latency::default().quantiles(), None);
    }

    #[test]
    fn what_is_too_long_still_counts() {
        let mut latency = Latency::default();
        latency.record(u64::MAX);
        latency.record(0);
        assert_eq!(latency.count(), 2);
        assert!(latency.quantiles().unwrap().max >= 3_599_000.0);
    }

    #[test]
    fn a_latency_travels_as_json() {
        let mut latency = Latency::default();
        [0, 1, 7, 999, 1_000_000, 59_999_999].into_iter().for_each(|us| latency.record(us));
        let text = serde_json::to_string(&latency).unwrap();
        let back: Latency = serde_json::from_str(&text).unwrap();
        assert_eq!(back.quantiles(), latency.quantiles());
        let mut both = back;
        both.merge(&latency);
        assert_eq!(both.count(), 12);
    }

    #[test]
    fn a_distribution_is_told_with_all_its_steps() {
        let mut latency = Latency::default();
        [5, 5, 700].into_iter().for_each(|us| latency.record(us));
        let told = serde_json::to_value(latency.distribution()).unwrap();
        assert_eq!((&told["count"], &told["max"]), (&3.into(), &0.7.into()));
        assert_eq!(told["stepsUs"], serde_json::json!([[5, 2], [700, 1]]));
        assert_eq!(Latency::default().distribution(), None);
    }
}
