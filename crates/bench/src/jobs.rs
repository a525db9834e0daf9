//! Jobs of which a known number is due in each second. Pure.

use serde::{Deserialize, Serialize};

use crate::message::Among;
use crate::plan::WARM_FIRST;

/// The period of jobs that fire by cron, in s.
const CRON_PERIOD_S: u64 = 60;

/// A set of jobs, numbered from 0, each of which fires once in every period.
///
/// With a fixed rate, `per_s` jobs are due in each second of the period, evenly over it; but those of one second,
/// `burst_s`, are all due at its beginning. With cron, which names whole seconds, the period is a minute and all jobs
/// of a second are due at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobPlan {
    /// The id of job 0, which its tasks carry.
    pub first_id: u64,
    /// How many jobs.
    pub count: u64,
    /// With a fixed rate: how many are due in each second, 1 or more.
    pub per_s: u64,
    /// Nothing is due before this, in ms since the Unix epoch; with cron a whole minute.
    pub base_ms: i64,
    /// With a fixed rate: in which second of the period all are due at one instant.
    pub burst_s: u64,
    /// They fire by cron.
    pub cron: bool,
}

/// Some seconds of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// What is due in them.
    pub among: Among,
    /// What is due in a second is due at its beginning.
    pub at_once: bool,
}

impl JobPlan {
    /// From one fire of a job to its next, in s.
    pub fn period_s(&self) -> u64 {
        match self.cron {
            true => CRON_PERIOD_S,
            false => self.count.div_ceil(self.per_s.max(1)).max(1),
        }
    }

    /// The id of the job with this number, as its tasks carry it.
    pub fn id(&self, number: u64) -> u64 {
        self.first_id + number
    }

    /// Its name in the API. The names of warm-up jobs begin with another word.
    pub fn name(&self, number: u64) -> String {
        let id = self.id(number);
        match id.checked_sub(WARM_FIRST) {
            None => format!("bench-{id:09}"),
            Some(warm) => format!("warm-{warm:09}"),
        }
    }

    /// When it first fires, in ms since the Unix epoch.
    pub fn first_ms(&self, number: u64) -> i64 {
        let per_s = self.per_s.max(1);
        let offset_ms = match self.cron {
            true => number % CRON_PERIOD_S * 1_000,
            false if number / per_s == self.burst_s => self.burst_s * 1_000,
            false => number / per_s * 1_000 + number % per_s * 1_000 / per_s,
        };
        self.base_ms.saturating_add(i64::try_from(offset_ms).unwrap_or(i64::MAX))
    }

    /// How many fires are due from the beginning up to an instant, which does not belong to it.
    pub fn fires_before(&self, until_ms: i64) -> u64 {
        let period_ms = self.period_s() * 1_000;
        let of = |number| {
            let since = until_ms.saturating_sub(self.first_ms(number));
            u64::try_from(since).unwrap_or(0).div_ceil(period_ms)
        };
        (0..self.count).map(of).sum()
    }

    /// The first so many seconds, in stretches of one kind.
    pub fn stretches(&self, seconds: u64) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for second in 0..seconds {
            let at_once = self.cron || second % self.period_s() == self.burst_s;
            let from_us = self.base_ms.saturating_add((second * 1_000) as i64).saturating_mul(1_000);
            let until_us = from_us.saturating_add(1_000_000);
            match stretches.last_mut().filter(|last| last.at_once == at_once) {
                Some(last) => last.among.until_us = until_us,
                None => stretches.push(Stretch { among: Among { from_us, until_us }, at_once }),
            }
        }
        stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: JobPlan =
        JobPlan { first_id: 0, count: 100_000, per_s: 1_000, base_ms: 60_000, burst_s: 30, cron: false };

    /// How many jobs are due in each second after the beginning, and at how many instants of it.
    fn seconds(plan: &JobPlan) -> Vec<(u64, usize)> {
        let mut instants = vec![Vec::new(); plan.period_s() as usize];
        for number in 0..plan.count {
            let offset = plan.first_ms(number) - plan.base_ms;
            instants[(offset / 1_000) as usize].push(offset % 1_000);
        }
        let distinct = |mut all: Vec<i64>| {
            let count = all.len() as u64;
            all.sort_unstable();
            all.dedup();
            (count, all.len())
        };
        instants.into_iter().map(distinct).collect()
    }

    #[test]
    fn as_many_are_due_in_each_second_and_once_all_at_one_instant() {
        let seconds = seconds(&PLAN);
        assert_eq!(seconds.len(), 100);
        for (second, found) in seconds.into_iter().enumerate() {
            assert_eq!(found, (1_000, if second == 30 { 1 } else { 1_000 }), "second {second}");
        }
    }

    #[test]
    fn cron_names_whole_seconds_of_a_minute() {
        let plan = JobPlan { count: 60_000, cron: true, ..PLAN };
        assert_eq!((plan.period_s(), seconds(&plan)), (60, vec![(1_000, 1); 60]));
    }

    #[test]
    fn fires_are_counted_by_their_instants() {
        assert_eq!(PLAN.fires_before(PLAN.base_ms), 0);
        assert_eq!(PLAN.fires_before(PLAN.base_ms + 1), 1);
        assert_eq!(PLAN.fires_before(PLAN.base_ms + 60_000), 60_000);
        assert_eq!(PLAN.fires_before(PLAN.base_ms + 250_000), 250_000);
        assert_eq!(PLAN.fires_before(0), 0);
        let few = JobPlan { count: 7, ..PLAN };
        assert_eq!((few.period_s(), few.fires_before(few.base_ms + 3_000)), (1, 21));
    }

    #[test]
    fn stretches_tell_the_instant_apart() {
        let us = |second: i64| (PLAN.base_ms + second * 1_000) * 1_000;
        let stretch = |from, until, at_once| Stretch {
            among: Among { from_us: us(from), until_us: us(until) },
            at_once,
        };
        assert_eq!(
            PLAN.stretches(140),
            [
                stretch(0, 30, false),
                stretch(30, 31, true),
                stretch(31, 130, false),
                stretch(130, 131, true),
                stretch(131, 140, false)
            ]
        );
        let cron = JobPlan { cron: true, ..PLAN };
        assert_eq!(cron.stretches(5), [stretch(0, 5, true)]);
    }

    #[test]
    fn names_tell_the_warm_up_apart() {
        assert_eq!(PLAN.name(42), "bench-000000042");
        let warm = JobPlan { first_id: WARM_FIRST, ..PLAN };
        assert_eq!(warm.name(1), "warm-000000001");
    }
}
