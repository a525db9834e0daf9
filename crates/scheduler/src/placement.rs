//! Placement: which executor gets an attempt.
//!
//! A [`Fleet`] knows the executors as the leader sees them and how many attempts each one holds. It is kept
//! up to date by registrations, heartbeats, grants and reports, and [`take`](Fleet::take) picks an executor
//! for one attempt and counts it as held, so that a batch of fifty thousand is placed by fifty thousand calls
//! without anything being built anew. Nothing here reads a clock or draws a number: the same calls give the
//! same choices on every leader.
//!
//! # The rules
//!
//! An executor **must** be open (online, not suspect, not draining), have the handler, carry the labels, and
//! have a free slot, or a free queue place where the attempt may wait in the queue. Weight 0 takes an executor
//! out of every choice but `pinned` and `broadcast`.
//!
//! Among those that may, it is **better**, most important first, to
//! 1. have a free slot: queue places are used only while nobody has one, and only for attempts of which the
//!    caller says so ([`Wanted::may_queue`]), because what sits in a queue cannot go to the slot that is freed
//!    next elsewhere;
//! 2. stay within the bound: no executor is given more than 1.25 x its fair share, rounded up, of what the
//!    executors of the class hold, while others that are within theirs are free (strategies `ring`,
//!    `roundRobin` and `random`);
//! 3. hold no other shard of the task ([`Wanted::avoid`]; of a `broadcast` this is a must);
//! 4. be in the preferred zone.
//!
//! Among the best ones the task's strategy decides:
//!
//! | strategy | takes |
//! |---|---|
//! | `ring` | the first one clockwise from the key |
//! | `random` | the first one clockwise from a number drawn by chance, so by weight |
//! | `roundRobin` | the next one in the order of ids, from a counter |
//! | `leastLoaded` | the one that holds the least in proportion to its slots |
//! | `pinned` | the one named |
//! | `broadcast` | the first one in the order of ids that holds no shard of the task |
//!
//! # Demand classes
//!
//! What a task demands of an executor for good (handler, labels, and whether it is pinned or a broadcast) is
//! its [`ClassId`]: whom it may go to is worked out once per class, and whether one task of a class can be
//! placed says much about the next.

mod choose;
mod class;
mod set;

use std::collections::{BTreeMap, HashMap};

use orloj_model::executor::Registration;
use orloj_model::id::ExecutorId;
use orloj_model::task::Strategy;

pub use self::class::ClassId;
pub use self::set::ExecutorSet;

use self::class::{Class, ClassKey, Share};
use crate::ring::{KeyHash, LoadGauge, Ring, RingMember, WeightClass};

/// More classes than this are kept only while they are in use.
pub const KEPT_CLASSES: usize = 1024;

/// An executor of a [`Fleet`], until it is removed; after that the index may name another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorIdx(u32);

impl ExecutorIdx {
    fn at(self) -> usize {
        self.0 as usize
    }
}

/// What one attempt asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What it demands of an executor; from [`Fleet::class`] with the same strategy.
    pub class: ClassId,
    /// How to choose.
    pub strategy: &'a Strategy,
    /// Where its key stands on the ring: that of the routing key, else of the job's id, else of the handler.
    pub key: KeyHash,
    /// The preferred zone.
    pub zone: Option<&'a str>,
    /// Executors that hold another shard of the task.
    pub avoid: &'a ExecutorSet,
    /// Whether it may wait in an executor's queue while nobody has a free slot. Worth it only for attempts
    /// that are short against the round trip to the executor. Let it be the same for a whole class, so that
    /// one of it that finds no place speaks for the others.
    pub may_queue: bool,
    /// `roundRobin`: a counter that grows by one per choice. `random`: a number drawn by chance.
    pub number: u64,
}

/// Why nobody was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoPlace {
    /// No registered executor has the handler and the labels (or is the one that the task is pinned to).
    Nobody,
    /// Every executor with the handler and the labels has weight 0.
    Weightless,
    /// There are such executors, but each is full or takes no work now. Of a broadcast it may also be that
    /// each one that is free holds a shard of it, which says nothing of other tasks of the class.
    Busy,
}

