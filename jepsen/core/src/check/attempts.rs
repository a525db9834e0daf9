//! D5: attempts are numbered without gaps and no more than were asked for. D6: retries keep their distance.

use std::collections::BTreeMap;

use super::{Options, limits};
use crate::attempts::{Life, Tasks, Try};
use crate::clocks::Clocks;
use crate::event::{AttemptRow, FinalTask, Submit};
use crate::faults::{busy, disturbed, in_force};
use crate::history::History;
use crate::spans::{MS, Spans};
use crate::verdict::Judgement;

/// D5. In every table the attempts of a shard are 1..k (unless the table had to forget some), nothing beyond
/// k reached an executor, and each attempt after the first was still allowed: the one before it did not end
/// the shard, and the tries after failures, timeouts and losses were within what was asked for. Refusals are
/// no tries.
pub fn numbering(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D5");
    let tasks = Tasks::of(history);
    let (mut looked_at, mut retries) = (0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        for (event, table) in &life.finals {
            for (shard, rows) in by_shard(table) {
                looked_at += 1;
                retries += rows.len().saturating_sub(1) as u64;
                let full = rows.len() >= options.kept_attempts;
                let judged = gaps(&rows, full).and_then(|()| beyond(life, shard, &rows));
                let judged = judged.and_then(|()| match life.request() {
                    Some(request) if !full => allowed(life, shard, &rows, request),
                    _ => Ok(()),
                });
                if let Err(what) = judged {
                    word.violated(format!("shard {shard}: {what}"), Some(task), &[event.i]);
                }
            }
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("attempts_after_the_first", retries as f64);
    vec![word]
}

fn by_shard(table: &FinalTask) -> Vec<(u16, Vec<&AttemptRow>)> {
    let mut shards: Vec<(u16, Vec<&AttemptRow>)> = Vec::new();
    let mut rows: Vec<&AttemptRow> = table.attempts.iter().collect();
    rows.sort_by_key(|row| (row.shard, row.attempt));
    for row in rows {
        match shards.last_mut() {
            Some((shard, rows)) if *shard == row.shard => rows.push(row),
            _ => shards.push((row.shard, vec![row])),
        }
    }
    shards
}

fn gaps(rows: &[&AttemptRow], full: bool) -> Result<(), String> {
    for pair in rows.windows(2) {
        if pair[0].attempt == pair[1].attempt {
            return Err(format!("attempt {} stands in the table twice", pair[0].attempt));
        }
    }
    let numbers: Vec<u32> = rows.iter().map(|row| row.attempt).collect();
    let expected: Vec<u32> = (1..).take(rows.len()).collect();
    if !full && numbers != expected {
        return Err(format!("the attempts are {numbers:?}, not 1 to {}", rows.len()));
    }
    Ok(())
}

fn beyond(life: &Life<'_>, shard: u16, rows: &[&AttemptRow]) -> Result<(), String> {
    let last = rows.last().map_or(0, |row| row.attempt);
    let of_shard = life.tries.range((shard, 0)..=(shard, u32::MAX));
    let received = of_shard.filter(|(_, one)| !one.receipts.is_empty()).map(|((_, number), _)| *number).max();
    match received {
        Some(number) if number > last => {
            Err(format!("attempt {number} reached an executor, and the table ends with {last}"))
        }
        _ => Ok(()),
    }
}

/// Whether each attempt after the first may follow those before it.
fn allowed(life: &Life<'_>, shard: u16, rows: &[&AttemptRow], request: &Submit) -> Result<(), String> {
    let (mut failures, mut losses) = (0_u64, 0_u64);
    for pair in rows.windows(2) {
        let (row, next) = (pair[0], pair[1].attempt);
        let name = format!("attempt {next} follows attempt {}", row.attempt);
        match row.outcome.as_deref() {
            Some("lost") => losses += 1,
            Some("failed") => {
                failures += 1;
                if life.tries.get(&(shard, row.attempt)).is_some_and(failed_for_good) {
                    return Err(format!("{name}, which failed for good"));
                }
            }
            Some("timedOut" | "cancelled") => failures += 1,
            Some("refused") => {}
            Some(outcome) => return Err(format!("{name}, which {outcome}")),
            None => return Err(format!("{name}, which is still open")),
        }
        if failures > request.max_retries {
            return Err(format!("{name}, the {failures}. failure, with {} retries", request.max_retries));
        }
        if losses > request.max_lost {
            return Err(format!("{name}, the {losses}. loss, with {} tries after losses", request.max_lost));
        }
    }
    Ok(())
}

fn failed_for_good(one: &Try<'_>) -> bool {
    !one.sent.is_empty() && one.sent.iter().all(|(_, sent)| sent.outcome == "failed" && !sent.retryable)
}

/// D6. An attempt after a failure or a loss arrives no sooner than its backoff (or what the handler asked for), less one
/// tick. When nothing disturbed the cluster it arrives no later than that and the lateness that is allowed, not counting the
/// time in which all slots were taken; amid faults no later than the bound on waiting, not counting the time in which they
/// were in force. In neither does the time count in which its job ran as many tasks as it may. What ended by a report is
/// measured by the monotonic clock; what the leader declared, by the cluster's time in the table.
pub fn spacing(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D6");
    let tasks = Tasks::of(history);
    let clocks = Clocks::of(history, options.clock_noise_ms);
    let calm = Calm {
        disturbed: disturbed(history, options, |_| true),
        busy: busy(history),
        full: limits::full(&tasks),
        in_force: in_force(history),
    };
    let (mut looked_at, mut in_calm) = (0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        let Some(request) = life.request() else { continue };
        for (shard, tries) in life.shards() {
            let mut counted = 0_usize;
            for pair in tries.windows(2) {
                let ((number, one), (next, after)) = (pair[0], pair[1]);
                if next != number + 1 {
                    // A table that had to forget attempts: how many tries there were is not known.
                    break;
                }
                let Some(outcome) = one.outcome() else { continue };
                if !matches!(outcome, "failed" | "timedOut" | "lost") {
                    continue;
                }
                counted += 1;
                let full = life.job.and_then(|job| calm.full.get(job.job.as_str()));
                let gap = Gap { one, after, wanted_ms: wanted_ms(request, counted, one), full };
                looked_at += 1;
                let judged = gap.too_soon(outcome, &clocks, options);
                let judged = judged.or_else(|| gap.too_late(&calm, options, &mut in_calm));
                if let Some((what, events)) = judged {
                    word.violated(format!("shard {shard}: attempt {next} {what}"), Some(task), &events);
                }
            }
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("judged_in_calm", in_calm as f64);
    vec![word]
}

struct Calm<'a> {
    disturbed: Spans,
    busy: Spans,
    /// By job, when it ran as many tasks as it may.
    full: BTreeMap<&'a str, Spans>,
    in_force: Spans,
}

/// The delay before the retry that follows this many counted attempts, in ms.
fn wanted_ms(request: &Submit, counted: usize, ended: &Try<'_>) -> u64 {
    let last = request.backoff_ms.len().saturating_sub(1);
    let backoff = request.backoff_ms.get(counted.saturating_sub(1).min(last)).copied().unwrap_or(0);
    let asked = ended.sent.iter().filter(|(_, sent)| sent.outcome == "failed");
    backoff.max(asked.filter_map(|(_, sent)| sent.retry_after_ms).max().unwrap_or(0))
}

/// Two attempts, one after the other.
struct Gap<'a> {
    one: &'a Try<'a>,
    after: &'a Try<'a>,
    wanted_ms: u64,
    /// When its job ran as many tasks as it may, where there is such a limit.
    full: Option<&'a Spans>,
}

impl Gap<'_> {
    fn too_soon(&self, outcome: &str, clocks: &Clocks, options: &Options) -> Option<(String, Vec<u64>)> {
        // A report that only repeats what the leader had declared before is not what the delay runs from.
        let counted = self.one.answers.iter().any(|(_, acked)| acked.verdict == "accepted");
        let reported = self.one.sent.iter().find(|(_, sent)| counted && sent.outcome == outcome);
        if let (Some((sent, _)), Some((recv, _))) = (reported, self.after.receipts.first()) {
            let gap_ms = recv.mono_ns.saturating_sub(sent.mono_ns) / MS;
            let room_ms = clocks.jump_room_ms(sent.mono_ns, recv.mono_ns) + options.tick_ms;
            let room_ms = if clocks.stepped() { room_ms + options.clock_noise_ms } else { room_ms };
            return (gap_ms + room_ms < self.wanted_ms).then(|| {
                let what =
                    format!("arrived {gap_ms} ms after the report before it, not {} ms", self.wanted_ms);
                (what, vec![sent.i, recv.i])
            });
        }
        // Both instants are the cluster's, whatever any wall clock showed.
        let (event, row) = self.one.rows.first()?;
        let (_, next) = self.after.rows.first()?;
        let known = !self.one.starts.is_empty();
        let declared = self.one.sent.iter().all(|(_, sent)| sent.outcome != outcome)
            && (outcome == "lost" || (outcome == "timedOut" && known));
        let gap_ms = next.granted_at_ms.saturating_sub(row.ended_at_ms.filter(|_| declared)?);
        let wanted = i64::try_from(self.wanted_ms).unwrap_or(i64::MAX);
        let tick = i64::try_from(options.tick_ms).unwrap_or(i64::MAX);
        (gap_ms.saturating_add(tick) < wanted).then(|| {
            (format!("was granted {gap_ms} ms after the end before it, not {wanted} ms"), vec![event.i])
        })
    }

    fn too_late(&self, calm: &Calm<'_>, options: &Options, judged: &mut u64) -> Option<(String, Vec<u64>)> {
        let (acked, _) = self.one.answers.iter().find(|(_, acked)| acked.verdict == "accepted")?;
        let (recv, _) = self.after.receipts.first()?;
        let due_ns = acked.mono_ns + self.wanted_ms * MS;
        let in_calm = !calm.disturbed.touch(acked.mono_ns, recv.mono_ns);
        *judged += u64::from(in_calm);
        let (held_up, allowed_ms, not_counting) = match in_calm {
            true => (&calm.busy, options.lateness_ms, "full slots, and nothing disturbed the cluster"),
            false => (&calm.in_force, options.starvation_ms, "faults"),
        };
        let with_its_turn = self.full.map(|full| held_up.and(full));
        let held_up_ns = with_its_turn.as_ref().unwrap_or(held_up).covered(due_ns, recv.mono_ns);
        let late_ms = recv.mono_ns.saturating_sub(due_ns).saturating_sub(held_up_ns) / MS;
        (late_ms > allowed_ms).then(|| {
            let what = format!("arrived {late_ms} ms after it was due, not counting {not_counting}");
            (what, vec![acked.i, recv.i])
        })
    }
}
