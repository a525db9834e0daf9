//! What the creations of tasks tell of the cluster's time.
//!
//! The cluster's time never goes back along the log, and a task is stamped with it where its submission stands there:
//! after the submission was asked for, and before it was acknowledged. So each creation bounds the cluster's time at
//! every instant before it was asked for, and at every instant after it was acknowledged, whatever any wall clock
//! showed.

use crate::event::What;
use crate::history::History;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Creations {
    /// When each task was asked for, in ns, with the earliest creation of any that was asked for then or later.
    asked: Vec<(u64, i64)>,
    /// When each task was acknowledged, in ns, with the latest creation of any that was acknowledged by then.
    acked: Vec<(u64, i64)>,
}

impl Creations {
    /// From the submissions that made a task. An answer that repeats an earlier one tells of an earlier instant.
    pub fn of(history: &History) -> Creations {
        let mut creations = Creations::default();
        for operation in history.operations() {
            let Some(end) = operation.ok().filter(|end| !end.meta.replayed) else { continue };
            let What::Submit(submit) = &end.what else { continue };
            let created_ms = submit.answer.as_ref().and_then(|task| task.created_at_ms);
            let Some(created_ms) = created_ms else { continue };
            creations.asked.push((operation.invoke.mono_ns, created_ms));
            creations.acked.push((end.mono_ns, created_ms));
        }
        creations.asked.sort_unstable();
        creations.acked.sort_unstable();
        let mut earliest = i64::MAX;
        for (_, created_ms) in creations.asked.iter_mut().rev() {
            earliest = earliest.min(*created_ms);
            *created_ms = earliest;
        }
        let mut latest = i64::MIN;
        for (_, created_ms) in &mut creations.acked {
            latest = latest.max(*created_ms);
            *created_ms = latest;
        }
        creations
    }

    /// The cluster's time was no further at this instant, in ms since the epoch; none when nothing was created after it.
    pub fn at_most_ms(&self, instant: u64) -> Option<i64> {
        let after = self.asked.partition_point(|(asked, _)| *asked < instant);
        self.asked.get(after).map(|(_, created_ms)| *created_ms)
    }

    /// The cluster's time was as far at this instant, in ms since the epoch; none when nothing was created before it.
    pub fn at_least_ms(&self, instant: u64) -> Option<i64> {
        let before = self.acked.partition_point(|(acked, _)| *acked <= instant);
        before.checked_sub(1).map(|last| self.acked[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::event::{Kind, Meta, Submit, TaskSeen};
    use crate::testing::{at, event};

    fn submit(proc: u64, (asked_ms, acked_ms): (u64, u64), created_ms: i64, replayed: bool) -> [Event; 2] {
        let task = TaskSeen { created_at_ms: Some(created_ms), ..TaskSeen::default() };
        let answer = Submit { answer: Some(task), ..Submit::default() };
        let of = |ms, kind, what| Event { kind, proc, ..event(ms, What::Submit(what)) };
        let ok = Event { meta: Meta { replayed, ..Meta::default() }, ..of(acked_ms, Kind::Ok, answer) };
        [of(asked_ms, Kind::Invoke, Submit::default()), ok]
    }

    #[test]
    fn a_creation_bounds_what_was_before_and_what_comes_after() {
        let submits = [
            submit(1, (10, 20), 5_000, false),
            submit(2, (30, 90), 5_070, false),
            submit(3, (40, 50), 5_030, false),
            submit(4, (60, 61), 5_000, true),
        ];
        let creations = Creations::of(&History::merge(submits.concat()));
        assert_eq!(creations.at_most_ms(at(5)), Some(5_000));
        assert_eq!(creations.at_most_ms(at(11)), Some(5_030), "the earliest of those that come later");
        assert_eq!(creations.at_most_ms(at(41)), None, "a repeated answer tells nothing");
        assert_eq!(creations.at_least_ms(at(19)), None);
        assert_eq!(creations.at_least_ms(at(60)), Some(5_030));
        assert_eq!(creations.at_least_ms(at(95)), Some(5_070));
    }
}
