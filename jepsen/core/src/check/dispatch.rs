//! D1: every attempt has one grant. D2: what reaches an executor was committed before it was sent.

use std::collections::BTreeSet;

use super::Options;
use crate::attempts::{Life, Tasks, Try};
use crate::event::{FinalTask, Recv};
use crate::history::History;
use crate::verdict::Judgement;

/// D1. All receipts and rows of one attempt name one executor and one fence; it is accepted in one life of
/// that executor only; and the fences of a shard grow with its attempts. The same grant may be sent again,
/// also by a later leader.
pub fn one_grant(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D1");
    let tasks = Tasks::of(history);
    let (mut receipts, mut repeated) = (0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        for ((shard, number), one) in &life.tries {
            receipts += one.receipts.len() as u64;
            repeated += one.receipts.len().saturating_sub(1) as u64;
            let name = format!("attempt {number} of shard {shard}");
            same_grant(&mut word, task, &name, one);
            accepted_once(&mut word, task, &name, one);
        }
        growing_fences(&mut word, task, life);
    }
    word.stat("looked_at", receipts as f64);
    word.stat("sent_again", repeated as f64);
    vec![word]
}

fn same_grant(word: &mut Judgement, task: &str, name: &str, one: &Try<'_>) {
    let receipts = one.receipts.iter().map(|(event, recv)| (event.i, &recv.executor, recv.grant.fence));
    let rows = one.rows.iter().map(|(event, row)| (event.i, &row.executor, row.fence));
    let mut all = receipts.chain(rows);
    let Some(first) = all.next() else { return };
    if let Some(other) = all.find(|other| (other.1, other.2) != (first.1, first.2)) {
        let what = format!(
            "{name} was granted twice: to {} under fence {} and to {} under fence {}",
            first.1, first.2, other.1, other.2
        );
        word.violated(what, Some(task), &[first.0, other.0]);
    }
}

fn accepted_once(word: &mut Judgement, task: &str, name: &str, one: &Try<'_>) {
    let mut accepted = one.accepted();
    let Some((first, recv)) = accepted.next() else { return };
    for (event, again) in accepted {
        if (&again.executor, again.incarnation) == (&recv.executor, recv.incarnation) {
            let what = format!("{} accepted {name} of {task} twice: it broke the protocol", recv.executor);
            word.unknown(what, &[first.i, event.i]);
        } else {
            let lives = (recv.incarnation, again.incarnation);
            let what = format!(
                "{name} was accepted in two lives: by {} in {} and by {} in {}",
                recv.executor, lives.0, again.executor, lives.1
            );
            word.violated(what, Some(task), &[first.i, event.i]);
        }
    }
}

fn growing_fences(word: &mut Judgement, task: &str, life: &Life<'_>) {
    let fence = |one: &Try<'_>| {
        let receipt = one.receipts.first().map(|(event, recv)| (recv.grant.fence, event.i));
        receipt.or_else(|| one.rows.first().map(|(event, row)| (row.fence, event.i)))
    };
    for (shard, tries) in life.shards() {
        let fences: Vec<_> = tries.iter().filter_map(|(number, one)| Some((*number, fence(one)?))).collect();
        for pair in fences.windows(2) {
            let ((before, (low, low_event)), (after, (high, high_event))) = (pair[0], pair[1]);
            if high <= low {
                let what = format!(
                    "shard {shard}: attempt {after} has fence {high}, not above {low} of attempt {before}"
                );
                word.violated(what, Some(task), &[low_event, high_event]);
            }
        }
    }
}

/// D2. For each receipt, each table at the end has a row of that attempt with the same fence and executor,
/// and of a round that is not after the sender's. A table that had to forget attempts of a shard may lack the
/// row.
pub fn committed_before_sent(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D2");
    let tasks = Tasks::of(history);
    let complete: BTreeSet<&str> = tasks.tables.iter().filter_map(|(end, _)| end.node.as_deref()).collect();
    let (mut compared, mut forgotten) = (0_u64, 0_u64);
    for (task, life) in &tasks.by_id {
        for ((shard, number), one) in &life.tries {
            for (event, recv) in &one.receipts {
                for (row_of, table) in &life.finals {
                    compared += 1;
                    let kept = table.attempts.iter().filter(|row| row.shard == *shard).count();
                    if let Err(what) = committed(recv, table) {
                        word.violated(what, Some(task), &[event.i, row_of.i]);
                    } else if kept >= options.kept_attempts {
                        forgotten += 1;
                    } else if !one.rows.iter().any(|(row_event, _)| row_event.i == row_of.i) {
                        let node = row_of.node.as_deref().unwrap_or("a replica");
                        let what = format!(
                            "{} received attempt {number} of shard {shard} (fence {}), and {node} has no row of it",
                            recv.executor, recv.grant.fence
                        );
                        word.violated(what, Some(task), &[event.i, row_of.i]);
                    }
                }
            }
        }
        if life.finals.is_empty() && !complete.is_empty() {
            unknown_task(&mut word, task, life);
        }
    }
    word.stat("looked_at", compared as f64);
    word.stat("in_full_tables", forgotten as f64);
    vec![word]
}

/// Whether the row of a receipt, where the table has one, says the same.
fn committed(recv: &Recv, table: &FinalTask) -> Result<(), String> {
    let grant = &recv.grant;
    let mut rows = table.attempts.iter();
    let Some(row) = rows.find(|row| (row.shard, row.attempt) == (grant.shard, grant.attempt)) else {
        return Ok(());
    };
    let name = format!("attempt {} of shard {}", grant.attempt, grant.shard);
    if (row.fence, &row.executor) != (grant.fence, &recv.executor) {
        return Err(format!(
            "{} received {name} under fence {}, and the table has it with {} under fence {}",
            recv.executor, grant.fence, row.executor, row.fence
        ));
    }
    if recv.round < row.round {
        return Err(format!(
            "{name} was sent in round {}, before its grant in round {}",
            recv.round, row.round
        ));
    }
    let taken = recv.verdict == "accepted" || recv.verdict == "duplicate";
    if taken && row.incarnation != recv.incarnation {
        return Err(format!(
            "{name} was granted to life {} of {} and taken in life {}",
            row.incarnation, row.executor, recv.incarnation
        ));
    }
    Ok(())
}

fn unknown_task(word: &mut Judgement, task: &str, life: &Life<'_>) {
    let first = life.tries.values().find_map(|one| one.receipts.first());
    if let Some((event, recv)) = first {
        let what = format!("{} received an attempt of a task that no table has", recv.executor);
        word.violated(what, Some(task), &[event.i]);
    }
}
