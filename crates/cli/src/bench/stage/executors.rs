//! The executors' process, and what it has said.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use orloj_bench::message::{Among, Counts, FromExecutors, ToExecutors, ToLoad};
use orloj_bench::record::Summary;
use orloj_bench::slices::Sample;
use orloj_wire::clock::{Clock as _, SystemClock};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::super::child::{PartProcess, Speaker};
use super::Stage;

/// After the last task, for what runs twice to show.
const LINGER: Duration = Duration::from_secs(2);

/// Executors that run.
pub(super) struct Executors {
    pub(super) pid: u32,
    pub(super) speaker: Speaker,
    /// Handlers that have returned by now.
    pub(super) counts: watch::Receiver<Counts>,
    /// The run's own ones by time, in ms since the Unix epoch.
    pub(super) samples: Arc<Mutex<Vec<(i64, u64)>>>,
    /// Answers to questions for a summary.
    pub(super) answers: mpsc::UnboundedReceiver<(Summary, Vec<Option<i64>>)>,
    /// Ends them.
    pub(super) stop: oneshot::Sender<()>,
    /// Ends with them.
    pub(super) ended: JoinHandle<anyhow::Result<()>>,
}

impl Stage {
    /// Tells the load how many tasks are done beyond the first `before`, for as long as the token lives.
    pub fn relay_done(&self, before: u64) -> Option<AbortOnDropHandle<()>> {
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
        Some(AbortOnDropHandle::new(tokio::spawn(relay)))
    }

    /// Handlers of the run's own tasks that have returned.
    pub fn done(&self) -> u64 {
        self.executors.as_ref().map_or(0, |executors| executors.counts.borrow().own)
    }

    /// What the handlers saw, and for each kill the time to the first start after it, in µs. Asked when all is done:
    /// waits a while for what comes a second time.
    ///
    /// # Errors
    /// The executors have gone.
    pub async fn summary(&mut self, kills_us: Vec<i64>) -> anyhow::Result<(Summary, Vec<Option<i64>>)> {
        sleep(LINGER).await;
        self.ask_executors(kills_us, None).await
    }

    /// What the handlers saw of the tasks that were due in a stretch of time.
    ///
    /// # Errors
    /// The executors have gone.
    pub async fn summary_of(&mut self, among: Among) -> anyhow::Result<Summary> {
        Ok(self.ask_executors(Vec::new(), Some(among)).await?.0)
    }

    async fn ask_executors(
        &mut self,
        kills_us: Vec<i64>,
        among: Option<Among>,
    ) -> anyhow::Result<(Summary, Vec<Option<i64>>)> {
        let executors = self.executors.as_mut().context("there are no executors")?;
        executors.speaker.say(&ToExecutors::Summary { kills_us, among }).await?;
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
}

/// Takes what the executors say, for as long as they run.
pub(super) fn listen(mut process: PartProcess<FromExecutors>, clock: SystemClock) -> Executors {
    let (pid, speaker) = (process.pid(), process.speaker());
    let (count, counts) = watch::channel(Counts::default());
    let samples: Arc<Mutex<Vec<(i64, u64)>>> = Arc::default();
    let (answer, answers) = mpsc::unbounded_channel();
    let (stop, mut stopped) = oneshot::channel();
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
