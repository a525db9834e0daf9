//! Jobs that fire while the cluster is hurt: put before the load begins, and stopped when it is over.
//!
//! They are handed to the leader's store, as its API does after it has checked a request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use orloj_jepsen_agents::rng::Rng;
use orloj_jepsen_core::event::{FinalJob, FiredRow, Fires, JobPut, JobStopped, SkippedRow, Submit, What};
use orloj_model::command::{EditJob, JobCommand, PutJob};
use orloj_model::graph::JobFlow;
use orloj_model::id::{CallerId, JobId};
use orloj_model::job::{
    Cause, Definition, Heeded, HistoryRow, JobKey, JobOutcome, Template, computed_for_put, dropped_by_edit,
};
use orloj_model::task::{RetryPolicy, Strategy};
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::{CatchUp, Cron, DayRule, Dst, Kind, Limits, Misfire, Trigger};
use orloj_model::{Command, Reply, query};
use serde_json::json;

use crate::place::Place;
use crate::recorder::Recorder;
use crate::replica::{CALLER, Replica};
use crate::time::WALL_START_MS;

/// Jobs of one seed, fewest and most.
const JOBS: (u64, u64) = (3, 9);
/// Expressions whose targets the checkers work out on their own.
const EXPRESSIONS: [&str; 5] =
    ["* * * * * *", "*/2 * * * * *", "1-59/3 * * * * *", "0,7,20-22,45/5 * * * * *", "30 * * * * *"];
/// Fires that a job makes up for at most.
const CAP: u32 = 5;
/// How late an instant may be and still be in time, in ms.
const GRACE_MS: u64 = 1_000;
/// An attempt may take so long, in ms.
const TIMEOUT_MS: u64 = 3_000;
const MAX_LOST: u8 = 10;

/// A job and what the history tells of it.
#[derive(Debug, Clone)]
pub struct SimJob {
    key: JobKey,
    definition: Definition,
    put: JobPut,
}

/// The jobs of a seed.
///
/// # Errors
/// One that was drawn is none.
pub fn draw(seed: u64) -> anyhow::Result<Vec<SimJob>> {
    let mut rng = Rng::new(seed).split("jobs");
    let count = rng.between(JOBS.0, JOBS.1);
    (0..count).map(|number| draw_one(&mut rng, number)).collect()
}

fn draw_one(rng: &mut Rng, number: u64) -> anyhow::Result<SimJob> {
    let id = format!("job-{number}");
    let fires = draw_fires(rng);
    let is_delay = matches!(fires[..], [Fires::FixedDelay { .. }]);
    let jitter_ms = if !is_delay && rng.chance(0.2) { rng.between(1, 150) } else { 0 };
    let limits = Limits { jitter_ms, ..Limits::default() };
    let triggers = fires.iter().map(|fires| Ok(Trigger::new(kind(fires)?, limits)?));
    let (misfire, policy) = rng
        .pick(&[
            ("skip", Misfire::Skip),
            ("fireOnce", Misfire::FireOnce),
            ("fireAll", Misfire::FireAll { cap: CAP }),
        ])
        .copied()
        .unwrap_or_default();
    let (overlap, overlapping) = rng
        .pick(&[
            ("allow", OverlapPolicy::Allow),
            ("skip", OverlapPolicy::Skip),
            ("queue", OverlapPolicy::Queue),
            ("cancelOther", OverlapPolicy::CancelOther),
        ])
        .copied()
        .unwrap_or_default();
    let longest = if overlapping == OverlapPolicy::Allow { 300 } else { 1_500 };
    let task = draw_task(rng, longest);
    let max_running = rng.chance(0.3).then(|| rng.between(1, 3));
    let definition = Definition {
        title: String::new(),
        description: String::new(),
        template: template(&task),
        triggers: triggers.collect::<anyhow::Result<_>>()?,
        calendars: Vec::new(),
        misfire: CatchUp { policy, grace_ms: GRACE_MS },
        overlap: overlapping,
        max_running: max_running.and_then(|most| u32::try_from(most).ok()),
    };
    let put = JobPut {
        job: id.clone(),
        fires,
        jitter_ms,
        misfire: misfire.to_owned(),
        grace_ms: GRACE_MS,
        overlap: overlap.to_owned(),
        max_running,
        after_ms: 0,
        task,
    };
    let key = JobKey { caller: CallerId::new(CALLER)?, job: JobId::new(&id)? };
    Ok(SimJob { key, definition, put })
}

