//! From the due index to the waiting room: the look-ahead window, the wheel, and the comparison with the
//! clock that decides.

use orloj_model::Command;
use orloj_model::id::{Millis, TaskId};
use orloj_model::key::{DueKey, ShardKey, TimeKey};
use orloj_model::mutant::{Mutant, is_on};
use orloj_model::task::DueClock;

use super::clocks::shown;
use super::{Core, Now, Step, Timer, Tracked};

/// How early [`Mutant::Early`] hands out a task, in milliseconds.
const EARLY_MS: i64 = 250;

impl Core {
    /// Up to which instant the due and expiry indexes must be in hand, when that is further than they are:
    /// (from, until). Half a window ahead is enough; a whole one is loaded.
    pub(crate) fn window(&self, now: Now) -> Option<(Millis, Millis)> {
        let window = i64::try_from(self.options.window_ms).unwrap_or(i64::MAX);
        let shows = now.wall_ms.max(now.cluster_ms);
        (self.loaded_until < shows.saturating_add(window / 2))
            .then(|| (self.loaded_until, shows.saturating_add(window)))
    }

    /// Whether what is due then is in hand already.
    pub(crate) fn is_near(&self, at: Millis) -> bool {
        at < self.loaded_until
    }

    /// Takes in what the indexes hold of a window.
    pub(crate) fn load_window(&mut self, until: Millis, due: &[DueKey], expiring: &[TimeKey], now: Now) {
        self.loaded_until = self.loaded_until.max(until);
        for key in due {
            self.track_due(key.shard, key.at, key.clock, now);
        }
        for key in expiring {
            self.track_expiry(key.task, key.at, now);
        }
    }

    /// A shard waits for its time (or, when that has passed, for a slot). One beyond the window stays in the
    /// due index.
    ///
    /// A new leader hears again of changes that its load has taken in already. Such an echo must not put a
    /// shard back that has gone on since: a lease is forgotten by the end of its own fence alone, and a grant
    /// by its answer.
    pub(crate) fn track_due(&mut self, shard: ShardKey, at: Millis, clock: DueClock, now: Now) {
        if self.tracked.get(&shard).is_some_and(|tracked| !matches!(tracked, Tracked::Timed(_))) {
            return;
        }
        self.forget(shard);
        if at >= self.loaded_until {
            return;
        }
        self.sharded.note(shard);
        if handed_out_from(at) <= shown(now, clock) {
            // No need to wait for the next tick.
            self.tracked.insert(shard, Tracked::Due);
            self.due.push_back(shard);
            return;
        }
        self.wait_for(shard, at, clock, now);
    }

    /// A task must have started by `at`.
    pub(crate) fn track_expiry(&mut self, task: TaskId, at: Millis, now: Now) {
        if at >= self.loaded_until {
            return;
        }
        let deadline = self.clocks.deadline(at, DueClock::Wall, now);
        let timer = self.wheel.insert(deadline, Timer::Expire { task, at });
        if let Some(old) = self.expiries.insert(task, timer) {
            self.wheel.cancel(old);
        }
    }

    /// Turns the wheel. What is due by the clock that decides goes to [`next_due`](Core::next_due); what is not (after a step back) waits on. Answers by how much the wall clock
    /// was stepped since the last call, if it was.
    pub(crate) fn advance(&mut self, now: Now) -> Option<i64> {
        let observed = self.clocks.observe(now);
        if observed.retime {
            self.retime(now);
        }
        let mut out = Vec::new();
        let room = self.options.due_per_tick.saturating_sub(self.due.len());
        self.wheel.advance(now.mono_ms, room, &mut out);
        for (_, timer) in out {
            self.fire(timer, now);
        }
        if !self.expired.is_empty() {
            let expire = |task| Command::Expire { task };
            self.steps.push(Step::Propose(self.expired.drain(..).map(expire).collect()));
        }
        observed.wall_step_ms
    }

    /// When to call [`advance`](Core::advance) next, monotonic.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let next_tick = self.budget.0 + self.options.tick_ms;
        if self.due.len() >= self.options.due_per_tick {
            // The wheel may hold more that is due, and there is no room for it before the next tick.
            return Some(next_tick);
        }
        let next_tick = (!self.due.is_empty()).then_some(next_tick);
        [self.wheel.next_expiry(), next_tick].into_iter().flatten().min()
    }

    /// The earliest deadline in the wheel, monotonic. For the probe.
    pub(crate) fn oldest_timer(&self) -> Option<u64> {
        self.wheel.oldest()
    }

    /// Shards that are due and whose rows shall be read now: at most `due-per-tick` in one tick.
    pub(crate) fn next_due(&mut self, now: Now) -> Vec<ShardKey> {
        let (since, left) = &mut self.budget;
        if now.mono_ms.saturating_sub(*since) >= self.options.tick_ms {
            (*since, *left) = (now.mono_ms, self.options.due_per_tick);
        }
        let mut keys = Vec::new();
        while *left > 0
            && let Some(shard) = self.due.pop_front()
        {
            if matches!(self.tracked.get(&shard), Some(Tracked::Due)) {
                *left -= 1;
                keys.push(shard);
            }
        }
        keys
    }

    fn fire(&mut self, timer: Timer, now: Now) {
        match timer {
            Timer::Due { shard, at, clock } if handed_out_from(at) <= shown(now, clock) => {
                self.tracked.insert(shard, Tracked::Due);
                self.due.push_back(shard);
            }
            Timer::Due { shard, at, clock } => self.wait_for(shard, at, clock, now),
            Timer::Expire { task, at } if at <= shown(now, DueClock::Wall) => {
                self.expiries.remove(&task);
                self.expired.push(task);
            }
            Timer::Expire { task, at } => {
                self.expiries.remove(&task);
                self.track_expiry(task, at, now);
            }
            Timer::Job { job, at } => self.job_timer(&job, at, now),
        }
    }

    fn wait_for(&mut self, shard: ShardKey, at: Millis, clock: DueClock, now: Now) {
        let deadline = self.clocks.deadline(handed_out_from(at), clock, now);
        let timer = self.wheel.insert(deadline, Timer::Due { shard, at, clock });
        self.tracked.insert(shard, Tracked::Timed(timer));
    }

    /// A clock was stepped: every timer gets the monotonic deadline that fits the clocks as they are now, in
    /// due order. Costs one pass over the window.
    fn retime(&mut self, now: Now) {
        let mut timers = self.wheel.take_all();
        let at = |timer: &Timer| match timer {
            Timer::Due { at, .. } | Timer::Expire { at, .. } | Timer::Job { at, .. } => *at,
        };
        timers.sort_by_key(|(_, timer)| at(timer));
        for (_, timer) in timers {
            match timer {
                Timer::Due { shard, at, clock } => self.wait_for(shard, at, clock, now),
                Timer::Expire { task, at } => {
                    self.expiries.remove(&task);
                    self.track_expiry(task, at, now);
                }
                Timer::Job { job, at } => self.job_timer(&job, at, now),
            }
        }
    }
}

/// From which instant on a task is handed out that is due at `at`.
fn handed_out_from(at: Millis) -> Millis {
    if is_on(Mutant::Early) { at.saturating_sub(EARLY_MS) } else { at }
}
