//! The one line in which all writes to the log wait for its writer thread. Votes, appends, truncations and
//! purges are one ordered sequence, as the protocol asks.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use super::memory::Ticket;
use crate::error::Fault;
use crate::types::{Flushed, LogId, Vote};

/// Told when a write is on disk.
pub(super) type Done = oneshot::Sender<Result<(), Fault>>;

/// A write that waits.
pub(super) enum Item {
    /// Entries, encoded, that follow each other; `start` when they begin the log elsewhere than before.
    Append { ticket: Ticket, start: Option<u64>, rows: Vec<(u64, Vec<u8>)>, flushed: Flushed },
    /// A vote.
    Vote { vote: Vote, done: Done },
    /// The entries to drop from the end.
    Truncate { drop: Range<u64>, done: Done },
    /// The entries to drop from the front, the last of them by its full position.
    Purge { drop: Range<u64>, upto: LogId },
}

impl Item {
    /// The last index that a purge drops.
    pub(super) fn purged(&self) -> Option<u64> {
        match self {
            Item::Purge { upto, .. } => Some(upto.index),
            _ => None,
        }
    }

    /// Tells whoever waits how the write went.
    pub(super) fn complete(self, result: Result<(), Arc<str>>) {
        let result = result.map_err(Fault::Stopped);
        match self {
            Item::Append { flushed, .. } => flushed.io_completed(result.map_err(Into::into)),
            // A caller that has gone away needs no answer.
            Item::Vote { done, .. } | Item::Truncate { done, .. } => drop(done.send(result)),
            Item::Purge { .. } => {}
        }
    }
}

#[derive(Default)]
struct State {
    items: Vec<Item>,
    committed: Option<LogId>,
    closed: bool,
    stopped: Option<Arc<str>>,
    /// Of a writer that is a task, while it waits.
    task: Option<Waker>,
}

impl State {
    /// Items and the committed position are taken under one lock: whoever set that position had put the
    /// entries that it covers in line before, so they are in these items or already on disk.
    fn work(&mut self) -> Work {
        Work { items: std::mem::take(&mut self.items), committed: self.committed, closed: self.closed }
    }
}

/// What the writer takes at once.
pub struct Work {
    /// All that waited, in order.
    pub(super) items: Vec<Item>,
    /// The committed position as it was when `items` had all been submitted, hence never ahead of them.
    pub(super) committed: Option<LogId>,
    /// Nothing more will come.
    pub(super) closed: bool,
}

impl Work {
    /// Whether there is anything to write and sync; without it only the guard is looked after.
    pub fn writes(&self) -> bool {
        !self.items.is_empty()
    }
}

/// The line.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

impl Queue {
    pub(super) fn new(committed: Option<LogId>) -> Queue {
        let state = State { committed, ..State::default() };
        Queue { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a write at the end of the line.
    ///
    /// # Errors
    /// The log has stopped; the write's own callback has then been told as well.
    pub(super) fn push(&self, item: Item) -> Result<(), Fault> {
        let mut state = self.lock();
        if let Some(reason) = state.stopped.clone() {
            drop(state);
            item.complete(Err(reason.clone()));
            return Err(Fault::Stopped(reason));
        }
        state.items.push(item);
        self.wake(state);
        Ok(())
    }

    /// Wakes the writer, be it a thread or a task.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let task = state.task.take();
        drop(state);
        match task {
            Some(task) => task.wake(),
            None => self.wake.notify_one(),
        }
    }

    /// Why the log takes no more writes.
    pub(super) fn stopped(&self) -> Option<Arc<str>> {
        self.lock().stopped.clone()
    }

    pub(super) fn committed(&self) -> Option<LogId> {
        self.lock().committed
    }

    /// Only remembered; the writer records it with its next claim.
    pub(super) fn set_committed(&self, committed: Option<LogId>) {
        self.lock().committed = committed;
    }

    /// Waits for writes, for the end, or at most for `patience`, and takes all that there is.
    pub(super) fn take(&self, patience: Option<Duration>) -> Work {
        let mut state = self.lock();
        if state.items.is_empty() && !state.closed {
            state = match patience {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    self.wake.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.work()
    }

    /// [`take`](Queue::take) for a writer that is a task.
    pub(super) async fn taken(&self, patience: Option<Duration>) -> Work {
        let there_is_work = poll_fn(|context| {
            let mut state = self.lock();
            if state.items.is_empty() && !state.closed {
                state.task = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        match patience {
            None => there_is_work.await,
            // With or without work: when its patience is over the writer has something else to do.
            Some(patience) => drop(tokio::time::timeout(patience, there_is_work).await),
        }
        self.lock().work()
    }

    /// Lets the writer finish what waits, and end.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake(state);
    }

    /// Refuses everything from now on, and fails what waits. The first reason stays.
    pub(super) fn stop(&self, reason: Arc<str>) {
        let mut state = self.lock();
        let reason = state.stopped.get_or_insert(reason).clone();
        let items = std::mem::take(&mut state.items);
        drop(state);
        for item in items {
            item.complete(Err(reason.clone()));
        }
    }
}
