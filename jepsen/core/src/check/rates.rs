//! The part of D11 that is about rates: how often each key was let in.
//!
//! When exactly the leader let a call in is between its sending and its answer. A stretch of time therefore counts
//! only the calls that lie in it whole, and the rest cannot be held against anybody.

use std::collections::BTreeMap;

use crate::event::{KeyLimits, What};
use crate::history::History;
use crate::verdict::Judgement;

/// Clocks of two machines may run so much apart.
const DRIFT: f64 = 1.02;
/// What rounding may make of one token.
const ROUNDING: f64 = 1e-3;
/// HTTP status of a call that a limit refused.
const TOO_MANY: u16 = 429;

/// A call that was let in, at some instant between these.
#[derive(Debug, Clone, Copy)]
struct Passed {
    from_ns: u64,
    until_ns: u64,
    event: u64,
}

/// One of the two limits of a key.
#[derive(Debug, Clone, Copy)]
struct Limit {
    per_s: f64,
    burst: f64,
}

/// Adds what is to be said of rates to D11.
pub(super) fn judge(history: &History, word: &mut Judgement) {
    let mut limits: BTreeMap<&str, &KeyLimits> = BTreeMap::new();
    let mut calls: BTreeMap<&str, [Vec<Passed>; 2]> = BTreeMap::new();
    let (mut let_in, mut turned_away) = (0_u64, 0_u64);
    for event in history.events() {
        match &event.what {
            What::KeyLimits(limit) => {
                limits.insert(&limit.key, limit);
            }
            What::Knock(knock) if knock.let_in => {
                let_in += 1;
                let passed = Passed { from_ns: knock.from_ns, until_ns: event.mono_ns, event: event.i };
                let [all, submissions] = calls.entry(&knock.key).or_default();
                all.push(passed);
                if knock.submits {
                    submissions.push(passed);
                }
            }
            What::Knock(knock) => turned_away += u64::from(knock.status == TOO_MANY),
            _ => {}
        }
    }
    let changes = Changes::of(history);
    for (key, limit) in limits {
        let Some([all, submissions]) = calls.get(key) else { continue };
        let requests = Limit { per_s: limit.requests_per_s, burst: limit.requests_burst.into() };
        let submits = Limit { per_s: limit.submits_per_s, burst: limit.submits_burst.into() };
        for (what, calls, limit) in [("calls", all, requests), ("submissions", submissions, submits)] {
            if let Some(found) = too_many(calls, limit, &changes) {
                let Found { count, within_ns, most, events } = found;
                let within_s = seconds(within_ns);
                let what =
                    format!("{count} {what} of {key} were let in within {within_s:.3} s, and {most:.1} may");
                word.violated(what, None, &events);
            }
        }
    }
    word.stat("let_in", let_in as f64);
    word.stat("turned_away", turned_away as f64);
}

/// When the leader may have changed.
#[derive(Debug, Default)]
struct Changes {
    /// The earliest instants, in order.
    from_ns: Vec<u64>,
    /// The latest instants, in order.
    until_ns: Vec<u64>,
}

impl Changes {
    /// Every term that a replica showed may have had a leader, whose buckets were full. It began at the earliest when
    /// any replica was last seen in an older term, and at the latest when it was first seen itself.
    fn of(history: &History) -> Changes {
        let mut changes = Changes::default();
        let mut last_seen: BTreeMap<&str, u64> = BTreeMap::new();
        let mut highest = None;
        for event in history.events() {
            let What::Probe(probe) = &event.what else { continue };
            let (now_ns, node) = (event.mono_ns, event.node.as_deref().unwrap_or_default());
            let begun = probe.term.saturating_sub(highest.unwrap_or(probe.term));
            let since_ns = last_seen.values().copied().min().unwrap_or(now_ns);
            for _ in 0..begun {
                changes.from_ns.push(since_ns);
                changes.until_ns.push(now_ns);
            }
            highest = highest.max(Some(probe.term));
            last_seen.insert(node, now_ns);
        }
        changes.from_ns.sort_unstable();
        changes
    }

