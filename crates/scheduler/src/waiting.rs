//! The waiting room: shards that are ready and have found no executor.
//!
//! # Order
//!
//! Priority first (9 before 0), then age, with ageing: a shard's priority rises by one level for each
//! [`AGE_STEP_MS`] that it has waited, evenly and without end, so that nothing waits for ever behind a stream
//! of more important work. One of priority 0 goes before one of priority 9 that came more than nine steps
//! later. All wait at the same pace, so who is before whom never changes while they wait: the order is that of
//! the instant of becoming ready, moved back by one step per level of priority. That one number is the whole
//! sort key, and nothing is ever sorted again.
//!
//! # Classes
//!
//! What waits is kept apart by demand class ([`ClassId`]). When the first one of a class cannot be placed, the
//! others of it cannot either, and a pass goes on with the next class: work for a full set of executors never
//! hides work for one with room.
//!
//! # Cost
//!
//! O(log n) to insert, remove, and take. A waiting shard takes about 75 bytes, and up to 40 more where no other has been
//! ready since the same millisecond. The room knows a shard by its place alone: whoever takes one out says where it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use orloj_model::id::Millis;
use orloj_model::key::ShardKey;

use crate::placement::ClassId;

/// How long a shard waits until it counts as one level of priority higher, in milliseconds.
pub const AGE_STEP_MS: i64 = 60_000;

/// So many may leave in one pass, which then ends: a hundred thousand that are to be parked at once are a hundred thousand
/// steps, and the leader has other things to do between them. The next pass goes on with the rest.
const LEFT_PER_PASS: usize = 4_096;

/// A shard that waits for an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The shard.
    pub shard: ShardKey,
    /// What it demands.
    pub class: ClassId,
    /// 0-9; 9 is the most important.
    pub priority: u8,
    /// Since when it has been ready, as its row says: a new leader goes on where the old one stopped. An instant that a
    /// clock can show, so far from the ends of the numbers that a head start reaches neither.
    pub since: Millis,
}

impl Waiting {
    pub(crate) fn turn(&self) -> Turn {
        let at = self.since.saturating_sub(head_start(self.priority));
        Turn { at, shard: self.shard, priority: self.priority }
    }

    fn at(turn: Turn, class: ClassId) -> Waiting {
        let since = turn.at.saturating_add(head_start(turn.priority));
        Waiting { shard: turn.shard, class, priority: turn.priority, since }
    }
}

/// By how much a priority goes before the lowest one, in milliseconds.
fn head_start(priority: u8) -> i64 {
    i64::from(priority) * AGE_STEP_MS
}

/// What became of a shard that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It was placed, and waits no more.
    Taken,
    /// It waits here no more, and nobody has it: its job or caller runs as much as it may, so it is parked. Does not count
    /// against the limit of a pass, which is one on what is placed, but against one of its own.
    Left,
    /// It cannot go now, but others of its class may.
    Skipped,
    /// No executor can take anything of its class now.
    Blocked,
}

/// A shard's place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// When it became ready, less its head start.
    pub(crate) at: Millis,
    /// Makes the turn unique.
    pub(crate) shard: ShardKey,
    /// Its priority, from which the rest of what is known of it follows.
    pub(crate) priority: u8,
}

/// What waits in one class.
#[derive(Debug, Default)]
struct Queue {
    turns: BTreeSet<Turn>,
    /// The one that is next: the first, except within a pass that has skipped that one.
    next: Option<Turn>,
}

/// The shards that wait for an executor.
#[derive(Debug, Default)]
pub struct WaitingRoom {
    /// How many wait.
    len: usize,
    /// By class; none is empty.
    queues: BTreeMap<ClassId, Queue>,
    /// The next one of each queue that has one.
    heads: BTreeSet<(Turn, ClassId)>,
    /// How many have been ready since when.
    ages: BTreeMap<Millis, usize>,
    /// The last pass ended before its end, since many had left.
    unfinished: bool,
}

impl WaitingRoom {
    /// An empty room.
    pub fn new() -> Self {
        WaitingRoom::default()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Since when the one has waited that has waited the longest.
    pub fn oldest(&self) -> Option<Millis> {
        self.ages.keys().next().copied()
    }

    /// Whether the last pass ended because many had left, so that another one has something to offer at once.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// How many of a class wait.
    pub fn len_of(&self, class: ClassId) -> usize {
        self.queues.get(&class).map_or(0, |queue| queue.turns.len())
    }

    /// The classes of which something waits, in their order.
    pub fn classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.queues.keys().copied()
    }