impl std::fmt::Display for NoPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NoPlace::Nobody => "no registered executor has the handler and the labels",
            NoPlace::Weightless => "every executor that has the handler and the labels has weight 0",
            NoPlace::Busy => "every executor that has the handler and the labels is full or takes no work",
        })
    }
}

/// An executor as placement sees it.
#[derive(Debug)]
struct Executor {
    id: ExecutorId,
    handlers: Vec<String>,
    labels: BTreeMap<String, String>,
    gauge: LoadGauge,
    /// The classes that it serves.
    classes: Vec<ClassId>,
}

/// The part of an executor that every choice looks at.
#[derive(Debug, Clone, Copy)]
struct Load {
    weight: WeightClass,
    /// `None` for no zone.
    zone: Option<u32>,
    slots: u32,
    queue: u32,
    /// Attempts that it holds a lease on.
    held: u32,
    /// Whether it takes work.
    open: bool,
}

/// What stands at an index that names no executor.
const VACANT: Load = Load { weight: WeightClass::ZERO, zone: None, slots: 0, queue: 0, held: 0, open: false };

impl Load {
    fn has_slot(&self) -> bool {
        self.held < self.slots
    }

    fn has_place(&self) -> bool {
        self.held < self.slots.saturating_add(self.queue)
    }

    /// What it adds to the sums of its classes: nothing while no general choice may fall on it.
    fn share(&self) -> Share {
        let milli = self.weight.milli();
        if !self.open || milli == 0 {
            return Share::default();
        }
        Share {
            milli,
            held: u64::from(self.held),
            with_slot: u32::from(self.has_slot()),
            with_place: u32::from(self.has_place()),
        }
    }
}

/// The executors, and how much each one holds.
#[derive(Debug, Default)]
pub struct Fleet {
    executors: Vec<Option<Executor>>,
    /// Same indexes as `executors`.
    loads: Vec<Load>,
    by_id: HashMap<ExecutorId, ExecutorIdx>,
    vacant: Vec<ExecutorIdx>,
    /// Names of zones; a zone is known by its index here.
    zones: Vec<String>,
    classes: Vec<Option<Class>>,
    class_ids: HashMap<ClassKey, ClassId>,
    ring: Ring,
    /// Weights have changed since the ring was built.
    ring_stale: bool,
}

impl Fleet {
    /// A fleet without executors.
    pub fn new() -> Self {
        Fleet::default()
    }

    /// Takes in a registration: a new executor, or a known one that says something else of itself. It is
    /// open afterwards. A known one keeps what it holds; where a new incarnation has ended the attempts of
    /// the old one, say so with [`set_held`](Self::set_held).
    pub fn register(&mut self, registration: &Registration) -> ExecutorIdx {
        let idx = match self.find(&registration.id) {
            Some(idx) => idx,
            None => self.add(registration.id.clone()),
        };
        let zone = registration.zone.as_deref().map(|zone| self.intern_zone(zone));
        let executor = self.executors[idx.at()].as_mut().expect("found or added above");
        executor.handlers.clone_from(&registration.handlers);
        executor.labels.clone_from(&registration.labels);
        let weight = WeightClass::new(registration.weight, executor.gauge.factor());
        self.alter(idx, |load| {
            *load = Load {
                weight,
                zone,
                slots: registration.slots,
                queue: registration.queue,
                held: load.held,
                open: true,
            };
        });
        self.join_classes(idx);
        idx
    }

    /// Forgets an executor; its index may name another one later.
    pub fn remove(&mut self, idx: ExecutorIdx) {
        self.alter(idx, |load| *load = VACANT);
        self.leave_classes(idx);
        if let Some(executor) = self.executors[idx.at()].take() {
            self.by_id.remove(&executor.id);
            self.vacant.push(idx);
        }
    }

    /// The executor with this id.
    pub fn find(&self, id: &ExecutorId) -> Option<ExecutorIdx> {
        self.by_id.get(id).copied()
    }

    /// The id of an executor; `None` once it was removed.
    pub fn id(&self, idx: ExecutorIdx) -> Option<&ExecutorId> {
        self.executors.get(idx.at())?.as_ref().map(|executor| &executor.id)
    }

    /// How many executors there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether an executor takes work: it does not while it is suspect, offline, or draining.
    pub fn set_open(&mut self, idx: ExecutorIdx, open: bool) {
        self.alter(idx, |load| load.open = open);
    }

