//! A set of executors as bits: sharded tasks ask it about every executor for every shard.

use super::ExecutorIdx;

/// A set of executors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorSet(Vec<u64>);

impl ExecutorSet {
    /// The empty set; takes no memory.
    pub const fn new() -> Self {
        ExecutorSet(Vec::new())
    }

    /// Adds an executor.
    pub fn insert(&mut self, idx: ExecutorIdx) {
        let word = idx.at() / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (idx.at() % 64);
    }

    /// Takes an executor out.
    pub fn remove(&mut self, idx: ExecutorIdx) {
        if let Some(word) = self.0.get_mut(idx.at() / 64) {
            *word &= !(1 << (idx.at() % 64));
        }
    }

    /// Whether an executor is in it.
    pub fn contains(&self, idx: ExecutorIdx) -> bool {
        self.0.get(idx.at() / 64).is_some_and(|word| word & (1 << (idx.at() % 64)) != 0)
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }
}

impl FromIterator<ExecutorIdx> for ExecutorSet {
    fn from_iter<I: IntoIterator<Item = ExecutorIdx>>(executors: I) -> Self {
        let mut set = ExecutorSet::new();
        executors.into_iter().for_each(|idx| set.insert(idx));
        set
    }
}
