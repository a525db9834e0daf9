//! A mock executor: docs/executor-protocol.md as a state machine, with every step in the history.
//!
//! The driver delivers pushes, the answers to calls, and the time; it sends the [`Call`]s of [`Mock::tick`] and
//! takes the events of [`Mock::take_events`]. A life ends with [`Mock::kill`] (like SIGKILL: what ran is gone)
//! and the next one begins with [`Mock::restart`].

mod book;
mod call;
mod duty;
mod push;
mod vices;
mod work;

use std::collections::{BTreeMap, VecDeque};

use orloj_jepsen_core::event::{Event, ExecutorDown, ExecutorUp, Finish, Grant, Kind, What};
use orloj_jepsen_core::event::{Meta, VERSION};
use orloj_wire::protocol::{AttemptRef, Held, HeldState, Report, ReportOutcome};

pub use call::{Answer, Call, CallBody, Heard, Said};
pub use vices::Vices;

use crate::Now;
use crate::rng::Rng;
use book::Book;
use duty::Duties;

/// What a mock executor is.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its id: also its host's name in the history.
    pub id: String,
    /// Where it takes pushes: `host:port`.
    pub address: String,
    /// The handlers that it says it has.
    pub handlers: Vec<String>,
    /// How many attempts run at once.
    pub slots: u32,
    /// How many attempts are taken beyond the slots.
    pub queue: u32,
    /// Weight on the ring.
    pub weight: u32,
    /// Its zone.
    pub zone: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Internal address (`host:port`) of every replica, and its name in the history.
    pub replicas: Vec<(String, String)>,
    /// Of everything that is left to chance.
    pub seed: u64,
}

/// A report that is not acknowledged.
#[derive(Debug, Clone, PartialEq)]
struct Unsaid {
    report: Report,
    /// Not sent before then, in ns.
    not_before: u64,
    /// The leader has refused it as such.
    refused: bool,
}

/// A success that answers later attempts of the same work.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    result: Option<String>,
    until_ns: u64,
}

/// What an executor keeps on its disk.
#[derive(Debug, Clone, Default)]
struct Memory {
    round: u64,
    unsaid: VecDeque<Unsaid>,
    /// By caller, dedupe key and shard.
    outcomes: BTreeMap<(String, String, u16), Outcome>,
}

/// A mock executor.
#[derive(Debug)]
pub struct Mock {
    profile: Profile,
    vices: Vices,
    rng: Rng,
    incarnation: u64,
    up: bool,
    draining: bool,
    memory: Memory,
    book: Book,
    duties: Duties,
    events: Vec<Event>,
}

impl Mock {
    /// Begins the first life.
    pub fn new(profile: Profile, now: Now) -> Mock {
        let rng = Rng::new(profile.seed).split(&profile.id);
        let duties = Duties::new(&profile);
        let mut mock = Mock {
            profile,
            vices: Vices::default(),
            rng,
            incarnation: 0,
            up: false,
            draining: false,
            memory: Memory::default(),
            book: Book::default(),
            duties,
            events: Vec::new(),
        };
        mock.begin(now, false);
        mock
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.profile.id
    }

    /// Its life.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Whether it lives.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// The highest round that it has seen.
    pub fn round(&self) -> u64 {
        self.memory.round
    }

    /// Whether the leader knows this life.
    pub fn is_registered(&self) -> bool {
        self.up && self.duties.is_registered()
    }

    /// Everything that it holds.
    pub fn holding(&self, now: Now) -> Vec<Held> {
        let mut holding = self.book.holding(now.mono_ns, true);
        let earlier =
            self.memory.unsaid.iter().filter(|unsaid| unsaid.report.incarnation != self.incarnation);
        holding.extend(earlier.map(|unsaid| Held {
            attempt: unsaid.report.attempt.clone(),
            state: HeldState::Reporting,
            running_ms: None,
        }));
        holding
    }

    /// Whether it holds an attempt that runs or waits for a slot.
    pub fn is_busy(&self) -> bool {
        self.book.active() > 0
    }