fn draw_fires(rng: &mut Rng) -> Vec<Fires> {
    let rate = |rng: &mut Rng| Fires::FixedRate {
        every_ms: rng.between(2, 30) * 100,
        anchor_ms: WALL_START_MS - rng.between(0, 10_000) as i64,
    };
    let cron = |rng: &mut Rng| Fires::Cron {
        expression: rng.pick(&EXPRESSIONS).copied().unwrap_or(EXPRESSIONS[0]).to_owned(),
    };
    match rng.below(10) {
        0..=4 => vec![rate(rng)],
        5 | 6 => vec![cron(rng)],
        7 => vec![cron(rng), rate(rng)],
        _ => vec![Fires::FixedDelay { delay_ms: rng.between(200, 2_000) }],
    }
}

fn kind(fires: &Fires) -> anyhow::Result<Kind> {
    Ok(match fires {
        Fires::FixedRate { every_ms, anchor_ms } => {
            Kind::FixedRate { every_ms: *every_ms, anchor: *anchor_ms }
        }
        Fires::Cron { expression } => {
            Kind::Cron(Cron::new(expression, "UTC", Dst::default(), DayRule::default(), WALL_START_MS)?)
        }
        Fires::FixedDelay { delay_ms } => Kind::FixedDelay { delay_ms: *delay_ms, anchor: WALL_START_MS },
        Fires::Once { at_ms } => Kind::Once { at: *at_ms },
    })
}

fn draw_task(rng: &mut Rng, longest_ms: u64) -> Submit {
    let behaviour = if rng.chance(0.2) { "fail_times:1" } else { "ok" };
    Submit {
        handler: "mock".to_owned(),
        timeout_ms: Some(TIMEOUT_MS),
        max_retries: 2,
        max_lost: u64::from(MAX_LOST),
        backoff_ms: vec![rng.between(100, 500)],
        priority: 5,
        shard_total: 1,
        behaviour: behaviour.to_owned(),
        work_ms: rng.between(1, longest_ms),
        ..Submit::default()
    }
}

fn template(task: &Submit) -> Template {
    let params = json!({ "behaviour": task.behaviour, "workMs": task.work_ms, "of": "${scheduledAt}" });
    Template {
        handler: task.handler.clone(),
        params: params.to_string(),
        priority: 5,
        labels: BTreeMap::new(),
        routing_key: None,
        zone: None,
        strategy: Strategy::Ring,
        business_key: None,
        retry: RetryPolicy {
            max_retries: u8::try_from(task.max_retries).unwrap_or(0),
            backoff_ms: task.backoff_ms.clone(),
            jitter_pct: 0,
            max_lost: MAX_LOST,
        },
        timeout_ms: task.timeout_ms,
        expire_after_ms: None,
        shard_total: 1,
        callback_url: None,
        estimated_duration_ms: None,
    }
}

/// What is to become of the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// They fire.
    Fire,
    /// They fire no more.
    Stop,
}

/// The jobs that are left to put or to stop. Clones stand for the same.
#[derive(Clone)]
pub struct Jobs {
    left: Arc<Mutex<Vec<SimJob>>>,
    wish: Wish,
    recorder: Recorder,
}

impl Jobs {
    /// All of them.
    pub fn new(jobs: Vec<SimJob>, wish: Wish, recorder: Recorder) -> Jobs {
        Jobs { left: Arc::new(Mutex::new(jobs)), wish, recorder }
    }

