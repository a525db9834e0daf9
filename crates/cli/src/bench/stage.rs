//! A cluster with executors and a load beside it, on which one run of one workload is played.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_bench::figures::{ProcessUse, Run};
use orloj_bench::message::{
    CheckResult, CheckSpec, Counts, ExecutorsSpec, FromExecutors, FromLoad, JobList, KeyPair, LoadResult,
    LoadSpec, Target, ToExecutors, ToLoad,
};
use orloj_bench::plan::{Due, Pace, Plan, WARM_FIRST};
use orloj_bench::usage;
use orloj_wire::clock::{Clock as _, SystemClock};
use tokio::time::{Instant, sleep, timeout};

use super::args::{BenchArgs, Way};
use super::child::PartProcess;
use super::cluster::Cluster;
use super::progress::Progress;
use crate::exit::Failure;

mod cpu;
mod executors;

use executors::{Executors, listen};

/// For executors to be online.
const ONLINE: Duration = Duration::from_secs(60);
/// For an answer that is not signed.
const PROBE: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// For work to go on: after so long without any the wait is over, and what is missing is lost.
const STALL: Duration = Duration::from_secs(25);
/// After the last task, for its report to be through before CPU time is read.
const SETTLE: Duration = Duration::from_millis(500);
/// Tasks of a warm-up.
const WARM_TASKS: u64 = 3_000;
/// The most tasks whose end is looked up one by one.
const LOOK_UP: u64 = 200_000;
/// What the API takes as the body of a batch, in bytes, and what each task takes of it beside its payload.
const BATCH_BYTES: (u32, u32) = (orloj_wire::rest::BATCH_BODY_LIMIT as u32, 400);

/// Everything that a run needs.
pub struct Stage {
    /// The cluster.
    pub cluster: Cluster,
    /// What the run was asked for.
    pub args: BenchArgs,
    /// Where its random choices come from.
    pub seed: u64,
    /// The line for those who watch.
    pub progress: Progress,
    clock: SystemClock,
    http: reqwest::Client,
    load: PartProcess<FromLoad>,
    executors: Option<Executors>,
}

impl Stage {
    /// Starts a cluster, a load and where they are wanted executors.
    ///
    /// # Errors
    /// One of them does not start.
    pub async fn start(
        args: &BenchArgs,
        seed: u64,
        progress: Progress,
        executors: bool,
    ) -> Result<Stage, Failure> {
        let cluster = Cluster::start(args).await?;
        let logs = cluster.scratch().join("logs");
        let mut load = PartProcess::start("load", &logs)?;
        connect(&mut load, cluster.target().clone()).await?;
        let http = cluster.http(PROBE)?;
        let (args, clock) = (args.clone(), SystemClock::new());
        let mut stage = Stage { cluster, args, seed, progress, clock, http, load, executors: None };
        if executors {
            stage.start_executors().await?;
        }
        Ok(stage)
    }

    async fn start_executors(&mut self) -> anyhow::Result<()> {
        let wanted = &self.args.load;
        let spec = ExecutorsSpec {
            replicas: self.cluster.internal().to_vec(),
            secret: self.cluster.executor_secret().to_owned(),
            count: wanted.executors,
            slots: wanted.slots,
            dir: self.cluster.scratch().to_path_buf(),
            certificates: self.cluster.certificates().map(Path::to_path_buf),
            sleep_ms: 0,
            warm_first: WARM_FIRST,
            records: None,
            progress: None,
        };
        let mut process =
            PartProcess::<FromExecutors>::start("executors", &self.cluster.scratch().join("logs"))?;
        process.speaker().say(&ToExecutors::Start(spec)).await?;
        match process.next().await? {
            FromExecutors::Ready => {}
            other => bail!("executors said {other:?} before they were ready"),
        }
        self.executors = Some(listen(process, self.clock));
        let client = self.cluster.client()?;
        let deadline = Instant::now() + ONLINE;
        let wanted = wanted.executors as usize;
        loop {
            let listed = client.executors().await.map(|list| list.executors).unwrap_or_default();
            let ours =
                listed.iter().filter(|one| one.executor_id.starts_with("bench-") && one.state == "online");
            if ours.count() >= wanted {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("not all of {wanted} executors are online after {ONLINE:?}");
            }
            sleep(PAUSE).await;
        }
    }

    /// A client for what is not signed.
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The wall clock, in ms since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// A load of the run's own tasks, one in a request, as fast as the callers can.
    pub fn spec(&self, plan: Plan, way: Way) -> LoadSpec {
        let load = &self.args.load;
        let fits = BATCH_BYTES.0 / (load.payload + BATCH_BYTES.1);
        let (clients, batch) = match way {
            Way::Single => (load.clients, 1),
            Way::Batch => (load.batch_clients, load.batch.min(fits)),
        };
        LoadSpec {
            batch,
            key_prefix: load.idempotency_keys.then(|| self.key_prefix()),
            remember: true,
            payload: load.payload,
            ..LoadSpec::new(plan, Pace::Closed { clients })
        }
    }

