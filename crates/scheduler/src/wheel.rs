//! The timing wheel: what must happen when, by the monotonic clock.
//!
//! The wheel is a hint. The replicated table is the truth, and what the wheel holds can be rebuilt from it
//! at any time; losing a wheel loses nothing.
//!
//! # Shape
//!
//! Eight levels of 256 slots. A deadline is counted in ticks, and each level is one byte of that number:
//! level 0 holds what is due within the current 256 ticks, one slot per tick; a slot of level 1 spans 256
//! ticks, and so on. Eight bytes cover every `u64`, so there is no overflow list and no longest delay. A
//! timer sits on the level of the highest byte in which its tick differs from the wheel's cursor. When the
//! cursor enters a slot of a higher level, the timers of that slot move down (they *cascade*), which happens to
//! a timer at most once per level; the look-ahead window of 5 minutes is two levels deep at the default tick.
//!
//! That placement has a consequence which the whole file leans on: timers of one tick are always in one
//! list, in the order in which they were inserted, and every timer of a level is due before every timer of
//! the levels above. The earliest timer is therefore found by one look at the bitmap of the lowest level
//! that is in use, however far away it is: a jump of the clock costs what it expires, not what it skips.
//!
//! # Cost
//!
//! Insert and cancel are O(1) and allocate only while the wheel grows beyond its largest size so far. A
//! timer takes 20 bytes and its payload, 40 bytes for a shard's key; the slots take 17 KiB once. Memory of
//! cancelled and expired timers is used again, and kept for that.

/// Slots on a level: one value of a byte.
const SLOTS: usize = 256;
/// Levels: one byte of the tick each.
const LEVELS: usize = 8;
/// Bits of the tick that a level stands for.
const LEVEL_BITS: usize = 8;
/// Words of a level's bitmap.
const WORDS: usize = SLOTS / 64;
/// The end of a list.
const NIL: u32 = u32::MAX;

/// The shortest tick, in milliseconds.
pub const MIN_TICK_MS: u64 = 1;
/// The tick unless configured otherwise, in milliseconds.
pub const DEFAULT_TICK_MS: u64 = 10;
/// The longest tick, in milliseconds.
pub const MAX_TICK_MS: u64 = 1000;

/// Names a timer until it is handed out or cancelled. A stale one names nothing: it never hits the timer
/// that took its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

/// A timer, or a free place in the slab.
#[derive(Debug)]
struct Entry<T> {
    /// By the monotonic clock, in milliseconds.
    deadline_ms: u64,
    /// The one before in the slot's list.
    prev: u32,
    /// The one after in the slot's list, or in the list of free places.
    next: u32,
    /// Grows each time the place is freed.
    generation: u32,
    /// `None` in a free place.
    payload: Option<T>,
}

/// A slot: a list of timers in order of insertion.
#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NIL, tail: NIL };

#[derive(Debug, Clone)]
struct Level {
    /// One bit per slot that is not empty.
    used: [u64; WORDS],
    slots: [List; SLOTS],
}

impl Level {
    fn first_used(&self) -> Option<usize> {
        let word = self.used.iter().position(|bits| *bits != 0)?;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }

    fn mark(&mut self, slot: usize) {
        self.used[slot / 64] |= 1 << (slot % 64);
    }

    fn unmark(&mut self, slot: usize) {
        self.used[slot / 64] &= !(1 << (slot % 64));
    }
}

/// A hierarchical timing wheel over the monotonic clock.
#[derive(Debug)]
pub struct Wheel<T> {
    tick_ms: u64,
    /// The tick that is being handed out: everything before it is gone from the wheel.
    cursor: u64,
    levels: Box<[Level]>,
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

impl<T> Wheel<T> {
    /// An empty wheel at monotonic time 0 with ticks of `tick_ms` milliseconds, which is taken into
    /// [`MIN_TICK_MS`]..=[`MAX_TICK_MS`] (the configuration refuses others with an error of its own).
    pub fn new(tick_ms: u64) -> Self {
        let level = Level { used: [0; WORDS], slots: [EMPTY; SLOTS] };
        Wheel {
            tick_ms: tick_ms.clamp(MIN_TICK_MS, MAX_TICK_MS),
            cursor: 0,
            levels: vec![level; LEVELS].into_boxed_slice(),
            entries: Vec::new(),
            free: NIL,
            len: 0,
        }
    }

    /// How many timers it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The length of a tick, in milliseconds.
    pub fn tick_ms(&self) -> u64 {
        self.tick_ms
    }

