//! T2: nothing starts early. T6: steps of wall clocks do not touch delays. T7: timeouts are kept.

use super::Options;
use crate::attempts::{Life, Tasks, Try};
use crate::clocks::Clocks;
use crate::creations::Creations;
use crate::event::{Event, What};
use crate::faults::{busy, disturbed, end_ns, in_force, installed};
use crate::history::{History, Operation};
use crate::spans::{MS, Spans};
use crate::verdict::Judgement;

/// The cluster's time at a start counts as known when the creations around it leave no more than this open, in ms.
const KNOWN_WITHIN_MS: i64 = 1_000;

/// T2. No handler starts before its attempt is due, less one tick. A delay and a backoff are due by the
/// cluster's time, which has followed every leader's clock forward since the beginning, and which had not come
/// further than at the next creation of a task; an instant is due when the wall clock of a leader has shown it, so
/// the furthest clock since the submission counts. An attempt at a task with an instant is never said to be due
/// before that instant. Of tasks of several shards nothing is said: a push tells when the task is due, which is when the
/// shard is that was last put back.
///
/// `judged_closely` counts the starts at which the due time was known to within a second: of delays by the
/// creations around them, of instants where no clock was ever moved.
pub fn never_early(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("T2");
    let tasks = Tasks::of(history);
    let times = Times {
        clocks: Clocks::of(history, options.clock_noise_ms),
        creations: Creations::of(history),
        noise_ms: i64::try_from(options.clock_noise_ms).unwrap_or(i64::MAX),
    };
    let tick = i64::try_from(options.tick_ms).unwrap_or(i64::MAX);
    let (mut looked_at, mut closely) = (0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        let run_at = life.request().and_then(|request| request.run_at_ms);
        if life.request().is_some_and(|request| request.shard_total > 1 || request.broadcast) {
            continue;
        }
        for ((_, number), one) in &life.tries {
            let Some((receipt, recv)) = one.receipts.first() else { continue };
            if let Some(run_at) = run_at.filter(|run_at| recv.due_at_ms < *run_at) {
                let what = format!("due at {}, and submitted for {run_at}", recv.due_at_ms);
                word.violated(what, Some(task), &[receipt.i]);
            }
            let by_instant = run_at.is_some() && *number == 1;
            for (event, start) in &one.starts {
                looked_at += 1;
                let (at_most_ms, is_close) = match by_instant {
                    true => times.of_leaders(life.invoked_ns().unwrap_or(0), event, start.wall_ms),
                    false => times.of_cluster(event, start.wall_ms),
                };
                closely += u64::from(is_close);
                let early_ms = recv.due_at_ms.saturating_sub(at_most_ms);
                if early_ms > tick {
                    let what = format!("attempt {number} started {early_ms} ms before it was due");
                    word.violated(what, Some(task), &[receipt.i, event.i]);
                }
            }
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("judged_closely", closely as f64);
    vec![word]
}

/// What is known of the times by which something is due.
struct Times {
    clocks: Clocks,
    creations: Creations,
    noise_ms: i64,
}

impl Times {
    /// What the wall clock of any leader can have shown at most between `since` and this start, in ms since the
    /// epoch, and whether that is close to the truth.
    fn of_leaders(&self, since: u64, start: &Event, wall_ms: i64) -> (i64, bool) {
        let stepped = self.clocks.stepped();
        let ahead_ms = self.clocks.furthest_ahead_ms(since, start.mono_ns).max(0);
        let noise_ms = if stepped { self.noise_ms } else { 0 };
        (wall_ms.saturating_add(ahead_ms).saturating_add(noise_ms), !stepped)
    }

    /// How far the cluster's time can have come at most at this start, and whether that is close to the truth.
    fn of_cluster(&self, start: &Event, wall_ms: i64) -> (i64, bool) {
        let (by_clocks, no_steps) = self.of_leaders(0, start, wall_ms);
        let by_creations = self.creations.at_most_ms(start.mono_ns);
        let at_most_ms = by_creations.map_or(by_clocks, |created| created.min(by_clocks));
        let at_least_ms = self.creations.at_least_ms(start.mono_ns).unwrap_or(i64::MIN);
        (at_most_ms, no_steps || at_most_ms.saturating_sub(at_least_ms) <= KNOWN_WITHIN_MS)
    }
}

/// T6. A task with a delay starts, by the monotonic clock, no sooner than its delay after it was asked for (except by what
/// the cluster's time was put forward meanwhile). Unless a fault other than a step of a clock is near, it reaches an executor
/// no later than its delay and the lateness that is allowed after it was acknowledged, not counting the time in which all
/// slots were taken. While clocks are stepped, no more delayed tasks reach executors at once than the ticks of that time allow.
pub fn steps_leave_delays_alone(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("T6");
    let tasks = Tasks::of(history);
    let clocks = Clocks::of(history, options.clock_noise_ms);
    let calm = Calm {
        disturbed: disturbed(history, options, |fault| fault.package != "clock"),
        busy: busy(history),
    };
    let stepped = Spans::of(
        installed(history)
            .iter()
            .filter(|one| one.fault.package == "clock")
            .map(|one| (one.from_ns, one.until_ns + options.recovery_ms * MS)),
    );
    let (mut looked_at, mut in_calm, mut under_steps) = (0_u64, 0_u64, 0_u64);
    let (mut lateness_ms, mut arrivals) = (Vec::new(), Vec::new());
    for (task, life) in &tasks.by_id {
        let Some((request, first)) = life.request().zip(life.tries.get(&(0, 1))) else { continue };
        let (Some(delay_ms), Some(invoked)) = (request.delay_ms, life.invoked_ns()) else { continue };
        let Some((receipt, _)) = first.receipts.first() else { continue };
        looked_at += 1;
        under_steps += u64::from(stepped.touch(invoked, receipt.mono_ns));
        arrivals.push((receipt.mono_ns, receipt.i));
        if let Some((start, _)) = first.starts.first()
            && let Some(what) = early(delay_ms, (invoked, ahead_ms(life, &clocks)), start, &clocks, options)
        {
            word.violated(what, Some(task), &[start.i]);
        }
        let Some(acked) = life.acked_ns() else { continue };
        let due_ns = acked + delay_ms * MS;
        if calm.disturbed.touch(acked, receipt.mono_ns) {
            continue;
        }
        in_calm += 1;
        let waited_ns = receipt.mono_ns.saturating_sub(due_ns);
        let late_ms = waited_ns.saturating_sub(calm.busy.covered(due_ns, receipt.mono_ns)) / MS;
        lateness_ms.push(late_ms);
        if late_ms > options.lateness_ms {
            let what = format!("arrived {late_ms} ms late after a delay of {delay_ms} ms, in calm");
            word.violated(what, Some(task), &[receipt.i]);
        }
    }
    bursts(&mut word, arrivals, &stepped, options);
    word.stat("looked_at", looked_at as f64);
    word.stat("judged_in_calm", in_calm as f64);
    word.stat("under_clock_steps", under_steps as f64);
    lateness_ms.sort_unstable();
    for (name, share) in [("late_ms.p50", 0.5), ("late_ms.p99", 0.99), ("late_ms.max", 1.0)] {
        if let Some(late) = crate::spans::quantile(&lateness_ms, share) {
            word.stat(name, late as f64);
        }
    }
    vec![word]
}

struct Calm {
    disturbed: Spans,
    busy: Spans,
}

/// How far the cluster's time was ahead of the harness's clock, at least, when a task was created: its creation
/// was committed before it was acknowledged.
fn ahead_ms(life: &Life<'_>, clocks: &Clocks) -> Option<i64> {
    let ack = life.submits.iter().filter_map(Operation::ok).min_by_key(|end| end.mono_ns)?;
    let What::Submit(submit) = &ack.what else { return None };
    let created_ms = submit.answer.as_ref()?.created_at_ms?;
    Some(created_ms - clocks.wall_ms(ack.mono_ns)?)
}

/// `ahead_ms` is how far the cluster's time was ahead at least when the delay began; it may be put forward as far
/// as any clock ever was.
fn early(
    delay_ms: u64,
    (invoked, ahead_ms): (u64, Option<i64>),
    start: &Event,
    clocks: &Clocks,
    options: &Options,
) -> Option<String> {
    let waited_ms = start.mono_ns.saturating_sub(invoked) / MS;
    let forward = |ahead: i64| clocks.furthest_ahead_ms(0, start.mono_ns).max(0).saturating_sub(ahead);
    let forward_ms = ahead_ms.map(|ahead| u64::try_from(forward(ahead)).unwrap_or(0));
    let mut room_ms = forward_ms.unwrap_or_else(|| clocks.jump_room_ms(invoked, start.mono_ns));
    room_ms += options.tick_ms;
    if clocks.stepped() {
        room_ms += options.clock_noise_ms;
    }
    (waited_ms + room_ms < delay_ms)
        .then(|| format!("started {waited_ms} ms after it was asked to wait {delay_ms} ms"))
}

/// How long a stretch is in which arrivals are counted.
const BURST_MS: u64 = 100;

/// A loop that was held up makes up for the ticks that it owes: half as many again are allowed.
fn bursts(word: &mut Judgement, mut arrivals: Vec<(u64, u64)>, stepped: &Spans, options: &Options) {
    let ticks = BURST_MS.div_ceil(options.tick_ms.max(1));
    let most = usize::try_from(ticks.saturating_mul(options.due_per_tick).saturating_mul(3) / 2)
        .unwrap_or(usize::MAX);
    arrivals.sort_unstable();
    let (mut first, mut densest) = (0, 0);
    for (at, (arrived, event)) in arrivals.iter().enumerate() {
        while arrivals[first].0 + BURST_MS * MS < *arrived {
            first += 1;
        }
        let count = at + 1 - first;
        if !stepped.touch(arrivals[first].0, *arrived) {
            continue;
        }
        if count > most && count > densest {
            let what =
                format!("{count} delayed tasks arrived within {BURST_MS} ms of a step; {most} are allowed");
            word.violated(what, None, &[arrivals[first].1, *event]);
        }
        densest = densest.max(count);
    }
    word.stat("densest_under_steps", densest as f64);
}

/// T7. An attempt with a timeout is not ended by it before it has run so long; one that its executor ends by
/// itself ends within the lateness that is allowed after that; one that is still running, at an executor that
/// lives and with nothing disturbed, is told to stop once the grace and two heartbeats have passed too. Amid faults
/// all of this may take longer by the bound on waiting, not counting the time in which they are in force.
pub fn timeouts(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("T7");
    let tasks = Tasks::of(history);
    let near = Near { disturbed: disturbed(history, options, |_| true), in_force: in_force(history) };
    let end = end_ns(history);
    let (mut looked_at, mut ended, mut told) = (0_u64, 0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        let Some(timeout_ms) = life.request().and_then(|request| request.timeout_ms) else { continue };
        for ((_, number), one) in &life.tries {
            let Some((start, _)) = one.starts.first() else { continue };
            looked_at += 1;
            let run = Limited { one, start, timeout_ms, options };
            ended += u64::from(one.said("timedOut"));
            told += u64::from(one.stops.iter().any(|(_, stop)| stop.reason == "timedOut"));
            let judged = run.too_soon().or_else(|| run.too_late(&near, end));
            if let Some((what, events)) = judged {
                word.violated(format!("attempt {number} {what}"), Some(task), &events);
            }
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("timed_out", ended as f64);
    word.stat("told_to_stop", told as f64);
    vec![word]
}

/// When faults may explain that an attempt ran on.
struct Near {
    disturbed: Spans,
    in_force: Spans,
}

/// A run with a limit.
struct Limited<'a> {
    one: &'a Try<'a>,
    start: &'a Event,
    timeout_ms: u64,
    options: &'a Options,
}

impl Limited<'_> {
    fn after_ms(&self, event: &Event) -> u64 {
        event.mono_ns.saturating_sub(self.start.mono_ns) / MS
    }

    fn too_soon(&self) -> Option<(String, Vec<u64>)> {
        let finishes = self.one.finishes.iter().filter(|(_, finish)| finish.outcome == "timedOut");
        let stops = self.one.stops.iter().filter(|(_, stop)| stop.reason == "timedOut");
        let mut ends = finishes.map(|(event, _)| *event).chain(stops.map(|(event, _)| *event));
        let early = ends.find(|event| self.after_ms(event) + self.options.tick_ms < self.timeout_ms)?;
        let what = format!("timed out after {} ms, and may run {} ms", self.after_ms(early), self.timeout_ms);
        Some((what, vec![self.start.i, early.i]))
    }

    fn too_late(&self, near: &Near, end_ns: u64) -> Option<(String, Vec<u64>)> {
        let Options { timeout_grace_ms, heartbeat_ms, lateness_ms, .. } = self.options;
        let told = self.one.stops.first().map(|(event, _)| *event);
        let finish = self.one.finishes.first().map(|(event, _)| *event);
        // By itself an executor stops at the timeout; the leader sees in a heartbeat that it did not.
        let by_itself = finish.filter(|_| told.is_none() && self.one.said("timedOut"));
        let limit_ms = match by_itself {
            Some(_) => self.timeout_ms + lateness_ms,
            None => self.timeout_ms + timeout_grace_ms + 2 * heartbeat_ms + lateness_ms,
        };
        let over = [told, finish].into_iter().flatten().min_by_key(|event| event.i);
        let over_ns = over.map_or(end_ns, |event| event.mono_ns);
        let ran_ns = over_ns.saturating_sub(self.start.mono_ns);
        let (ran_ms, when) = if near.disturbed.touch(self.start.mono_ns, over_ns) {
            let held_up_ns = near.in_force.covered(self.start.mono_ns, over_ns);
            let least_ms = ran_ns.saturating_sub(held_up_ns) / MS;
            (least_ms.saturating_sub(self.options.starvation_ms), "more than faults and waiting explain")
        } else {
            (ran_ns / MS, "in calm")
        };
        if ran_ms <= limit_ms {
            return None;
        }
        let what = format!("ran for {ran_ms} ms {when}, and may run {} ms", self.timeout_ms);
        let events = [Some(self.start), over].into_iter().flatten().map(|event| event.i).collect();
        Some((what, events))
    }
}
