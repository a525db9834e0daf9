//! Jobs of a run: a job as the history has it, and as it is sent.

use orloj_jepsen_core::event::{Fires, JobPut, Submit};
use orloj_wire::rest::job::{JobSpec, Misfire};
use orloj_wire::rest::trigger::{KindName, TriggerSpec};
use orloj_wire::rest::{BackoffMs, Retry};
use orloj_wire::time::Time;
use serde_json::json;

use crate::rng::Rng;

/// Expressions whose targets the checkers work out on their own, of which most fire once a second.
const EXPRESSIONS: [&str; 5] =
    ["* * * * * *", "* * * * * *", "*/2 * * * * *", "1-59/3 * * * * *", "0,7,20-22,45/5 * * * * *"];
/// No job has more than one instant in so long, on an average, in ms. It remembers its newest 1,000 instants, so that this
/// bounds how long it may live.
pub const SHORTEST_MS: u64 = 700;
/// At the beginning of each minute.
const EACH_MINUTE: &str = "0 * * * * *";
/// Fires that a job makes up for at most.
const CAP: u64 = 5;
/// An attempt may take so long, in ms.
const TIMEOUT_MS: u64 = 3_000;
const MAX_RETRIES: u64 = 2;
const MAX_LOST: u64 = 10;
/// The longest work of most tasks, of those whose job lets them meet, and of those that outlast the next instant, in ms.
const WORK_MS: (u64, u64, u64) = (30, 400, 1_500);

/// How often a job fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// About once a second, by any kind of trigger.
    Second,
    /// At the beginning of each minute.
    Minute,
}

/// A job that is to be put.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedJob {
    /// As the history has it.
    pub put: JobPut,
    /// As it is sent.
    pub spec: JobSpec,
}

impl PlannedJob {
    /// The same job, which fires no more.
    pub fn stopped(&self) -> JobSpec {
        JobSpec { triggers: Vec::new(), ..self.spec.clone() }
    }
}

/// What all jobs of a run have in common.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// Where the ends of some of their tasks are announced.
    pub callback_url: Option<String>,
    /// Handlers of executors that write no history of their own, for a few of the jobs.
    pub elsewhere: Vec<String>,
}

/// The job of this id, which has no instant before `start_ms` (since the epoch).
pub fn draw(rng: &mut Rng, common: &Common, id: &str, pace: Pace, start_ms: i64) -> PlannedJob {
    let fires = draw_fires(rng, pace, start_ms);
    let by_clock = !matches!(fires[..], [Fires::FixedDelay { .. } | Fires::Once { .. }]);
    let jitter_ms = if by_clock && rng.chance(0.15) { rng.between(1, 150) } else { 0 };
    let misfires = [("skip", Misfire::Skip), ("fireOnce", Misfire::FireOnce), ("fireAll", Misfire::FireAll)];
    let (misfire, policy) = rng.pick(&misfires).copied().unwrap_or(misfires[1]);
    let overlap = rng.pick(&["allow", "skip", "queue", "cancelOther"]).copied().unwrap_or("skip");
    let grace_ms = rng.between(1, 5) * 1_000;
    let max_running = rng.chance(0.2).then(|| rng.between(1, 3));
    let task = draw_task(rng, common, overlap == "allow");
    let spec = JobSpec {
        job_id: Some(id.to_owned()),
        triggers: fires.iter().map(|fires| trigger(fires, jitter_ms, start_ms)).collect(),
        misfire: Some(policy),
        misfire_cap: (policy == Misfire::FireAll).then_some(CAP),
        misfire_grace_ms: Some(grace_ms),
        overlap: serde_json::from_value(json!(overlap)).ok(),
        max_running,
        timeout_ms: task.timeout_ms,
        retry: Some(Retry {
            max_retries: MAX_RETRIES,
            backoff_ms: task.backoff_ms.iter().copied().map(BackoffMs).collect(),
            jitter_pct: 0,
            max_lost: MAX_LOST,
        }),
        shard_total: (task.shard_total > 1).then_some(task.shard_total),
        callback_url: common.callback_url.clone().filter(|_| task.callback),
        allow_unknown_handler: true,
        ..JobSpec::new(
            task.handler.clone(),
            json!({ "behaviour": task.behaviour, "workMs": task.work_ms, "of": "${scheduledAt}" }),
        )
    };
    // A fixed delay counts from the creation of the job, whenever that is.
    let counts_at_once = matches!(fires[..], [Fires::FixedDelay { .. }]);
    let put = JobPut {
        job: id.to_owned(),
        fires,
        jitter_ms,
        misfire: misfire.to_owned(),
        grace_ms,
        overlap: overlap.to_owned(),
        max_running,
        after_ms: if counts_at_once { i64::MIN } else { start_ms - 1 },
        task,
    };
    PlannedJob { put, spec }
}

