//! The workloads. Each plays one run on a stage and says what it measured.

use orloj_bench::figures::Run;

use super::args::{BenchArgs, Way, Workload};
use super::stage::Stage;

mod failover;
mod life;
mod max;
mod pending;
mod steady;

/// One workload in one variant, as it is named in the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Play {
    /// The workload.
    pub workload: Workload,
    /// How its tasks are submitted.
    pub way: Way,
}

impl Play {
    /// What to run for a workload.
    pub fn of(workload: Workload, args: &BenchArgs) -> Vec<Play> {
        let both = [Way::Single, Way::Batch];
        let ways: &[Way] = match (workload, args.load.submit) {
            (Workload::Life | Workload::Burst | Workload::Max, Some(Way::Single)) => &both[..1],
            (Workload::Life | Workload::Burst | Workload::Max, Some(Way::Batch)) => &both[1..],
            (Workload::Life, None) => &both,
            (Workload::Burst | Workload::Pending, _) => &both[1..],
            (Workload::Steady | Workload::Failover | Workload::Max, _) => &both[..1],
        };
        ways.iter().map(|way| Play { workload, way: *way }).collect()
    }

    /// Its name in the results.
    pub fn name(self) -> String {
        match self.workload {
            Workload::Life => format!("life, {}", self.way.word()),
            Workload::Burst => format!("burst, {}", self.way.word()),
            Workload::Max => format!("max, {}", self.way.word()),
            Workload::Steady => "steady".to_owned(),
            Workload::Pending => "pending".to_owned(),
            Workload::Failover => "failover".to_owned(),
        }
    }

    /// Whether it needs executors.
    pub fn wants_executors(self) -> bool {
        self.workload != Workload::Pending
    }

    /// Plays it.
    ///
    /// # Errors
    /// A part of the bench or the cluster has gone.
    pub async fn run(self, stage: &mut Stage) -> anyhow::Result<Run> {
        match self.workload {
            Workload::Life => life::run(stage, self.way, stage.args.load.spread_s * 1_000).await,
            Workload::Burst => life::run(stage, self.way, 0).await,
            Workload::Steady => steady::run(stage).await,
            Workload::Max => max::run(stage, self.way).await,
            Workload::Pending => pending::run(stage).await,
            Workload::Failover => failover::run(stage).await,
        }
    }
}
