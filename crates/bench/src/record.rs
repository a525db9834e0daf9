//! What the handlers saw: one record for each start of a task. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;

/// One start of a task at its handler. Instants are in µs since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The task's id in its plan.
    pub id: u64,
    /// When it was due, or for one that is due at once, when it was meant to be submitted.
    pub due_us: i64,
    /// When the handler began.
    pub start_us: i64,
    /// When it returned; 0 while it has not.
    pub end_us: i64,
}

impl Record {
    /// The record as four little-endian doubles: id, and due, start and end in ms.
    pub fn to_bytes(self) -> [u8; 32] {
        let fields = [self.id as f64, ms(self.due_us), ms(self.start_us), ms(self.end_us)];
        let mut bytes = [0; 32];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

fn ms(us: i64) -> f64 {
    us as f64 / 1e3
}

/// What many records say together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Handler starts.
    pub starts: u64,
    /// Tasks that were started at least once.
    pub tasks: u64,
    /// Tasks that were started more than once.
    pub duplicates: u64,
    /// Starts before the task was due.
    pub early: u64,
    /// Starts whose handler has not returned.
    pub open: u64,
    /// First start of each task minus its due instant.
    pub lateness: Latency,
    /// The last return of a handler, in µs since the Unix epoch; 0 without any.
    pub last_end_us: i64,
    /// When the reports of all that had returned had been acknowledged, too, as the executors found a few ms later, in µs
    /// since the Unix epoch; 0 without any, and while one has not.
    pub settled_us: i64,
}

impl Summary {
    /// The summary of these records, which are put in order of id, due instant and start. A task is known by its id and
    /// its due instant, since all tasks of a job carry the job's id.
    pub fn of(records: &mut [Record]) -> Summary {
        records.sort_unstable_by_key(|record| (record.id, record.due_us, record.start_us));
        let mut summary = Summary { starts: records.len() as u64, ..Summary::default() };
        let mut repeated = BTreeSet::new();
        let mut last = None;
        for record in records.iter() {
            summary.early += u64::from(record.start_us < record.due_us);
            summary.open += u64::from(record.end_us == 0);
            summary.last_end_us = summary.last_end_us.max(record.end_us);
            let task = (record.id, record.due_us);
            if last == Some(task) {
                repeated.insert(task);
                continue;
            }
            last = Some(task);
            summary.tasks += 1;
            summary.lateness.record(u64::try_from(record.start_us - record.due_us).unwrap_or(0));
        }
        summary.duplicates = repeated.len() as u64;
        summary
    }

    /// Adds the summary of other tasks.
    pub fn merge(&mut self, other: &Summary) {
        self.starts += other.starts;
        self.tasks += other.tasks;
        self.duplicates += other.duplicates;
        self.early += other.early;
        self.open += other.open;
        self.lateness.merge(&other.lateness);
        self.last_end_us = self.last_end_us.max(other.last_end_us);
        self.settled_us = self.settled_us.max(other.settled_us);
    }
}

/// From a kill to the first start of a task that was due after it, in µs: only the next leader can have handed
/// that one out. `None` when there was no such start.
pub fn gap_after(records: &[Record], kill_us: i64) -> Option<i64> {
    let after = records.iter().filter(|record| record.due_us > kill_us);
    after.map(|record| record.start_us - kill_us).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, due_us: i64, start_us: i64) -> Record {
        Record { id, due_us, start_us, end_us: start_us + 10 }
    }

    #[test]
    fn the_first_start_counts_and_the_second_is_a_duplicate() {
        let mut records =
            [record(2, 100, 900), record(1, 100, 150), record(2, 100, 300), record(2, 100, 950)];
        let summary = Summary::of(&mut records);
        assert_eq!((summary.starts, summary.tasks, summary.duplicates, summary.early), (4, 2, 1, 0));
        assert_eq!(summary.last_end_us, 960);
        let lateness = summary.lateness.quantiles().unwrap();
        assert_eq!((lateness.min, lateness.max), (0.05, 0.2));
    }

    #[test]
    fn two_instants_of_one_job_are_two_tasks() {
        let mut records = [record(1, 100, 110), record(1, 200, 210), record(1, 200, 220)];
        let summary = Summary::of(&mut records);
        assert_eq!((summary.starts, summary.tasks, summary.duplicates), (3, 2, 1));
    }

    #[test]
    fn summaries_are_added_up() {
        let mut sum = Summary::of(&mut [record(1, 100, 110)]);
        sum.merge(&Summary::of(&mut [record(1, 200, 190), record(2, 200, 250)]));
        assert_eq!((sum.starts, sum.tasks, sum.early, sum.lateness.count()), (3, 3, 1, 3));
        assert_eq!(sum.last_end_us, 260);
    }

    #[test]
    fn early_and_open_ones_are_counted() {
        let mut records = [record(1, 100, 99), Record { end_us: 0, ..record(2, 100, 100) }];
        let summary = Summary::of(&mut records);
        assert_eq!((summary.early, summary.open, summary.tasks), (1, 1, 2));
        assert_eq!(Summary::of(&mut []), Summary::default());
    }

    #[test]
    fn the_gap_ends_with_what_only_the_next_leader_can_have_dispatched() {
        let records = [record(1, 1_000, 1_200), record(2, 1_050, 2_400), record(3, 1_080, 2_300)];
        assert_eq!(gap_after(&records, 1_010), Some(1_290), "the first was due before the kill");
        assert_eq!(gap_after(&records, 5_000), None);
    }

    #[test]
    fn a_record_is_four_doubles() {
        let bytes = record(7, 1_000_500, 1_001_000).to_bytes();
        let at = |place: usize| f64::from_le_bytes(bytes[place * 8..place * 8 + 8].try_into().unwrap());
        assert_eq!([at(0), at(1), at(2), at(3)], [7.0, 1000.5, 1001.0, 1001.01]);
    }
}
