//! The workloads. Each plays one run on a stage and says what it measured.

use anyhow::bail;
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

    /// Whether the options allow it; `Err` names those that do not go together, with their values.
    ///
    /// # Errors
    /// They do not.
    pub fn check(self, args: &BenchArgs) -> anyhow::Result<()> {
        let (load, replicas) = (&args.load, args.own.replicas);
        let name = self.name();
        if self.wants_own_cluster() && !args.other.servers.is_empty() {
            bail!("{name} restarts replicas or makes callers: it runs without --servers alone");
        }
        match self.workload {
            Workload::Failover if replicas < 3 => {
                bail!("{name} goes on without its leader: --replicas must be 3 at least, and is {replicas}")
            }
            Workload::Pending | Workload::Jobs if replicas == 1 && load.changes > 0 => bail!(
                "{name} moves the leadership: --replicas must be 2 at least, and is 1; or --changes 0, and is {}",
                load.changes
            ),
            Workload::Jobs if load.fires > load.jobs => bail!(
                "{name} fires no job twice a second: --fires must be at most --jobs, and is {} of {}",
                load.fires,
                load.jobs
            ),
            _ => Ok(()),
        }
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

    fn args(line: &str) -> BenchArgs {
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Bench(args) => *args,
            other => panic!("not a bench: {other:?}"),
        }
    }

    fn plays(line: &str) -> Vec<String> {
        let args = args(line);
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
    fn what_is_out_of_bounds_is_named_with_its_value_before_anything_starts() {
        let wrong = [
            "--runs 0",
            "--replicas 0",
            "--replicas 10",
            "--set foo",
            "--set =1",
            "--executors 0",
            "--slots 0",
            "--clients 0",
            "--batch-clients 0",
            "--batch 1",
            "--batch 1001",
            "--payload 130001",
            "--tasks 0",
            "--tasks 1000000001",
            "--spread-s 0",
            "--lead-s 86401",
            "--rate 0",
            "--rate NaN",
            "--rate 1e7",
            "--seconds 0",
            "--seconds 86401",
            "--sleep-ms 86400001",
            "--outstanding 0",
            "--slice-s 0",
            "--every-s 9",
            "--kills 0",
            "--jobs 0",
            "--hammer-clients 0",
        ];
        for options in wrong {
            let line = format!("orloj bench {options}");
            let told = Cli::try_parse_from(line.split_whitespace()).expect_err(options).to_string();
            let (option, value) = options.split_once(' ').unwrap();
            assert!(told.contains(option) && told.contains(value), "{told}");
        }
    }

    #[test]
    fn what_belongs_to_another_cluster_asks_for_its_address() {
        for options in ["--access-key ak_X", "--pids 7", "--internal 127.0.0.1:2", "--secret-file s"] {
            let line = format!("orloj bench {options}");
            let told = Cli::try_parse_from(line.split_whitespace()).expect_err(options).to_string();
            assert!(told.contains("--servers"), "{told}");
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_named() {
        let wrong = [
            ("failover --replicas 2", "--replicas must be 3 at least, and is 2"),
            ("pending --replicas 1", "--changes 0, and is 5"),
            ("jobs --replicas 1", "--replicas must be 2 at least, and is 1"),
            ("jobs --jobs 10", "--fires must be at most --jobs, and is 1000 of 10"),
        ];
        for (line, why) in wrong {
            let args = args(&format!("orloj bench {line}"));
            let play = Play::of(args.workloads[0], &args)[0];
            let told = play.check(&args).expect_err(line).to_string();
            assert!(told.contains(why), "{told}");
        }
        for line in ["failover", "pending --replicas 1 --changes 0", "jobs", "life --replicas 1"] {
            let args = args(&format!("orloj bench {line}"));
            Play::of(args.workloads[0], &args)[0].check(&args).expect(line);
        }
    }
}
