//! The wall clocks of the replicas against that of the harness, which nothing steps.

use crate::event::What;
use crate::history::History;
use crate::spans::{MS, RangeMax};

/// A step shows in the probes within so many ms.
const SEEN_WITHIN_MS: u64 = 3_000;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Clocks {
    /// Wall clock of the harness minus the monotonic clock, in ms.
    wall_ahead_ms: Option<i64>,
    /// Offsets of all replicas.
    offsets: RangeMax,
    /// Offsets of whoever served: (when, ms).
    serving: Vec<(u64, i64)>,
    /// When a clock was first stepped on purpose, or seen far from the harness's.
    first_step_ns: Option<u64>,
}

impl Clocks {
    /// From the probes, and from the events that carry the harness's wall clock.
    pub fn of(history: &History, noise_ms: u64) -> Clocks {
        let mut clocks = Clocks::default();
        let mut offsets = Vec::new();
        for event in history.events() {
            let wall_ms = match &event.what {
                What::Recv(recv) => recv.wall_ms,
                What::Start(start) => start.wall_ms,
                What::Probe(probe) => {
                    offsets.push((event.mono_ns, probe.wall_offset_ms));
                    // One answer that was held up on its way is no step.
                    if probe.wall_offset_ms.unsigned_abs() > noise_ms.saturating_mul(20) {
                        clocks.first_step_ns.get_or_insert(event.mono_ns);
                    }
                    if probe.serving.is_some() {
                        clocks.serving.push((event.mono_ns, probe.wall_offset_ms));
                    }
                    continue;
                }
                What::Fault(fault) if fault.package == "clock" => {
                    if matches!(fault.phase.as_str(), "installed" | "indeterminate") {
                        clocks.first_step_ns.get_or_insert(event.mono_ns);
                    }
                    continue;
                }
                _ => continue,
            };
            if clocks.wall_ahead_ms.is_none() && wall_ms != 0 {
                clocks.wall_ahead_ms = Some(wall_ms - whole_ms(event.mono_ns));
            }
        }
        clocks.offsets = RangeMax::of(offsets);
        clocks
    }

    /// What the harness's wall clock showed, in ms since the epoch; none when the history does not tell.
    pub fn wall_ms(&self, mono_ns: u64) -> Option<i64> {
        self.wall_ahead_ms.map(|ahead| whole_ms(mono_ns) + ahead)
    }

    /// Whether any replica's clock was ever moved away from the harness's.
    pub fn stepped(&self) -> bool {
        self.first_step_ns.is_some()
    }

    /// Whether one was by this instant; a step shows only in the next probe.
    pub fn stepped_by(&self, mono_ns: u64) -> bool {
        self.first_step_ns.is_some_and(|first| first <= mono_ns.saturating_add(SEEN_WITHIN_MS * MS))
    }

    /// The furthest that any replica's wall clock was ahead in this time, in ms; 0 when nothing was probed.
    /// Looks a little beyond both ends: a step shows only in the next probe.
    pub fn furthest_ahead_ms(&self, from: u64, until: u64) -> i64 {
        let until = until.saturating_add(SEEN_WITHIN_MS * MS);
        self.offsets.within(from.saturating_sub(SEEN_WITHIN_MS * MS), until).unwrap_or(0)
    }

    /// By how much the cluster's time can have been put forward between these instants, in ms: it follows
    /// every leader's clock forward, and none back.
    pub fn jump_room_ms(&self, from: u64, until: u64) -> u64 {
        let last = self.serving.partition_point(|(at, _)| *at <= from).checked_sub(1);
        let since = last.map_or(0, |last| self.serving[last].1);
        u64::try_from(self.furthest_ahead_ms(from, until).saturating_sub(since)).unwrap_or(0)
    }
}

fn whole_ms(mono_ns: u64) -> i64 {
    i64::try_from(mono_ns / MS).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AttemptAt, Probe};
    use crate::testing::{at, event, probe};

    #[test]
    fn steps_forward_make_room_and_steps_back_do_not() {
        let shows = |ms, offset, serving| {
            probe(ms, "n1", Probe { wall_offset_ms: offset, serving, ..Probe::default() })
        };
        let start = event(2_000, What::Start(AttemptAt { wall_ms: 1_002_000, ..AttemptAt::default() }));
        let history = History::merge(vec![
            shows(1_000, 1, Some(1)),
            start,
            shows(9_000, 3_600_000, Some(1)),
            shows(20_000, 2, Some(1)),
            shows(40_000, 0, Some(1)),
        ]);
        let clocks = Clocks::of(&history, 50);
        assert!(clocks.stepped());
        assert_eq!(clocks.wall_ms(at(5_000)), Some(1_005_000));
        assert_eq!(clocks.jump_room_ms(at(1_000), at(10_000)), 3_599_999);
        assert_eq!(clocks.jump_room_ms(at(9_000), at(20_000)), 0);
        assert_eq!(clocks.jump_room_ms(at(20_000), at(40_000)), 0);
        assert_eq!(clocks.furthest_ahead_ms(at(30_000), at(40_000)), 0);
    }
}
