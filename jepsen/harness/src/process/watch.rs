//! Watches one life of a process from a thread of its own.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use orloj_jepsen_core::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::panics::Panics;
use super::{Ended, Record};

/// Between two looks at the log.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// What is known of one life.
#[derive(Debug, Default)]
pub struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    expected: bool,
    ended: Option<Ended>,
}

impl Watch {
    /// Watches `child` until it has ended, and records its panics and its end.
    pub fn start(child: Child, life: u64, panics: Panics, record: Record) -> Result<Arc<Watch>> {
        let watch = Arc::new(Watch::default());
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process has a number")?;
        // The child has not been waited for, so that the number is still its own.
        let handle = pidfd_open(pid, PidfdFlags::empty()).context("open a process")?;
        let told = Arc::clone(&watch);
        let name = format!("watch-{}", child.id());
        let run = move || told.run(child, &handle, life, panics, &*record);
        thread::Builder::new().name(name).spawn(run).context("start a thread")?;
        Ok(watch)
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.state().ended
    }

    /// From now on the end is meant, or not.
    pub fn expect(&self, end: bool) {
        self.state().expected = end;
    }

    /// Waits for the end; `None` after `patience`.
    pub fn wait(&self, patience: Duration) -> Option<Ended> {
        let waited = self.changed.wait_timeout_while(self.state(), patience, |state| state.ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    fn run(
        &self,
        mut child: Child,
        handle: &OwnedFd,
        life: u64,
        mut panics: Panics,
        record: &dyn Fn(event::Process),
    ) {
        let panicked = |line| event::Process {
            state: "panicked".to_owned(),
            life,
            line: Some(line),
            ..event::Process::default()
        };
        // An interrupted poll is as good as one without news.
        while poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&LOOK)).unwrap_or(0) == 0 {
            panics.look().into_iter().map(panicked).for_each(record);
        }
        let status = child.wait().expect("nobody else waits for this child");
        let (found, last) = panics.finish();
        found.into_iter().map(panicked).for_each(record);
        let mut state = self.state();
        let ended = Ended { code: status.code(), signal: status.signal(), expected: state.expected };
        record(event::Process {
            state: "exited".to_owned(),
            life,
            code: ended.code,
            signal: ended.signal,
            expected: ended.expected,
            line: last.filter(|_| !ended.expected),
        });
        state.ended = Some(ended);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Its fields change one at a time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
