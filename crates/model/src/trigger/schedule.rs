//! The triggers and calendars of one job, ready for computing.

use serde::{Deserialize, Serialize};

use super::calendar::{Calendar, Exclusion};
use super::error::TriggerError;
use super::expression::{Expression, Parsed};
use super::jitter::jitter_ms;
use super::occurrence::{DstEffect, Occurrence, Passed, SkipReason, Skips};
use super::zone::Zone;
use super::{DailyWindow, Dst, Kind, Limits, TRIGGER_LIMIT, Trigger, search, window};
use crate::id::Millis;

/// How many excluded days a search passes over before it gives up: a trigger whose next ten thousand days are all
/// excluded has no next fire.
const EXCLUDED_LIMIT: usize = 10_000;
/// The most passed occurrences that come with a next fire.
const PASSED_WITH_NEXT: usize = 16;

/// What has become of a job's triggers so far. Stored with the job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// How many tasks each trigger has created, by its place; those that are missing have created none.
    pub fired: Vec<u64>,
    /// When the job's last task ended; for `fixedDelay`.
    pub last_ended: Option<Millis>,
    /// The job's last task is open; a `fixedDelay` has no next fire until it ends.
    pub open: bool,
}

impl Progress {
    /// Takes note of a task that a fire created.
    pub fn fire(&mut self, next: &Next) {
        for trigger in next.triggers.iter().map(|trigger| usize::from(*trigger)) {
            if self.fired.len() <= trigger {
                self.fired.resize(trigger + 1, 0);
            }
            self.fired[trigger] += 1;
        }
        self.open = true;
    }

    /// Takes note of the end of the job's last task.
    pub fn end(&mut self, at: Millis) {
        self.last_ended = Some(at);
        self.open = false;
    }

    fn fired(&self, trigger: usize) -> u64 {
        self.fired.get(trigger).copied().unwrap_or(0)
    }
}

/// The next fire of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// The instant that it stands for; with the job's id it names the fire for ever.
    pub scheduled_at: Millis,
    /// When it is due: `scheduled_at` and the jitter.
    pub due_at: Millis,
    /// The places of the triggers that name this instant; together they fire once.
    pub triggers: Vec<u16>,
    /// What a clock change did to it.
    pub dst: Option<DstEffect>,
    /// What was passed over on the way to it, the first few.
    pub passed: Vec<Passed>,
}

/// The triggers and calendars of one job, ready for computing.
#[derive(Debug, Clone)]
pub struct Schedule {
    job: String,
    triggers: Vec<Ready>,
    exclusions: Vec<Exclusion>,
}

/// What a search came to.
#[derive(Debug)]
pub(crate) struct Search {
    /// The next fire.
    pub next: Option<Next>,
    /// What is passed over before it, or at all where there is none.
    pub passed: Vec<Passed>,
    /// More was passed over than was kept.
    pub truncated: bool,
    /// How many occurrences were passed over.
    pub steps: usize,
}

/// A trigger with its expression read and its zone looked up.
#[derive(Debug, Clone)]
struct Ready {
    rule: Rule,
    zone: Zone,
    limits: Limits,
}

#[derive(Debug, Clone)]
enum Rule {
    Cron { expression: Box<Expression>, dst: Dst },
    Grid { first: Millis, every: i64 },
    Delay { delay: i64, anchor: Millis },
    Once(Millis),
    Window(DailyWindow),
}

impl Schedule {
    /// Makes ready. Fails only where the zone database of this release has lost a name, or with too many triggers.
    pub fn new(job: &str, triggers: &[Trigger], calendars: &[Calendar]) -> Result<Schedule, TriggerError> {
        if triggers.len() > TRIGGER_LIMIT {
            let message = format!("at most {TRIGGER_LIMIT} triggers");
            return Err(TriggerError::new("triggers", triggers.len(), message));
        }
        let ready = |(place, trigger): (usize, &Trigger)| {
            Ready::new(trigger).map_err(|error| error.under(&format!("triggers[{place}]")))
        };
        Ok(Schedule {
            job: job.to_string(),
            triggers: triggers.iter().enumerate().map(ready).collect::<Result<_, _>>()?,
            exclusions: calendars.iter().map(Exclusion::new).collect::<Result<_, _>>()?,
        })
    }