    /// Whether none is left.
    pub fn done(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<SimJob>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes through those that are left, at the replica that leads. One that is not acknowledged is left.
    pub async fn work(self, replica: Replica) {
        let left = self.lock().clone();
        for job in left {
            if let Some(what) = self.put(&replica, &job).await {
                self.recorder.note("jobs", None, what);
                self.lock().retain(|other| other.key != job.key);
            }
        }
    }

    async fn put(&self, replica: &Replica, job: &SimJob) -> Option<What> {
        let mut definition = job.definition.clone();
        if self.wish == Wish::Stop {
            definition.triggers.clear();
        }
        let (command, after_ms) = command(replica, &job.key, definition)?;
        let applied = replica.store.propose(Command::Job(Box::new(command))).await.ok()?;
        if !matches!(applied.reply, Reply::Job { .. }) {
            return None;
        }
        Some(match self.wish {
            Wish::Fire => What::JobPut(JobPut { after_ms, ..job.put.clone() }),
            Wish::Stop => What::JobStopped(JobStopped {
                job: job.put.job.clone(),
                wall_ms: self.recorder.now().wall_ms,
                done_at_ms: query::job(&replica.store.view(), &job.key).ok()?.map(|view| view.job.updated_at),
            }),
        })
    }
}

/// What a leader's API makes of a definition, and the instant after which the job fires: computed by the leader's wall
/// clock, and with the instants that an edit keeps from coming to anything.
fn command(replica: &Replica, key: &JobKey, definition: Definition) -> Option<(JobCommand, i64)> {
    let view = replica.store.view();
    let (known, heeded) = (query::job(&view, key).ok()?, Heeded::default());
    let computed =
        computed_for_put(key, known.as_ref(), &definition, &heeded, replica.clock.wall_ms()).ok()?;
    let after_ms = computed.after;
    let missed = match &known {
        Some(view) => dropped_by_edit(view, &heeded, after_ms).ok()?,
        None => None,
    };
    let put = PutJob { job: key.clone(), expected: None, definition, computed, claim: None };
    let command = match missed {
        Some(missed) => JobCommand::Edit(Box::new(EditJob { put, flow: JobFlow::default(), missed })),
        None => JobCommand::Put(Box::new(put)),
    };
    Some((command, after_ms))
}

/// Records every job of a replica's own table.
pub fn read(replica: &Replica, place: Place, recorder: &Recorder) {
    let view = replica.store.view();
    let Ok(keys) = query::jobs(&view, None, usize::MAX) else { return };
    for key in keys {
        let (Ok(Some(job)), Ok(rows)) =
            (query::job(&view, &key), query::history(&view, &key, None, usize::MAX))
        else {
            continue;
        };
        let last = final_job(&job, rows);
        recorder.note(&format!("probe-{place}"), Some(place.to_string()), What::FinalJob(last));
    }
}

fn final_job(job: &query::JobView, rows: Vec<(u64, HistoryRow)>) -> FinalJob {
    let counts = &job.state.counts;
    let mut last = FinalJob {
        job: job.key.job.to_string(),
        whole: rows.len() as u64 == job.state.history,
        fired_count: counts.fired,
        skipped_count: counts
            .skipped
            .iter()
            .map(|(reason, count)| (reason.name().to_owned(), *count))
            .collect(),
        ..FinalJob::default()
    };
    for (_, row) in rows.into_iter().rev() {
        let made_at_ms = Some(row.at);
        match row.outcome {
            JobOutcome::Fired { scheduled_at, task, cause: Cause::Trigger, .. } => {
                last.fired.push(FiredRow {
                    scheduled_at_ms: scheduled_at,
                    task: task.to_string(),
                    made_at_ms,
                });
            }
            JobOutcome::Skipped { missed, .. } => last.skipped.push(SkippedRow {
                reason: missed.reason.name().to_owned(),
                count: missed.count,
                exact: missed.exact,
                first_ms: missed.first,
                last_ms: missed.last,
            }),
            JobOutcome::Fired { .. } | JobOutcome::Backfilled { .. } => {}
        }
    }
    last
}

#[cfg(test)]
impl SimJob {
    /// One that fires once, and whose task takes so long.
    pub(crate) fn once(number: u64, at_ms: i64, work_ms: u64) -> anyhow::Result<SimJob> {
        let mut job = draw_one(&mut Rng::new(number), number)?;
        let task = Submit { behaviour: "ok".to_owned(), work_ms, ..job.put.task.clone() };
        job.put =
            JobPut { fires: vec![Fires::Once { at_ms }], jitter_ms: 0, max_running: None, task, ..job.put };
        job.definition.template = template(&job.put.task);
        job.definition.triggers = vec![Trigger::new(kind(&job.put.fires[0])?, Limits::default())?];
        job.definition.max_running = None;
        Ok(job)
    }
}
