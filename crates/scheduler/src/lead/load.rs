//! What is in the tables comes in page by page: all that a new leader begins with, before it serves, and what comes near
//! while it does. Between two pages the loop takes in what was applied since and others have the thread, so that neither
//! the Raft group nor an executor waits for a long table.
//!
//! Nothing is missed by that, and nothing comes twice. The loop heeds the events from before the first page on, those of
//! the window that is being loaded too, and each page is read from the tables as they are then, which are never behind the
//! events taken in. So a row that changes before its page is read is read as it has become, and of one that changes after
//! it, in whatever index it is then, an event is still to come. What the page and an event both tell is told once more:
//! only a timer is set anew by that, and whatever has gone further stays where it is. Nobody but this leader grants
//! anything meanwhile, since its round has begun.

use orloj_model::id::Millis;
use orloj_model::key::{DueKey, NextKey, ReadyKey, RunningKey, ShardKey, TimeKey};
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::query;
use orloj_model::tables::Read;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::Instant;
use tracing::info;

use super::{EVENTS_PER_TURN, Ended, Leader, PAGE, rows};
use crate::core::{Core, Now};

/// Shards whose rows are read at one go: two or three reads each.
const SHARDS_PER_PAGE: usize = 512;
/// Pages of ready shards whose keys are read at one go. The most urgent come first in their index, and their rows lie in
/// the order of their ids: those of 16,384 tasks that came together lie together, and where they are read in that order
/// the database unpacks each of its blocks once for many of them instead of once for each.
const PAGES_OF_KEYS: usize = 32;

/// Leases of earlier leaders, and then what is ready.
#[derive(Debug)]
pub(super) struct Inheritance {
    place: Inherited,
    /// Shards per page.
    page: usize,
    /// How many shards have been taken in.
    shards: usize,
}

/// How far that has got: behind which key.
#[derive(Debug)]
enum Inherited {
    Leases(Option<RunningKey>),
    Ready {
        after: Option<ReadyKey>,
        /// Shards up to there whose rows are still to be read, the last one first.
        left: Vec<ShardKey>,
    },
}

impl Inheritance {
    pub(super) fn new(page: usize) -> Self {
        Inheritance { place: Inherited::Leases(None), page, shards: 0 }
    }

    /// Takes in the next page; whether there may be another. What limits callers must be known, and the executors.
    pub(super) fn page<R: Read>(&mut self, view: &R, core: &mut Core, now: Now) -> Result<bool, R::Error> {
        match &mut self.place {
            Inherited::Leases(after) => {
                let page = query::running(view, after.as_ref(), self.page)?;
                self.shards += page.len();
                for (key, row) in &page {
                    let (spec, cancel) = rows::of_lease(view, key.shard)?;
                    core.inherit(key, row, spec.as_ref().and_then(|spec| spec.timeout_ms), cancel);
                    if let Some(spec) = spec {
                        rows::know_limit(core, view, &spec)?;
                        core.count_inherited(key.shard, &spec);
                    }
                }
                self.place = match page.into_iter().next_back() {
                    Some((last, _)) => Inherited::Leases(Some(last)),
                    None => {
                        core.lose_orphans();
                        Inherited::Ready { after: None, left: Vec::new() }
                    }
                };
                Ok(true)
            }
            Inherited::Ready { after, left } => {
                if left.is_empty() {
                    let keys = query::ready(view, *after, self.page * PAGES_OF_KEYS)?;
                    let Some(last) = keys.last() else { return Ok(false) };
                    *after = Some(*last);
                    left.extend(keys.iter().map(|key| key.shard));
                    left.sort_unstable_by(|one, other| other.cmp(one));
                }
                let (page, mut specs) =
                    (left.split_off(left.len().saturating_sub(self.page)), rows::Specs::default());
                self.shards += page.len();
                for shard in page.into_iter().rev() {
                    // Its key was read before. Should it have become due again since, an event tells that.
                    let candidate = rows::candidate(view, shard, &mut specs)?;
                    if let Some(candidate) = candidate.filter(|candidate| candidate.ready) {
                        rows::ready(core, view, candidate, now)?;
                    }
                }
                Ok(true)
            }
        }
    }
}

/// What becomes due, must have started, or fires within a window.
#[derive(Debug)]
pub(super) struct Window {
    from: Millis,
    until: Millis,
    place: Near,
    /// Rows per page.
    page: usize,
    /// How many rows have been taken in.
    rows: usize,
    began: Instant,
}

/// How far that has got: in which index, and behind which key.
#[derive(Debug)]
enum Near {
    Due(Option<DueKey>),
    Expiring(Option<TimeKey>),
    Jobs(Option<NextKey>),
}

impl Window {
    /// Opens the next window, if it is time for it: from here on the core heeds what events tell of it.
    pub(super) fn open(core: &mut Core, page: usize, now: Now) -> Option<Window> {
        let (from, until) = core.window(now)?;
        core.load_window(until, &[], &[], now);
        Some(Window { from, until, place: Near::Due(None), page, rows: 0, began: Instant::now() })
    }

