//! A cluster with executors and a load beside it, on which one run of one workload is played.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_bench::figures::{ProcessUse, Run, Shown};
use orloj_bench::message::{
    CheckResult, CheckSpec, Counts, ExecutorsSpec, FromExecutors, FromLoad, LoadResult, LoadSpec,
    ToExecutors, ToLoad,
};
use orloj_bench::plan::{Due, Pace, Plan, WARM_FIRST};
use orloj_bench::record::Summary;
use orloj_bench::slices::Sample;
use orloj_bench::usage;
use orloj_wire::clock::{Clock as _, SystemClock};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::args::{BenchArgs, Way};
use super::child::{PartProcess, Speaker};
use super::cluster::Cluster;
use super::progress::Progress;
use crate::exit::Failure;

/// For executors to be online.
const ONLINE: Duration = Duration::from_secs(60);
/// For an answer that is not signed.
const PROBE: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// For work to go on: after so long without any the wait is over, and what is missing is lost.
const STALL: Duration = Duration::from_secs(25);
/// After the last task, for what runs twice to show.
const LINGER: Duration = Duration::from_millis(500);
/// Tasks of a warm-up.
const WARM_TASKS: u64 = 3_000;
/// The most tasks whose end is looked up one by one.
const LOOK_UP: u64 = 200_000;

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

/// The executors' process, and what it has said.
struct Executors {
    pid: u32,
    speaker: Speaker,
    counts: watch::Receiver<Counts>,
    samples: Arc<Mutex<Vec<(i64, u64)>>>,
    answers: mpsc::UnboundedReceiver<(Summary, Vec<Option<i64>>)>,
    stop: tokio::sync::oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<anyhow::Result<()>>,
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
        let mut load = PartProcess::<FromLoad>::start("load", &logs)?;
        load.speaker().say(&ToLoad::Connect(cluster.target().clone())).await?;
        load.next().await?;
        let http = reqwest::Client::builder().no_proxy().timeout(PROBE).build().context("no HTTP client")?;
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
        let (clients, batch) = match way {
            Way::Single => (load.clients, 1),
            Way::Batch => (load.batch_clients, load.batch),
        };
        LoadSpec {
            plan,
            pace: Pace::Closed { clients },
            batch,
            limit_s: 3_600.0,
            key_prefix: load.idempotency_keys.then(|| self.key_prefix()),
            outstanding: None,
            unknown_handler: false,
            remember: true,
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

    /// Tells the load how many tasks are done beyond the first `before`, for as long as the token lives.
    pub fn relay_done(&self, before: u64) -> Option<tokio_util::task::AbortOnDropHandle<()>> {
        let executors = self.executors.as_ref()?;
        let (mut counts, speaker) = (executors.counts.clone(), self.load.speaker());
        let relay = async move {
            loop {
                let done = counts.borrow_and_update().own.saturating_sub(before);
                if speaker.say(&ToLoad::Done(done)).await.is_err() || counts.changed().await.is_err() {
                    return;
                }
            }
        };
        Some(tokio_util::task::AbortOnDropHandle::new(tokio::spawn(relay)))
    }

    /// Handlers of the run's own tasks that have returned.
    pub fn done(&self) -> u64 {
        self.executors.as_ref().map_or(0, |executors| executors.counts.borrow().own)
    }

    /// Waits until so many of the run's own tasks are done; `false` when nothing has been done for a while.
    ///
    /// # Errors
    /// The executors have gone.
    pub async fn wait_done(&mut self, count: u64, longest: Duration) -> anyhow::Result<bool> {
        let done = self.wait_for(|counts| counts.own, count, longest).await?;
        sleep(LINGER).await;
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

    /// What the handlers saw, and for each kill the time to the first start after it, in µs.
    ///
    /// # Errors
    /// The executors have gone.
    pub async fn summary(&mut self, kills_us: Vec<i64>) -> anyhow::Result<(Summary, Vec<Option<i64>>)> {
        let executors = self.executors.as_mut().context("there are no executors")?;
        executors.speaker.say(&ToExecutors::Summary { kills_us }).await?;
        executors.answers.recv().await.context("the executors of the bench have ended")
    }

    /// Tasks done since `begin_ms`, by time.
    pub fn samples(&self, begin_ms: i64) -> Vec<Sample> {
        let Some(executors) = &self.executors else { return Vec::new() };
        let samples = executors.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let first = samples.partition_point(|(at_ms, _)| *at_ms < begin_ms);
        let before = first.checked_sub(1).map_or(0, |place| samples[place].1);
        let since = |(at_ms, count): &(i64, u64)| Sample {
            at_s: (at_ms - begin_ms) as f64 / 1e3,
            count: count - before,
        };
        samples[first..].iter().map(since).collect()
    }

    /// CPU time of the executors and of the load since they started, in s.
    pub fn others_cpu_s(&self) -> (f64, f64) {
        let of = |pid| usage::of(pid).cpu_s;
        (self.executors.as_ref().map_or(0.0, |executors| of(executors.pid)), of(self.load.pid()))
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

/// What every run tells: losses, duplicates, latencies.
pub fn add_outcome(run: &mut Run, sent: u64, checked: &CheckResult, summary: &Summary, shown: &[Shown]) {
    run.add("success", "%", checked.succeeded() / sent.max(1) as f64 * 100.0);
    run.add("lost", "", checked.lost() as f64);
    run.add("duplicates", "", summary.duplicates as f64);
    run.add("early", "", summary.early as f64);
    run.add_latency("lateness", summary.lateness.quantiles(), shown);
    run.add_latency("end to end", checked.end_to_end.quantiles(), &[Shown::P50, Shown::P99]);
}

/// Takes what the executors say, for as long as they run.
fn listen(mut process: PartProcess<FromExecutors>, clock: SystemClock) -> Executors {
    let (pid, speaker) = (process.pid(), process.speaker());
    let (count, counts) = watch::channel(Counts::default());
    let samples: Arc<Mutex<Vec<(i64, u64)>>> = Arc::default();
    let (answer, answers) = mpsc::unbounded_channel();
    let (stop, mut stopped) = tokio::sync::oneshot::channel();
    let kept = Arc::clone(&samples);
    let ended = tokio::spawn(async move {
        loop {
            let said = tokio::select! {
                said = process.next() => said?,
                _ = &mut stopped => return process.stop().await,
            };
            match said {
                FromExecutors::Done(now) => {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push((clock.wall_ms(), now.own));
                    count.send_replace(now);
                }
                // Nobody waits any more when the receiver has gone.
                FromExecutors::Summary { summary, gaps_us } => drop(answer.send((summary, gaps_us))),
                FromExecutors::Ready => {}
            }
        }
    });
    Executors { pid, speaker, counts, samples, answers, stop, ended }
}
