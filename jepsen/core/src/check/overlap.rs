//! D4: one shard of a task runs in one place at a time, and one report of it counts.

use super::Options;
use crate::attempts::{Life, Tasks, Try};
use crate::event::{Event, What};
use crate::faults::{Installed, end_ns, installed};
use crate::history::History;
use crate::spans::Spans;
use crate::verdict::Judgement;

use std::collections::BTreeMap;

/// The run of an attempt at its executor.
#[derive(Clone, Copy)]
struct Run {
    attempt: u32,
    from_ns: u64,
    until_ns: u64,
    event: u64,
}

/// What may explain an overlap where the tables do not tell how the earlier attempt ended.
struct Excuses<'a> {
    faults: BTreeMap<&'a str, Spans>,
    /// When each life of each executor ended.
    deaths: BTreeMap<(&'a str, u64), u64>,
    end_ns: u64,
}

impl<'a> Excuses<'a> {
    fn of(history: &'a History) -> Self {
        let mut by_executor: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for Installed { fault, from_ns, until_ns, .. } in installed(history) {
            for node in &fault.nodes {
                by_executor.entry(node).or_default().push((from_ns, until_ns));
            }
        }
        let mut deaths = BTreeMap::new();
        for event in history.events() {
            if let What::ExecutorDown(down) = &event.what {
                deaths.entry((down.executor.as_str(), down.incarnation)).or_insert(event.mono_ns);
            }
        }
        let faults = by_executor.into_iter().map(|(node, spans)| (node, Spans::of(spans))).collect();
        Excuses { faults, deaths, end_ns: end_ns(history) }
    }

    /// When the run that began with this start was over for certain.
    fn over_ns(&self, one: &Try<'_>, start: &Event, executor: &str, incarnation: u64) -> u64 {
        let finish = one.finishes.iter().find(|(event, finish)| {
            event.i > start.i && finish.executor == executor && finish.incarnation == incarnation
        });
        let finish = finish.map(|(event, _)| event.mono_ns);
        let death = self.deaths.get(&(executor, incarnation)).copied();
        finish.into_iter().chain(death).min().unwrap_or(self.end_ns)
    }

    /// Whether the earlier attempt's lease was over although it ran on: it was declared lost, or declared
    /// timed out because it would not stop; or, where no table tells, a fault lay on its executor.
    fn lease_was_over(&self, earlier: &Try<'_>, run: Run) -> bool {
        match earlier.outcome() {
            Some(outcome) => matches!(outcome, "lost" | "timedOut"),
            None => earlier.starts.iter().any(|(_, start)| {
                let spans = self.faults.get(start.executor.as_str());
                spans.is_some_and(|spans| spans.touch(run.from_ns, run.until_ns))
            }),
        }
    }
}

/// D4. Runs of different attempts at one shard do not overlap in time, unless the lease of the earlier one
/// was declared over while it went on (those are counted). Of one attempt one report is accepted, and of one
/// shard one success.
pub fn no_overlap(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D4");
    let tasks = Tasks::of(history);
    let excuses = Excuses::of(history);
    let (mut looked_at, mut allowed) = (0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        for (shard, tries) in life.shards() {
            let mut runs = Vec::new();
            for (attempt, one) in &tries {
                runs.extend(one.starts.iter().map(|(event, start)| Run {
                    attempt: *attempt,
                    from_ns: event.mono_ns,
                    until_ns: excuses.over_ns(one, event, &start.executor, start.incarnation),
                    event: event.i,
                }));
            }
            looked_at += runs.len() as u64;
            allowed += overlaps(&mut word, task, life, shard, runs, &excuses);
            accepted_reports(&mut word, task, shard, &tries);
        }
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("allowed_overlaps", allowed as f64);
    vec![word]
}

/// Judges the runs of one shard; answers how many overlaps were allowed.
fn overlaps(
    word: &mut Judgement,
    task: &str,
    life: &Life<'_>,
    shard: u16,
    mut runs: Vec<Run>,
    excuses: &Excuses<'_>,
) -> u64 {
    runs.sort_unstable_by_key(|run| (run.from_ns, run.event));
    let mut open: Vec<Run> = Vec::new();
    let mut allowed = 0;
    for run in runs {
        open.retain(|earlier| earlier.until_ns > run.from_ns);
        for other in open.iter().filter(|other| other.attempt != run.attempt) {
            let (earlier, later) = if other.attempt < run.attempt { (*other, run) } else { (run, *other) };
            let was_over = life
                .tries
                .get(&(shard, earlier.attempt))
                .is_some_and(|one| excuses.lease_was_over(one, earlier));
            if was_over {
                allowed += 1;
                continue;
            }
            let what = format!(
                "attempts {} and {} of shard {shard} ran at the same time, and the first was not given up",
                earlier.attempt, later.attempt
            );
            word.violated(what, Some(task), &[earlier.event, later.event]);
        }
        open.push(run);
    }
    allowed
}

fn accepted_reports(word: &mut Judgement, task: &str, shard: u16, tries: &[(u32, &Try<'_>)]) {
    let mut success: Option<(u32, u64)> = None;
    for (number, one) in tries {
        let accepted: Vec<u64> = one
            .answers
            .iter()
            .filter(|(_, acked)| acked.verdict == "accepted")
            .map(|(event, _)| event.i)
            .collect();
        if accepted.len() > 1 {
            let what =
                format!("{} reports of attempt {number} of shard {shard} were accepted", accepted.len());
            word.violated(what, Some(task), &accepted);
        }
        let succeeded = !one.sent.is_empty() && one.sent.iter().all(|(_, sent)| sent.outcome == "succeeded");
        let Some(event) = accepted.first().copied().filter(|_| succeeded) else { continue };
        if let Some((before, earlier)) = success {
            let what =
                format!("shard {shard}: attempts {before} and {number} were both accepted as successes");
            word.violated(what, Some(task), &[earlier, event]);
        }
        success = Some((*number, event));
    }
}
