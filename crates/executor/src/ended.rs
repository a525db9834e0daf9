//! The memory of attempts that are over: bounded, and safe when it forgets.
//!
//! A copy of a push can arrive long after its attempt has been run, reported and acknowledged. It must not
//! start a second run. Nor must one of an attempt that was refused: the leader has given it to somebody else by
//! then. The newest fence of each shard is kept for the last [`KEEP`] attempts; beyond that a
//! floor rises, and an attempt at or below it is refused. A refusal is always safe: the leader grants the
//! attempt again, under a new fence.

use std::collections::{HashMap, VecDeque};

use crate::book::{Key, ShardKey};

/// How many attempts are remembered one by one.
const KEEP: usize = 65_536;

/// What is known of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing.
    Never,
    /// It is over, and its report was acknowledged.
    This,
    /// It was refused or dropped without a report, a later one of the same shard was here, or it is too old to
    /// tell. Whoever pushes it must grant it anew.
    Gone,
}

/// The newest grant of a shard that is over.
#[derive(Debug, Clone, Copy)]
struct Newest {
    fence: u64,
    reported: bool,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Ended {
    keep: usize,
    newest: HashMap<ShardKey, Newest>,
    order: VecDeque<Key>,
    floor: u64,
}

impl Default for Ended {
    fn default() -> Self {
        Ended::keeping(KEEP)
    }
}

impl Ended {
    fn keeping(keep: usize) -> Self {
        Ended { keep, newest: HashMap::new(), order: VecDeque::new(), floor: 0 }
    }

    /// Remembers a grant that is over and whose report was acknowledged.
    pub(crate) fn add(&mut self, key: Key) {
        self.note(key, true);
    }

    /// Remembers a grant that was refused, or dropped without a report.
    pub(crate) fn give_up(&mut self, key: Key) {
        self.note(key, false);
    }

    fn note(&mut self, key: Key, reported: bool) {
        let now = Newest { fence: key.fence, reported };
        let newest = self.newest.entry(key.shard.clone()).or_insert(now);
        if key.fence > newest.fence {
            *newest = now;
        }
        self.order.push_back(key);
        while self.order.len() > self.keep {
            let Some(oldest) = self.order.pop_front() else { break };
            self.floor = self.floor.max(oldest.fence);
            if self.newest.get(&oldest.shard).is_some_and(|newest| newest.fence == oldest.fence) {
                self.newest.remove(&oldest.shard);
            }
        }
    }

    /// What is known of a grant.
    pub(crate) fn look(&self, key: &Key) -> Seen {
        match self.newest.get(&key.shard) {
            Some(newest) if newest.fence == key.fence && newest.reported => Seen::This,
            Some(newest) if newest.fence >= key.fence => Seen::Gone,
            _ if key.fence <= self.floor => Seen::Gone,
            _ => Seen::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(task: &str, fence: u64) -> Key {
        Key { shard: (task.into(), 0), fence }
    }

    #[test]
    fn what_is_over_is_known_and_older_grants_are_late() {
        let mut ended = Ended::keeping(8);
        ended.add(key("a", 5));
        assert_eq!(ended.look(&key("a", 5)), Seen::This);
        assert_eq!(ended.look(&key("a", 4)), Seen::Gone);
        assert_eq!(ended.look(&key("a", 6)), Seen::Never);
        assert_eq!(ended.look(&key("b", 5)), Seen::Never);
        ended.give_up(key("b", 5));
        assert_eq!(ended.look(&key("b", 5)), Seen::Gone);
        assert_eq!(ended.look(&key("b", 6)), Seen::Never);
    }

    #[test]
    fn the_forgotten_is_never_taken_for_new() {
        let mut ended = Ended::keeping(2);
        for fence in 1..=100 {
            ended.add(key(&format!("t{fence}"), fence));
        }
        for fence in 1..=100 {
            assert_ne!(ended.look(&key(&format!("t{fence}"), fence)), Seen::Never, "fence {fence}");
        }
        assert_eq!(ended.look(&key("new", 101)), Seen::Never);
        assert!(ended.order.len() <= 2 && ended.newest.len() <= 2);
    }
}