    /// Whether an executor takes work.
    pub fn is_open(&self, idx: ExecutorIdx) -> bool {
        self.loads[idx.at()].open
    }

    /// How many attempts an executor holds, where that is known better than by counting.
    pub fn set_held(&mut self, idx: ExecutorIdx, held: u32) {
        self.alter(idx, |load| load.held = held);
    }

    /// How many attempts an executor holds.
    pub fn held(&self, idx: ExecutorIdx) -> u32 {
        self.loads[idx.at()].held
    }

    /// Free slots of an executor, whether or not it takes work.
    pub fn free_slots(&self, idx: ExecutorIdx) -> u32 {
        let load = &self.loads[idx.at()];
        load.slots.saturating_sub(load.held)
    }

    /// Takes in the 1-minute CPU load, in per cent, of a heartbeat that arrived at `now_ms` by the monotonic
    /// clock. Returns whether the executor's weight changed.
    pub fn observe_cpu(&mut self, idx: ExecutorIdx, cpu_pct: f64, now_ms: u64) -> bool {
        let Some(executor) = &mut self.executors[idx.at()] else { return false };
        let changed = executor.gauge.observe(cpu_pct, now_ms);
        if changed {
            let factor = executor.gauge.factor();
            self.alter(idx, |load| load.weight = load.weight.with_factor(factor));
        }
        changed
    }

    /// Chooses an executor for an attempt and counts it there as held; [`give_back`](Self::give_back) undoes
    /// that when the attempt is over or was not granted.
    ///
    /// # Panics
    /// With a class that [`trim_classes`](Self::trim_classes) was told to drop.
    pub fn take(&mut self, wanted: &Wanted<'_>) -> Result<ExecutorIdx, NoPlace> {
        self.refresh_ring();
        let idx = self.choose(wanted)?;
        self.alter(idx, |load| load.held += 1);
        Ok(idx)
    }

    /// An attempt on this executor is over, or its grant came to nothing.
    pub fn give_back(&mut self, idx: ExecutorIdx) {
        self.alter(idx, |load| load.held = load.held.saturating_sub(1));
    }

    /// Changes what is known of an executor and carries the difference into the sums of its classes.
    fn alter(&mut self, idx: ExecutorIdx, change: impl FnOnce(&mut Load)) {
        let load = &mut self.loads[idx.at()];
        let (before, weight) = (load.share(), load.weight);
        change(load);
        let after = load.share();
        self.ring_stale |= load.weight != weight;
        if before == after {
            return;
        }
        let classes = self.executors[idx.at()].iter().flat_map(|executor| &executor.classes);
        for class in classes {
            let class = self.classes[class.at()].as_mut().expect("an executor lists classes that exist");
            class.sums.replace(before, after);
        }
    }

    fn add(&mut self, id: ExecutorId) -> ExecutorIdx {
        let executor = Executor {
            id: id.clone(),
            handlers: Vec::new(),
            labels: BTreeMap::new(),
            gauge: LoadGauge::default(),
            classes: Vec::new(),
        };
        let idx = self.vacant.pop().unwrap_or_else(|| {
            self.executors.push(None);
            self.loads.push(VACANT);
            ExecutorIdx(u32::try_from(self.loads.len() - 1).expect("fewer than 2^32 executors"))
        });
        self.executors[idx.at()] = Some(executor);
        self.by_id.insert(id, idx);
        idx
    }

    fn intern_zone(&mut self, zone: &str) -> u32 {
        self.zone(zone).unwrap_or_else(|| {
            self.zones.push(zone.to_owned());
            (self.zones.len() - 1) as u32
        })
    }

    fn zone(&self, zone: &str) -> Option<u32> {
        self.zones.iter().position(|known| known == zone).map(|index| index as u32)
    }

    fn refresh_ring(&mut self) {
        if !std::mem::take(&mut self.ring_stale) {
            return;
        }
        let members: Vec<_> = self
            .executors
            .iter()
            .zip(&self.loads)
            // A vacant index weighs nothing, so it has no place on the ring.
            .map(|(executor, load)| RingMember {
                id: executor.as_ref().map_or("", |executor| executor.id.as_str()),
                class: load.weight,
            })
            .collect();
        self.ring = Ring::build(&members);
    }
}

#[cfg(test)]
mod tests;
