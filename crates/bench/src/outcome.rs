//! What every run with executors tells: losses, doubles, latencies. Pure.

use crate::figures::{Run, Shown};
use crate::message::{CheckResult, LoadResult};
use crate::record::Summary;

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// Submissions that were begun, of those that are looked up.
    pub sent: u64,
    /// All tasks that were acknowledged, also those that are not looked up.
    pub acknowledged: u64,
    /// Whether all of them were done in time.
    pub drained: bool,
    /// What the API says of them, or of a sample.
    pub checked: &'a CheckResult,
    /// What the handlers saw.
    pub summary: &'a Summary,
}

impl Outcome<'_> {
    /// Adds the figures, and a fault for everything that must not be.
    pub fn add_to(self, run: &mut Run, shown: &[Shown]) {
        let Outcome { sent, acknowledged, drained, checked, summary } = self;
        // Tasks that ran without an acknowledgement count as started, too: where some failed, this is the least.
        let never = acknowledged.saturating_sub(summary.tasks);
        run.add("success", "%", checked.succeeded() / sent.max(1) as f64 * 100.0);
        run.add("looked up", "", checked.looked_up as f64);
        run.add("lost", "", checked.lost() as f64);
        run.add("never started", "", never as f64);
        run.add("duplicates", "", summary.duplicates as f64);
        run.add("early", "", summary.early as f64);
        run.add_latency("lateness", &summary.lateness, shown);
        run.add_latency("end to end", &checked.end_to_end, &[Shown::P50, Shown::P99]);
        if checked.looked_up < checked.acknowledged {
            run.notes.push(format!(
                "success, lost and end to end are of a sample: {} of {} tasks were looked up; the other counts are of all",
                checked.looked_up, checked.acknowledged
            ));
        }
        run.must_be_none(checked.lost(), "acknowledged tasks did not end as SUCCESS");
        run.must_be_none(never, "acknowledged tasks were never started");
        run.must_be_none(summary.duplicates, "tasks were started more than once");
        run.must_be_none(summary.early, "tasks were started before they were due");
        if acknowledged == 0 {
            run.faults
                .push("no task was acknowledged: there is nothing of which the figures tell".to_owned());
        }
        if !drained {
            run.faults.push("not every acknowledged task was done in time".to_owned());
        }
    }
}

/// Adds how long requests took, and of those that failed once more by themselves. Submissions that failed for good are a
/// fault: the figures are of a smaller load than the one that was asked for.
pub fn add_requests(run: &mut Run, name: &str, ran: &LoadResult, shown: &[Shown]) {
    run.must_be_none(ran.failed(), &format!("of {} submissions failed for good ({name})", ran.sent));
    run.add_latency(name, &ran.latency, shown);
    run.add_latency(&format!("{name}, failed"), &ran.failures, &[Shown::P50, Shown::Max]);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn checked(acknowledged: u64, looked_up: u64, successes: u64) -> CheckResult {
        let statuses = BTreeMap::from([("SUCCESS".to_owned(), successes)]);
        CheckResult { acknowledged, looked_up, statuses, ..CheckResult::default() }
    }

    fn all_started() -> Summary {
        Summary { starts: 10, tasks: 10, ..Summary::default() }
    }

    fn played(checked: &CheckResult, summary: &Summary, drained: bool) -> Run {
        let mut run = Run::default();
        let outcome = Outcome { sent: 10, acknowledged: 10, drained, checked, summary };
        outcome.add_to(&mut run, Shown::ALL);
        run
    }

    #[test]
    fn a_run_of_which_all_went_well_has_no_fault() {
        let run = played(&checked(10, 10, 10), &all_started(), true);
        assert_eq!((run.faults, run.notes), (Vec::<String>::new(), Vec::<String>::new()));
        assert_eq!((run.figures[0].name.as_str(), run.figures[0].value), ("success", 100.0));
    }

    #[test]
    fn each_thing_that_must_not_be_is_a_fault_of_its_own() {
        let summary = Summary { starts: 12, tasks: 8, duplicates: 3, early: 1, ..Summary::default() };
        let run = played(&checked(10, 10, 6), &summary, false);
        assert_eq!(
            run.faults,
            [
                "4 acknowledged tasks did not end as SUCCESS",
                "2 acknowledged tasks were never started",
                "3 tasks were started more than once",
                "1 tasks were started before they were due",
                "not every acknowledged task was done in time"
            ]
        );
    }

    #[test]
    fn requests_that_failed_are_shown_where_there_are_any() {
        let mut ran = LoadResult::default();
        ran.latency.record(1_000);
        let names = |ran: &LoadResult| {
            let mut run = Run::default();
            add_requests(&mut run, "submit", ran, &[Shown::P99]);
            run.figures.into_iter().map(|figure| figure.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&ran), ["submit p99"]);
        ran.failures.record(10_000_000);
        assert_eq!(names(&ran), ["submit p99", "submit, failed p50", "submit, failed max"]);
    }

    #[test]
    fn submissions_that_failed_for_good_are_a_fault_and_so_is_a_run_without_any_task() {
        let errors = BTreeMap::from([("429 rate_limited".to_owned(), 3), ("503 disk_low".to_owned(), 4)]);
        let ran = LoadResult { sent: 10, acknowledged: 3, errors, ..LoadResult::default() };
        let mut run = Run::default();
        add_requests(&mut run, "submit", &ran, Shown::ALL);
        assert_eq!(run.faults, ["7 of 10 submissions failed for good (submit)"]);

        let mut run = Run::default();
        let (checked, summary) = (CheckResult::default(), Summary::default());
        Outcome { sent: 10, acknowledged: 0, drained: true, checked: &checked, summary: &summary }
            .add_to(&mut run, Shown::ALL);
        assert_eq!(run.faults, ["no task was acknowledged: there is nothing of which the figures tell"]);
    }

    #[test]
    fn a_sample_is_called_one() {
        let run = played(&checked(10, 4, 4), &all_started(), true);
        assert!(run.faults.is_empty() && run.notes[0].contains("4 of 10 tasks"), "{run:?}");
    }
}
