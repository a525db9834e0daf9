//! What happens to instants that nobody was there for.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::occurrence::SkipReason;
use super::schedule::{Next, Progress, Schedule};
use crate::id::Millis;

/// The most fires that one catching-up makes, whatever the policy allows.
pub const BURST_LIMIT: usize = 1_000;
/// Missed instants are counted up to this; of more, only that there were more is known.
pub const MISSED_COUNTED: u64 = 5_000;

/// What to do about instants that are found too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Misfire {
    /// Nothing.
    Skip,
    /// Fire the newest of them, unless another instant fires in time.
    #[default]
    FireOnce,
    /// Fire the newest of them, oldest first.
    FireAll {
        /// At most so many; never more than [`BURST_LIMIT`].
        cap: u32,
    },
}

/// The misfire policy of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatchUp {
    /// What to do about instants that are found too late.
    pub policy: Misfire,
    /// An instant that is late by at most so many milliseconds is in time and fires under every policy.
    pub grace_ms: u64,
}

impl Default for CatchUp {
    /// One task for whatever was missed. Five seconds cover a change of leader.
    fn default() -> Self {
        CatchUp { policy: Misfire::FireOnce, grace_ms: 5_000 }
    }
}

/// Missed instants that are skipped for one reason; recorded as a count, never one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Why.
    pub reason: SkipReason,
    /// How many.
    pub count: u64,
    /// Whether there were no more than `count`.
    pub exact: bool,
    /// The first of them.
    pub first: Millis,
    /// The last of them.
    pub last: Millis,
}

/// What becomes of everything that was due between two instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// What fires, oldest first.
    pub fires: Vec<Next>,
    /// What is skipped, by reason.
    pub skipped: Vec<Missed>,
    /// Everything up to this instant is decided: the next call begins here.
    pub through: Millis,
    /// The next fire behind it, provided that every one of `fires` makes a task.
    pub next: Option<Next>,
}

impl Schedule {
    /// Decides on every instant later than `last` that is due at `now`. The work is bounded however long nobody was
    /// there: some thousand steps.
    pub fn catch_up(&self, catch_up: CatchUp, progress: &Progress, last: Millis, now: Millis) -> Due {
        let through = self.due_through(progress, last, now);
        let grace = i64::try_from(catch_up.grace_ms).unwrap_or(i64::MAX);
        let opens = match catch_up.policy {
            // What is late makes a task only where nothing follows it.
            Misfire::Skip | Misfire::FireOnce => Opens::InTime { now, grace },
            Misfire::FireAll { .. } => Opens::Always,
        };
        let found = self.between(progress, last, through, opens);
        // Instants are decided in their order: one whose time came while an earlier one waited for the end of its
        // jitter was held back, and is as late as that one is.
        let mut held = Millis::MIN;
        let mut in_time = |next: &Next| {
            held = held.max(next.due_at);
            now.saturating_sub(held) <= grace
        };
        let found_in_time: Vec<bool> = found.newest.iter().map(&mut in_time).collect();
        let timely = found_in_time.iter().filter(|in_time| **in_time).count();
        let (mut may_fire, beyond) = match catch_up.policy {
            Misfire::Skip => (0, SkipReason::Misfire),
            Misfire::FireOnce => (usize::from(timely == 0), SkipReason::Misfire),
            Misfire::FireAll { cap } => (cap as usize, SkipReason::MisfireCap),
        };
        let mut tally = Tally { reason: beyond, missed: None };
        let mut fires = VecDeque::new();
        for (next, in_time) in found.newest.into_iter().zip(found_in_time).rev() {
            if in_time {
                fires.push_front(next);
            } else if may_fire > 0 {
                may_fire -= 1;
                fires.push_front(next);
            } else {
                tally.add(next.scheduled_at);
            }
        }
        tally.add_older(&found.older);
        self.decided(progress, fires, tally.missed, through)
    }

    /// Counts every instant later than `last` up to `through`, whether its jitter is over or not, as skipped for one
    /// reason. Bounded as [`catch_up`](Schedule::catch_up) is.
    pub fn passed_over(
        &self,
        progress: &Progress,
        last: Millis,
        through: Millis,
        reason: SkipReason,
    ) -> Option<Missed> {
        let found = self.between(progress, last, through, Opens::Never);
        let mut tally = Tally { reason, missed: None };
        found.newest.iter().for_each(|next| tally.add(next.scheduled_at));
        tally.add_older(&found.older);
        tally.missed
    }

    /// Leaves out fires of triggers that have no fires left, and looks for the next one.
    fn decided(
        &self,
        progress: &Progress,
        fires: VecDeque<Next>,
        missed: Option<Missed>,
        through: Millis,
    ) -> Due {
        let mut progress = progress.clone();
        let mut kept = Vec::new();
        for mut next in fires {
            next.triggers.retain(|trigger| self.has_fires_left(&progress, *trigger));
            if !next.triggers.is_empty() {
                progress.fire(&next);
                kept.push(next);
            }
        }
        let next = self.next(&progress, through);
        Due { fires: kept, skipped: missed.into_iter().collect(), through, next }
    }

