//! The executor as the replicated tables know it. What changes by the second (load, free slots) stays in
//! the leader's memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{ExecutorId, Incarnation, Millis};

/// What an executor says of itself when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Its id; one process at a time lives under it.
    pub id: ExecutorId,
    /// Its life; a greater one ends the attempts of the one before. A smaller one is taken only in place of one that is
    /// gone.
    pub incarnation: Incarnation,
    /// Where it takes pushes: `host:port`.
    pub address: String,
    /// The handlers that it can run.
    pub handlers: Vec<String>,
    /// How many attempts it runs at once.
    pub slots: u32,
    /// How many attempts it takes beyond its slots.
    pub queue: u32,
    /// Base weight on the ring; 100 per four cores.
    pub weight: u32,
    /// Its zone, for preference.
    pub zone: Option<String>,
    /// Labels that a task may ask for.
    pub labels: BTreeMap<String, String>,
    /// Version of its software.
    pub version: String,
}

/// Whether an executor may be given work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecutorState {
    /// Takes work.
    Online,
    /// Finishes what it has and takes no more.
    Draining,
    /// Declared gone by the leader: its heartbeats stopped.
    Offline,
    /// Left by itself after a drain.
    Left,
}

/// An executor's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executor {
    /// What it said of itself, last.
    pub registration: Registration,
    /// Whether it may be given work.
    pub state: ExecutorState,
    /// When it first registered under this incarnation.
    pub registered_at: Millis,
    /// When `state` last changed.
    pub changed_at: Millis,
}

impl Executor {
    /// Whether an attempt that was granted to `incarnation` of this executor can still be running there,
    /// as far as the tables know.
    pub fn may_hold(&self, incarnation: Incarnation) -> bool {
        self.registration.incarnation == incarnation && self.is_there()
    }

    /// Whether it has neither gone nor left, as far as the tables know.
    pub fn is_there(&self) -> bool {
        matches!(self.state, ExecutorState::Online | ExecutorState::Draining)
    }
}