    /// How many may have been by this instant.
    fn begun(&self, by_ns: u64) -> f64 {
        self.from_ns.partition_point(|from| *from <= by_ns) as f64
    }

    /// How many were certainly over before this instant.
    fn over(&self, before_ns: u64) -> f64 {
        self.until_ns.partition_point(|until| *until < before_ns) as f64
    }
}

/// A stretch of time in which more was let in than may be.
struct Found {
    count: usize,
    within_ns: u64,
    most: f64,
    events: [u64; 2],
}

/// The first stretch that holds too many calls; none when every stretch keeps to the limit.
///
/// A stretch from `s` to `t` may hold `burst * (1 + changes) + per_s * (t - s)`. What belongs to `s` alone is kept in a
/// tree over the instants at which stretches can begin, and each call adds one to all that begin before it, in the order
/// of their ends: so all stretches are looked at in n log n.
fn too_many(calls: &[Passed], limit: Limit, changes: &Changes) -> Option<Found> {
    let Limit { burst, per_s } = Limit { per_s: limit.per_s * DRIFT, ..limit };
    let mut begins: Vec<(u64, u64)> = calls.iter().map(|call| (call.from_ns, call.event)).collect();
    begins.sort_unstable();
    let mut ends = calls.to_vec();
    ends.sort_unstable_by_key(|call| (call.until_ns, call.event));
    let begin = begins.first()?.0;
    let rate = |instant: u64| seconds(instant - begin) * per_s;
    let mut tree = Tree::of(begins.iter().map(|(from, _)| burst * changes.over(*from) + rate(*from)));
    for (place, last) in ends.iter().enumerate() {
        let reach = begins.partition_point(|begin| *begin <= (last.from_ns, last.event));
        tree.add_one_before(reach);
        let Some((value, at)) = tree.most_before(reach) else { continue };
        let most_here = burst * (1.0 + changes.begun(last.until_ns)) + rate(last.until_ns);
        if value > most_here + ROUNDING {
            let (from_ns, first) = begins[at];
            let count = ends[..=place].iter().filter(|call| call.from_ns >= from_ns).count();
            let over = value - most_here;
            let events = [first, last.event];
            return Some(Found {
                count,
                within_ns: last.until_ns - from_ns,
                most: count as f64 - over,
                events,
            });
        }
    }
    None
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Values in a row: one is added to all of the first so many, and the greatest of the first so many is asked for.
struct Tree {
    /// How many leaves there are, a power of two.
    width: usize,
    /// Of each part of the row: its greatest value and where that is, without what was added to a part around it.
    most: Vec<(f64, usize)>,
    added: Vec<f64>,
}

impl Tree {
    fn of(values: impl ExactSizeIterator<Item = f64>) -> Tree {
        let width = values.len().next_power_of_two();
        let mut most = vec![(f64::NEG_INFINITY, 0); 2 * width];
        for (place, value) in values.enumerate() {
            most[width + place] = (value, place);
        }
        for node in (1..width).rev() {
            most[node] = greater(most[2 * node], most[2 * node + 1]);
        }
        Tree { width, most, added: vec![0.0; 2 * width] }
    }

    /// Adds one to the first `count` values.
    fn add_one_before(&mut self, count: usize) {
        self.add(1, 0, self.width, count);
    }

    fn add(&mut self, node: usize, from: usize, until: usize, count: usize) {
        if count <= from {
            return;
        }
        if count >= until {
            self.most[node].0 += 1.0;
            self.added[node] += 1.0;
            return;
        }
        let middle = from.midpoint(until);
        self.add(2 * node, from, middle, count);
        self.add(2 * node + 1, middle, until, count);
        let (value, place) = greater(self.most[2 * node], self.most[2 * node + 1]);
        self.most[node] = (value + self.added[node], place);
    }

    /// The greatest of the first `count` values, and its place.
    fn most_before(&self, count: usize) -> Option<(f64, usize)> {
        self.find(1, 0, self.width, count)
    }

    fn find(&self, node: usize, from: usize, until: usize, count: usize) -> Option<(f64, usize)> {
        if count <= from {
            return None;
        }
        if count >= until {
            return Some(self.most[node]);
        }
        let middle = from.midpoint(until);
        let left = self.find(2 * node, from, middle, count)?;
        let right = self.find(2 * node + 1, middle, until, count);
        let (value, place) = right.map_or(left, |right| greater(left, right));
        Some((value + self.added[node], place))
    }
}

fn greater(one: (f64, usize), other: (f64, usize)) -> (f64, usize) {
    if other.0 > one.0 { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Knock, Probe};
    use crate::testing::{at, event, probe};

    const LIMIT: Limit = Limit { per_s: 2.0, burst: 3.0 };

    fn passed(from_ms: u64, until_ms: u64) -> Passed {
        Passed { from_ns: at(from_ms), until_ns: at(until_ms), event: from_ms }
    }

    /// The same by looking at every stretch.
    fn slow(calls: &[Passed], changes: &Changes) -> bool {
        calls.iter().any(|first| {
            calls.iter().any(|last| {
                let (from, until) = (first.from_ns, last.until_ns);
                let inside = calls.iter().filter(|call| call.from_ns >= from && call.until_ns <= until);
                let within_s = seconds(until.saturating_sub(from));
                let changes = changes.begun(until) - changes.over(from);
                inside.count() as f64
                    > LIMIT.burst * (1.0 + changes) + LIMIT.per_s * DRIFT * within_s + ROUNDING
            })
        })
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let none = Changes::default();
        let mut calls: Vec<Passed> = (0..3).map(|number| passed(number, number + 5)).collect();
        calls.extend((1..50).map(|number| passed(number * 500, number * 500 + 6)));
        assert!(too_many(&calls, LIMIT, &none).is_none());
        // One more than the rate gives, far from the beginning.
        calls.push(passed(20_001, 20_004));
        let found = too_many(&calls, LIMIT, &none).unwrap();
        assert!(found.count as f64 > found.most, "{} {}", found.count, found.most);
        // It may have been let in late, when there was a token again.
        calls.pop();
        calls.push(passed(20_001, 26_000));
        assert!(too_many(&calls, LIMIT, &none).is_none());
    }

    #[test]
    fn every_stretch_is_looked_at() {
        // A fixed row of numbers that looks like chance.
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut verdicts = [0, 0];
        for round in 0..400 {
            let count = 2 + round % 15;
            let calls: Vec<Passed> = (0..count)
                .map(|number| {
                    let from_ms = next(1 + 300 * count);
                    Passed { event: number, ..passed(from_ms, from_ms + 1 + next(400)) }
                })
                .collect();
            let changed = next(3_000);
            let changes = match round % 3 {
                0 => Changes { from_ns: vec![at(changed)], until_ns: vec![at(changed + 100)] },
                _ => Changes::default(),
            };
            let found = too_many(&calls, LIMIT, &changes).is_some();
            assert_eq!(found, slow(&calls, &changes), "round {round}: {calls:?} {changes:?}");
            verdicts[usize::from(found)] += 1;
        }
        assert!(verdicts.iter().all(|count| *count > 20), "{verdicts:?}");
    }

    #[test]
    fn each_term_may_have_had_a_leader_with_full_buckets() {
        let shows = |ms, node, term| probe(ms, node, Probe { term, ..Probe::default() });
        let history = History::merge(vec![
            shows(10, "n1", 4),
            shows(11, "n2", 4),
            shows(20, "n1", 4),
            shows(30, "n1", 6),
            shows(31, "n2", 6),
            event(40, What::Knock(Knock::default())),
        ]);
        let changes = Changes::of(&history);
        assert_eq!(
            (changes.from_ns.as_slice(), changes.until_ns.as_slice()),
            (&[at(11); 2][..], &[at(30); 2][..])
        );
        assert_eq!((changes.begun(at(10)), changes.begun(at(11)), changes.over(at(30))), (0.0, 2.0, 0.0));
        assert_eq!(changes.over(at(31)), 2.0);
    }
}
