//! What a job's triggers will do, for people.

use super::occurrence::{DstEffect, Passed};
use super::schedule::{Progress, Schedule, Search};
use crate::id::Millis;

/// The most passed occurrences that a preview lists.
pub const PASSED_LIMIT: usize = 1_000;
/// A preview ends early once it has passed over so many occurrences, since that is what it costs: calendars can exclude
/// centuries.
const STEP_LIMIT: usize = 100_000;

/// One fire of a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewFire {
    /// The instant.
    pub scheduled_at: Millis,
    /// The same in the zone of the (first) trigger: RFC 3339 with its offset.
    pub local: String,
    /// What a clock change did to it.
    pub dst: Option<DstEffect>,
}

/// The fires from an instant on, and what was passed over up to the last of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preview {
    /// In order; fewer than asked for where there are no more, or where very much is passed over.
    pub fires: Vec<PreviewFire>,
    /// In order.
    pub skipped: Vec<Passed>,
    /// More was passed over than [`PASSED_LIMIT`].
    pub truncated: bool,
}

impl Schedule {
    /// The first `count` fires at or after `from`, by the same search that fires them. A `fixedDelay` is shown as if
    /// each task took no time. Jitter is left out: it does not change which instants there are.
    pub fn preview(&self, progress: &Progress, from: Millis, count: usize) -> Preview {
        let mut preview = Preview::default();
        let mut progress = Progress { open: false, ..progress.clone() };
        let mut after = from.saturating_sub(1);
        let mut steps = 0;
        while preview.fires.len() < count && steps < STEP_LIMIT {
            let room = PASSED_LIMIT - preview.skipped.len();
            let Search { next, passed, truncated, steps: more } = self.find(&progress, after, room);
            steps += more;
            // Two triggers may each have filled the room.
            preview.truncated |= truncated || passed.len() > room;
            preview.skipped.extend(passed.into_iter().take(room));
            let Some(next) = next else { break };
            let local = self.show(next.triggers[0], next.scheduled_at);
            preview.fires.push(PreviewFire { scheduled_at: next.scheduled_at, local, dst: next.dst });
            progress.fire(&next);
            progress.end(next.scheduled_at);
            after = next.scheduled_at;
        }
        preview
    }
}