    /// The next fire later than `after`, or `None` where there is none: every trigger has ended, has fired as often
    /// as it may, waits for a task to end, or only ever names excluded days. Bounded: a few microseconds as a rule,
    /// some milliseconds where ten thousand excluded days are passed over.
    pub fn next(&self, progress: &Progress, after: Millis) -> Option<Next> {
        let Search { next, mut passed, .. } = self.find(progress, after, PASSED_WITH_NEXT);
        passed.truncate(PASSED_WITH_NEXT);
        next.map(|next| Next { passed, ..next })
    }

    /// The first `limit` fires from `from` to `to`, both included, for a backfill; whoever wants more asks again from
    /// behind the last one. A `fixedDelay` has none there, and `maxFires` does not count.
    pub fn range(&self, from: Millis, to: Millis, limit: usize) -> Vec<Next> {
        let progress = Progress { open: true, ..Progress::default() };
        let mut after = from.saturating_sub(1);
        let mut fires = Vec::new();
        while fires.len() < limit {
            let Some(next) = self.next(&progress, after).filter(|next| next.scheduled_at <= to) else {
                break;
            };
            after = next.scheduled_at;
            fires.push(next);
        }
        fires
    }

    /// Refuses a trigger that has no fire later than `after`: to be asked when a person adds or changes it.
    pub fn check_each_fires(&self, after: Millis) -> Result<(), TriggerError> {
        for place in 0..self.triggers.len() {
            if self.allowed(place, &Progress::default(), after, &mut Skips::up_to(0)).is_none() {
                let field = format!("triggers[{place}]");
                return Err(TriggerError::new(&field, "", "it has no fire in the future"));
            }
        }
        Ok(())
    }

    /// The zone in which a trigger reads local times; UTC for one that there is not.
    pub fn time_zone(&self, trigger: u16) -> &str {
        self.triggers.get(usize::from(trigger)).map_or("UTC", |ready| ready.zone.name())
    }

    /// RFC 3339 of an instant in a trigger's zone.
    pub(crate) fn show(&self, trigger: u16, at: Millis) -> String {
        match self.triggers.get(usize::from(trigger)) {
            Some(ready) => ready.zone.show(at),
            None => String::new(),
        }
    }

    /// Whether a trigger counts from the end of the last task.
    pub(crate) fn is_delay(&self, trigger: u16) -> bool {
        let ready = self.triggers.get(usize::from(trigger));
        ready.is_some_and(|ready| matches!(ready.rule, Rule::Delay { .. }))
    }

    /// The longest jitter of all triggers.
    pub(crate) fn longest_jitter(&self) -> i64 {
        self.triggers.iter().map(|ready| ready.limits.jitter_ms as i64).max().unwrap_or(0)
    }

    /// Whether a trigger may still create tasks.
    pub(crate) fn has_fires_left(&self, progress: &Progress, trigger: u16) -> bool {
        let place = usize::from(trigger);
        let most = self.triggers.get(place).and_then(|ready| ready.limits.max_fires);
        most.is_none_or(|most| progress.fired(place) < most)
    }

    /// Looks for the next fire and keeps what is passed over, up to `limit`.
    pub(crate) fn find(&self, progress: &Progress, after: Millis, limit: usize) -> Search {
        let mut skips = Skips::up_to(limit);
        let mut best: Option<(Occurrence, Vec<u16>)> = None;
        let mut all = Vec::new();
        let (mut truncated, mut steps) = (false, 0);
        for place in 0..self.triggers.len() {
            let found = self.allowed(place, progress, after, &mut skips);
            let used = std::mem::replace(&mut skips, Skips::up_to(limit));
            truncated |= used.truncated;
            steps += used.steps;
            all.extend(used.into_sorted());
            let Some(found) = found else { continue };
            match &mut best {
                Some((first, places)) if first.at == found.at => {
                    first.dst = first.dst.or(found.dst);
                    places.push(place as u16);
                }
                Some((first, _)) if first.at < found.at => {}
                _ => best = Some((found, vec![place as u16])),
            }
        }
        if let Some((first, _)) = &best {
            all.retain(|passed| passed.at <= first.at);
        }
        all.sort_by(|a, b| (a.at, &a.local, a.reason).cmp(&(b.at, &b.local, b.reason)));
        all.dedup();
        let next = best.map(|(first, places)| self.named(first, places));
        Search { next, passed: all, truncated, steps }
    }

