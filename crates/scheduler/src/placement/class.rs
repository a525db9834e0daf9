//! Demand classes: who can serve which tasks, and what those executors hold together.

use std::collections::BTreeMap;

use orloj_model::id::ExecutorId;
use orloj_model::task::Strategy;

use super::{Executor, ExecutorIdx, ExecutorSet, Fleet, KEPT_CLASSES};

/// A demand class: what tasks ask of an executor for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

impl ClassId {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// What a class stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClassKey {
    handler: String,
    labels: BTreeMap<String, String>,
    pinned: Option<ExecutorId>,
    /// Weight 0 counts for a broadcast, so its tasks are not held up together with others.
    broadcast: bool,
}

impl ClassKey {
    fn fits(&self, executor: &Executor) -> bool {
        self.pinned.as_ref().is_none_or(|id| *id == executor.id)
            && executor.handlers.contains(&self.handler)
            && self.labels.iter().all(|(label, value)| executor.labels.get(label) == Some(value))
    }
}

/// What an executor, or all the executors of a class together, bring to a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Share {
    /// Weight in thousandths.
    pub milli: u64,
    /// Attempts held.
    pub held: u64,
    /// Executors with a free slot.
    pub with_slot: u32,
    /// Executors with a free slot or queue place.
    pub with_place: u32,
}

impl Share {
    /// Puts one executor's new share in the place of its old one.
    pub fn replace(&mut self, before: Share, after: Share) {
        self.milli = self.milli - before.milli + after.milli;
        self.held = self.held - before.held + after.held;
        self.with_slot = self.with_slot - before.with_slot + after.with_slot;
        self.with_place = self.with_place - before.with_place + after.with_place;
    }
}

/// A class and the executors that serve it.
#[derive(Debug)]
pub(super) struct Class {
    key: ClassKey,
    /// In the order of their ids, which no leader's history changes.
    pub members: Vec<ExecutorIdx>,
    /// The same, to ask about one.
    pub set: ExecutorSet,
    /// What the open members of some weight bring together.
    pub sums: Share,
}

impl Fleet {
    /// The class of tasks that ask for this handler and these labels (and, by their strategy, for one
    /// executor or for each). The same question gives the same id until the class is trimmed.
    pub fn class(
        &mut self,
        handler: &str,
        labels: &BTreeMap<String, String>,
        strategy: &Strategy,
    ) -> ClassId {
        let pinned = match strategy {
            Strategy::Pinned(id) => Some(id.clone()),
            _ => None,
        };
        let broadcast = *strategy == Strategy::Broadcast;
        let key = ClassKey { handler: handler.to_owned(), labels: labels.clone(), pinned, broadcast };
        match self.class_ids.get(&key) {
            Some(id) => *id,
            None => self.add_class(key),
        }
    }

    /// The executors that serve a class, open or not, in the order of their ids.
    pub fn members(&self, class: ClassId) -> &[ExecutorIdx] {
        &self.get_class(class).members
    }

    /// How many executors of a class could take an attempt now: one with a free slot, or also one with a
    /// free queue place. Executors of weight 0 do not count.
    pub fn able(&self, class: ClassId, may_queue: bool) -> u32 {
        let sums = &self.get_class(class).sums;
        if may_queue { sums.with_place } else { sums.with_slot }
    }

    /// Drops classes that are not in use, when there are more than [`KEPT_CLASSES`]. Labels are the users'
    /// to choose, so their number has no bound of its own.
    pub fn trim_classes(&mut self, in_use: impl Fn(ClassId) -> bool) {
        if self.class_ids.len() <= KEPT_CLASSES {
            return;
        }
        self.class_ids.retain(|_, id| in_use(*id));
        for (index, class) in self.classes.iter_mut().enumerate() {
            if class.is_some() && !in_use(ClassId(index as u32)) {
                *class = None;
            }
        }
        for executor in self.executors.iter_mut().flatten() {
            executor.classes.retain(|id| in_use(*id));
        }
    }

    pub(super) fn get_class(&self, class: ClassId) -> &Class {
        self.classes[class.at()].as_ref().expect("a class in use is not trimmed")
    }

    fn add_class(&mut self, key: ClassKey) -> ClassId {
        let index = self.classes.iter().position(Option::is_none).unwrap_or(self.classes.len());
        let id = ClassId(u32::try_from(index).expect("fewer than 2^32 classes"));
        let mut class =
            Class { key: key.clone(), members: Vec::new(), set: ExecutorSet::new(), sums: Share::default() };
        for (index, executor) in self.executors.iter_mut().enumerate() {
            if let Some(executor) = executor.as_mut().filter(|executor| key.fits(executor)) {
                executor.classes.push(id);
                let idx = ExecutorIdx(index as u32);
                class.members.push(idx);
                class.set.insert(idx);
                class.sums.replace(Share::default(), self.loads[index].share());
            }
        }
        let executors = &self.executors;
        class.members.sort_by_key(|idx| executors[idx.at()].as_ref().map(|executor| &executor.id));
        if index == self.classes.len() {
            self.classes.push(None);
        }
        self.classes[index] = Some(class);
        self.class_ids.insert(key, id);
        id
    }

    /// Puts an executor that has registered into the classes that it fits, and out of the others.
    pub(super) fn join_classes(&mut self, idx: ExecutorIdx) {
        self.leave_classes(idx);
        let share = self.loads[idx.at()].share();
        let Some(executor) = &self.executors[idx.at()] else { return };
        let mut joined = Vec::new();
        for (index, class) in self.classes.iter_mut().enumerate() {
            if let Some(class) = class.as_mut().filter(|class| class.key.fits(executor)) {
                let ids = |member: &ExecutorIdx| self.executors[member.at()].as_ref().map(|other| &other.id);
                let place = class.members.partition_point(|member| ids(member) < Some(&executor.id));
                class.members.insert(place, idx);
                class.set.insert(idx);
                class.sums.replace(Share::default(), share);
                joined.push(ClassId(index as u32));
            }
        }
        if let Some(executor) = &mut self.executors[idx.at()] {
            executor.classes = joined;
        }
    }

    /// Takes an executor out of all its classes.
    pub(super) fn leave_classes(&mut self, idx: ExecutorIdx) {
        let share = self.loads[idx.at()].share();
        let Some(executor) = &mut self.executors[idx.at()] else { return };
        for id in std::mem::take(&mut executor.classes) {
            let class = self.classes[id.at()].as_mut().expect("an executor lists classes that exist");
            class.members.retain(|member| *member != idx);
            class.set.remove(idx);
            class.sums.replace(share, Share::default());
        }
    }
}
