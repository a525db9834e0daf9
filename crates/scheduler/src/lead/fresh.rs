//! What the leader still has in hand of tasks that were submitted to it: it spares three reads of the tables for
//! each task that it places for the first time. Bounded; whatever is not here is read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use orloj_model::id::{Millis, TaskId};
use orloj_model::key::ShardKey;
use orloj_model::task::TaskSpec;

use crate::core::{Candidate, Lease};

/// The most bytes in hand.
const BYTES_LIMIT: usize = 32 << 20;
/// Bytes that a task takes besides its texts: an estimate.
const OVERHEAD: usize = 512;

/// A task that has not been placed yet.
#[derive(Debug, Clone)]
pub(super) struct Fresh {
    pub(super) spec: Arc<TaskSpec>,
    pub(super) due_at: Millis,
    /// It has been offered for its first attempt. What becomes of that stands in the tables alone.
    offered: bool,
}

/// Fresh tasks, the oldest of which are forgotten when there are too many.
#[derive(Debug, Default)]
pub(super) struct FreshTasks {
    tasks: HashMap<TaskId, Fresh>,
    order: VecDeque<TaskId>,
    bytes: usize,
}

impl FreshTasks {
    /// A task was submitted.
    pub(super) fn add(&mut self, task: TaskId, due_at: Millis, spec: &Arc<TaskSpec>) {
        self.keep(task, Fresh { spec: Arc::clone(spec), due_at, offered: false });
    }

    /// A task was granted in the entry that made it: only its push is ahead.
    pub(super) fn add_granted(&mut self, task: TaskId, due_at: Millis, spec: &Arc<TaskSpec>) {
        self.keep(task, Fresh { spec: Arc::clone(spec), due_at, offered: true });
    }

    fn keep(&mut self, task: TaskId, fresh: Fresh) {
        self.bytes += size_of(&fresh.spec);
        self.order.push_back(task);
        if let Some(old) = self.tasks.insert(task, fresh) {
            self.bytes -= size_of(&old.spec);
        }
        while self.bytes > BYTES_LIMIT
            && let Some(oldest) = self.order.pop_front()
        {
            self.remove(oldest);
        }
        // The order also names what has gone; that must not pile up.
        if self.order.len() > 2 * self.tasks.len() + 1_024 {
            let tasks = &self.tasks;
            self.order.retain(|task| tasks.contains_key(task));
        }
    }

    /// What the first attempt at a shard needs; once only.
    pub(super) fn candidate(&mut self, shard: ShardKey) -> Option<Candidate> {
        let fresh = self.tasks.get_mut(&shard.task).filter(|fresh| fresh.spec.shard_total == 1)?;
        if std::mem::replace(&mut fresh.offered, true) {
            return None;
        }
        let (since, spec) = (fresh.due_at, Arc::clone(&fresh.spec));
        Some(Candidate { shard, attempt: 1, since, ready: false, spec, last: None, broadcast: false })
    }

    /// What goes with the push of a lease. Only of a first attempt is everything in hand.
    pub(super) fn take_for(&mut self, lease: &Lease) -> Option<Fresh> {
        self.remove(lease.shard.task).filter(|_| lease.attempt == 1)
    }

    /// The task is about to be pushed, or has ended.
    pub(super) fn remove(&mut self, task: TaskId) -> Option<Fresh> {
        let fresh = self.tasks.remove(&task)?;
        self.bytes -= size_of(&fresh.spec);
        Some(fresh)
    }
}

fn size_of(spec: &TaskSpec) -> usize {
    let texts = [&spec.routing_key, &spec.zone, &spec.business_key, &spec.dedupe_key, &spec.callback_url];
    let labels: usize = spec.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    OVERHEAD + spec.params.len() + labels + texts.into_iter().flatten().map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn spec(params: usize) -> Arc<TaskSpec> {
        Arc::new(TaskSpec { params: vec![0; params], ..testing::spec() })
    }

    fn task(number: u16) -> TaskId {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        TaskId(id)
    }

    fn shard(number: u16) -> ShardKey {
        ShardKey { task: task(number), shard: 0 }
    }

    #[test]
    fn a_task_is_offered_once_and_kept_until_it_is_pushed() {
        let mut fresh = FreshTasks::default();
        fresh.add(task(1), 7, &spec(10));
        let candidate = fresh.candidate(shard(1)).unwrap();
        assert_eq!((candidate.attempt, candidate.since, candidate.ready), (1, 7, false));
        assert!(fresh.candidate(shard(1)).is_none(), "its rows may say something else by now");
        assert_eq!(fresh.remove(task(1)).unwrap().due_at, 7);
        assert!(fresh.remove(task(1)).is_none());
        assert_eq!(fresh.bytes, 0);
    }

    #[test]
    fn what_was_granted_as_it_was_made_is_kept_for_its_push_and_not_offered() {
        let mut fresh = FreshTasks::default();
        fresh.add_granted(task(1), 7, &spec(10));
        assert!(fresh.candidate(shard(1)).is_none(), "its first attempt is used");
        assert_eq!(fresh.remove(task(1)).unwrap().due_at, 7);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let mut fresh = FreshTasks::default();
        let (big, count) = (spec(1 << 20), 40);
        for number in 0..count {
            fresh.add(task(number), 0, &big);
        }
        assert!(fresh.bytes <= BYTES_LIMIT);
        assert!(fresh.candidate(shard(0)).is_none());
        assert!(fresh.candidate(shard(count - 1)).is_some());
        let small = spec(0);
        for number in 1_000..11_000 {
            fresh.add(task(number), 0, &small);
            fresh.remove(task(number));
        }
        assert!(fresh.order.len() < 2_000, "what has gone does not pile up");
    }
}
