//! Wakes long polls when their task changes: one reader of the store's events for all of them, so that a
//! thousand waiting requests cost an applied entry no more than one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orloj_model::Event;
use orloj_model::id::TaskId;
use orloj_raft_store::AppliedEvents;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// In order, because all of them may be woken.
type Wakers = BTreeMap<TaskId, (Arc<tokio::sync::Notify>, usize)>;

/// Shared by the reader of events and by everybody who waits.
#[derive(Debug, Default)]
pub struct Hub {
    tasks: Mutex<Wakers>,
    /// The handlers that executors have, as read from the tables; `None` when that must be read anew.
    handlers: Mutex<Option<Arc<BTreeSet<String>>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds these locks can panic half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for one task. Made before the task is read, so that no change falls between reading and waiting.
#[derive(Debug)]
pub struct Waiter {
    hub: Arc<Hub>,
    task: TaskId,
    notify: Arc<tokio::sync::Notify>,
}

impl Hub {
    /// Reads events until the store is gone.
    pub async fn run(self: Arc<Self>, mut events: broadcast::Receiver<Arc<AppliedEvents>>) {
        loop {
            match events.recv().await {
                Ok(applied) if applied.read_again() => self.wake_all(),
                Ok(applied) => self.wake(&applied.events),
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "events missed: every long poll looks again");
                    self.wake_all();
                }
                Err(RecvError::Closed) => return self.wake_all(),
            }
        }
    }

    fn wake(&self, events: &[Event]) {
        let tasks = locked(&self.tasks);
        for event in events {
            match event {
                Event::TaskChanged { task, .. } => {
                    if let Some((notify, _)) = tasks.get(task) {
                        notify.notify_waiters();
                    }
                }
                Event::ExecutorChanged { .. } => *locked(&self.handlers) = None,
                _ => {}
            }
        }
    }

    fn wake_all(&self) {
        *locked(&self.handlers) = None;
        for (notify, _) in locked(&self.tasks).values() {
            notify.notify_waiters();
        }
    }

    /// The handlers as they were read last, unless executors have changed since.
    pub fn known_handlers(&self) -> Option<Arc<BTreeSet<String>>> {
        locked(&self.handlers).clone()
    }

    /// Remembers the handlers.
    pub fn remember_handlers(&self, handlers: Arc<BTreeSet<String>>) {
        *locked(&self.handlers) = Some(handlers);
    }

    /// Begins to wait for a task.
    pub fn wait_for(self: &Arc<Self>, task: TaskId) -> Waiter {
        let mut tasks = locked(&self.tasks);
        let (notify, count) = tasks.entry(task).or_default();
        *count += 1;
        let notify = Arc::clone(notify);
        drop(tasks);
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
        let mut tasks = locked(&self.hub.tasks);
        if let Some((_, count)) = tasks.get_mut(&self.task) {
            *count -= 1;
            if *count == 0 {
                tasks.remove(&self.task);
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

    #[tokio::test]
    async fn only_the_changed_task_wakes_and_a_lag_wakes_all() {
        let hub = Arc::new(Hub::default());
        let (sender, receiver) = broadcast::channel(1);
        let (one, two) = (hub.wait_for(TaskId([1; 16])), hub.wait_for(TaskId([2; 16])));
        let (mut first, mut second) = (Box::pin(one.changed()), Box::pin(two.changed()));
        first.as_mut().enable();
        second.as_mut().enable();
        tokio::spawn(Arc::clone(&hub).run(receiver));
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
        let hub = Arc::new(Hub::default());
        let (sender, receiver) = broadcast::channel(1);
        let one = hub.wait_for(TaskId([1; 16]));
        let mut waits = Box::pin(one.changed());
        waits.as_mut().enable();
        hub.remember_handlers(Arc::new(BTreeSet::from(["echo".to_owned()])));
        tokio::spawn(Arc::clone(&hub).run(receiver));
        sender.send(Arc::new(AppliedEvents { index: 9, events: Vec::new() })).unwrap();
        let deadline = std::time::Duration::from_secs(10);
        tokio::time::timeout(deadline, waits).await.expect("anything may have changed");
        assert!(hub.known_handlers().is_none());
    }

    #[test]
    fn nothing_is_left_of_those_who_waited() {
        let hub = Arc::new(Hub::default());
        let waiters: Vec<_> = (0..3).map(|_| hub.wait_for(TaskId([1; 16]))).collect();
        assert_eq!(locked(&hub.tasks).len(), 1);
        drop(waiters);
        assert_eq!(locked(&hub.tasks).len(), 0);
    }

    #[test]
    fn a_changed_executor_makes_the_handlers_unknown() {
        let hub = Hub::default();
        hub.remember_handlers(Arc::new(BTreeSet::from(["echo".to_owned()])));
        assert!(hub.known_handlers().is_some());
        let executor = orloj_model::id::ExecutorId::new("e1").unwrap();
        hub.wake(&[Event::ExecutorChanged { executor }]);
        assert!(hub.known_handlers().is_none());
    }
}
