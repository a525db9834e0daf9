//! D12: nothing waits for ever behind others.

use std::collections::BTreeMap;

use super::Options;
use crate::attempts::{Life, Tasks};
use crate::faults::{busy, disturbed};
use crate::history::History;
use crate::spans::MS;
use crate::verdict::Judgement;

/// The longest wait of one priority, in ms.
#[derive(Default)]
struct Class {
    longest_ms: u64,
    waited: u64,
}

/// D12. From when a task was due and acknowledged until its first attempt reached an executor, no task waits
/// longer than the bound, not counting the time in which faults were near. The longest wait of each priority
/// is a figure, and so is how long work waited for slots at all: without that nothing was in anybody's way.
pub fn bounded_waits(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D12");
    let tasks = Tasks::of(history);
    let troubled = disturbed(history, options, |_| true);
    let mut classes: BTreeMap<u64, Class> = BTreeMap::new();
    for (task, life) in &tasks.by_id {
        let Some((priority, due_ns, arrived_ns, event)) = wait_of(life) else { continue };
        let wait_ns = arrived_ns.saturating_sub(due_ns);
        let wait_ms = wait_ns.saturating_sub(troubled.covered(due_ns, arrived_ns)) / MS;
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
    let all = history.events().last().map_or(0, |event| event.mono_ns);
    word.stat("work_waited_ms", (busy(history).covered(0, all) / MS) as f64);
    vec![word]
}

/// Priority, due instant, arrival of the first attempt (both in ns), and the event of the arrival. A task
/// that waits for an instant of the wall clock is left out: when that was due depends on a clock that may be
/// stepped.
fn wait_of(life: &Life<'_>) -> Option<(u64, u64, u64, u64)> {
    let request = life.request()?;
    if request.run_at_ms.is_some() {
        return None;
    }
    let due_ns = life.acked_ns()? + request.delay_ms.unwrap_or(0) * MS;
    let first = life.tries.values().filter_map(|one| one.accepted().next());
    let (event, _) = first.min_by_key(|(event, _)| event.i)?;
    Some((request.priority, due_ns, event.mono_ns, event.i))
}
