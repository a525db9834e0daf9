//! Wakes long polls when their task changes: one reader of the store's events for all of them, so that a
//! thousand waiting requests cost an applied entry no more than one, and a replica of which nobody wants to know anything
//! is not woken by entries at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orloj_model::Event;
use orloj_model::id::TaskId;
use orloj_raft_store::AppliedEvents;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};

/// So many parts of entries after anybody has last wanted to know something, events are not read any more.
const QUIET_PARTS: u32 = 1_000;

/// In order, because all of them may be woken.
type Wakers = BTreeMap<TaskId, (Arc<Notify>, usize)>;
type Events = broadcast::Receiver<Arc<AppliedEvents>>;

/// Shared by the reader of events and by everybody who waits.
pub struct Hub {
    known: Mutex<Known>,
    /// Begins to receive events.
    subscribe: Box<dyn Fn() -> Events + Send + Sync>,
    /// There are events for the reader to begin with.
    begun: Notify,
}

#[derive(Default)]
struct Known {
    tasks: Wakers,
    /// The handlers that executors have, as read from the tables; `None` when that must be read anew.
    handlers: Option<Arc<BTreeSet<String>>>,
    /// Whether events are received. Who reads the tables and then waits for changes has made sure of it before.
    following: bool,
    /// What the reader has not taken yet.
    events: Option<Events>,
    /// Parts of entries since anybody has wanted to know something.
    quiet: u32,
    /// Grows whenever handlers that were read before may be others by now.
    changes: u64,
}

impl Known {
    fn forget_handlers(&mut self) {
        self.handlers = None;
        self.changes += 1;
    }
}

/// When somebody asked for the handlers.
#[derive(Debug, Clone, Copy)]
pub struct Asked(u64);

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

/// Waits for one task. Made before the task is read, so that no change falls between reading and waiting.
#[derive(Debug)]
pub struct Waiter {
    hub: Arc<Hub>,
    task: TaskId,
    notify: Arc<Notify>,
}

impl Hub {
    /// A hub of the events that `subscribe` begins to receive. It does so when somebody first wants to know.
    pub fn new(subscribe: impl Fn() -> Events + Send + Sync + 'static) -> Hub {
        Hub { known: Mutex::default(), subscribe: Box::new(subscribe), begun: Notify::new() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing that holds this lock can panic half-way through a change.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads events whenever there is somebody who wants to know, until it is dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.begun.notified().await;
            let events = self.known().events.take();
            if let Some(events) = events {
                self.follow(events).await;
            }
        }
    }

    /// Reads events until nobody has wanted to know for long, or the store is gone.
    async fn follow(&self, mut events: Events) {
        loop {
            match events.recv().await {
                Ok(applied) if applied.read_again() => self.wake_all(),
                Ok(applied) if self.wake(&applied.events) => {}
                Ok(_) => return,
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "events missed: every long poll looks again");
                    self.wake_all();
                }
                Err(RecvError::Closed) => return self.wake_all(),
            }
        }
    }

    /// Wakes those whom events are about. Answers whether there is anybody to go on for.
    fn wake(&self, events: &[Event]) -> bool {
        let mut known = self.known();
        for event in events {
            match event {
                Event::TaskChanged { task, .. } => {
                    if let Some((notify, _)) = known.tasks.get(task) {
                        notify.notify_waiters();
                    }
                }
                Event::ExecutorChanged { .. } => known.forget_handlers(),
                _ => {}
            }
        }
        known.quiet = known.quiet.saturating_add(1);
        if known.quiet < QUIET_PARTS || !known.tasks.is_empty() {
            return true;
        }
        // From now on nobody hears that they change.
        known.forget_handlers();
        known.following = false;
        false
    }

    fn wake_all(&self) {
        let mut known = self.known();
        known.forget_handlers();
        for (notify, _) in known.tasks.values() {
            notify.notify_waiters();
        }
    }

    /// Somebody wants to know: events are received from now on.
    fn want(&self, known: &mut Known) {
        known.quiet = 0;
        if !std::mem::replace(&mut known.following, true) {
            known.events = Some((self.subscribe)());
            self.begun.notify_one();
        }
    }

    /// The handlers as they were read last, unless executors have changed since. Ask, and only then read them.
    pub fn known_handlers(&self) -> (Asked, Option<Arc<BTreeSet<String>>>) {
        let mut known = self.known();
        self.want(&mut known);
        (Asked(known.changes), known.handlers.clone())
    }

    /// Remembers the handlers as they were read after they were asked for, unless executors have changed meanwhile.
    pub fn remember_handlers(&self, asked: Asked, handlers: Arc<BTreeSet<String>>) {
        let mut known = self.known();
        if known.changes == asked.0 {
            known.handlers = Some(handlers);
        }
    }

    /// Begins to wait for a task.
    pub fn wait_for(self: &Arc<Self>, task: TaskId) -> Waiter {
        let mut known = self.known();
        self.want(&mut known);
        let (notify, count) = known.tasks.entry(task).or_default();
        *count += 1;
        let notify = Arc::clone(notify);
        drop(known);
        Waiter { hub: Arc::clone(self), task, notify }
    }
}