    /// Adds a timer that is due at `deadline_ms` by the monotonic clock. It is handed out at the first
    /// tick that is not before its deadline; one in the past at once, after what is due in the tick that
    /// the wheel has reached.
    pub fn insert(&mut self, deadline_ms: u64, payload: T) -> TimerId {
        let index = self.allocate(deadline_ms, payload);
        self.append(index);
        self.len += 1;
        TimerId { index, generation: self.entries[index as usize].generation }
    }

    /// Takes a timer out before it is due; `None` when it was handed out or cancelled already.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation != id.generation || entry.payload.is_none() {
            return None;
        }
        let (level, slot) = self.place(entry.deadline_ms);
        self.unlink(level, slot, id.index);
        self.release(id.index).map(|(_, payload)| payload)
    }

    /// The payload of a timer that is still in the wheel.
    pub fn get(&self, id: TimerId) -> Option<&T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation == id.generation { entry.payload.as_ref() } else { None }
    }

    /// Moves the wheel to `now_ms` and appends what is due to `out` as (deadline, payload), by tick and
    /// within a tick in the order of insertion, at most `limit` timers in one call. Returns whether to
    /// call again at once because the limit left something behind. A `now_ms` before an earlier one hands
    /// out nothing new and moves nothing.
    ///
    /// A call does work for the timers that it hands out and for those that cascade; the latter are not
    /// bounded by `limit`, but each timer does it once per level at most.
    pub fn advance(&mut self, now_ms: u64, limit: usize, out: &mut Vec<(u64, T)>) -> bool {
        let target = now_ms / self.tick_ms;
        let mut left = limit;
        while let Some((level, slot, start)) = self.first() {
            if start > target {
                break;
            }
            self.cursor = start;
            if level > 0 {
                self.cascade(level, slot);
                continue;
            }
            if left == 0 {
                return true;
            }
            left -= self.drain(slot, left, out);
        }
        // Nothing is left at or before the target, so the cursor may stand on it.
        self.cursor = self.cursor.max(target);
        false
    }

    /// Takes every timer out, due or not, in no order; the wheel stays where it stands. For a step of the wall
    /// clock, which gives all timers new deadlines.
    pub fn take_all(&mut self) -> Vec<(u64, T)> {
        let mut all = Vec::with_capacity(self.len);
        while let Some((level, slot, _)) = self.first() {
            let mut index = std::mem::replace(&mut self.levels[level].slots[slot], EMPTY).head;
            self.levels[level].unmark(slot);
            while index != NIL {
                let next = self.entries[index as usize].next;
                all.extend(self.release(index));
                index = next;
            }
        }
        all
    }

    /// When to call [`advance`](Self::advance) next, by the monotonic clock in milliseconds: at the tick of
    /// the earliest timer, or earlier when that one must cascade first; never later. `None` when the wheel
    /// is empty. O(1).
    pub fn next_expiry(&self) -> Option<u64> {
        self.first().map(|(_, _, start)| start.saturating_mul(self.tick_ms))
    }

    /// The earliest deadline in the wheel. Walks the slot that holds it, so it is for gauges, not for the
    /// hot path.
    pub fn oldest(&self) -> Option<u64> {
        let (level, slot, _) = self.first()?;
        let head = self.levels[level].slots[slot].head;
        let entries = std::iter::successors(Some(&self.entries[head as usize]), |entry| {
            // The end of the list is no index of an entry.
            self.entries.get(entry.next as usize)
        });
        entries.map(|entry| entry.deadline_ms).min()
    }

    /// The lowest slot in use: its level, its number, and the first tick that it spans.
    fn first(&self) -> Option<(usize, usize, u64)> {
        self.levels.iter().enumerate().find_map(|(level, slots)| {
            let slot = slots.first_used()?;
            let shift = level * LEVEL_BITS;
            // The levels above agree with the cursor; those below start at zero.
            let above = (self.cursor >> shift) & !(SLOTS as u64 - 1);
            Some((level, slot, (above | slot as u64) << shift))
        })
    }

    /// Where a timer with this deadline belongs while the cursor stands where it does.
    fn place(&self, deadline_ms: u64) -> (usize, usize) {
        // Rounded up: a timer is late by less than a tick, and never early.
        let tick = deadline_ms.div_ceil(self.tick_ms).max(self.cursor);
        let differing = tick ^ self.cursor;
        // The lowest bit set keeps the logarithm of "no difference" defined, on level 0.
        let level = (differing | 1).ilog2() as usize / LEVEL_BITS;
        (level, (tick >> (level * LEVEL_BITS)) as usize % SLOTS)
    }

    /// Hands out up to `limit` timers of a slot of level 0; returns how many.
    fn drain(&mut self, slot: usize, limit: usize, out: &mut Vec<(u64, T)>) -> usize {
        let mut count = 0;
        let mut index = self.levels[0].slots[slot].head;
        while index != NIL && count < limit {
            let next = self.entries[index as usize].next;
            out.extend(self.release(index));
            index = next;
            count += 1;
        }
        let list = &mut self.levels[0].slots[slot];
        list.head = index;
        if index == NIL {
            list.tail = NIL;
            self.levels[0].unmark(slot);
        } else {
            self.entries[index as usize].prev = NIL;
        }
        count
    }

    /// Spreads the timers of a slot that the cursor has entered over the levels below.
    fn cascade(&mut self, level: usize, slot: usize) {
        let mut index = std::mem::replace(&mut self.levels[level].slots[slot], EMPTY).head;
        self.levels[level].unmark(slot);
        while index != NIL {
            let next = self.entries[index as usize].next;
            self.append(index);
            index = next;
        }
    }

    /// Puts an entry at the end of the list where it belongs.
    fn append(&mut self, index: u32) {
        let (level, slot) = self.place(self.entries[index as usize].deadline_ms);
        let tail = std::mem::replace(&mut self.levels[level].slots[slot].tail, index);
        let entry = &mut self.entries[index as usize];
        entry.prev = tail;
        entry.next = NIL;
        if tail == NIL {
            self.levels[level].slots[slot].head = index;
            self.levels[level].mark(slot);
        } else {
            self.entries[tail as usize].next = index;
        }
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, level: usize, slot: usize, index: u32) {
        let Entry { prev, next, .. } = self.entries[index as usize];
        match prev {
            NIL => self.levels[level].slots[slot].head = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NIL => self.levels[level].slots[slot].tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
        if self.levels[level].slots[slot].head == NIL {
            self.levels[level].unmark(slot);
        }
    }

    /// A place for a timer: a free one, or a new one.
    fn allocate(&mut self, deadline_ms: u64, payload: T) -> u32 {
        if let Some(entry) = self.entries.get_mut(self.free as usize) {
            let index = std::mem::replace(&mut self.free, entry.next);
            entry.deadline_ms = deadline_ms;
            entry.payload = Some(payload);
            return index;
        }
        let index = u32::try_from(self.entries.len()).ok().filter(|index| *index != NIL);
        let index = index.expect("2^32 timers take 100 GiB: memory ends first");
        self.entries.push(Entry { deadline_ms, prev: NIL, next: NIL, generation: 0, payload: Some(payload) });
        index
    }

    /// Frees the place of an entry that is in no list any more.
    fn release(&mut self, index: u32) -> Option<(u64, T)> {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = std::mem::replace(&mut self.free, index);
        self.len -= 1;
        entry.payload.take().map(|payload| (entry.deadline_ms, payload))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The slow oracle: a list that is searched from end to end.
    #[derive(Default)]
    struct Oracle {
        cursor: u64,
        tick_ms: u64,
        inserted: u64,
        timers: Vec<Expected>,
    }

    #[derive(Clone, Copy)]
    struct Expected {
        tick: u64,
        sequence: u64,
        deadline_ms: u64,
        payload: u64,
    }

    impl Oracle {
        fn insert(&mut self, deadline_ms: u64, payload: u64) {
            let tick = deadline_ms.div_ceil(self.tick_ms).max(self.cursor);
            self.timers.push(Expected { tick, sequence: self.inserted, deadline_ms, payload });
            self.inserted += 1;
        }

        fn cancel(&mut self, payload: u64) -> Option<u64> {
            let place = self.timers.iter().position(|timer| timer.payload == payload)?;
            Some(self.timers.swap_remove(place).payload)
        }

        fn advance(&mut self, now_ms: u64, limit: usize) -> (Vec<(u64, u64)>, bool) {
            let target = now_ms / self.tick_ms;
            let mut due: Vec<_> = self.timers.iter().copied().filter(|timer| timer.tick <= target).collect();
            due.sort_by_key(|timer| (timer.tick, timer.sequence));
            let left = due.len() > limit;
            // Where the limit cuts, the wheel stands on the first tick that it has not emptied.
            self.cursor = if left { due[limit].tick } else { self.cursor.max(target) };
            due.truncate(limit);
            self.timers.retain(|timer| due.iter().all(|gone| gone.payload != timer.payload));
            (due.into_iter().map(|timer| (timer.deadline_ms, timer.payload)).collect(), left)
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// A timer so far from now.
        Insert(u64),
        /// A timer before now.
        InsertPast(u64),
        /// A timer at an instant.
        InsertAt(u64),
        /// Cancels one of the timers ever inserted.
        Cancel(prop::sample::Index),
        /// Takes all out and puts them in again, so much later each.
        Postpone(u64),
        /// So much later, at most so many, and each timer handed out is inserted again so much later.
        Advance { by: u64, limit: usize, again: Option<u64> },
    }

    /// Numbers on, right before and right after the boundaries of the levels, and some of no note.
    fn span() -> impl Strategy<Value = u64> {
        let edge = (0u32..64, -2i64..=2).prop_map(|(bits, off)| (1u64 << bits).saturating_add_signed(off));
        prop_oneof![4 => 0u64..3000, 2 => 0u64..200_000, 3 => edge, 1 => any::<u64>()]
    }

    fn step() -> impl Strategy<Value = Step> {
        let near = prop_oneof![6 => 0u64..2000, 2 => 0u64..700_000, 1 => (0u32..40).prop_map(|b| 1 << b)];
        let limit = prop_oneof![Just(usize::MAX), 0usize..4];
        let again = prop::option::weighted(0.2, 0u64..600);
        prop_oneof![
            8 => span().prop_map(Step::Insert),
            1 => span().prop_map(Step::InsertPast),
            1 => span().prop_map(Step::InsertAt),
            3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
            1 => (0u64..1000).prop_map(Step::Postpone),
            6 => (near, limit, again).prop_map(|(by, limit, again)| Step::Advance { by, limit, again }),
        ]
    }

    struct Pair {
        wheel: Wheel<u64>,
        oracle: Oracle,
        ids: Vec<TimerId>,
        now_ms: u64,
    }

    impl Pair {
        fn new(tick_ms: u64) -> Self {
            let oracle = Oracle { tick_ms, ..Oracle::default() };
            Pair { wheel: Wheel::new(tick_ms), oracle, ids: Vec::new(), now_ms: 0 }
        }

        fn insert(&mut self, deadline_ms: u64) {
            let payload = self.ids.len() as u64;
            self.ids.push(self.wheel.insert(deadline_ms, payload));
            self.oracle.insert(deadline_ms, payload);
        }

        fn advance(&mut self, limit: usize, again: Option<u64>) {
            let mut out = Vec::new();
            let left = self.wheel.advance(self.now_ms, limit, &mut out);
            let (due, due_left) = self.oracle.advance(self.now_ms, limit);
            assert_eq!((&out, left), (&due, due_left));
            for (deadline_ms, _) in out {
                assert!(deadline_ms <= self.now_ms, "{deadline_ms} was handed out at {}", self.now_ms);
                if let Some(later) = again {
                    self.insert(self.now_ms.saturating_add(later));
                }
            }
        }

        fn run(&mut self, step: Step) {
            match step {
                Step::Insert(after) => self.insert(self.now_ms.saturating_add(after)),
                Step::InsertPast(before) => self.insert(self.now_ms.saturating_sub(before)),
                Step::InsertAt(at) => self.insert(at),
                Step::Cancel(_) if self.ids.is_empty() => {}
                Step::Cancel(which) => {
                    let payload = which.index(self.ids.len());
                    let cancelled = self.wheel.cancel(self.ids[payload]);
                    assert_eq!(cancelled, self.oracle.cancel(payload as u64));
                    assert_eq!(self.wheel.get(self.ids[payload]), None);
                }
                Step::Postpone(by) => {
                    let mut all = self.wheel.take_all();
                    assert_eq!((self.wheel.len(), self.wheel.next_expiry()), (0, None));
                    all.sort_by_key(|(_, payload)| *payload);
                    let mut expected = std::mem::take(&mut self.oracle.timers);
                    expected.sort_by_key(|timer| timer.payload);
                    assert!(all.iter().copied().eq(expected.iter().map(|t| (t.deadline_ms, t.payload))));
                    for (deadline_ms, _) in all {
                        self.insert(deadline_ms.saturating_add(by));
                    }
                }
                Step::Advance { by, limit, again } => {
                    self.now_ms = self.now_ms.saturating_add(by);
                    self.advance(limit, again);
                }
            }
            self.check();
        }

        fn check(&self) {
            let timers = &self.oracle.timers;
            assert_eq!(self.wheel.len(), timers.len());
            assert_eq!(self.wheel.oldest(), timers.iter().map(|timer| timer.deadline_ms).min());
            let first = timers.iter().map(|timer| timer.tick.saturating_mul(self.oracle.tick_ms)).min();
            match (self.wheel.next_expiry(), first) {
                (None, None) => {}
                (Some(next), Some(first)) => assert!(next <= first, "slept until {next} past {first}"),
                other => panic!("one of them is empty: {other:?}"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn agrees_with_a_sorted_list(
            tick_ms in prop_oneof![Just(1u64), Just(10), Just(7), Just(1000)],
            steps in prop::collection::vec(step(), 1..120),
        ) {
            let mut pair = Pair::new(tick_ms);
            for step in steps {
                pair.run(step);
            }
            pair.now_ms = u64::MAX - u64::MAX % tick_ms;
            pair.advance(usize::MAX, None);
            // A remainder smaller than a tick at the very end of the number range is all that may be left.
            prop_assert!(pair.oracle.timers.iter().all(|timer| timer.deadline_ms > pair.now_ms));
            pair.check();
        }
    }

    #[test]
    fn boundaries_of_every_level_are_exact() {
        for level in 1..LEVELS as u32 {
            for start in [0, 1, 255, 256, 257, 65_535, 65_536] {
                let edge = 1u64 << (level * LEVEL_BITS as u32);
                for deadline in [edge - 1, edge, edge + 1, start + edge - 1, start + edge, start + edge + 1] {
                    let mut wheel = Wheel::new(1);
                    let mut out = Vec::new();
                    wheel.advance(start, 1, &mut out);
                    wheel.insert(deadline, ());
                    if deadline > start {
                        wheel.advance(deadline - 1, 1, &mut out);
                        assert_eq!(out, vec![], "{deadline} is early from {start}");
                    }
                    wheel.advance(deadline.max(start), 1, &mut out);
                    assert_eq!(out, vec![(deadline, ())], "{deadline} is late from {start}");
                }
            }
        }
    }

    #[test]
    fn sleeping_until_the_next_expiry_meets_every_deadline_in_few_steps() {
        let mut wheel = Wheel::new(10);
        let deadlines = [5, 10, 2_559, 2_560, 300_000, 86_400_000, 4_000_000_000_000];
        for deadline in deadlines {
            wheel.insert(deadline, ());
        }
        let (mut out, mut wakes) = (Vec::new(), 0);
        while let Some(next) = wheel.next_expiry() {
            let before = out.len();
            wheel.advance(next, usize::MAX, &mut out);
            for (deadline, ()) in &out[before..] {
                assert!((*deadline..deadline + 10).contains(&next), "{deadline} went out at {next}");
            }
            wakes += 1;
        }
        assert_eq!(out.iter().map(|(deadline, ())| *deadline).collect::<Vec<_>>(), deadlines);
        // One wake per tick that is due and one per level that a far timer falls through.
        assert!(wakes <= deadlines.len() + LEVELS * deadlines.len(), "{wakes} wakes: the idle wheel ticks");
    }

    #[test]
    fn a_stale_id_never_cancels_the_timer_in_its_place() {
        let mut wheel = Wheel::new(10);
        let first = wheel.insert(10, 'a');
        assert_eq!(wheel.cancel(first), Some('a'));
        let second = wheel.insert(10, 'b');
        assert_eq!(wheel.cancel(first), None);
        assert_eq!(wheel.get(second), Some(&'b'));
    }

    #[test]
    fn memory_is_used_again() {
        let mut wheel = Wheel::new(10);
        let mut out = Vec::new();
        for lap in 0..50u64 {
            for timer in 0..100 {
                let id = wheel.insert(lap * 1000 + timer * 10, timer);
                if timer % 3 == 0 {
                    wheel.cancel(id);
                }
            }
            wheel.advance((lap + 1) * 1000, usize::MAX, &mut out);
        }
        assert_eq!(out.len(), 50 * 66);
        assert!(wheel.entries.len() <= 100, "{} places for 100 timers at a time", wheel.entries.len());
    }

    #[test]
    fn a_timer_is_small() {
        assert_eq!(size_of::<Entry<orloj_model::key::ShardKey>>(), 40);
        assert_eq!(size_of::<Level>() * LEVELS, 16_640);
    }

    #[test]
    fn the_tick_keeps_its_bounds() {
        assert_eq!(Wheel::<()>::new(0).tick_ms(), MIN_TICK_MS);
        assert_eq!(Wheel::<()>::new(5000).tick_ms(), MAX_TICK_MS);
    }
}
