//! The workloads. Each plays one run on a stage and says what it measured.

use orloj_bench::figures::Run;

use super::args::{BenchArgs, Way, Workload};
use super::stage::Stage;

mod callers;
mod failover;
mod jobs;
mod life;
mod loads;
mod max;
mod pending;
mod rest;
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
            (Workload::Steady | Workload::Failover | Workload::Max, _)
            | (Workload::Jobs | Workload::Callers, _) => &both[..1],
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
            Workload::Jobs => "jobs".to_owned(),
            Workload::Callers => "callers".to_owned(),
        }
    }

    /// Whether it needs executors.
    pub fn wants_executors(self) -> bool {
        self.workload != Workload::Pending
    }

    /// Whether it kills, restarts or fills the cluster or makes callers, which is nothing for one that others use.
    pub fn wants_own_cluster(self) -> bool {
        matches!(self.workload, Workload::Pending | Workload::Failover | Workload::Jobs | Workload::Callers)
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
            Workload::Jobs => jobs::run(stage).await,
            Workload::Callers => callers::run(stage).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn plays(line: &str) -> Vec<String> {
        let Command::Bench(args) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else {
            panic!("not a bench: {line}");
        };
        let of = |workload: &Workload| Play::of(*workload, &args);
        args.workloads.iter().flat_map(of).map(Play::name).collect()
    }

    #[test]
    fn each_workload_is_submitted_as_it_makes_sense_or_as_was_wished() {
        let all = "orloj bench life burst steady max pending failover jobs callers";
        assert_eq!(
            plays(all),
            [
                "life, single",
                "life, batch",
                "burst, batch",
                "steady",
                "max, single",
                "pending",
                "failover",
                "jobs",
                "callers"
            ]
        );
        assert_eq!(
            plays(&format!("{all} --submit batch")),
            ["life, batch", "burst, batch", "steady", "max, batch", "pending", "failover", "jobs", "callers"]
        );
        assert_eq!(plays("orloj bench burst --submit single"), ["burst, single"]);
    }

    #[test]
    fn another_cluster_is_named_completely() {
        let line = "orloj bench burst --servers http://127.0.0.1:1";
        assert!(Cli::try_parse_from(line.split_whitespace()).is_err());
        let whole = format!(
            "{line} --access-key ak_X --secret-file s --internal 127.0.0.1:2 --executor-secret-file e"
        );
        assert!(Cli::try_parse_from(whole.split_whitespace()).is_ok());
    }

    #[test]
    fn a_batch_is_within_the_bounds_of_the_api() {
        assert!(Cli::try_parse_from(["orloj", "bench", "--payload", "130001"]).is_err());
        assert!(Cli::try_parse_from(["orloj", "bench", "--batch", "1001"]).is_err());
        assert!(Cli::try_parse_from(["orloj", "bench", "--batch", "1"]).is_err());
    }
}
