//! The choice itself: ranks, and how each strategy picks among the best.

use std::cmp::Ordering;

use orloj_model::task::Strategy;

use super::class::Class;
use super::{ExecutorIdx, Fleet, Load, NoPlace, Wanted};
use crate::ring::KeyHash;

/// How far an executor is from ideal for an attempt; 0 is ideal. One bit per rule, so that a more important
/// rule outweighs all the lesser ones.
type Rank = u8;

const IDEAL: Rank = 0;
const OTHER_ZONE: Rank = 1;
const SAME_TASK: Rank = 2;
const OVER_BOUND: Rank = 4;
const QUEUED: Rank = 8;

/// A question that is put to one executor after another.
struct Question<'a> {
    wanted: &'a Wanted<'a>,
    class: &'a Class,
    /// The preferred zone; a zone without executors is nobody's.
    zone: Option<Option<u32>>,
    /// Whether the strategy goes by weight: weight 0 gets nothing.
    weighted: bool,
    /// Whether the bound holds.
    bounded: bool,
    /// Whether an executor with another shard of the task is out of the question.
    once_each: bool,
}

impl Question<'_> {
    /// How well an executor fits, or `None` where it may not be chosen.
    fn rank(&self, idx: ExecutorIdx, load: &Load) -> Option<Rank> {
        let mut rank = IDEAL;
        if !load.open || (self.weighted && load.weight.milli() == 0) {
            return None;
        }
        if !load.has_slot() {
            if !self.wanted.may_queue || !load.has_place() {
                return None;
            }
            rank |= QUEUED;
        }
        if self.bounded && self.over_bound(load) {
            rank |= OVER_BOUND;
        }
        if self.wanted.avoid.contains(idx) {
            if self.once_each {
                return None;
            }
            rank |= SAME_TASK;
        }
        if self.zone.is_some_and(|zone| zone.is_none() || zone != load.zone) {
            rank |= OTHER_ZONE;
        }
        Some(rank)
    }

    /// Whether one more attempt would lift it above 1.25 x its share by weight, rounded up, of all that the
    /// class would hold then. For whole numbers, held + 1 > ceil(x) is the same as held >= x.
    fn over_bound(&self, load: &Load) -> bool {
        let sums = &self.class.sums;
        let held = 4 * u128::from(load.held) * u128::from(sums.milli);
        held >= 5 * u128::from(load.weight.milli()) * u128::from(sums.held + 1)
    }
}

impl Fleet {
    /// Picks an executor by the rules at the head of this module; changes nothing.
    pub(super) fn choose(&self, wanted: &Wanted<'_>) -> Result<ExecutorIdx, NoPlace> {
        let class = self.get_class(wanted.class);
        if class.members.is_empty() {
            return Err(NoPlace::Nobody);
        }
        let weighted = !matches!(wanted.strategy, Strategy::Pinned(_) | Strategy::Broadcast);
        if weighted && self.able(wanted.class, wanted.may_queue) == 0 {
            return Err(self.why_none(class));
        }
        let question = Question {
            wanted,
            class,
            zone: wanted.zone.map(|zone| self.zone(zone)),
            weighted,
            bounded: weighted && *wanted.strategy != Strategy::LeastLoaded,
            once_each: *wanted.strategy == Strategy::Broadcast,
        };
        let chosen = match wanted.strategy {
            Strategy::Ring => self.clockwise(&question, wanted.key),
            Strategy::Random => self.clockwise(&question, KeyHash::of_number(wanted.number)),
            Strategy::RoundRobin => self.best_from(&question, wanted.number).map(|(_, idx)| idx),
            Strategy::LeastLoaded => self.least_loaded(&question),
            Strategy::Pinned(_) | Strategy::Broadcast => self.best_from(&question, 0).map(|(_, idx)| idx),
        };
        chosen.ok_or(NoPlace::Busy)
    }

    fn why_none(&self, class: &Class) -> NoPlace {
        let weightless = |idx: &ExecutorIdx| self.loads[idx.at()].weight.milli() == 0;
        if class.members.iter().all(weightless) { NoPlace::Weightless } else { NoPlace::Busy }
    }

    /// The best rank there is, and the first member that has it, counted in the order of ids from the member
    /// with this number, around.
    fn best_from(&self, question: &Question<'_>, number: u64) -> Option<(Rank, ExecutorIdx)> {
        let members = &question.class.members;
        let (before, after) = members.split_at((number % members.len() as u64) as usize);
        let mut best: Option<(Rank, ExecutorIdx)> = None;
        for idx in after.iter().chain(before) {
            let Some(rank) = question.rank(*idx, &self.loads[idx.at()]) else { continue };
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, *idx));
            }
            if rank == IDEAL {
                break;
            }
        }
        best
    }

    /// The first member of the best rank clockwise from a key.
    fn clockwise(&self, question: &Question<'_>, key: KeyHash) -> Option<ExecutorIdx> {
        // Knowing the best rank beforehand spares a walk around the whole ring when nobody is ideal. As a
        // rule the first member asked is; where to begin asking does not matter, so it is spread by the key.
        let (best, _) = self.best_from(question, key.number())?;
        let chosen = self.ring.find(key, |member| {
            let idx = ExecutorIdx(member as u32);
            question.class.set.contains(idx) && question.rank(idx, &self.loads[member]) == Some(best)
        });
        chosen.map(|member| ExecutorIdx(member as u32))
    }

    /// The member of the best rank that holds the least in proportion to its slots; of equals the one with
    /// more slots, then the first by id.
    fn least_loaded(&self, question: &Question<'_>) -> Option<ExecutorIdx> {
        let ranked = question.class.members.iter().filter_map(|idx| {
            let load = &self.loads[idx.at()];
            Some((question.rank(*idx, load)?, load, *idx))
        });
        ranked
            .min_by(|(rank_a, a, _), (rank_b, b, _)| rank_a.cmp(rank_b).then_with(|| by_load(a, b)))
            .map(|(_, _, idx)| idx)
    }
}

/// Orders by held / slots, then by slots, most first.
fn by_load(a: &Load, b: &Load) -> Ordering {
    let left = u64::from(a.held) * u64::from(b.slots);
    let right = u64::from(b.held) * u64::from(a.slots);
    left.cmp(&right).then(b.slots.cmp(&a.slots))
}
