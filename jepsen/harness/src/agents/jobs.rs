//! Who puts jobs, lets each fire for a while, stops it and puts another; and who reads at the end what became of their
//! instants.

mod caller;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orloj_jepsen_agents::jobs::{Common, Pace, PlannedJob, draw};
use orloj_jepsen_agents::rng::Rng;
use orloj_jepsen_core::event::{
    Event, FinalJob, FiredRow, JobPut, JobStopped, Kind, Meta, SkippedRow, VERSION, What,
};
use orloj_wire::rest::job::{HistoryEntry, HistoryPage, Job, JobSpec};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::now;
use super::recorder::{Note, Recorder};
use crate::scenario::JobOptions;

pub use caller::{Caller, Refused};

/// A job's first instant is so long after it is put, in ms: by then it is certain that it is there.
const LEAD_MS: i64 = 8_000;
/// It was put in time when its creation was so long before its first instant, in ms.
const MARGIN_MS: i64 = 1_000;
/// How often a job may be refused that would never fire.
const REFUSALS: u32 = 20;
/// Entries of a page of history.
const PAGE: usize = 100;

/// See the module's description.
pub struct Jobs {
    caller: Caller,
    recorder: Recorder,
    options: JobOptions,
    common: Common,
    rng: Rng,
    numbered: u64,
    /// The furthest that the wall clock of a leader was seen, in ms since the epoch: from there its triggers count.
    leader_wall_ms: i64,
    /// Those that fire about once a second, the oldest first.
    brisk: VecDeque<PlannedJob>,
    others: Vec<PlannedJob>,
    /// Every job that was put.
    put: Vec<String>,
    /// All that were to be put at the beginning have been.
    ready: Arc<AtomicBool>,
}

impl Jobs {
    /// Jobs that are not put yet; `ready` is set once the first of them all are.
    pub fn new(
        caller: Caller,
        recorder: Recorder,
        options: JobOptions,
        common: Common,
        seed: u64,
        ready: Arc<AtomicBool>,
    ) -> Jobs {
        Jobs {
            caller,
            recorder,
            options,
            common,
            rng: Rng::new(seed).split("jobs"),
            numbered: 0,
            leader_wall_ms: 0,
            brisk: VecDeque::new(),
            others: Vec::new(),
            put: Vec::new(),
            ready,
        }
    }

    /// Lets jobs come and go until told to stop, and then stops all. Answers with every job that was put.
    ///
    /// # Errors
    /// The API refuses a job.
    pub async fn run(mut self, stop: CancellationToken) -> Result<Vec<String>> {
        for _ in 0..self.options.each_minute {
            let job = self.put_one(Pace::Minute).await?;
            self.others.push(job);
        }
        for _ in 0..self.options.each_second {
            let job = self.put_one(Pace::Second).await?;
            self.brisk.push_back(job);
        }
        self.ready.store(true, Ordering::SeqCst);
        let every_ms = self.options.life_s * 1_000 / u64::from(self.options.each_second.max(1));
        let mut next_at = Instant::now() + Duration::from_millis(every_ms);
        while self.options.each_second > 0 && !stop.is_cancelled() {
            tokio::select! {
                () = sleep_until(next_at) => {}
                () = stop.cancelled() => break,
            }
            next_at = (next_at + Duration::from_millis(every_ms)).max(Instant::now());
            if let Some(oldest) = self.brisk.pop_front() {
                self.stop(&oldest).await?;
            }
            let job = self.put_one(Pace::Second).await?;
            self.brisk.push_back(job);
        }
        stop.cancelled().await;
        for job in self.brisk.split_off(0).iter().chain(&std::mem::take(&mut self.others)) {
            self.stop(job).await?;
        }
        Ok(self.put)
    }