    /// The beginning of this run's Idempotency-Keys, which no other run has.
    pub fn key_prefix(&self) -> String {
        let name = self.cluster.scratch().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Submits and runs some tasks that no figure counts; returns how many were acknowledged a second.
    ///
    /// # Errors
    /// A part has gone, or the tasks are not run.
    pub async fn warm_up(&mut self, way: Way) -> anyhow::Result<f64> {
        self.progress.begin("warming up");
        let count = WARM_TASKS.min(self.args.load.tasks.unwrap_or(WARM_TASKS));
        let plan = Plan { first_id: WARM_FIRST, count, due: Due::AtOnce, sleep_ms: 0 };
        let spec = LoadSpec { remember: false, ..self.spec(plan, way) };
        let ran = self.submit(spec).await?;
        if ran.acknowledged == 0 {
            bail!("no submission of the warm-up was acknowledged: {:?}", ran.errors);
        }
        self.wait_for(|counts| counts.warm, ran.acknowledged, Duration::from_secs(60)).await?;
        Ok(ran.per_s())
    }

    /// Submits; returns how that went.
    ///
    /// # Errors
    /// A part has gone.
    pub async fn submit(&mut self, spec: LoadSpec) -> anyhow::Result<LoadResult> {
        self.begin_submit(&spec).await?;
        self.submitted(spec.plan.count).await
    }

    /// Begins to submit.
    ///
    /// # Errors
    /// A part has gone.
    pub async fn begin_submit(&mut self, spec: &LoadSpec) -> anyhow::Result<()> {
        self.load.speaker().say(&ToLoad::Run(spec.clone())).await
    }

    /// Waits until submitting is over.
    ///
    /// # Errors
    /// A part has gone.
    pub async fn submitted(&mut self, total: u64) -> anyhow::Result<LoadResult> {
        loop {
            match self.load.next().await? {
                FromLoad::Ran(result) => return Ok(result),
                FromLoad::Progress { acknowledged } => self.progress.at(acknowledged, total),
                other => bail!("the load said {other:?} while it submitted"),
            }
        }
    }

    /// Waits until so many of the run's own tasks are done; `false` when nothing has been done for a while.
    ///
    /// # Errors
    /// The executors have gone.
    pub async fn wait_done(&mut self, count: u64, longest: Duration) -> anyhow::Result<bool> {
        let done = self.wait_for(|counts| counts.own, count, longest).await?;
        sleep(SETTLE).await;
        Ok(done)
    }

    async fn wait_for(
        &mut self,
        of: fn(&Counts) -> u64,
        count: u64,
        longest: Duration,
    ) -> anyhow::Result<bool> {
        let executors = self.executors.as_mut().context("there are no executors")?;
        let deadline = Instant::now() + longest;
        loop {
            let now = of(&executors.counts.borrow_and_update());
            self.progress.at(now, count);
            if now >= count {
                return Ok(true);
            }
            let patience = STALL.min(deadline.saturating_duration_since(Instant::now()));
            match timeout(patience, executors.counts.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the executors of the bench have ended: see bench-executors.log"),
                Err(_) => return Ok(false),
            }
        }
    }

    /// Asks the API what became of every acknowledged task.
    ///
    /// # Errors
    /// The API does not answer.
    pub async fn check(&mut self) -> anyhow::Result<CheckResult> {
        self.progress.begin("checking");
        let spec = CheckSpec { at_most: LOOK_UP, seed: self.seed, patience_s: 30.0 };
        self.load.speaker().say(&ToLoad::Check(spec)).await?;
        match self.load.next().await? {
            FromLoad::Checked(result) => Ok(result),
            other => bail!("the load said {other:?} instead of what it found"),
        }
    }

    /// Reads the list of all jobs.
    ///
    /// # Errors
    /// The API does not answer.
    pub async fn list_jobs(&mut self) -> anyhow::Result<JobList> {
        self.load.speaker().say(&ToLoad::ListJobs).await?;
        match self.load.next().await? {
            FromLoad::JobsListed(list) => Ok(list),
            other => bail!("the load said {other:?} instead of the list of jobs"),
        }
    }

    /// From now on the load submits as these callers in turn.
    ///
    /// # Errors
    /// A part has gone.
    pub async fn submit_as(&mut self, keys: Vec<KeyPair>) -> anyhow::Result<()> {
        let target = Target { keys, ..self.cluster.target().clone() };
        connect(&mut self.load, target).await
    }

    /// Another load beside the first, which submits as one other caller.
    ///
    /// # Errors
    /// It does not start.
    pub async fn another_load(&self, key: KeyPair) -> anyhow::Result<PartProcess<FromLoad>> {
        let logs = self.cluster.scratch().join("logs");
        let mut load = PartProcess::start_as("load", "load-2", &logs)?;
        connect(&mut load, Target { keys: vec![key], ..self.cluster.target().clone() }).await?;
        Ok(load)
    }

    /// Adds what each process has used, and of the replicas what the table shows.
    pub fn add_usage(&self, run: &mut Run) {
        let replicas = self.cluster.usages();
        let peak = replicas.iter().map(|(_, usage)| usage.peak_mib).fold(0.0, f64::max);
        run.add("peak memory of one replica", "MiB", peak);
        let mut named = replicas;
        let mut parts = vec![("load", self.load.pid())];
        parts.extend(self.executors.as_ref().map(|executors| ("executors", executors.pid)));
        named.extend(parts.into_iter().map(|(name, pid)| (name.to_owned(), usage::of(pid))));
        run.processes = named
            .into_iter()
            .map(|(name, usage)| ProcessUse { name, cpu_s: usage.cpu_s, peak_mib: usage.peak_mib })
            .collect();
    }

    /// Ends everything.
    ///
    /// # Errors
    /// A part cannot be ended.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.progress.end();
        if let Some(executors) = self.executors {
            // One that has ended already has nothing to be told.
            let _ = executors.stop.send(());
            executors.ended.await.context("the task that listens to the executors died")??;
        }
        self.load.stop().await?;
        self.cluster.stop().await
    }
}

/// Tells a load whom it loads.
async fn connect(load: &mut PartProcess<FromLoad>, target: Target) -> anyhow::Result<()> {
    load.speaker().say(&ToLoad::Connect(target)).await?;
    match load.next().await? {
        FromLoad::Connected => Ok(()),
        other => bail!("the load said {other:?} before it was connected"),
    }
}
