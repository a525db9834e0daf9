//! The hand on a mock executor, which works from any thread.

use std::sync::{Arc, Mutex, PoisonError};

use orloj_jepsen_agents::mock::{Mock, Profile, Vices};
use tokio::sync::Notify;

use crate::agents::now;
use crate::agents::recorder::Recorder;

/// A mock executor and its history. Clones are the same executor.
#[derive(Debug, Clone)]
pub struct Executor {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    mock: Mutex<Mock>,
    recorder: Recorder,
    changed: Notify,
}

impl Executor {
    /// The executor begins its first life; nobody can reach it until [`run`](super::run) runs.
    pub fn new(profile: Profile, recorder: Recorder) -> Executor {
        let mock = Mutex::new(Mock::new(profile, now()));
        let executor = Executor { inner: Arc::new(Inner { mock, recorder, changed: Notify::new() }) };
        executor.act(|_| ());
        executor
    }

    /// Its id.
    pub fn id(&self) -> String {
        self.with(|mock| mock.id().to_owned())
    }

    /// Ends its life as SIGKILL does; its port refuses connections from then on.
    pub fn kill(&self) {
        self.act(|mock| mock.kill(now()));
    }

    /// Begins the next life; `amnesiac` without what it had on disk.
    pub fn start(&self, amnesiac: bool) {
        self.act(|mock| mock.restart(now(), amnesiac));
    }

    /// Lets it finish, hand back, report and leave. It stays down until it is started.
    pub fn drain(&self) {
        self.act(|mock| mock.drain(now()));
    }

    /// Switches vices at once, all together; the default switches all off.
    pub fn set_vices(&self, vices: Vices) {
        self.act(|mock| mock.set_vices(vices));
    }

    /// Whether it lives.
    pub fn is_up(&self) -> bool {
        self.with(|mock| mock.is_up())
    }

    /// Whether the leader knows its present life.
    pub fn is_registered(&self) -> bool {
        self.with(|mock| mock.is_registered())
    }

    /// How many attempts it holds: queued, running, or not acknowledged.
    pub fn holds(&self) -> usize {
        self.with(|mock| mock.holding(now()).len())
    }

    /// Looks at the state machine, or changes what leaves no trace in the history.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Mock) -> T) -> T {
        let mut mock = self.inner.mock.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = look(&mut mock);
        // Still under the lock: the lines of a history are in the order of what happened.
        self.inner.recorder.events(&mock.take_events());
        seen
    }

    /// Changes the state machine, and wakes whoever drives it.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut Mock) -> T) -> T {
        let done = self.with(act);
        self.inner.changed.notify_one();
        done
    }

    /// Waits until something has changed.
    pub(super) async fn changed(&self) {
        self.inner.changed.notified().await;
    }
}