    /// Lets a shard wait. One that waits already in this very place keeps it; where it waits in another one, that must be
    /// [removed](WaitingRoom::remove) first.
    pub fn insert(&mut self, waiting: Waiting) {
        let turn = waiting.turn();
        let queue = self.queues.entry(waiting.class).or_default();
        if !queue.turns.insert(turn) {
            return;
        }
        self.len += 1;
        *self.ages.entry(waiting.since).or_default() += 1;
        if queue.next.is_none_or(|next| turn < next) {
            self.set_next(waiting.class, Some(turn));
        }
    }

    /// Lets a shard wait no more: it was cancelled, or placed otherwise. Answers whether it waited there.
    pub fn remove(&mut self, waiting: &Waiting) -> bool {
        let turn = waiting.turn();
        let Some(queue) = self.queues.get_mut(&waiting.class) else { return false };
        if !queue.turns.remove(&turn) {
            return false;
        }
        self.len -= 1;
        if let Some(count) = self.ages.get_mut(&waiting.since) {
            *count -= 1;
            if *count == 0 {
                self.ages.remove(&waiting.since);
            }
        }
        if queue.next == Some(turn) {
            let after = following(queue, turn);
            self.set_next(waiting.class, after);
        }
        if self.queues.get(&waiting.class).is_some_and(|queue| queue.turns.is_empty()) {
            self.queues.remove(&waiting.class);
        }
        true
    }

    /// Offers what waits, in order, until `limit` shards are taken, a few thousand have left, or nothing is left to offer;
    /// returns how many were taken. Each shard is offered at most once, and none of a class after one of it was blocked.
    ///
    /// A pass costs O(log n) for each shard offered; it offers what it places, one shard of each class that is
    /// blocked, what is skipped, and what leaves: each shard that came in leaves once at most.
    pub fn offer(&mut self, limit: usize, mut answer: impl FnMut(&Waiting) -> Answer) -> usize {
        let (mut taken, mut left) = (0, 0);
        let mut skipped = BTreeSet::new();
        let mut next = self.heads.first().copied();
        while let Some((turn, class)) = next.filter(|_| taken < limit && left < LEFT_PER_PASS) {
            let waiting = Waiting::at(turn, class);
            match answer(&waiting) {
                Answer::Taken => {
                    self.remove(&waiting);
                    taken += 1;
                }
                Answer::Left => {
                    self.remove(&waiting);
                    left += 1;
                }
                Answer::Skipped => {
                    let after = self.queues.get(&class).and_then(|queue| following(queue, turn));
                    self.set_next(class, after);
                    skipped.insert(class);
                }
                Answer::Blocked => {}
            }
            // Whatever is next of this class comes later in the order, too.
            next = self.heads.range((Bound::Excluded((turn, class)), Bound::Unbounded)).next().copied();
        }
        self.unfinished = left == LEFT_PER_PASS;
        for class in skipped {
            if let Some(first) = self.queues.get(&class).and_then(|queue| queue.turns.first().copied()) {
                self.set_next(class, Some(first));
            }
        }
        taken
    }

    /// Makes `turn` the next one of its queue.
    fn set_next(&mut self, class: ClassId, turn: Option<Turn>) {
        let Some(queue) = self.queues.get_mut(&class) else { return };
        if let Some(before) = std::mem::replace(&mut queue.next, turn) {
            self.heads.remove(&(before, class));
        }
        self.heads.extend(turn.map(|turn| (turn, class)));
    }
}

