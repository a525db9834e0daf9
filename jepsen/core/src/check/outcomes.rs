//! D9: no outcome without its cause.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::attempts::{Life, Tasks, Try};
use crate::clocks::Clocks;
use crate::event::{AttemptRow, Fault, FinalTask, Kind, What};
use crate::faults::installed;
use crate::history::History;
use crate::spans::{MS, Spans};
use crate::verdict::Judgement;

/// D9. Of every task in the tables at the end:
///
/// - `SUCCESS`: each shard has one attempt that succeeded, its executor said so under the same fence, and the
///   result has the digest that it reported;
/// - `FAILED`: the last attempt of some shard failed, timed out, was lost or stopped, and no try was left;
/// - `CANCELLED`: somebody asked for it; `SKIPPED`: it had a deadline;
/// - an attempt that failed, timed out, was cancelled or lost has what made it so: the executor's report, a
///   timeout that had passed, or something that took its executor away;
/// - a report that was answered as late decided nothing.
///
/// Of attempts at executors that write no history themselves only the table is judged.
pub fn no_invention(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D9");
    let tasks = Tasks::of(history);
    let causes = Causes {
        clocks: Clocks::of(history, options.clock_noise_ms),
        trouble: Trouble::of(history, options),
        options,
    };
    let (mut looked_at, mut unobserved) = (0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        let Some((event, table)) = life.finals.first() else { continue };
        looked_at += u64::from(table.task.is_terminal());
        if let Err((what, mut events)) = status(life, table, options) {
            events.push(event.i);
            word.violated(what, Some(task), &events);
        }
        for row in &table.attempts {
            let Some(one) = life.tries.get(&(row.shard, row.attempt)) else { continue };
            if !tasks.observed.contains(row.executor.as_str()) {
                unobserved += 1;
                continue;
            }
            let judged = causes.of_row(life, row, one).or_else(|| late_decided(row, one));
            if let Some((what, mut events)) = judged {
                events.push(event.i);
                word.violated(what, Some(task), &events);
            }
        }
        if let Some((what, events)) = invented_digest(&tasks, life, table) {
            word.violated(what, Some(task), &[events, vec![event.i]].concat());
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("attempts_without_own_history", unobserved as f64);
    vec![word]
}

type Found = (String, Vec<u64>);

/// Whether the status of the task follows from its attempts and from what was asked for.
fn status(life: &Life<'_>, table: &FinalTask, options: &Options) -> Result<(), Found> {
    match table.task.status.as_str() {
        "SUCCESS" => successes(life, table, options),
        "FAILED" => failures(life, table, options),
        "CANCELLED" => {
            let asked = life.cancels.iter().any(|cancel| cancel.end.is_none_or(|end| end.kind != Kind::Fail));
            let replaced = life.job.is_some_and(|job| job.overlap == "cancelOther");
            if asked || replaced {
                Ok(())
            } else {
                Err(("CANCELLED, and nobody asked for it".into(), Vec::new()))
            }
        }
        "SKIPPED" => match life.request() {
            Some(request) if request.expire_at_ms.is_none() && request.depends_on.is_empty() => {
                Err(("SKIPPED, and it had neither a deadline nor parents".into(), Vec::new()))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn rows_of(table: &FinalTask, shard: u16) -> impl Iterator<Item = &AttemptRow> {
    table.attempts.iter().filter(move |row| row.shard == shard)
}

/// How many shards a task has: of a broadcast only the table knows.
fn shards_of(life: &Life<'_>, table: &FinalTask) -> u64 {
    match life.request() {
        Some(request) if !request.broadcast => request.shard_total.max(1),
        _ => table.shard_total.max(1),
    }
}

fn successes(life: &Life<'_>, table: &FinalTask, options: &Options) -> Result<(), Found> {
    let shards = shards_of(life, table);
    for shard in (0..=u16::MAX).take(usize::try_from(shards).unwrap_or(1)) {
        let rows: Vec<_> = rows_of(table, shard).collect();
        let succeeded = rows.iter().filter(|row| row.outcome.as_deref() == Some("succeeded")).count();
        if succeeded != 1 && rows.len() < options.kept_attempts {
            return Err((
                format!("SUCCESS, and shard {shard} has {succeeded} successful attempts"),
                Vec::new(),
            ));
        }
    }
    Ok(())
}

fn failures(life: &Life<'_>, table: &FinalTask, options: &Options) -> Result<(), Found> {
    let Some(request) = life.request() else { return Ok(()) };
    let shards = shards_of(life, table);
    let mut open_tries = String::new();
    for shard in (0..=u16::MAX).take(usize::try_from(shards).unwrap_or(1)) {
        let rows: Vec<_> = rows_of(table, shard).collect();
        let Some(last) = rows.last() else { continue };
        let of = |names: &[&str]| {
            let named = |row: &&&AttemptRow| row.outcome.as_deref().is_some_and(|name| names.contains(&name));
            rows.iter().filter(named).count() as u64
        };
        let failed = of(&["failed", "timedOut", "cancelled"]);
        let exhausted = match last.outcome.as_deref() {
            // Nobody else can run the shard of a broadcast.
            Some("lost") => request.broadcast || of(&["lost"]) > request.max_lost,
            Some("failed" | "timedOut" | "cancelled") => {
                let one = life.tries.get(&(shard, last.attempt));
                let for_good = one.is_none_or(|one| {
                    one.sent.is_empty() || one.sent.iter().any(|(_, sent)| !sent.retryable)
                });
                let by_failing = last.outcome.as_deref() == Some("failed") && for_good;
                failed > request.max_retries || by_failing
            }
            _ => false,
        };
        if exhausted || rows.len() >= options.kept_attempts {
            return Ok(());
        }
        open_tries = format!("; shard {shard} ended as {:?} after {} attempts", last.outcome, rows.len());
    }
    Err((format!("FAILED, and no shard has used up its tries{open_tries}"), Vec::new()))
}

/// A success of the table whose executor said something else of the result.
fn invented_digest(tasks: &Tasks<'_>, life: &Life<'_>, table: &FinalTask) -> Option<Found> {
    let single = life.request().is_none_or(|request| request.shard_total <= 1 && !request.broadcast);
    let told = table.task.result_digest.as_deref().filter(|_| single && table.task.status == "SUCCESS")?;
    let row = table.attempts.iter().find(|row| row.outcome.as_deref() == Some("succeeded"))?;
    let one = life.tries.get(&(row.shard, row.attempt))?;
    if !tasks.observed.contains(row.executor.as_str()) {
        return None;
    }
    let mut said = one.finishes.iter().chain(&one.sent).filter(|(_, finish)| finish.outcome == "succeeded");
    let differs =
        said.find(|(_, finish)| finish.result_digest.as_deref().is_some_and(|digest| digest != told));
    differs.map(|(event, finish)| {
        let digest = finish.result_digest.as_deref().unwrap_or_default();
        (format!("the result has digest {told}, and its executor reported {digest}"), vec![event.i])
    })
}

/// A report that was answered as late, and whose outcome the attempt has all the same. Only when all reports
/// of the attempt said the same: else the one that counted may have been another. A return is declared by the
/// leader, and says late when it is repeated.
fn late_decided(row: &AttemptRow, one: &Try<'_>) -> Option<Found> {
    let (answer, _) = one.answers.iter().find(|(_, acked)| acked.verdict == "late")?;
    let (first, sent) = one.sent.first()?;
    let same = one.sent.iter().all(|(_, other)| other.outcome == sent.outcome);
    let decided = row.outcome.as_deref() == Some(sent.outcome.as_str());
    (same && decided).then(|| {
        let what = format!("attempt {} counts as {} by a report that was late", row.attempt, sent.outcome);
        (what, vec![first.i, answer.i])
    })
}

/// When executors may have been taken away: by faults, and by deaths, each with the silence after it.
struct Trouble<'a> {
    /// Whoever it is.
    all: Spans,
    /// One of them.
    own: BTreeMap<&'a str, Spans>,
}

impl<'a> Trouble<'a> {
    fn of(history: &'a History, options: &Options) -> Trouble<'a> {
        let silence = options.offline_ms() * MS;
        let after = 2 * silence + options.recovery_ms * MS;
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let mut own: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for event in history.events() {
            let executor = match &event.what {
                // A first life takes nobody away.
                What::ExecutorUp(up) if known.insert(&up.executor) => continue,
                What::ExecutorUp(up) => &up.executor,
                What::ExecutorDown(down) => &down.executor,
                _ => continue,
            };
            own.entry(executor).or_default().push((event.mono_ns, event.mono_ns + after));
        }
        let mut all = Vec::new();
        for one in installed(history).iter().filter(|one| cuts_off(one.fault)) {
            let span = (one.from_ns.saturating_sub(silence), one.until_ns + after);
            if one.fault.package == "executor" && !one.fault.nodes.is_empty() {
                one.fault.nodes.iter().for_each(|node| own.entry(node.as_str()).or_default().push(span));
            } else {
                all.push(span);
            }
        }
        let own = own.into_iter().map(|(executor, spans)| (executor, Spans::of(spans))).collect();
        Trouble { all: Spans::of(all), own }
    }

    fn touches(&self, executor: &str, from_ns: u64, until_ns: u64) -> bool {
        let own = self.own.get(executor).is_some_and(|spans| spans.touch(from_ns, until_ns));
        own || self.all.touch(from_ns, until_ns)
    }
}

/// Whether executors may seem to be away because of it. A leader that ends, or that hands over, takes no executor
/// away: whoever leads next gives each of them its time to be heard of. Nor does a snapshot or another's wall
/// clock.
fn cuts_off(fault: &Fault) -> bool {
    match fault.package.as_str() {
        "power" => fault.name != "fail",
        "process" => !matches!(fault.name.as_str(), "kill" | "term"),
        "membership" => !matches!(fault.name.as_str(), "snapshot" | "transfer"),
        "clock" => false,
        _ => true,
    }
}

/// What can have ended an attempt otherwise than by success.
struct Causes<'a> {
    clocks: Clocks,
    trouble: Trouble<'a>,
    options: &'a Options,
}

impl Causes<'_> {
    /// What is wrong with how this attempt ended.
    fn of_row(&self, life: &Life<'_>, row: &AttemptRow, one: &Try<'_>) -> Option<Found> {
        let name = format!("attempt {} of shard {} at {}", row.attempt, row.shard, row.executor);
        let of_this = |finish: &crate::event::Finish, outcome: &str| {
            finish.outcome == outcome && (finish.grant.fence, &finish.executor) == (row.fence, &row.executor)
        };
        let said =
            |outcome: &str| one.finishes.iter().chain(&one.sent).any(|(_, finish)| of_this(finish, outcome));
        match row.outcome.as_deref()? {
            outcome @ ("succeeded" | "failed" | "cancelled") if !said(outcome) => {
                Some((format!("{name} counts as {outcome}, and its executor never said so"), Vec::new()))
            }
            "timedOut" if !said("timedOut") => self.timed_out(life, row, &name),
            "lost" => self.lost(row, one, &name),
            _ => None,
        }
    }

    fn timed_out(&self, life: &Life<'_>, row: &AttemptRow, name: &str) -> Option<Found> {
        let timeout_ms = life.request()?.timeout_ms;
        let Some(timeout_ms) = timeout_ms else {
            return Some((format!("{name} counts as timed out, and it had no timeout"), Vec::new()));
        };
        // Declared by the leader: both instants are the cluster's, which steps can only put forward.
        let ran_ms = row.ended_at_ms?.saturating_sub(row.granted_at_ms);
        let least = i64::try_from(timeout_ms.saturating_sub(self.options.tick_ms)).unwrap_or(i64::MAX);
        (ran_ms < least).then(|| {
            let what = format!("{name} was declared timed out after {ran_ms} ms of {timeout_ms}");
            (what, Vec::new())
        })
    }

    /// A loss needs something that took the executor away between the grant and the end. The cluster's time
    /// tells when that was, unless clocks were stepped: then the whole run is searched from the first
    /// receipt.
    fn lost(&self, row: &AttemptRow, one: &Try<'_>, name: &str) -> Option<Found> {
        let (receipt, recv) = one.receipts.first()?;
        let until_ns = match (row.ended_at_ms, self.clocks.wall_ms(receipt.mono_ns)) {
            (Some(ended), Some(received)) if !self.clocks.stepped() => {
                let after_ms = u64::try_from(ended.saturating_sub(received)).unwrap_or(0);
                receipt.mono_ns + after_ms.saturating_mul(MS)
            }
            _ => u64::MAX,
        };
        (!self.trouble.touches(&recv.executor, receipt.mono_ns, until_ns)).then(|| {
            let what = format!("{name} counts as lost, and nothing took {} away", recv.executor);
            (what, vec![receipt.i])
        })
    }
}