impl Waiter {
    /// Completes at the first change after it was made. Call it, and only then read the task and wait.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut known = self.hub.known();
        if let Some((_, count)) = known.tasks.get_mut(&self.task) {
            *count -= 1;
            if *count == 0 {
                known.tasks.remove(&self.task);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use orloj_model::task::Status;

    use super::*;

    fn changed(task: u8) -> Arc<AppliedEvents> {
        let event = Event::TaskChanged { task: TaskId([task; 16]), version: 2, status: Status::Running };
        Arc::new(AppliedEvents { index: 1, events: vec![event] })
    }

    /// A hub of the events that are sent. The channel holds one.
    fn hub() -> (Arc<Hub>, broadcast::Sender<Arc<AppliedEvents>>) {
        let sender = broadcast::Sender::new(1);
        let events = sender.clone();
        (Arc::new(Hub::new(move || events.subscribe())), sender)
    }

    fn echo() -> Arc<BTreeSet<String>> {
        Arc::new(BTreeSet::from(["echo".to_owned()]))
    }

    fn read_handlers(hub: &Hub) {
        let (asked, _) = hub.known_handlers();
        hub.remember_handlers(asked, echo());
    }

    fn knows_handlers(hub: &Hub) -> bool {
        hub.known_handlers().1.is_some()
    }

    #[tokio::test]
    async fn only_the_changed_task_wakes_and_a_lag_wakes_all() {
        let (hub, sender) = hub();
        let (one, two) = (hub.wait_for(TaskId([1; 16])), hub.wait_for(TaskId([2; 16])));
        let (mut first, mut second) = (Box::pin(one.changed()), Box::pin(two.changed()));
        first.as_mut().enable();
        second.as_mut().enable();
        tokio::spawn(Arc::clone(&hub).run());
        let deadline = std::time::Duration::from_secs(10);
        sender.send(changed(1)).unwrap();
        tokio::time::timeout(deadline, first).await.expect("its task changed");
        assert!(!second.as_mut().enable(), "the other task did not change");
        // Two at once are one more than the channel holds.
        sender.send(changed(3)).unwrap();
        sender.send(changed(3)).unwrap();
        tokio::time::timeout(deadline, second).await.expect("a lag wakes everybody");
    }

    #[tokio::test]
    async fn a_snapshot_wakes_everybody_and_makes_the_handlers_unknown() {
        let (hub, sender) = hub();
        let one = hub.wait_for(TaskId([1; 16]));
        let mut waits = Box::pin(one.changed());
        waits.as_mut().enable();
        read_handlers(&hub);
        tokio::spawn(Arc::clone(&hub).run());
        sender.send(Arc::new(AppliedEvents { index: 9, events: Vec::new() })).unwrap();
        let deadline = std::time::Duration::from_secs(10);
        tokio::time::timeout(deadline, waits).await.expect("anything may have changed");
        assert!(!knows_handlers(&hub));
    }

    #[test]
    fn nothing_is_left_of_those_who_waited() {
        let (hub, _sender) = hub();
        let waiters: Vec<_> = (0..3).map(|_| hub.wait_for(TaskId([1; 16]))).collect();
        assert_eq!(hub.known().tasks.len(), 1);
        drop(waiters);
        assert_eq!(hub.known().tasks.len(), 0);
    }

    #[test]
    fn a_changed_executor_makes_the_handlers_unknown() {
        let (hub, _sender) = hub();
        assert!(!knows_handlers(&hub));
        read_handlers(&hub);
        assert!(knows_handlers(&hub));
        let executor = orloj_model::id::ExecutorId::new("e1").unwrap();
        hub.wake(&[Event::ExecutorChanged { executor: executor.clone() }]);
        assert!(!knows_handlers(&hub));
        // Read before the change, and remembered after it.
        let (asked, _) = hub.known_handlers();
        hub.wake(&[Event::ExecutorChanged { executor }]);
        hub.remember_handlers(asked, echo());
        assert!(!knows_handlers(&hub));
    }

    #[tokio::test]
    async fn events_are_received_only_while_somebody_wants_to_know() {
        let (hub, sender) = hub();
        assert_eq!(sender.receiver_count(), 0);
        read_handlers(&hub);
        assert!(knows_handlers(&hub));
        assert_eq!(sender.receiver_count(), 1);
        let (asked, _) = hub.known_handlers();
        // What the reader does with each part of an entry.
        let waiter = hub.wait_for(TaskId([1; 16]));
        for _ in 0..2 * QUIET_PARTS {
            assert!(hub.wake(&[]), "somebody waits");
        }
        drop(waiter);
        assert!(!hub.wake(&[]), "and now nobody does");
        drop(hub.known().events.take());
        hub.remember_handlers(asked, echo());
        let waiter = hub.wait_for(TaskId([1; 16]));
        assert_eq!(sender.receiver_count(), 1, "from now on, again");
        assert!(!knows_handlers(&hub));
        let mut waits = Box::pin(waiter.changed());
        waits.as_mut().enable();
        sender.send(changed(1)).unwrap();
        tokio::spawn(Arc::clone(&hub).run());
        let deadline = std::time::Duration::from_secs(10);
        tokio::time::timeout(deadline, waits).await.expect("its task changed");
    }
}
