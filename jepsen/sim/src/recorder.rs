//! The history of a simulation, and the clock that its agents share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orloj_jepsen_agents::{NS_PER_MS, Now};
use orloj_jepsen_core::event::{Event, Kind, Meta, VERSION, What};

use crate::time::WALL_START_MS;

#[derive(Debug, Default)]
struct Core {
    now_ms: u64,
    /// How often the clock was read in this millisecond.
    reads: u64,
    events: Vec<Event>,
}

/// Records what happens. Clones stand for the same.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    core: Arc<Mutex<Core>>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the clock on.
    pub fn set_ms(&self, now_ms: u64) {
        let mut core = self.lock();
        (core.now_ms, core.reads) = (now_ms, 0);
    }

    /// The time of the world, in ms.
    pub fn now_ms(&self) -> u64 {
        self.lock().now_ms
    }

    /// The clock of whoever is outside of the cluster. No two readings are equal, so that the order of events
    /// shows in their times.
    pub fn now(&self) -> Now {
        let mut core = self.lock();
        core.reads += 1;
        Now {
            mono_ns: core.now_ms * NS_PER_MS + core.reads.min(NS_PER_MS - 1),
            wall_ms: WALL_START_MS + core.now_ms as i64,
        }
    }

    /// Records an observation.
    pub fn note(&self, src: &str, node: Option<String>, what: What) {
        let mono_ns = self.now().mono_ns;
        self.add([Event {
            v: VERSION,
            i: 0,
            mono_ns,
            src: src.to_owned(),
            proc: 0,
            kind: Kind::Event,
            node,
            key: None,
            what,
            err: None,
            meta: Meta::default(),
        }]);
    }

    /// Records events that carry their own time.
    pub fn add(&self, events: impl IntoIterator<Item = Event>) {
        self.lock().events.extend(events);
    }

    /// Every task that any replica's table had, by id.
    pub fn tasks(&self) -> BTreeSet<String> {
        let core = self.lock();
        let task = |event: &Event| match &event.what {
            What::FinalTask(task) => Some(task.task.task_id.clone()),
            _ => None,
        };
        core.events.iter().filter_map(task).collect()
    }

    /// Takes everything that was recorded.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }
}
