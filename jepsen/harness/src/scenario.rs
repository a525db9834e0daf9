//! Scenarios: which faults a run draws from, and what the run promises itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use orloj_jepsen_agents::generator::Extra;
use orloj_jepsen_core::check::Options as CheckOptions;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::target::Target;

/// A scenario file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub about: String,
    /// How long the load goes on, in seconds, unless the command line says otherwise.
    pub seconds: u64,
    /// After the last heal, how long everything may take to come to rest, in seconds.
    #[serde(default = "quiesce_s")]
    pub quiesce_s: u64,
    /// Operations a second of all clients together.
    #[serde(default = "rate")]
    pub rate: u32,
    /// How many clients.
    #[serde(default = "clients")]
    pub clients: u32,
    /// Load without faults at the beginning, in ms. What is bounded tightly only where no fault explains a delay is
    /// judged there, also in a run whose faults follow each other closely.
    #[serde(default = "calm_ms")]
    pub calm_ms: u64,
    /// Mean time from the end of one fault to the next of its package, in ms.
    #[serde(default = "spacing_ms")]
    pub spacing_ms: u64,
    /// After a fault that takes replicas out, how long no other such fault begins, in ms.
    #[serde(default = "settle_ms")]
    pub settle_ms: u64,
    /// Faults that take replicas out may meet: a majority may be away by several faults at once.
    #[serde(default)]
    pub overlap: bool,
    /// The faults come in the order in which they stand here, over and over, instead of shuffled.
    #[serde(default)]
    pub in_order: bool,
    /// One task with a business key runs through all of it; its effect must exist exactly once.
    #[serde(default)]
    pub trial: bool,
    /// Shares of submissions with parents, shards, broadcasts and callbacks.
    #[serde(default)]
    pub extra: Extra,
    /// Jobs that fire while the load goes on.
    #[serde(default)]
    pub jobs: JobOptions,
    /// Options of the cluster that differ from the harness's.
    #[serde(default)]
    pub cluster: ClusterOptions,
    /// Bounds for the checkers, and what must have been exercised.
    #[serde(default)]
    pub check: CheckOptions,
    /// The faults.
    pub faults: Vec<Mix>,
}

/// One fault of a scenario, with the choices that the seed has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mix {
    /// `package.fault`.
    pub fault: String,
    /// Whom it may hit; each of them gets its turn.
    pub targets: Vec<Target>,
    /// How often it comes among the others.
    #[serde(default = "weight")]
    pub weight: u32,
    /// The choices for each parameter.
    #[serde(default, rename = "with")]
    pub choices: BTreeMap<String, Vec<i64>>,
    /// How long it stays, least and most, in ms; else 0.3 to 5 times the election timeout.
    #[serde(default)]
    pub for_ms: Option<(u64, u64)>,
}

/// A job that lives no longer than this, in seconds, has no more instants than it remembers, which are its newest 1,000:
/// one in [`SHORTEST_MS`](orloj_jepsen_agents::jobs::SHORTEST_MS) at most, and the time that a stop may take.
pub const LONGEST_LIFE_S: u64 = 600;

/// Jobs of a run. There are none unless a scenario says how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobOptions {
    /// Jobs that fire about once a second each.
    pub each_second: u32,
    /// Jobs that fire at the beginning of each minute, all together.
    pub each_minute: u32,
    /// Each of the former is stopped after about so long and followed by another, in seconds: at most
    /// [`LONGEST_LIFE_S`].
    pub life_s: u64,
    /// The table of a replica whose digest says that it is that of another is not read a second time: of a few hundred
    /// thousand tasks one table is enough to judge.
    pub one_table: bool,
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions { each_second: 0, each_minute: 0, life_s: 300, one_table: false }
    }
}

impl JobOptions {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.each_second + self.each_minute > 0
    }
}

/// How the cluster under test is configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClusterOptions {
    /// Heartbeats of a leader, in ms.
    pub raft_heartbeat_ms: u64,
    /// Election timeout, shortest, in ms.
    pub election_min_ms: u64,
    /// Election timeout, longest, in ms.
    pub election_max_ms: u64,
    /// Heartbeats of executors, in ms.
    pub heartbeat_ms: u64,
    /// Missed heartbeats until an executor is offline.
    pub offline_after: u32,
    /// Past its timeout, an attempt may run so long before the leader steps in, in ms.
    pub timeout_grace_ms: u64,
    /// A snapshot is taken when the log has grown by so much, in bytes.
    pub snapshot_log_bytes: u64,
    /// Log entries kept behind a snapshot.
    pub keep_log_entries: u64,
    /// Size of each replica's disk, in MiB.
    pub disk_mib: u64,
    /// Slots of each mock executor, and as many queue places.
    pub executor_slots: u32,
    /// Whether each replica's own monotonic clock starts elsewhere, on machines that can do it.
    pub shift_monotonic: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions {
            raft_heartbeat_ms: 150,
            election_min_ms: 500,
            election_max_ms: 750,
            heartbeat_ms: 1_000,
            offline_after: 4,
            timeout_grace_ms: 2_000,
            snapshot_log_bytes: 512 << 10,
            keep_log_entries: 200,
            disk_mib: 384,
            executor_slots: 8,
            shift_monotonic: true,
        }
    }
}

