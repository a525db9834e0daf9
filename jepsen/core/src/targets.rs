//! The instants at which a job shall fire, worked out apart from the product: second by second, or by division.

use crate::event::{Fires, JobPut};

/// The fields of an expression that say anything: seconds, minutes, hours; each by its values.
const FIELDS: [(u32, i64); 3] = [(60, 1), (60, 60), (24, 3_600)];

/// Whether a job shall fire at this instant; of one that counts from the end of its tasks nothing is said.
pub fn is_target(job: &JobPut, at_ms: i64) -> Option<bool> {
    let mut known = false;
    for fires in &job.fires {
        match fires {
            Fires::FixedRate { every_ms, anchor_ms } => {
                let every = i64::try_from(*every_ms).unwrap_or(i64::MAX).max(1);
                if at_ms >= *anchor_ms && (at_ms - anchor_ms) % every == 0 {
                    return Some(true);
                }
            }
            Fires::Cron { expression } => {
                if at_ms.rem_euclid(1_000) == 0 && matches(expression, at_ms.div_euclid(1_000)) {
                    return Some(true);
                }
            }
            Fires::Once { at_ms: once_ms } => {
                if at_ms == *once_ms {
                    return Some(true);
                }
            }
            Fires::FixedDelay { .. } => return None,
        }
        known = true;
    }
    known.then_some(false)
}

/// The instants of a job later than `after_ms` and up to `until_ms`, in order.
pub fn targets(job: &JobPut, after_ms: i64, until_ms: i64) -> Vec<i64> {
    let mut found = Vec::new();
    for fires in &job.fires {
        match fires {
            Fires::FixedRate { every_ms, anchor_ms } => {
                let every = i64::try_from(*every_ms).unwrap_or(i64::MAX).max(1);
                let steps = (after_ms - anchor_ms).div_euclid(every) + 1;
                let mut at = anchor_ms + steps.max(0) * every;
                while at <= until_ms {
                    found.push(at);
                    at += every;
                }
            }
            Fires::Cron { expression } => {
                let seconds = after_ms.div_euclid(1_000) + 1..=until_ms.div_euclid(1_000);
                found.extend(
                    seconds.filter(|second| matches(expression, *second)).map(|second| second * 1_000),
                );
            }
            Fires::Once { at_ms } => {
                found.extend((after_ms < *at_ms && *at_ms <= until_ms).then_some(*at_ms))
            }
            Fires::FixedDelay { .. } => {}
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn matches(expression: &str, second: i64) -> bool {
    let mut fields = expression.split_whitespace();
    FIELDS.iter().all(|(values, length)| {
        let value = u32::try_from(second.div_euclid(*length).rem_euclid(i64::from(*values))).unwrap_or(0);
        fields.next().is_some_and(|field| field.split(',').any(|part| part_matches(part, value, *values)))
    })
}

/// `*`, `a`, `a-b`, each with `/n`; a single number with a step goes on to the last value.
fn part_matches(part: &str, value: u32, values: u32) -> bool {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, step.parse().ok()));
    let (from, to) = match range.split_once('-') {
        Some((from, to)) => (from.parse().ok(), to.parse().ok()),
        None if range == "*" => (Some(0), Some(values - 1)),
        None => (range.parse().ok(), if step.is_some() { Some(values - 1) } else { range.parse().ok() }),
    };
    let (Some(from), Some(to)): (Option<u32>, Option<u32>) = (from, to) else { return false };
    (from..=to).contains(&value) && (value - from).is_multiple_of(step.unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(fires: Vec<Fires>) -> JobPut {
        JobPut { fires, ..JobPut::default() }
    }

    fn cron(expression: &str) -> Fires {
        Fires::Cron { expression: expression.into() }
    }

    #[test]
    fn a_rate_counts_from_its_anchor() {
        let job = job(vec![Fires::FixedRate { every_ms: 300, anchor_ms: 1_000 }]);
        assert_eq!(targets(&job, 0, 1_700), [1_000, 1_300, 1_600]);
        assert_eq!(targets(&job, 1_300, 1_600), [1_600]);
        assert_eq!((is_target(&job, 1_900), is_target(&job, 1_901)), (Some(true), Some(false)));
        assert_eq!(is_target(&job, 700), Some(false), "before its anchor");
    }

    #[test]
    fn an_expression_is_read_field_by_field() {
        let every = |expression: &str, until| targets(&job(vec![cron(expression)]), -1, until);
        assert_eq!(every("*/20 * * * * *", 60_000), [0, 20_000, 40_000, 60_000]);
        assert_eq!(every("5-7 * * * * *", 10_000), [5_000, 6_000, 7_000]);
        assert_eq!(every("50/5,3 0 0 * * *", 90_000), [3_000, 50_000, 55_000]);
        assert_eq!(every("0 30 1 * * *", 86_400_000), [5_400_000]);
    }

    #[test]
    fn two_triggers_of_one_instant_are_one_target() {
        let both = job(vec![cron("*/2 * * * * *"), Fires::FixedRate { every_ms: 3_000, anchor_ms: 0 }]);
        assert_eq!(targets(&both, 0, 6_000), [2_000, 3_000, 4_000, 6_000]);
        assert_eq!(is_target(&job(vec![Fires::FixedDelay { delay_ms: 5 }]), 5), None);
        let once = job(vec![Fires::Once { at_ms: 7 }]);
        assert_eq!((targets(&once, 6, 9), targets(&once, 7, 9)), (vec![7], vec![]));
        assert_eq!((is_target(&once, 7), is_target(&once, 8)), (Some(true), Some(false)));
    }
}
