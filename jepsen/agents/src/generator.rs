//! What the clients ask next: a pure function of the seed, of what was told so far, and of the time.
//!
//! One generator serves all clients of a run. Each client is pinned to one replica, so a repeat or a cancel of
//! a task often goes to another replica than its submission did.

mod extra;
mod mix;
mod submission;

use std::collections::{BTreeMap, VecDeque};

use orloj_jepsen_core::event::TaskSeen;

pub use mix::{Behaviours, Extra, Mix, Operations, Shares, Timing};
pub use submission::Planned;

use crate::rng::Rng;
use crate::{NS_PER_MS, Now};

/// Tasks that gets and cancels choose from: the newest so many.
const KNOWN: usize = 2_000;
/// The largest page.
const PAGE: u64 = 100;
/// The longest wait of a long poll, in ms.
const LONGEST_WAIT_MS: u64 = 3_000;
/// Statuses that lists ask for.
const STATUSES: [&str; 6] = ["PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED", "SKIPPED"];

/// What a client does.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Submits a task.
    Submit(Box<Planned>),
    /// Reads a task.
    Get {
        /// Its id.
        task: String,
        /// Waits for a change.
        wait: Option<Wait>,
    },
    /// Cancels a task.
    Cancel {
        /// Its id.
        task: String,
    },
    /// Reads a page of tasks.
    List {
        /// Only tasks with this status.
        status: Option<String>,
        /// Tasks on a page.
        size: u64,
        /// Which page, from 0.
        page: u32,
        /// The token of this page; none for the first.
        token: Option<String>,
    },
}

/// A long poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// For a version above this one.
    pub after_version: u64,
    /// At most so long, in ms.
    pub wait_ms: u64,
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// It has happened, and this is the task.
    Task(Box<TaskSeen>),
    /// There is no such task.
    Absent,
    /// A page was read.
    Page {
        /// Its tasks.
        tasks: Vec<TaskSeen>,
        /// The token of the next one.
        next: Option<String>,
    },
    /// It was refused.
    Refused,
    /// Nobody knows.
    Unknown,
}

#[derive(Debug, Clone)]
struct Known {
    task: String,
    version: u64,
}

/// See the module's description.
#[derive(Debug)]
pub struct Generator {
    name: String,
    mix: Mix,
    rng: Rng,
    pauses: Rng,
    extras: Rng,
    submitted: u64,
    known: VecDeque<Known>,
    /// What follows from earlier operations, by the instant from which it is due.
    planned: BTreeMap<(u64, u64), Op>,
    numbered: u64,
    /// The page with which a client goes on: the pages of a list are read one after the other.
    pages: BTreeMap<u32, Op>,
}

impl Generator {
    /// A generator whose labels begin with `name`.
    pub fn new(seed: u64, name: &str, mix: Mix) -> Generator {
        let rng = Rng::new(seed);
        Generator {
            name: name.to_owned(),
            mix,
            pauses: rng.split("pauses"),
            extras: rng.split("extras"),
            rng: rng.split("operations"),
            submitted: 0,
            known: VecDeque::new(),
            planned: BTreeMap::new(),
            numbered: 0,
            pages: BTreeMap::new(),
        }
    }

    /// The pause of one of so many clients from the beginning of one operation to that of the next, in ns.
    pub fn pause_ns(&mut self, clients: u32) -> u64 {
        let mean = f64::from(clients) * 1e9 / self.mix.ops_per_s.max(0.001);
        self.pauses.exponential(mean as u64)
    }

    /// The next operation of a client.
    pub fn next(&mut self, now: Now, client: u32) -> Op {
        if let Some(page) = self.pages.remove(&client) {
            return page;
        }
        if let Some(first) = self.planned.first_entry()
            && first.key().0 <= now.mono_ns
        {
            return first.remove();
        }
        let weights = &self.mix.operations;
        let weights = [weights.submit, weights.get, weights.poll, weights.list, weights.cancel];
        match self.rng.weighted(&weights) {
            1 => self.any_task().map(|known| Op::Get { task: known.task, wait: None }),
            2 => self.any_task().map(|known| self.poll(known)),
            3 => Some(self.list()),
            4 => self.any_task().map(|known| Op::Cancel { task: known.task }),
            _ => None,
        }
        .unwrap_or_else(|| self.submit(now))
    }

