//! What the conductor and the parts tell each other: one JSON object a line.
//!
//! Secrets travel on standard input or in a private file, never on a command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::jobs::JobPlan;
use crate::latency::Latency;
use crate::plan::{Pace, Plan};
use crate::record::Summary;

/// To whom requests go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Via {
    /// The leader, as long as one is known.
    #[default]
    Leader,
    /// All replicas in turn; those that do not lead hand requests on.
    Any,
}

/// The cluster that is loaded, and who loads it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// Base URLs of the replicas, `http://host:port`, or with `https` where `caPem` is given.
    pub servers: Vec<String>,
    /// The caller's access key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// What signatures are made for.
    pub audience: String,
    /// Who is asked.
    #[serde(default)]
    pub via: Via,
    /// Other callers' keys: they submit in turn, and the key above only looks for the leader and lists.
    #[serde(default)]
    pub keys: Vec<KeyPair>,
    /// The authority that vouches for servers that speak TLS.
    #[serde(default)]
    pub ca_pem: Option<String>,
}

/// An access key with its secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyPair {
    /// The access key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
}

/// A load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadSpec {
    /// What is submitted.
    pub plan: Plan,
    /// How fast.
    pub pace: Pace,
    /// Tasks in one request, 1-1,000; more than 1 makes it a batch. In an open loop it is 1.
    #[serde(default = "one")]
    pub batch: u32,
    /// The longest that submitting may take, in s; then the rest of the plan is left out.
    pub limit_s: f64,
    /// Sends an Idempotency-Key with this prefix and the (first) task's id with each request, and repeats one that
    /// failed for a reason that passes. Without it a request is sent once.
    #[serde(default)]
    pub key_prefix: Option<String>,
    /// In a closed loop: the most tasks that may be submitted and not done, as [`ToLoad::Done`] tells it.
    #[serde(default)]
    pub outstanding: Option<u64>,
    /// The handler of the tasks, where it is another than that of the bench's executors.
    #[serde(default)]
    pub handler: Option<String>,
    /// Takes tasks although no executor is there.
    #[serde(default)]
    pub unknown_handler: bool,
    /// Remembers what was acknowledged, for [`ToLoad::Check`].
    #[serde(default)]
    pub remember: bool,
    /// Bytes of parameters that each task carries beside what its handler reads.
    #[serde(default)]
    pub payload: u32,
    /// Makes these jobs instead of the plan's tasks; of the plan only the count is used.
    #[serde(default)]
    pub jobs: Option<JobPlan>,
}

impl LoadSpec {
    /// A load of these tasks, one in a request, sent once and not remembered, for an hour at most.
    pub fn new(plan: Plan, pace: Pace) -> LoadSpec {
        LoadSpec {
            plan,
            pace,
            batch: one(),
            limit_s: 3_600.0,
            key_prefix: None,
            outstanding: None,
            handler: None,
            unknown_handler: false,
            remember: false,
            payload: 0,
            jobs: None,
        }
    }
}

fn one() -> u32 {
    1
}

/// How the acknowledged tasks are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckSpec {
    /// Beyond so many tasks, a sample of this size is looked up instead of all.
    pub at_most: u64,
    /// Chooses the sample.
    pub seed: u64,
    /// The longest wait for tasks that have not ended, in s.
    pub patience_s: f64,
}

/// To the load.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToLoad {
    /// Load this cluster. First of all.
    Connect(Target),
    /// Submit.
    Run(LoadSpec),
    /// So many tasks have been done by now.
    Done(u64),
    /// Look up what was acknowledged.
    Check(CheckSpec),
    /// Read the list of all jobs.
    ListJobs,
}

/// From the load.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromLoad {
    /// The leader is known, where it matters, or did not show in time.
    Connected,
    /// How far a load is.
    Progress {
        /// Acknowledged by now.
        acknowledged: u64,
    },
    /// A load is over.
    Ran(LoadResult),
    /// A look-up is over.
    Checked(CheckResult),
    /// The answer to [`ToLoad::ListJobs`].
    JobsListed(JobList),
}

/// How a load went. Instants are in µs since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadResult {
    /// Submissions that were begun.
    pub sent: u64,
    /// Those that were acknowledged.
    pub acknowledged: u64,
    /// Tries after the first.
    pub repeated: u64,
    /// Why others were not, with how often.
    pub errors: BTreeMap<String, u64>,
    /// When the first one was meant to be sent.
    pub started_us: i64,
    /// When the last answer came.
    pub ended_us: i64,
    /// From the intended instant to the answer of a request, or until it had failed for good; one for each request. In a
    /// closed loop a request is intended when its caller is free, so there this is the time of service.
    pub latency: Latency,
    /// Of those requests alone that failed.
    pub failures: Latency,
}

impl LoadResult {
    /// Acknowledged submissions a second.
    pub fn per_s(&self) -> f64 {
        let span_us = (self.ended_us - self.started_us).max(1);
        self.acknowledged as f64 / (span_us as f64 / 1e6)
    }

