//! How fast the machine itself is, measured just before a run: what stands beside its figures. Pure.

use serde::Serialize;

use crate::disk::Syncs;
use crate::figures::Run;
use crate::latency::Distribution;

/// The machine's own speed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ceilings {
    /// 256 bytes appended to a file that grows, and synced, on the disk of the data, one after the other.
    pub append: Syncs,
    /// 256 bytes written over others, and synced, as a log does that uses its files again.
    pub overwrite: Syncs,
    /// The load against a server that only answers, on loopback and in clear, by as many callers.
    pub loopback: Loopback,
}

/// How fast the load itself is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loopback {
    /// Answers a second.
    pub per_s: f64,
    /// Of one request, in a closed loop.
    pub latency: Option<Distribution>,
}

impl Ceilings {
    /// Adds them to the figures of the run that they were measured for.
    pub fn add_to(self, run: &mut Run) {
        let p50 = |of: &Option<Distribution>| of.as_ref().map_or(0.0, |of| of.quantiles.p50);
        run.add("machine: append and fdatasync p50", "ms", p50(&self.append.latency));
        run.add("machine: overwrite and fdatasync p50", "ms", p50(&self.overwrite.latency));
        run.add("machine: load against a server that only answers", "/s", self.loopback.per_s);
        run.ceilings = Some(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;

    #[test]
    fn they_stand_beside_the_figures() {
        let syncs = |us| {
            let mut latency = Latency::default();
            latency.record(us);
            Syncs { latency: latency.distribution(), per_s: 1.0 }
        };
        let loopback = Loopback { per_s: 40_000.0, latency: None };
        let mut run = Run::default();
        Ceilings { append: syncs(200), overwrite: syncs(100), loopback }.add_to(&mut run);
        let values: Vec<f64> = run.figures.iter().map(|figure| figure.value).collect();
        assert_eq!(values, [0.2, 0.1, 40_000.0]);
        assert!(run.ceilings.is_some());
    }
}
