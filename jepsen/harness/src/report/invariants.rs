//! What each invariant says, in plain words.

/// What an invariant protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Nothing wrong ever happens.
    Safety,
    /// What should happen does, in time.
    Liveness,
    /// The run can bear a verdict.
    Run,
}

impl Group {
    /// The heading of its part of the table.
    pub fn heading(self) -> &'static str {
        match self {
            Group::Safety => "Safety: nothing wrong ever happens",
            Group::Liveness => "Liveness and speed: what should happen does, in time",
            Group::Run => "The run itself: was it hard enough, and can it be judged?",
        }
    }
}

const TEXTS: &[(&str, Group, &str)] = &[
    ("R1", Group::Safety, "At most one replica leads a round."),
    (
        "R2",
        Group::Safety,
        "No replica goes back on its word: terms, votes and acknowledged entries never move back.",
    ),
    ("R3", Group::Safety, "Replicas that applied the same log hold the same tables."),
    ("R4", Group::Safety, "An entry of the log that is committed never changes."),
    (
        "R5",
        Group::Safety,
        "Data that was wiped or replaced never comes back under its old identity as a member.",
    ),
    ("A1", Group::Safety, "No task that was acknowledged is lost."),
    ("A2", Group::Safety, "Every answer about a task fits one order of events (linearizability)."),
    ("A3", Group::Safety, "A page of a list shows the tasks as they were at one moment."),
    ("A4", Group::Safety, "One idempotency key makes one task, however often it is sent."),
    ("A5", Group::Safety, "Weaker reads keep what they promise about their age."),
    (
        "A6",
        Group::Safety,
        "A cancel that was acknowledged has won: the task is not handed out or changed after it.",
    ),
    ("B1", Group::Safety, "An effect under a business key exists once, however often it was tried."),
    ("D1", Group::Safety, "One attempt is given to one executor, once."),
    ("D2", Group::Safety, "What reaches an executor was committed before it was sent."),
    ("D3", Group::Safety, "An executor takes nothing from a leader of an older round than it has heard of."),
    (
        "D4",
        Group::Safety,
        "Two attempts at one shard never run at the same time, unless the first was given up.",
    ),
    ("D5", Group::Safety, "Attempts are numbered without gaps, and there are no more of them than allowed."),
    ("D6", Group::Liveness, "A retry comes after its backoff, and not much later."),
    ("D7", Group::Safety, "A task moves only along the allowed transitions, one version at a time."),
    ("D8", Group::Safety, "A task that has ended stays as it ended."),
    ("D9", Group::Safety, "No result is invented: each outcome has the report or the event that caused it."),
    ("D10", Group::Safety, "Tasks go to executors that may have them, in the shares of their weights."),
    ("D11", Group::Safety, "Limits of rate and concurrency hold."),
    ("D12", Group::Liveness, "No ready task waits for a slot for too long."),
    ("T1", Group::Safety, "Each instant of a job makes a task, or is skipped for a reason that is recorded."),
    ("T3", Group::Safety, "No instant of a job makes two tasks."),
    ("T4", Group::Safety, "No task of a job comes from nowhere."),
    ("T5", Group::Safety, "Jobs fire at the instants that their schedules name, and at no others."),
    ("T2", Group::Safety, "Nothing starts before it is due."),
    (
        "T6",
        Group::Liveness,
        "Steps of wall clocks neither hold delayed tasks back nor let them all go at once.",
    ),
    ("T7", Group::Liveness, "A timeout ends an attempt when it should: not sooner, and not much later."),
    ("W1", Group::Safety, "Work that depends on other work starts after it."),
    ("W2", Group::Liveness, "Callbacks come after the end of a task, and they come."),
    ("W3", Group::Safety, "Each shard of a task succeeds exactly once."),
    (
        "L1",
        Group::Liveness,
        "After the last heal the cluster is whole: one leader, equal tables, fresh work done.",
    ),
    (
        "L2",
        Group::Liveness,
        "At the end no work is left behind: every task ended, is not yet due, or really runs.",
    ),
    ("L3", Group::Liveness, "After the leader is gone, writes and dispatches come back within the bound."),
    ("L4", Group::Liveness, "One bad follower does not hurt the callers of the others."),
    ("L5", Group::Liveness, "Replicas fail cleanly: no panic, no exit without a cause, and they recover."),
    ("L6", Group::Liveness, "Memory, files and logs do not grow without bound."),
    ("H1", Group::Run, "Every fault and every rare case that the plan asked for was really exercised."),
    ("H2", Group::Run, "Little enough stayed unknown, and the harness itself did not fail."),
];

/// The group and the words of an invariant.
pub fn about(id: &str) -> (Group, &'static str) {
    let found = TEXTS.iter().find(|(known, ..)| *known == id);
    found.map_or((Group::Safety, "This build of the report has no words for it."), |(_, group, text)| {
        (*group, *text)
    })
}

#[cfg(test)]
mod tests {
    use orloj_jepsen_core::check::{Options, judge};
    use orloj_jepsen_core::history::History;

    use super::*;

    #[test]
    fn every_invariant_that_is_judged_has_words() {
        let report = judge(&History::default(), &Options::default());
        assert!(report.judgements.len() > 20);
        for judgement in report.judgements {
            assert!(TEXTS.iter().any(|(id, ..)| *id == judgement.id), "{}", judgement.id);
        }
    }
}