    /// Submissions that failed for good.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// What the list of a caller's jobs says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobList {
    /// Jobs in it.
    pub jobs: u64,
    /// Those that did not follow the one before in the order of ids.
    pub disorder: u64,
    /// Tasks that they have made.
    pub fired: u64,
    /// Instants that made none, for whatever reason.
    pub skipped: u64,
    /// From the first request to the last answer, in µs.
    pub took_us: u64,
    /// Of one page.
    pub page: Latency,
}

/// What the API says of the tasks that were acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    /// Tasks that were acknowledged.
    pub acknowledged: u64,
    /// How many of them were looked up.
    pub looked_up: u64,
    /// By status.
    pub statuses: BTreeMap<String, u64>,
    /// Looked up and not there.
    pub missing: u64,
    /// From when it was due until the leader put its success into an entry of the log, by the leader's clock: that
    /// entry has yet to reach a majority's disks.
    pub end_to_end: Latency,
    /// The last such instant, in ms since the Unix epoch; 0 without any.
    pub last_finished_ms: i64,
}

impl CheckResult {
    /// Tasks that were acknowledged, looked up, and did not succeed.
    pub fn lost(&self) -> u64 {
        self.looked_up - self.successes()
    }

    /// Acknowledged tasks that succeeded; of a sample, what it stands for.
    pub fn succeeded(&self) -> f64 {
        self.acknowledged as f64 * self.successes() as f64 / self.looked_up.max(1) as f64
    }

    fn successes(&self) -> u64 {
        self.statuses.get("SUCCESS").copied().unwrap_or(0)
    }
}

/// Executors that record what their handlers see.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutorsSpec {
    /// Internal addresses of the replicas, `host:port`.
    pub replicas: Vec<String>,
    /// The secret that executors and replicas share.
    pub secret: String,
    /// How many executors.
    pub count: u32,
    /// Slots of each.
    pub slots: u32,
    /// Where their folders lie.
    pub dir: PathBuf,
    /// Where everything speaks TLS: the folder of `ca.pem` and of each executor's certificate and key.
    #[serde(default)]
    pub certificates: Option<PathBuf>,
    /// Sleep of each task, in ms, where the task does not say.
    #[serde(default)]
    pub sleep_ms: u64,
    /// Tasks from this id on are warm-up and counted apart.
    pub warm_first: u64,
    /// Where the records are written at the end, as four little-endian doubles each.
    #[serde(default)]
    pub records: Option<PathBuf>,
    /// Where the number of tasks done is written four times a second.
    #[serde(default)]
    pub progress: Option<PathBuf>,
}

/// To the executors.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ToExecutors {
    /// Start. First of all.
    Start(ExecutorsSpec),
    /// Sum up what was recorded, and for each of these instants (µs since the Unix epoch) the time to the first
    /// start of a task that was due after it.
    Summary {
        /// When a leader was killed.
        kills_us: Vec<i64>,
        /// Only tasks that were due then.
        #[serde(default)]
        among: Option<Among>,
    },
}

/// A stretch of due instants, in µs since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Among {
    /// The first instant.
    pub from_us: i64,
    /// The first one after it.
    pub until_us: i64,
}

impl Among {
    /// Whether an instant belongs to it.
    pub fn has(self, us: i64) -> bool {
        (self.from_us..self.until_us).contains(&us)
    }
}

/// From the executors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromExecutors {
    /// All of them listen.
    Ready,
    /// Handlers that have returned, warm-up apart.
    Done(Counts),
    /// The answer to [`ToExecutors::Summary`].
    Summary {
        /// Of all tasks but the warm-up.
        summary: Summary,
        /// One for each instant that was asked for, in µs.
        gaps_us: Vec<Option<i64>>,
    },
}

/// Handlers that have returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Of a run's own tasks. One that was submitted counts once, however often it ran.
    pub own: u64,
    /// Of warm-up tasks.
    pub warm: u64,
}

/// From the server that does nothing but answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NullListens {
    /// Its base URL.
    pub url: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Due;

    #[test]
    fn messages_are_lines_that_scripts_can_write() {
        let line = r#"{"run":{"plan":{"firstId":0,"count":5,"due":"atOnce","sleepMs":0},"pace":{"closed":{"clients":2}},"limitS":10.0}}"#;
        let ToLoad::Run(spec) = serde_json::from_str(line).unwrap() else { panic!("not a load") };
        assert_eq!((spec.plan.count, spec.plan.due, spec.key_prefix), (5, Due::AtOnce, None));
        let text = serde_json::to_string(&FromLoad::Ran(LoadResult::default())).unwrap();
        assert!(!text.contains('\n') && text.starts_with("{\"ran\":"), "{text}");
    }

    #[test]
    fn rates_and_losses_follow_from_the_counts() {
        let ran = LoadResult {
            acknowledged: 500,
            started_us: 1_000_000,
            ended_us: 3_000_000,
            ..LoadResult::default()
        };
        assert!((ran.per_s() - 250.0).abs() < 1e-9);
        let statuses = BTreeMap::from([("SUCCESS".to_owned(), 7), ("RUNNING".to_owned(), 1)]);
        let checked =
            CheckResult { acknowledged: 100, looked_up: 10, statuses, missing: 2, ..CheckResult::default() };
        assert_eq!(checked.lost(), 3);
        assert!((checked.succeeded() - 70.0).abs() < 1e-9, "7 of a sample of 10 stand for 70 of 100");
    }
}