    /// Puts a job and records it. One that was created too late to say which instants it has is stopped at once, and
    /// recorded without a word on when it fires.
    async fn put_one(&mut self, pace: Pace) -> Result<PlannedJob> {
        let mut refusals = 0;
        loop {
            self.numbered += 1;
            let id = format!("job-{}", self.numbered);
            let start_ms = now().wall_ms.max(self.leader_wall_ms) + LEAD_MS;
            let planned = draw(&mut self.rng, &self.common, &id, pace, start_ms);
            let job = match self.send(&planned.put.job, &planned.spec).await {
                // Its one instant has passed by the leader's clock, which was put forward.
                Err(error) if refusals < REFUSALS && Refused::is_unprocessable(&error) => {
                    refusals += 1;
                    self.leader_wall_ms = start_ms + LEAD_MS;
                    continue;
                }
                answer => answer?,
            };
            self.leader_wall_ms = self.leader_wall_ms.max(job.created_at.0);
            let in_time = job.created_at.0 + MARGIN_MS < start_ms;
            let put = match in_time {
                true => planned.put.clone(),
                false => JobPut { fires: Vec::new(), after_ms: i64::MIN, ..planned.put.clone() },
            };
            self.recorder.note(Note { node: None, ..Note::event("", What::JobPut(put)) });
            self.put.push(id);
            if in_time {
                return Ok(planned);
            }
            self.send(&planned.put.job, &planned.stopped()).await?;
        }
    }

    /// Lets a job fire no more, and records it with the instant at which that was first asked for, and with the one from
    /// which on it held.
    async fn stop(&mut self, job: &PlannedJob) -> Result<()> {
        let asked = now();
        let done = self.send(&job.put.job, &job.stopped()).await?;
        let stopped = JobStopped {
            job: job.put.job.clone(),
            wall_ms: asked.wall_ms,
            done_at_ms: Some(done.updated_at.0),
        };
        self.recorder.events(&[Event {
            v: VERSION,
            i: 0,
            mono_ns: asked.mono_ns,
            src: self.recorder.src().to_owned(),
            proc: 0,
            kind: Kind::Event,
            node: None,
            key: None,
            what: What::JobStopped(stopped),
            err: None,
            meta: Meta::default(),
        }]);
        Ok(())
    }

    async fn send(&mut self, id: &str, spec: &JobSpec) -> Result<Job> {
        let body = serde_json::to_vec(spec).context("a job has a JSON form")?;
        self.caller.ask("PUT", &format!("/openapi/v1/jobs/{id}"), "", body).await
    }
}

/// Reads what became of the instants of these jobs, and records it as what the replica `node` shows.
///
/// # Errors
/// A history cannot be read.
pub async fn read(mut caller: Caller, node: &str, jobs: Vec<String>, recorder: Recorder) -> Result<()> {
    for id in jobs {
        let (mut entries, mut token) = (Vec::new(), None::<String>);
        let counts = loop {
            let after = token.map(|token| format!("&page_token={token}")).unwrap_or_default();
            let query = format!("page_size={PAGE}{after}");
            let path = format!("/openapi/v1/jobs/{id}/history");
            let page: HistoryPage = caller.ask("GET", &path, &query, Vec::new()).await?;
            entries.extend(page.entries);
            token = page.next_page_token;
            if token.is_none() {
                break page.counts;
            }
        };
        let mut last = FinalJob {
            job: id,
            whole: entries.first().map_or(0, |newest| newest.number) == entries.len() as u64,
            fired_count: counts.fired,
            skipped_count: counts.skipped,
            ..FinalJob::default()
        };
        entries.reverse();
        entries.iter().try_for_each(|entry| take(&mut last, entry))?;
        recorder.note(Note::event(node, What::FinalJob(last)));
    }
    Ok(())
}

fn take(last: &mut FinalJob, entry: &HistoryEntry) -> Result<()> {
    match (entry.kind.as_str(), entry.scheduled_at, &entry.task_id, entry.reason) {
        ("fired", Some(at), Some(task), _) => {
            last.fired.push(FiredRow {
                scheduled_at_ms: at.0,
                task: task.clone(),
                made_at_ms: Some(entry.at.0),
            });
        }
        ("skipped", _, _, Some(reason)) => last.skipped.push(SkippedRow {
            reason: reason.name().to_owned(),
            count: entry.count.unwrap_or(1),
            exact: entry.exact.unwrap_or(true),
            first_ms: entry.from.context("a skip without its first instant")?.0,
            last_ms: entry.to.context("a skip without its last instant")?.0,
        }),
        (kind, ..) => ensure!(kind == "backfilled", "an entry of the kind {kind:?} that lacks something"),
    }
    Ok(())
}