fn draw_fires(rng: &mut Rng, pace: Pace, start_ms: i64) -> Vec<Fires> {
    let cron = |expression: &str| Fires::Cron { expression: expression.to_owned() };
    if pace == Pace::Minute {
        return vec![cron(EACH_MINUTE)];
    }
    let anchor_ms = start_ms - signed(rng.between(0, 10_000));
    let rate = |every_ms| Fires::FixedRate { every_ms, anchor_ms };
    let expression = cron(rng.pick(&EXPRESSIONS).copied().unwrap_or(EXPRESSIONS[0]));
    match rng.weighted(&[45, 30, 8, 10, 4, 3]) {
        1 => vec![expression],
        2 => vec![rate(rng.between(SHORTEST_MS / 100, 20) * 100)],
        3 => vec![Fires::FixedDelay { delay_ms: rng.between(SHORTEST_MS, 1_500) }],
        4 => vec![expression, rate(3_000)],
        5 => vec![Fires::Once { at_ms: start_ms + signed(rng.between(0, 30_000)) }],
        _ => vec![rate(1_000)],
    }
}

fn trigger(fires: &Fires, jitter_ms: u64, start_ms: i64) -> TriggerSpec {
    let of = TriggerSpec::of;
    let jitter_ms = (jitter_ms > 0).then_some(jitter_ms);
    let start_at = Some(Time(start_ms));
    match fires {
        Fires::FixedRate { every_ms, anchor_ms } => TriggerSpec {
            every_ms: Some(*every_ms),
            anchor: Some(Time(*anchor_ms)),
            start_at,
            jitter_ms,
            ..of(KindName::FixedRate)
        },
        Fires::Cron { expression } => {
            TriggerSpec { expression: Some(expression.clone()), start_at, jitter_ms, ..of(KindName::Cron) }
        }
        Fires::FixedDelay { delay_ms } => {
            TriggerSpec { delay_ms: Some(*delay_ms), ..of(KindName::FixedDelay) }
        }
        Fires::Once { at_ms } => TriggerSpec { at: Some(Time(*at_ms)), ..of(KindName::Once) },
    }
}

fn draw_task(rng: &mut Rng, common: &Common, may_meet: bool) -> Submit {
    let elsewhere = rng.chance(0.05);
    let elsewhere = rng.pick(&common.elsewhere).cloned().filter(|_| elsewhere);
    let (short, meeting, long) = WORK_MS;
    let longest = match rng.chance(0.05) {
        true if may_meet => meeting,
        true => long,
        false => short,
    };
    let behaviour = match rng.weighted(&[88, 10, 2]) {
        1 => "fail_times:1",
        2 => "fail_for_good",
        _ => "ok",
    };
    let several = rng.chance(0.03);
    Submit {
        handler: elsewhere.unwrap_or_else(|| "mock".to_owned()),
        timeout_ms: Some(TIMEOUT_MS),
        max_retries: MAX_RETRIES,
        max_lost: MAX_LOST,
        backoff_ms: vec![rng.between(100, 500)],
        priority: 5,
        shard_total: if several { rng.between(2, 4) } else { 1 },
        callback: rng.chance(0.03) && common.callback_url.is_some(),
        behaviour: behaviour.to_owned(),
        work_ms: rng.between(1, longest),
        ..Submit::default()
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orloj_jepsen_core::targets::targets;

    use super::*;

    #[test]
    fn every_job_is_one_that_the_api_takes_and_each_kind_is_drawn() {
        let mut rng = Rng::new(1);
        let common =
            Common { callback_url: Some("http://sink.test/hook".into()), elsewhere: vec!["echo".into()] };
        let (mut kinds, mut rest) = (BTreeSet::new(), BTreeSet::new());
        for number in 0..500 {
            let id = format!("j-{number}");
            let job = draw(&mut rng, &common, &id, Pace::Second, 1_800_000_000_000);
            assert!(job.spec.faults(&id).is_empty(), "{:?}", job.spec);
            for trigger in &job.spec.triggers {
                kinds.insert(trigger.kind.name());
                trigger.check(1_799_999_990_000).unwrap();
            }
            rest.extend([job.put.misfire.clone(), job.put.overlap.clone(), job.put.task.handler.clone()]);
            assert!(job.stopped().triggers.is_empty());
            let minute = targets(&job.put, 1_800_000_000_000, 1_800_000_060_000).len() as u64;
            assert!(minute * SHORTEST_MS <= 60_000 + SHORTEST_MS, "{minute} instants: {:?}", job.put.fires);
        }
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["cron", "fixedDelay", "fixedRate", "once"]);
        // `skip` is a word of both policies.
        assert_eq!(rest.len(), 3 + 4 - 1 + 2, "{rest:?}");
    }

    #[test]
    fn a_job_of_each_minute_fires_at_its_beginning_alone() {
        let job = draw(&mut Rng::new(2), &Common::default(), "m", Pace::Minute, 1_800_000_000_000);
        let found = targets(&job.put, job.put.after_ms, job.put.after_ms + 180_000);
        assert_eq!(found, [1_800_000_000_000, 1_800_000_060_000, 1_800_000_120_000]);
    }
}
