//! D12: nothing waits for ever behind others.

mod overtaking;

use std::collections::BTreeMap;

use super::Options;
use crate::attempts::{Life, Tasks};
use crate::event::FinalTask;
use crate::faults::{busy, end_ns, in_force};
use crate::history::History;
use crate::spans::MS;
use crate::verdict::Judgement;

/// The longest wait of one priority, in ms.
#[derive(Default)]
struct Class {
    longest_ms: u64,
    waited: u64,
}

/// D12. From when a task was due and acknowledged until its first attempt reached an executor (or, of one that
/// is still ready in a table, until that was read), no task waits longer than the bound, not counting the time
/// in which faults were in force or nobody led. The longest wait of each priority is a figure, and so is for how
/// long no executor had a free slot: without that nothing was in anybody's way. And of equal priority the one
/// that waits longest goes first.
pub fn bounded_waits(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D12");
    let tasks = Tasks::of(history);
    let troubled = in_force(history);
    let mut classes: BTreeMap<u64, Class> = BTreeMap::new();
    for (task, life) in &tasks.by_id {
        let Some((priority, due_ns, until_ns, event)) = wait_of(life) else { continue };
        let wait_ns = until_ns.saturating_sub(due_ns);
        let wait_ms = wait_ns.saturating_sub(troubled.covered(due_ns, until_ns)) / MS;
        let class = classes.entry(priority).or_default();
        class.waited += 1;
        class.longest_ms = class.longest_ms.max(wait_ms);
        if wait_ms > options.starvation_ms {
            let what = format!(
                "a task of priority {priority} waited {wait_ms} ms for an executor, not counting faults"
            );
            word.violated(what, Some(task), &[event]);
        }
    }
    for (priority, class) in &classes {
        word.stat(&format!("longest_wait_ms.priority_{priority}"), class.longest_ms as f64);
    }
    word.stat("looked_at", classes.values().map(|class| class.waited).sum::<u64>() as f64);
    let in_turn = overtaking::overtaken(&mut word, &tasks);
    word.stat("in_turn", in_turn as f64);
    word.stat("executors_full_ms", (busy(history).covered(0, end_ns(history)) / MS) as f64);
    vec![word]
}

/// Priority, due instant, end of the wait (both in ns), and the event of that end. A task that waits for an
/// instant of the wall clock is left out: when that was due depends on a clock that may be stepped. So is one that waits
/// for others.
fn wait_of(life: &Life<'_>) -> Option<(u64, u64, u64, u64)> {
    let request = life.request()?;
    if request.run_at_ms.is_some() || !request.depends_on.is_empty() {
        return None;
    }
    let due_ns = life.acked_ns()? + request.delay_ms.unwrap_or(0) * MS;
    let arrivals = life.tries.values().filter_map(|one| one.accepted().next()).map(|(event, _)| event);
    let still_ready = |last: &FinalTask| {
        let reason = last.task.reason.as_deref();
        last.task.status == "PENDING" && reason == Some("ready") && last.attempts.is_empty()
    };
    let waiting = life.finals.iter().filter(|(_, last)| still_ready(last)).map(|(event, _)| *event);
    let end = arrivals.chain(waiting).min_by_key(|event| event.i)?;
    Some((request.priority, due_ns, end.mono_ns, end.i))
}
