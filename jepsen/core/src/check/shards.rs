//! W3: each shard of a task counts once.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::attempts::{Life, Tasks};
use crate::event::{Event, FinalTask};
use crate::history::History;
use crate::verdict::Judgement;

/// W3. Of every task of several shards, and of every broadcast:
///
/// - all tables say the same number of shards, which is the number that was asked for, and no attempt is of a shard
///   beyond it;
/// - one that succeeded has in its result one place for each shard, with what the attempt at that shard returned
///   which succeeded, and in no other order;
/// - of a broadcast each shard has been at one executor alone, and no two shards at the same.
///
/// `shards` counts those of tasks that succeeded, `results` those whose result was compared with what an executor said.
pub fn each_once(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("W3");
    let tasks = Tasks::of(history);
    let (mut looked_at, mut broadcasts, mut shards, mut results) = (0_u64, 0_u64, 0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        let Some(request) = life.request().filter(|request| request.broadcast || request.shard_total > 1)
        else {
            continue;
        };
        let Some((event, last)) = life.finals.first().copied() else { continue };
        looked_at += 1;
        broadcasts += u64::from(request.broadcast);
        let total = last.shard_total;
        let mut found = same_total(life, total);
        if !request.broadcast && total != request.shard_total {
            found.push(format!("it has {total} shards, and {} were asked for", request.shard_total));
        }
        found.extend(beyond(life, total));
        if request.broadcast {
            found.extend(one_executor_each(last));
        }
        if last.task.status == "SUCCESS" {
            shards += total;
            match in_place(life, last) {
                Ok(compared) => results += compared,
                Err(what) => found.push(what),
            }
        }
        tell(&mut word, task, event, found);
    }
    word.stat("looked_at", looked_at as f64);
    word.stat("broadcasts", broadcasts as f64);
    word.stat("shards", shards as f64);
    word.stat("results", results as f64);
    vec![word]
}

fn tell(word: &mut Judgement, task: &str, event: &Event, found: Vec<String>) {
    for what in found {
        word.violated(what, Some(task), &[event.i]);
    }
}

fn same_total(life: &Life<'_>, total: u64) -> Vec<String> {
    let others = life.finals.iter().filter(|(_, other)| other.shard_total != total);
    others
        .map(|(event, other)| {
            let node = event.node.as_deref().unwrap_or("another table");
            format!("it has {total} shards, and {} on {node}", other.shard_total)
        })
        .collect()
}

/// An attempt at a shard that the task does not have.
fn beyond(life: &Life<'_>, total: u64) -> Option<String> {
    let (shard, _) = life.tries.keys().find(|(shard, _)| u64::from(*shard) >= total)?;
    Some(format!("there is an attempt at shard {shard}, and it has {total} shards"))
}

fn one_executor_each(last: &FinalTask) -> Vec<String> {
    let mut by_shard: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    for row in last.attempts.iter().filter(|row| row.outcome.as_deref() != Some("refused")) {
        by_shard.entry(row.shard).or_default().insert(&row.executor);
    }
    let mut found = Vec::new();
    let mut taken: BTreeMap<&str, u16> = BTreeMap::new();
    for (shard, executors) in by_shard {
        if executors.len() > 1 {
            found.push(format!("shard {shard} of a broadcast was at {} executors", executors.len()));
        }
        for executor in executors {
            if let Some(other) = taken.insert(executor, shard) {
                found.push(format!("shards {other} and {shard} of a broadcast were both at {executor}"));
            }
        }
    }
    found
}

/// Whether the result has what each shard returned, in its place; answers with how many were compared.
fn in_place(life: &Life<'_>, last: &FinalTask) -> Result<u64, String> {
    let (total, told) = (last.shard_total, last.results.len() as u64);
    // A broadcast to one executor has the result of its one shard, not a list of one.
    if total <= 1 {
        return Ok(0);
    }
    if told != total {
        return Err(format!("it succeeded with {total} shards, and its result has {told} places"));
    }
    let mut compared = 0;
    for (shard, digest) in (0..).zip(&last.results) {
        let row = last
            .attempts
            .iter()
            .find(|row| row.shard == shard && row.outcome.as_deref() == Some("succeeded"));
        let Some(row) = row else { return Err(format!("it succeeded, and its shard {shard} did not")) };
        let Some(one) = life.tries.get(&(shard, row.attempt)) else { continue };
        let said = one.sent.iter().filter(|(_, sent)| sent.outcome == "succeeded");
        let Some(said) = said.filter_map(|(_, sent)| sent.result_digest.as_deref()).next() else { continue };
        if said != digest {
            return Err(format!("the result of shard {shard} is {digest}, and its executor returned {said}"));
        }
        compared += 1;
    }
    Ok(compared)
}