    fn submit(&mut self, now: Now) -> Op {
        self.submitted += 1;
        let label = format!("{}-{}", self.name, self.submitted);
        let mut planned = submission::draw(&mut self.rng, &self.mix, label, now);
        let newest = self.known.iter().rev().map(|known| known.task.as_str());
        extra::add(&mut self.extras, &self.mix, newest, &mut planned);
        Op::Submit(Box::new(planned))
    }

    /// Half of the time one of the newest few, where changes happen.
    fn any_task(&mut self) -> Option<Known> {
        let all = self.known.len() as u64;
        let among = if self.rng.chance(0.5) { all.min(50) } else { all };
        let back = usize::try_from(self.rng.below(among)).unwrap_or(0);
        let at = self.known.len().checked_sub(1 + back)?;
        self.known.get(at).cloned()
    }

    fn poll(&mut self, known: Known) -> Op {
        let wait = Wait { after_version: known.version, wait_ms: self.rng.between(50, LONGEST_WAIT_MS) };
        Op::Get { task: known.task, wait: Some(wait) }
    }

    fn list(&mut self) -> Op {
        let filtered = self.rng.chance(0.5);
        let status = self.rng.pick(&STATUSES).filter(|_| filtered).map(|status| (*status).to_owned());
        Op::List { status, size: self.rng.between(1, PAGE), page: 0, token: None }
    }

    fn plan(&mut self, at_ns: u64, op: Op) {
        self.numbered += 1;
        self.planned.insert((at_ns, self.numbered), op);
    }

    /// Takes in what came of an operation of a client.
    pub fn told(&mut self, now: Now, client: u32, op: &Op, told: &Told) {
        match (op, told) {
            (Op::Submit(planned), Told::Task(seen)) => self.acknowledged(now, planned, seen),
            (Op::Submit(planned), Told::Unknown) => {
                let keyed = planned.seen.idempotency_key.is_some();
                if keyed && self.rng.chance(self.mix.shares.tried_again) {
                    let later = self.rng.between(50, 5_000);
                    self.plan(now.in_ms(later), op.clone());
                }
            }
            (Op::Get { .. } | Op::Cancel { .. }, Told::Task(seen)) => self.learned(seen),
            (Op::List { status, size, page, .. }, Told::Page { tasks, next }) => {
                tasks.iter().for_each(|seen| self.learned(seen));
                if let Some(token) = next
                    && self.rng.chance(self.mix.shares.paged)
                {
                    let next = Op::List {
                        status: status.clone(),
                        size: *size,
                        page: page + 1,
                        token: Some(token.clone()),
                    };
                    self.pages.insert(client, next);
                }
            }
            _ => {}
        }
    }

    fn acknowledged(&mut self, now: Now, planned: &Planned, seen: &TaskSeen) {
        let is_new = !self.known.iter().any(|known| known.task == seen.task_id);
        self.learned(seen);
        if !is_new {
            return;
        }
        self.known.push_back(Known { task: seen.task_id.clone(), version: seen.version });
        if self.known.len() > KNOWN {
            self.known.pop_front();
        }
        if planned.seen.idempotency_key.is_some() && self.rng.chance(self.mix.shares.repeated) {
            let later = self.rng.between(0, 3_000);
            self.plan(now.in_ms(later), Op::Submit(Box::new(planned.clone())));
        }
        if self.rng.chance(self.mix.shares.raced) {
            let at = self.race(now, planned);
            self.plan(at, Op::Cancel { task: seen.task_id.clone() });
        }
    }

    /// When a cancel races with the task: right after its submission, near its due time, or while it runs.
    fn race(&mut self, now: Now, planned: &Planned) -> u64 {
        let delay_ms = match (planned.seen.delay_ms, planned.seen.run_at_ms) {
            (Some(delay), _) => delay,
            (None, Some(at)) => u64::try_from(at - now.wall_ms).unwrap_or(0),
            (None, None) => 0,
        };
        let due_ns = now.in_ms(delay_ms);
        match self.rng.below(3) {
            0 => now.mono_ns,
            1 => {
                let near = self.rng.between(0, 100) * NS_PER_MS;
                (due_ns + near).saturating_sub(50 * NS_PER_MS).max(now.mono_ns)
            }
            _ => due_ns + self.rng.between(20, planned.seen.work_ms.max(100)) * NS_PER_MS,
        }
    }

    fn learned(&mut self, seen: &TaskSeen) {
        if let Some(known) = self.known.iter_mut().rev().find(|known| known.task == seen.task_id) {
            known.version = known.version.max(seen.version);
        }
    }

    /// How many submissions were drawn, without repeats.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }
}

#[cfg(test)]
#[path = "generator/generator_tests.rs"]
mod tests;
