//! What has been applied, as everybody else in the process finds it: where the tables stand, views of them, and events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{broadcast, watch};

use crate::error::Fault;
use crate::events::{AppliedEvents, PARTS_KEPT};
use crate::faults::Faults;
use crate::status::{Checkpoint, TERM_EVERY};
use crate::tables::{Position, Stamp, StateDb, View};
use crate::types::LogId;

/// Terms of applied entries that are kept.
const TERMS_KEPT: usize = 256;

/// What has been applied, for everybody else in the process.
pub struct Published {
    state: ArcSwap<StateDb>,
    stamp: ArcSwap<Stamp>,
    /// A view of the last apply, once somebody has asked for one: what the next apply does is not written for its sake.
    view: ArcSwapOption<View>,
    faults: Faults,
    applied: watch::Sender<u64>,
    events: broadcast::Sender<Arc<AppliedEvents>>,
    checkpoints: ArcSwap<Vec<Checkpoint>>,
    /// Encoded bytes of all batches applied since the process started.
    bytes: AtomicU64,
    /// Index and term of applied entries, every few one: see [`NodeHistory`](crate::status::NodeHistory).
    terms: Mutex<VecDeque<(u64, u64)>>,
    /// Snapshots taken over from a leader since the process started.
    installed: AtomicU64,
}

impl Published {
    pub(crate) fn new(state: &StateDb, position: &Position, faults: Faults) -> Self {
        Published {
            state: ArcSwap::from_pointee(state.clone()),
            stamp: ArcSwap::from_pointee(Stamp::from(position)),
            view: ArcSwapOption::empty(),
            faults,
            applied: watch::Sender::new(position.index()),
            events: broadcast::Sender::new(PARTS_KEPT),
            checkpoints: ArcSwap::from_pointee(position.checkpoints.clone()),
            bytes: AtomicU64::new(0),
            terms: Mutex::default(),
            installed: AtomicU64::new(0),
        }
    }

    /// What the tables say of themselves as of the last applied entry.
    pub fn stamp(&self) -> Stamp {
        **self.stamp.load()
    }

    /// The tables as of the last applied entry. What is held in memory of them is written first; where that fails, the
    /// node stops, and no read of the view succeeds.
    pub fn view(&self) -> View {
        if let Some(view) = &*self.view.load()
            && view.applied() == self.stamp().applied
        {
            return View::clone(view);
        }
        let state = self.state.load();
        match state.view() {
            Ok(view) => {
                self.view.store(Some(Arc::new(view.clone())));
                // It may have been passed since, and would pin its rows, or a database that is gone.
                if view.applied() != self.stamp().applied {
                    self.view.store(None);
                }
                view
            }
            Err(fault) => {
                self.faults.raise(&fault);
                state.broken_view(&fault)
            }
        }
    }

    /// Index of the last applied entry.
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// What is applied from now on.
    pub fn events(&self) -> broadcast::Receiver<Arc<AppliedEvents>> {
        self.events.subscribe()
    }

    /// The digests at the last checkpoints, oldest first.
    pub fn checkpoints(&self) -> Arc<Vec<Checkpoint>> {
        self.checkpoints.load_full()
    }

    /// Encoded bytes of all batches applied since the process started.
    pub fn applied_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Index and term of some entries applied since the process started, oldest first.
    pub fn terms(&self) -> Vec<(u64, u64)> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Snapshots taken over from a leader since the process started.
    pub fn snapshots_installed(&self) -> u64 {
        self.installed.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_term(&self, id: LogId) {
        if id.index.is_multiple_of(TERM_EVERY) {
            let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
            if terms.len() == TERMS_KEPT {
                terms.pop_front();
            }
            terms.push_back((id.index, id.leader_id.term));
        }
    }

    /// Tells everybody where the tables stand.
    pub(crate) fn advance(&self, position: &Position, checkpoints: bool) {
        if checkpoints {
            self.checkpoints.store(Arc::new(position.checkpoints.clone()));
        }
        self.stamp.store(Arc::new(Stamp::from(position)));
        // It would keep rows on the disk that nobody reads any more.
        self.view.store(None);
        self.applied.send_replace(position.index());
    }

    /// The tables are in another database from now on, which a leader's snapshot has brought.
    pub(crate) fn replace(&self, state: &StateDb) {
        self.state.store(Arc::new(state.clone()));
        self.installed.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes what is held in memory to the database.
    ///
    /// # Errors
    /// IO.
    pub(crate) fn write_out(&self) -> Result<(), Fault> {
        self.state.load().write_out()
    }

    pub(crate) fn tell(&self, events: Vec<AppliedEvents>) {
        for part in events.into_iter().flat_map(AppliedEvents::parts) {
            // Nobody listens on a node that does not lead: no fault.
            let _ = self.events.send(Arc::new(part));
        }
    }
}