    fn named(&self, found: Occurrence, triggers: Vec<u16>) -> Next {
        let jitter = |place: &u16| {
            jitter_ms(&self.job, found.at, self.triggers[usize::from(*place)].limits.jitter_ms) as i64
        };
        let earliest = triggers.iter().map(jitter).min().unwrap_or(0);
        let due_at = found.at.saturating_add(earliest);
        Next { scheduled_at: found.at, due_at, triggers, dst: found.dst, passed: Vec::new() }
    }

    /// The first occurrence of a trigger later than `after` that is within its limits and on no excluded day.
    fn allowed(
        &self,
        place: usize,
        progress: &Progress,
        after: Millis,
        skips: &mut Skips,
    ) -> Option<Occurrence> {
        let ready = &self.triggers[place];
        if !self.has_fires_left(progress, place as u16) {
            return None;
        }
        let mut after = ready.limits.start_at.map_or(after, |start| after.max(start - 1));
        for _ in 0..EXCLUDED_LIMIT {
            let found = ready.next(progress, after, skips)?;
            if ready.limits.end_at.is_some_and(|end| found.at > end) {
                return None;
            }
            let Some(until) = self.exclusions.iter().filter_map(|day| day.until(found.at)).max() else {
                return Some(found);
            };
            let local = if skips.has_room() { ready.zone.show(found.at) } else { String::new() };
            let kept = skips.push(Passed { local, at: found.at, reason: SkipReason::Calendar });
            after = if kept { found.at } else { until - 1 };
        }
        None
    }
}

impl Ready {
    fn new(trigger: &Trigger) -> Result<Ready, TriggerError> {
        let rule = match trigger.kind() {
            Kind::Cron(cron) => match cron.parsed()? {
                Parsed::Fields(expression) => Rule::Cron { expression, dst: cron.dst() },
                Parsed::Every { every_ms, .. } => Rule::Grid { first: cron.anchor(), every: every_ms as i64 },
            },
            Kind::FixedRate { every_ms, anchor } => Rule::Grid { first: *anchor, every: *every_ms as i64 },
            Kind::FixedDelay { delay_ms, anchor } => Rule::Delay { delay: *delay_ms as i64, anchor: *anchor },
            Kind::Once { at } => Rule::Once(*at),
            Kind::DailyWindow(window) => Rule::Window(window.clone()),
        };
        Ok(Ready { rule, zone: Zone::named(trigger.time_zone())?, limits: *trigger.limits() })
    }

    /// The first occurrence later than `after`, whatever the limits and calendars say.
    fn next(&self, progress: &Progress, after: Millis, skips: &mut Skips) -> Option<Occurrence> {
        match &self.rule {
            Rule::Cron { expression, dst } => search::next(expression, &self.zone, *dst, after, skips),
            Rule::Grid { first, every } => grid(*first, *every, after),
            Rule::Delay { .. } if progress.open => None,
            Rule::Delay { delay, anchor } => {
                let base = progress.last_ended.unwrap_or(*anchor);
                grid(base.saturating_add(*delay), *delay, after)
            }
            Rule::Once(at) => (*at > after).then_some(Occurrence { at: *at, dst: None }),
            Rule::Window(window) => window::next(window, &self.zone, after, skips),
        }
    }
}

/// The first of `first`, `first + every`, … later than `after`.
fn grid(first: Millis, every: i64, after: Millis) -> Option<Occurrence> {
    let at = if after < first {
        first
    } else {
        let steps = after.checked_sub(first)? / every + 1;
        first.checked_add(steps.checked_mul(every)?)?
    };
    (at <= super::LAST_INSTANT).then_some(Occurrence { at, dst: None })
}