    /// Up to where everything is due: `now`, or just before the first instant whose jitter is not over. Where more
    /// instants than are counted lie within the longest jitter, up to the last one that was looked at: the rest is
    /// for the next call.
    fn due_through(&self, progress: &Progress, last: Millis, now: Millis) -> Millis {
        let mut after = last.max(now.saturating_sub(self.longest_jitter()).saturating_sub(1));
        if self.longest_jitter() == 0 {
            return now.max(last);
        }
        for _ in 0..MISSED_COUNTED {
            match self.step(progress, after).filter(|next| next.scheduled_at <= now) {
                None => return now.max(last),
                Some(next) if next.due_at > now => return next.scheduled_at - 1,
                Some(next) => after = next.scheduled_at,
            }
        }
        after
    }

    fn step(&self, progress: &Progress, after: Millis) -> Option<Next> {
        self.find(progress, after, 0).next
    }

    /// The instants later than `after` up to `until`: the newest ones, and how many there are before them.
    fn between(&self, progress: &Progress, after: Millis, until: Millis, opens: Opens) -> Found {
        if let Some(all) = self.walk(progress, after, until, opens) {
            return all;
        }
        // Too many to count. The newest ones are found by looking ever further back from the end.
        let (mut near, mut over, mut far) = (0, None, 1_000_i64);
        let newest = loop {
            let from = until.saturating_sub(far).max(after);
            match self.walk(progress, from, until, opens) {
                Some(found) if found.newest.len() < BURST_LIMIT && from > after => near = far,
                Some(found) => break found.newest,
                None => over = Some(far),
            }
            far = over.map_or(far.saturating_mul(2), |over| near + (over - near) / 2);
        };
        let first = self.step(progress, after).map_or(after, |next| next.scheduled_at);
        let last = newest.front().map_or(until, |next| next.scheduled_at - 1);
        let count = MISSED_COUNTED.saturating_sub(newest.len() as u64);
        Found { newest, older: Some(Older { count, exact: false, first, last }) }
    }

    /// Walks over all instants between two; `None` where there are more than are counted.
    fn walk(&self, progress: &Progress, mut after: Millis, until: Millis, opens: Opens) -> Option<Found> {
        let mut progress = progress.clone();
        let mut held = Millis::MIN;
        let mut found = Found::default();
        for _ in 0..MISSED_COUNTED {
            let Some(next) = self.step(&progress, after).filter(|next| next.scheduled_at <= until) else {
                return Some(found);
            };
            after = next.scheduled_at;
            held = held.max(next.due_at);
            // A fixed delay counts from the end of a task: no instant of it follows one of its own that is due, nor one that
            // makes a task.
            progress.open |= opens.holds(held) || next.triggers.iter().any(|trigger| self.is_delay(*trigger));
            found.newest.push_back(next);
            if found.newest.len() > BURST_LIMIT
                && let Some(old) = found.newest.pop_front()
            {
                let at = old.scheduled_at;
                let older = found.older.get_or_insert(Older { count: 0, exact: true, first: at, last: at });
                older.count += 1;
                older.last = at;
            }
        }
        None
    }
}

/// Which instants make a task, as far as it matters to a fixed delay among the triggers: it has no instant while a task
/// is open. One that is passed over opens none.
#[derive(Debug, Clone, Copy)]
enum Opens {
    Never,
    /// Those that are in time.
    InTime {
        now: Millis,
        grace: i64,
    },
    Always,
}

impl Opens {
    /// `held` is when the instant, or an earlier one that held it back, was due.
    fn holds(self, held: Millis) -> bool {
        match self {
            Opens::Never => false,
            Opens::InTime { now, grace } => now.saturating_sub(held) <= grace,
            Opens::Always => true,
        }
    }
}

#[derive(Default)]
struct Found {
    /// Oldest first; at most [`BURST_LIMIT`].
    newest: VecDeque<Next>,
    older: Option<Older>,
}

struct Older {
    count: u64,
    exact: bool,
    first: Millis,
    last: Millis,
}

/// Counts what is skipped, newest first.
struct Tally {
    reason: SkipReason,
    missed: Option<Missed>,
}

impl Tally {
    fn add(&mut self, at: Millis) {
        let reason = self.reason;
        let missed = self.missed.get_or_insert(Missed { reason, count: 0, exact: true, first: at, last: at });
        missed.count += 1;
        missed.first = missed.first.min(at);
        missed.last = missed.last.max(at);
    }

    fn add_older(&mut self, older: &Option<Older>) {
        let Some(older) = older else { return };
        let (reason, count) = (self.reason, older.count);
        match &mut self.missed {
            None => {
                let (exact, first, last) = (older.exact, older.first, older.last);
                self.missed = Some(Missed { reason, count, exact, first, last });
            }
            Some(missed) => {
                missed.count += count;
                missed.exact &= older.exact;
                missed.first = missed.first.min(older.first);
            }
        }
    }
}
