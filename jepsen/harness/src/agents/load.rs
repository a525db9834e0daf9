//! What the clients of a run share: the generator, and what has been acknowledged.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use orloj_jepsen_agents::generator::{Generator, Mix, Op, Told};

use super::now;

/// Shared by all clients of a run; clones are the same.
#[derive(Debug, Clone)]
pub struct Load {
    generator: Arc<Mutex<Generator>>,
    acknowledged: Arc<Mutex<BTreeSet<String>>>,
    clients: u32,
}

impl Load {
    /// Load of so many clients; labels begin with `name`, which no other run on the same cluster may have.
    pub fn new(seed: u64, name: &str, mix: Mix, clients: u32) -> Load {
        let generator = Generator::new(seed, name, mix);
        Load { generator: Arc::new(Mutex::new(generator)), acknowledged: Arc::default(), clients }
    }

    /// Ids of all tasks that were acknowledged so far.
    pub fn acknowledged(&self) -> BTreeSet<String> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The next operation of a client, and the pause before the one after it begins, in ns.
    pub(super) fn next(&self, client: u32) -> (Op, u64) {
        let mut generator = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
        (generator.next(now(), client), generator.pause_ns(self.clients))
    }

    pub(super) fn told(&self, client: u32, op: &Op, told: &Told) {
        if let (Op::Submit(_), Told::Task(task)) = (op, told) {
            let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
            acknowledged.insert(task.task_id.clone());
        }
        self.generator.lock().unwrap_or_else(PoisonError::into_inner).told(now(), client, op, told);
    }
}