fn quiesce_s() -> u64 {
    60
}
fn rate() -> u32 {
    80
}
fn clients() -> u32 {
    8
}
fn calm_ms() -> u64 {
    4_000
}
fn spacing_ms() -> u64 {
    6_000
}
fn settle_ms() -> u64 {
    3_000
}
fn weight() -> u32 {
    1
}

/// The scenarios that come with the harness.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("smoke", include_str!("../../scenarios/smoke.toml")),
    ("calm", include_str!("../../scenarios/calm.toml")),
    ("partition", include_str!("../../scenarios/partition.toml")),
    ("link", include_str!("../../scenarios/link.toml")),
    ("process", include_str!("../../scenarios/process.toml")),
    ("power", include_str!("../../scenarios/power.toml")),
    ("disk", include_str!("../../scenarios/disk.toml")),
    ("clock", include_str!("../../scenarios/clock.toml")),
    ("resource", include_str!("../../scenarios/resource.toml")),
    ("membership", include_str!("../../scenarios/membership.toml")),
    ("executor", include_str!("../../scenarios/executor.toml")),
    ("sink", include_str!("../../scenarios/sink.toml")),
    ("jobs", include_str!("../../scenarios/jobs.toml")),
    ("business-key", include_str!("../../scenarios/business-key.toml")),
];

impl Scenario {
    /// The built-in scenario of this name, or the file at this path.
    ///
    /// # Errors
    /// There is neither, or it is not a scenario.
    pub fn find(name_or_path: &str) -> anyhow::Result<Scenario> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Scenario::parse(text).with_context(|| format!("scenario {name_or_path}"));
        }
        if !Path::new(name_or_path).exists() {
            let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            bail!("{name_or_path:?} is neither a file nor one of {}", names.join(", "));
        }
        let text = fs::read_to_string(name_or_path).with_context(|| format!("cannot read {name_or_path}"))?;
        Scenario::parse(&text).with_context(|| format!("scenario file {name_or_path}"))
    }

    /// Reads a scenario and checks that each of its faults can be made.
    ///
    /// # Errors
    /// What is wrong, with the name of the fault.
    pub fn parse(text: &str) -> anyhow::Result<Scenario> {
        let scenario: Scenario = toml::from_str(text)?;
        ensure!(scenario.rate > 0 && scenario.clients > 0, "rate and clients must be at least 1");
        let life_s = scenario.jobs.life_s;
        ensure!((1..=LONGEST_LIFE_S).contains(&life_s), "life-s is {life_s}, outside of 1-{LONGEST_LIFE_S}");
        for mix in &scenario.faults {
            ensure!(!mix.targets.is_empty(), "{}: no targets", mix.fault);
            ensure!(mix.for_ms.is_none_or(|(low, high)| low <= high), "{}: for-ms is empty", mix.fault);
            mix.action(|choices| choices.first().copied()).with_context(|| mix.fault.clone())?;
        }
        Ok(scenario)
    }
}

impl Mix {
    /// The fault with one choice for each of its parameters.
    ///
    /// # Errors
    /// No fault has this name or these parameters, or a parameter has no choices.
    pub fn action(&self, mut choose: impl FnMut(&[i64]) -> Option<i64>) -> anyhow::Result<Action> {
        let mut fields = serde_json::Map::new();
        fields.insert("fault".to_owned(), self.fault.clone().into());
        for (name, choices) in &self.choices {
            let value = choose(choices).with_context(|| format!("{name} has no choices"))?;
            fields.insert(name.clone(), value.into());
        }
        let wanted = serde_json::Value::from(fields);
        let action: Action = serde_json::from_value(wanted.clone())?;
        // A fault without parameters takes no notice of one that is given.
        ensure!(serde_json::to_value(&action)? == wanted, "it has no such parameters");
        Ok(action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_scenario_can_be_read_under_its_name() {
        for (name, text) in BUILT_IN {
            let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_eq!(scenario.name, *name);
            assert!(scenario.about.ends_with('.'), "{name}: {}", scenario.about);
        }
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        let of = |fault: &str| {
            let text = format!("name = 'x'\nabout = 'X.'\nseconds = 1\n[[faults]]\n{fault}");
            format!("{:#}", Scenario::parse(&text).unwrap_err())
        };
        let unknown = of("fault = 'process.tickle'\ntargets = ['leader']");
        assert!(unknown.contains("process.tickle"), "{unknown}");
        let target = of("fault = 'process.kill'\ntargets = ['nobody']");
        assert!(target.contains("nobody"), "{target}");
        let parameter = of("fault = 'link.loss'\ntargets = ['leader']");
        assert!(parameter.contains("link.loss") && parameter.contains("percent"), "{parameter}");
        let needless = of("fault = 'process.kill'\ntargets = ['leader']\nwith = { percent = [1] }");
        assert!(needless.contains("process.kill"), "{needless}");
        let nothing = of("fault = 'process.kill'\ntargets = []");
        assert!(nothing.contains("no targets"), "{nothing}");
        assert!(Scenario::find("no-such-scenario").unwrap_err().to_string().contains("smoke"));
    }
}