fn following(queue: &Queue, turn: Turn) -> Option<Turn> {
    queue.turns.range((Bound::Excluded(turn), Bound::Unbounded)).next().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use orloj_model::id::TaskId;
    use orloj_model::task::Strategy as Placing;
    use proptest::prelude::*;

    use super::*;
    use crate::placement::Fleet;

    fn class(number: u8) -> ClassId {
        // Ids of classes are given out in order, so this names the same class each time.
        let mut fleet = Fleet::new();
        let ids: Vec<_> =
            (0..=number).map(|n| fleet.class(&format!("h{n}"), &BTreeMap::new(), &Placing::Ring)).collect();
        ids[usize::from(number)]
    }

    fn shard(number: u16) -> ShardKey {
        ShardKey { task: TaskId([(number % 7) as u8; 16]), shard: number }
    }

    fn waiting(number: u16, of: u8, priority: u8, since: Millis) -> Waiting {
        Waiting { shard: shard(number), class: class(of), priority, since }
    }

    fn drain(room: &mut WaitingRoom) -> Vec<u16> {
        let mut order = Vec::new();
        room.offer(usize::MAX, |waiting| {
            order.push(waiting.shard.shard);
            Answer::Taken
        });
        order
    }

    fn room(waiting: impl IntoIterator<Item = Waiting>) -> WaitingRoom {
        let mut room = WaitingRoom::new();
        waiting.into_iter().for_each(|one| room.insert(one));
        room
    }

    #[test]
    fn priority_goes_first_then_age() {
        let mut room = room([
            waiting(1, 0, 5, 1000),
            waiting(2, 0, 5, 999),
            waiting(3, 1, 9, 2000),
            waiting(4, 0, 0, 900),
            waiting(5, 1, 6, 1001),
        ]);
        assert_eq!(room.oldest(), Some(900));
        assert_eq!(drain(&mut room), [3, 5, 2, 1, 4]);
        assert!(room.is_empty());
        assert_eq!((room.oldest(), room.classes().count()), (None, 0));
    }

    #[test]
    fn a_level_of_priority_is_worth_one_step_of_waiting() {
        let mut before = room([waiting(1, 0, 4, 0), waiting(2, 0, 5, AGE_STEP_MS - 1)]);
        assert_eq!(drain(&mut before), [2, 1]);
        let mut after = room([waiting(1, 0, 4, 0), waiting(2, 0, 5, AGE_STEP_MS + 1)]);
        assert_eq!(drain(&mut after), [1, 2]);
    }

    #[test]
    fn the_guide_tells_how_waiting_counts() {
        let guide = include_str!("../../../docs/openapi.md");
        let text = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        let nine = 9 * AGE_STEP_MS;
        for said in [
            format!("one level higher for each {} s", AGE_STEP_MS / 1_000),
            format!("more than {} minutes later", nine / 60_000),
        ] {
            assert!(text.contains(&said), "{said:?} is not in the guide");
        }
        assert_eq!(drain(&mut room([waiting(1, 0, 0, 0), waiting(2, 0, 9, nine + 1)])), [1, 2]);
        assert_eq!(drain(&mut room([waiting(1, 0, 0, 0), waiting(2, 0, 9, nine - 1)])), [2, 1]);
    }

    #[test]
    fn the_lowest_is_served_under_a_stream_of_the_highest() {
        // One slot is freed each second, and two shards of priority 9 come in.
        let mut room = room([waiting(0, 0, 0, 0)]);
        let mut number = 0;
        for now in (0..).step_by(1000) {
            for _ in 0..2 {
                number += 1;
                room.insert(waiting(number, 0, 9, now));
            }
            let mut served = None;
            room.offer(1, |waiting| {
                served = Some(waiting.shard.shard);
                Answer::Taken
            });
            if served == Some(0) {
                return;
            }
            // It is served when all that is left ahead came less than nine steps after it: two per second
            // for 540 s take 1080 s.
            assert!(now <= 2 * 9 * AGE_STEP_MS, "priority 0 is still waiting at {now} ms");
        }
    }

    #[test]
    fn a_blocked_class_hides_nothing_and_is_asked_once() {
        let mut room =
            room((0..100).map(|n| waiting(n, 0, 9, 0)).chain((100..110).map(|n| waiting(n, 1, 1, 50))));
        let mut asked = Vec::new();
        let taken = room.offer(usize::MAX, |waiting| {
            asked.push(waiting.class);
            if waiting.class == class(0) { Answer::Blocked } else { Answer::Taken }
        });
        assert_eq!(taken, 10);
        assert_eq!(asked.iter().filter(|of| **of == class(0)).count(), 1);
        assert_eq!((room.len(), room.len_of(class(0)), room.len_of(class(1))), (100, 100, 0));
    }

    #[test]
    fn what_is_skipped_keeps_its_turn() {
        let mut room = room((0..6).map(|n| waiting(n, 0, 5, Millis::from(n))));
        let odd = |waiting: &Waiting| match waiting.shard.shard % 2 {
            0 => Answer::Skipped,
            _ => Answer::Taken,
        };
        assert_eq!(room.offer(2, odd), 2);
        assert_eq!(drain(&mut room), [0, 2, 4, 5]);
    }

    #[test]
    fn a_pass_ends_when_many_have_left_and_the_next_one_goes_on() {
        let last = (LEFT_PER_PASS + 9) as u16;
        let mut room = room((0..=last).map(|n| waiting(n, 0, 5, Millis::from(n))));
        let leave = |waiting: &Waiting| match waiting.shard.shard == last {
            true => Answer::Taken,
            false => Answer::Left,
        };
        assert_eq!((room.offer(512, leave), room.len(), room.is_unfinished()), (0, 10, true));
        assert_eq!((room.offer(512, leave), room.len(), room.is_unfinished()), (1, 0, false));
    }

    #[test]
    fn a_place_is_small() {
        assert!(size_of::<Turn>() <= 32, "see the module");
    }

    #[test]
    fn a_shard_waits_in_one_place() {
        let mut room = room([waiting(1, 0, 5, 10), waiting(1, 0, 5, 10)]);
        assert_eq!(room.len(), 1);
        assert!(!room.remove(&waiting(1, 1, 5, 10)) && !room.remove(&waiting(1, 0, 6, 10)));
        assert!(room.remove(&waiting(1, 0, 5, 10)));
        room.insert(waiting(1, 1, 7, 20));
        assert_eq!((room.len(), room.len_of(class(0)), room.len_of(class(1))), (1, 0, 1));
        assert_eq!(room.oldest(), Some(20));
        assert!(room.remove(&waiting(1, 1, 7, 20)));
        assert!(!room.remove(&waiting(1, 1, 7, 20)));
        assert!(room.is_empty() && room.heads.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert {
            number: u16,
            class: u8,
            priority: u8,
            since: Millis,
        },
        Remove(u16),
        /// Up to so many; classes whose bit is set are blocked, shards divisible by the number are skipped, and those
        /// that follow them leave.
        Offer {
            limit: usize,
            blocked: u8,
            skip: u16,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let far = Millis::MAX / 2;
        let since = prop_oneof![0i64..50, 0i64..20 * AGE_STEP_MS, Just(-far), Just(far)];
        let insert = (0u16..60, 0u8..5, 0u8..=9, since)
            .prop_map(|(number, class, priority, since)| Step::Insert { number, class, priority, since });
        let offer = (prop_oneof![0usize..6, Just(usize::MAX)], any::<u8>(), 2u16..9)
            .prop_map(|(limit, blocked, skip)| Step::Offer { limit, blocked, skip });
        prop_oneof![8 => insert, 2 => (0u16..60).prop_map(Step::Remove), 2 => offer]
    }

    /// The slow oracle: everything in one list, sorted for each pass.
    fn expected_pass(list: &mut Vec<Waiting>, limit: usize, answer: impl Fn(&Waiting) -> Answer) -> Vec<u16> {
        list.sort_by_key(|one| (one.turn(), one.class));
        let (mut offered, mut blocked, mut taken, mut left) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for one in list.iter() {
            if taken.len() == limit {
                break;
            }
            if blocked.contains(&one.class) {
                continue;
            }
            offered.push(one.shard.shard);
            match answer(one) {
                Answer::Taken => taken.push(one.shard),
                Answer::Left => left.push(one.shard),
                Answer::Skipped => {}
                Answer::Blocked => blocked.push(one.class),
            }
        }
        list.retain(|one| !taken.contains(&one.shard) && !left.contains(&one.shard));
        offered
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec(step(), 1..150)) {
            let classes: Vec<_> = (0..5).map(class).collect();
            let mut room = WaitingRoom::new();
            let mut list: Vec<Waiting> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert { number, class, priority, since } => {
                        let class = classes[usize::from(class)];
                        let one = Waiting { shard: shard(number), class, priority, since };
                        if let Some(place) = list.iter().position(|known| known.shard == one.shard) {
                            prop_assert!(room.remove(&list.swap_remove(place)));
                        }
                        list.push(one);
                        room.insert(one);
                    }
                    Step::Remove(number) => {
                        if let Some(place) = list.iter().position(|one| one.shard == shard(number)) {
                            let known = list.remove(place);
                            prop_assert!(room.remove(&known));
                            prop_assert!(!room.remove(&known));
                        }
                    }
                    Step::Offer { limit, blocked, skip } => {
                        let answer = |one: &Waiting| {
                            let of = classes.iter().position(|class| *class == one.class).expect("one of them");
                            if blocked & (1 << of) != 0 {
                                Answer::Blocked
                            } else if one.shard.shard.is_multiple_of(skip) {
                                Answer::Skipped
                            } else if one.shard.shard % skip == 1 {
                                Answer::Left
                            } else {
                                Answer::Taken
                            }
                        };
                        let mut offered = Vec::new();
                        room.offer(limit, |one| {
                            offered.push(one.shard.shard);
                            answer(one)
                        });
                        prop_assert_eq!(offered, expected_pass(&mut list, limit, answer));
                    }
                }
                prop_assert_eq!(room.len(), list.len());
                prop_assert_eq!(room.oldest(), list.iter().map(|one| one.since).min());
                prop_assert_eq!(classes.iter().map(|class| room.len_of(*class)).sum::<usize>(), list.len());
                prop_assert_eq!(room.heads.len(), room.classes().count());
            }
            list.sort_by_key(|one| one.turn());
            let left: Vec<_> = list.iter().map(|one| one.shard.shard).collect();
            prop_assert_eq!(drain(&mut room), left);
        }
    }
}