    /// Ends this life as SIGKILL does: nothing is handed back, reported or said. What was on disk stays until
    /// [`restart`](Mock::restart) decides. Nothing happens when it does not live.
    pub fn kill(&mut self, now: Now) {
        if !self.up {
            return;
        }
        let active: Vec<AttemptRef> =
            self.book.holding(now.mono_ns, false).into_iter().map(|held| held.attempt).collect();
        for attempt in active {
            self.note_end(now, &attempt, "dropped");
        }
        self.end_life(now);
    }

    /// Begins the next life, with what the one before it had on disk, or (`amnesiac`) without: the disk was
    /// lost. Ends the present life first, if there is one.
    pub fn restart(&mut self, now: Now, amnesiac: bool) {
        self.kill(now);
        self.begin(now, amnesiac);
    }

    /// Takes no more work, hands back what has not started, lets the rest end, reports, and leaves.
    pub fn drain(&mut self, now: Now) {
        if !self.up || self.draining {
            return;
        }
        self.draining = true;
        for key in self.book.queue() {
            self.finish(now, &key, ReportOutcome::Returned, true, None);
        }
        self.duties.beat_now(now.mono_ns);
    }

    /// Switches vices. Hung attempts go on when that vice ends; a change of weight registers again.
    pub fn set_vices(&mut self, vices: Vices) {
        if vices.hang <= 0.0 {
            self.book.release_hung();
        }
        if vices.weight != self.vices.weight {
            self.duties.register_again();
        }
        self.vices = vices;
    }

    /// The vices that are on.
    pub fn vices(&self) -> &Vices {
        &self.vices
    }

    /// What has happened since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn begin(&mut self, now: Now, amnesiac: bool) {
        let wall = u64::try_from(now.wall_ms).unwrap_or(0);
        self.incarnation = wall.max(self.incarnation + 1);
        if amnesiac {
            self.memory = Memory::default();
        }
        self.up = true;
        self.draining = false;
        self.book = Book::default();
        self.duties = self.duties.next_life(&self.profile, now.mono_ns);
        let up = ExecutorUp {
            executor: self.profile.id.clone(),
            incarnation: self.incarnation,
            slots: self.profile.slots,
            queue: self.profile.queue,
            amnesiac,
        };
        self.note(now, None, What::ExecutorUp(up));
    }

    fn end_life(&mut self, now: Now) {
        self.up = false;
        self.book = Book::default();
        let down = ExecutorDown { executor: self.profile.id.clone(), incarnation: self.incarnation };
        self.note(now, None, What::ExecutorDown(down));
    }

    /// Whether it lives and does not stand still.
    fn answers(&self) -> bool {
        self.up && !self.vices.frozen
    }

    fn places(&self) -> usize {
        self.profile.slots as usize + self.profile.queue as usize
    }

    fn free_slots(&self) -> u32 {
        self.profile.slots.saturating_sub(u32::try_from(self.book.active()).unwrap_or(u32::MAX))
    }

    fn free_places(&self) -> u32 {
        if self.draining {
            return 0;
        }
        u32::try_from(self.places().saturating_sub(self.book.active())).unwrap_or(u32::MAX)
    }

    fn note(&mut self, now: Now, task: Option<&str>, what: What) {
        self.events.push(Event {
            v: VERSION,
            i: 0,
            mono_ns: now.mono_ns,
            src: format!("executor-{}", self.profile.id),
            proc: 0,
            kind: Kind::Event,
            node: Some(self.profile.id.clone()),
            key: task.map(str::to_owned),
            what,
            err: None,
            meta: Meta::default(),
        });
    }

    fn note_end(&mut self, now: Now, attempt: &AttemptRef, outcome: &str) {
        let finish = Finish {
            grant: grant(attempt),
            executor: self.profile.id.clone(),
            incarnation: self.incarnation,
            outcome: outcome.to_owned(),
            ..Finish::default()
        };
        self.note(now, Some(&attempt.task_id), What::Finish(finish));
    }
}

/// A grant as a history names it.
pub fn grant(attempt: &AttemptRef) -> Grant {
    Grant {
        task: attempt.task_id.clone(),
        shard: attempt.shard_index,
        attempt: attempt.attempt,
        fence: attempt.fence,
    }
}

#[cfg(test)]
#[path = "mock/mock_tests.rs"]
mod tests;