    /// Takes in the next page; whether there may be another.
    pub(super) fn page<R: Read>(&mut self, view: &R, core: &mut Core, now: Now) -> Result<bool, R::Error> {
        let (from, until, page) = (self.from, self.until, self.page);
        let (count, next) = match &self.place {
            Near::Due(after) => {
                let mut due = match *after {
                    None => query::due_from(view, from, until, page)?,
                    last => query::due(view, last, until, page)?,
                };
                let (count, last) = (due.len(), due.last().copied());
                if is_on(Mutant::TimersNotLoaded) {
                    due.clear();
                }
                core.load_window(until, &due, &[], now);
                (count, Some(last.map_or(Near::Expiring(None), |last| Near::Due(Some(last)))))
            }
            Near::Expiring(after) => {
                let expiring = match *after {
                    None => query::expiring_from(view, from, until, page)?,
                    last => query::expiring(view, last, until, page)?,
                };
                let last = expiring.last().copied();
                core.load_window(until, &[], &expiring, now);
                (expiring.len(), Some(last.map_or(Near::Jobs(None), |last| Near::Expiring(Some(last)))))
            }
            Near::Jobs(after) => {
                let jobs = match after {
                    None => query::due_jobs_from(view, from, until, page)?,
                    last => query::due_jobs(view, last.as_ref(), until, page)?,
                };
                let (count, last) = (jobs.len(), jobs.last().cloned());
                core.load_jobs(jobs, now);
                (count, last.map(|last| Near::Jobs(Some(last))))
            }
        };
        self.rows += count;
        let more = next.is_some();
        if let Some(next) = next {
            self.place = next;
        }
        Ok(more)
    }
}

impl Leader<'_> {
    /// Takes in everything that a leader begins with.
    pub(super) async fn load(&mut self) -> Result<(), Ended> {
        let began = Instant::now();
        self.load_fleet()?;
        let mut inheritance = Inheritance::new(SHARDS_PER_PAGE);
        while inheritance.page(&self.shared.store.view(), &mut self.core, self.shared.now())? {
            self.breathe().await?;
        }
        self.load_duties().await?;
        self.load_graph_work().await?;
        while self.load_window()? {
            self.breathe().await?;
        }
        // No executor could be heard meanwhile.
        let now = self.shared.now();
        self.core.forgive(now.mono_ms.saturating_sub(self.last_turn_ms), now);
        self.last_turn_ms = now.mono_ms;
        let took = began.elapsed();
        self.shared.metrics.load.set(took.as_secs_f64());
        info!(shards = inheritance.shards, ms = took.as_millis() as u64, "everything is loaded");
        Ok(())
    }

    /// The executors, and whatever must be known before the first shard; and the window opens.
    fn load_fleet(&mut self) -> Result<(), Ended> {
        let (view, now) = (self.shared.store.view(), self.shared.now());
        for row in query::executors(&view)? {
            self.core.executor_row(row, now);
        }
        self.load_limits(&view)?;
        self.window = Window::open(&mut self.core, PAGE, now);
        Ok(())
    }

    /// Takes in a page of the window, or of the next one when it is time for that; whether there is more at once.
    pub(super) fn load_window(&mut self) -> Result<bool, Ended> {
        let now = self.shared.now();
        let open = self.window.take().or_else(|| Window::open(&mut self.core, PAGE, now));
        let Some(mut window) = open else { return Ok(false) };
        if window.page(&self.shared.store.view(), &mut self.core, now)? {
            self.window = Some(window);
            return Ok(true);
        }
        let took = window.began.elapsed();
        self.shared.metrics.window_load.set(took.as_secs_f64());
        info!(rows = window.rows, ms = took.as_millis() as u64, "the window is loaded");
        Ok(false)
    }

    /// Between two pages: others have the thread, and what was applied meanwhile is taken in.
    pub(super) async fn breathe(&mut self) -> Result<(), Ended> {
        for _ in 0..turns(self.events.len()) {
            tokio::task::yield_now().await;
            if !self.is_leading() {
                return Err(Ended::Lost);
            }
            match self.events.try_recv() {
                Err(TryRecvError::Empty) => break,
                Ok(applied) => self.take_events(Ok(applied))?,
                Err(_) => return Err(Ended::Restart("the load fell behind the applied changes")),
            }
        }
        Ok(())
    }

    /// Whether this is still the leadership that began.
    fn is_leading(&mut self) -> bool {
        let state = *self.leadership.borrow_and_update();
        state.leading && state.term == self.term
    }
}

/// At how many goes what was applied during a page is taken in, one at least: all of it, or a load beside many changes
/// would fall ever further behind them, and no more than that, so that there is another page.
fn turns(untold: usize) -> usize {
    untold.div_ceil(EVENTS_PER_TURN).max(1)
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
