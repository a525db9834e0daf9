//! Who was handed out before whom.

use std::collections::BTreeMap;

use crate::attempts::{Life, Tasks};
use crate::spans::MS;
use crate::verdict::Judgement;

/// Grants under way, refused ones and a new leader's look at its tables may turn the order round, for less than
/// this, in ms.
const MARGIN_MS: i64 = 2_000;

/// The first grant of a task that any executor may take.
struct Turn<'a> {
    task: &'a str,
    /// Ready since then, by the cluster.
    ready_ms: i64,
    /// Granted then, by the cluster.
    granted_ms: i64,
    /// The push of that grant: when it arrived, in ns, and its event.
    arrived: (u64, u64),
}

/// Of tasks with one handler and one priority the one that waits longest goes first: fails when one was handed
/// out clearly after another that had become ready clearly later. Answers how many were compared.
pub(super) fn overtaken(word: &mut Judgement, tasks: &Tasks<'_>) -> u64 {
    let mut queues: BTreeMap<(&str, u64), Vec<Turn<'_>>> = BTreeMap::new();
    for (task, life) in &tasks.by_id {
        if let Some((queue, turn)) = turn_of(task, life) {
            queues.entry(queue).or_default().push(turn);
        }
    }
    let compared = queues.values().map(|turns| turns.len() as u64).sum();
    for turns in queues.values_mut() {
        turns.sort_by_key(|turn| turn.granted_ms);
        // Of those that were handed out clearly before the one at hand: who became ready last.
        let (mut gone, mut newest) = (0, None::<usize>);
        for at in 0..turns.len() {
            while turns[gone].granted_ms + MARGIN_MS < turns[at].granted_ms {
                if newest.is_none_or(|newest| turns[newest].ready_ms < turns[gone].ready_ms) {
                    newest = Some(gone);
                }
                gone += 1;
            }
            if let Some(newest) = newest {
                judge(word, &turns[newest], &turns[at]);
            }
        }
    }
    compared
}

/// A task that was handed out `before` another that had waited longer.
fn judge(word: &mut Judgement, before: &Turn<'_>, after: &Turn<'_>) {
    let waited_ms = before.ready_ms - after.ready_ms;
    // The cluster's time may have been put forward between the grants: by the monotonic clock as well.
    let margin_ns = MARGIN_MS.unsigned_abs() * MS;
    if waited_ms > MARGIN_MS && before.arrived.0 + margin_ns < after.arrived.0 {
        let behind_ms = after.granted_ms - before.granted_ms;
        let what = format!(
            "handed out {behind_ms} ms after {}, which became ready {waited_ms} ms later",
            before.task
        );
        word.violated(what, Some(after.task), &[before.arrived.1, after.arrived.1]);
    }
}

/// The queue that a task stands in, and its turn. A task that waits for an instant of the wall clock is left
/// out, as is one that not every executor may take, or of which that is not known.
fn turn_of<'a>(task: &'a str, life: &Life<'a>) -> Option<((&'a str, u64), Turn<'a>)> {
    let request = life.request()?;
    if request.anywhere != Some(true) || request.run_at_ms.is_some() || request.shard_total > 1 {
        return None;
    }
    let first = life.tries.get(&(0, 1))?;
    let (receipt, _) = first.receipts.first()?;
    let (_, row) = first.rows.first()?;
    let created_ms = life.finals.iter().find_map(|(_, last)| last.task.created_at_ms)?;
    let delay_ms = i64::try_from(request.delay_ms.unwrap_or(0)).unwrap_or(i64::MAX);
    let turn = Turn {
        task,
        ready_ms: created_ms.saturating_add(delay_ms),
        granted_ms: row.granted_at_ms,
        arrived: (receipt.mono_ns, receipt.i),
    };
    Some(((&request.handler, request.priority), turn))
}
