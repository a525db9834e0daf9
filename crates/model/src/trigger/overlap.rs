//! What happens at a fire when earlier tasks of the job are still open.

use serde::{Deserialize, Serialize};

use super::occurrence::SkipReason;
use crate::id::TaskId;

/// The overlap policy of a job. Default: skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OverlapPolicy {
    /// Another task runs beside them.
    Allow,
    /// No task is made.
    #[default]
    Skip,
    /// One task waits until they have ended; while one waits, no other is made.
    Queue,
    /// They are cancelled, and the new task waits until they have ended.
    CancelOther,
}

/// An open task of the job: one whose status is not terminal. One that waits for an executor, for a retry or for
/// the confirmation of a cancel is open too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTask {
    /// Which.
    pub task: TaskId,
    /// It was queued by this policy and waits for the others.
    pub queued: bool,
}

/// What to do at a fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Make a task that may start at once.
    Start,
    /// Make a task that waits until every open task has ended.
    Queue,
    /// Ask for the cancel of these, and make a task that waits until they have ended.
    Replace(Vec<TaskId>),
    /// Make no task; record why.
    Skip(SkipReason),
}

/// Decides by the open tasks of the job alone, whatever triggers or people made them.
pub fn decide(policy: OverlapPolicy, open: &[OpenTask]) -> Decision {
    match policy {
        _ if open.is_empty() => Decision::Start,
        OverlapPolicy::Allow => Decision::Start,
        OverlapPolicy::Skip => Decision::Skip(SkipReason::Overlap),
        OverlapPolicy::Queue if open.iter().any(|task| task.queued) => Decision::Skip(SkipReason::Overlap),
        OverlapPolicy::Queue => Decision::Queue,
        OverlapPolicy::CancelOther => Decision::Replace(open.iter().map(|task| task.task).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(queued: &[bool]) -> Vec<OpenTask> {
        queued
            .iter()
            .zip(1..)
            .map(|(queued, n)| OpenTask { task: TaskId([n; 16]), queued: *queued })
            .collect()
    }

    #[test]
    fn each_policy_has_one_answer() {
        use OverlapPolicy::{Allow, CancelOther, Queue, Skip};
        let skip = Decision::Skip(SkipReason::Overlap);
        let both = Decision::Replace(vec![TaskId([1; 16]), TaskId([2; 16])]);
        for (policy, tasks, right) in [
            (Allow, vec![], Decision::Start),
            (Skip, vec![], Decision::Start),
            (Queue, vec![], Decision::Start),
            (CancelOther, vec![], Decision::Start),
            (Allow, vec![false, false], Decision::Start),
            (Skip, vec![false], skip.clone()),
            (Queue, vec![false], Decision::Queue),
            (Queue, vec![false, true], skip.clone()),
            (Queue, vec![true], skip),
            (CancelOther, vec![false, true], both),
        ] {
            assert_eq!(decide(policy, &open(&tasks)), right, "{policy:?} {tasks:?}");
        }
    }
}
