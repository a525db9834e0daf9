//! The command line of `orloj bench` and of the parts that it starts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

/// The most tasks of one run. Below every id that the bench uses for others, and more than a machine keeps.
const MOST_TASKS: u64 = 1_000_000_000;
/// The longest that anything is asked to take, in s: a day.
const MOST_S: u64 = 86_400;
/// The most submissions a second.
const MOST_RATE: f64 = 1_000_000.0;

/// A rate a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match rate {
        0.01..=MOST_RATE => Ok(rate),
        _ => Err(format!("{rate} is not in 0.01..={MOST_RATE}")),
    }
}

/// An option and its value. What they may be, the configuration file says.
fn setting(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(text.to_owned()),
        _ => Err("not KEY=VALUE".to_owned()),
    }
}

/// `orloj bench`
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchArgs {
    /// What to run, in this order. Default: life burst steady.
    #[arg(value_enum)]
    pub workloads: Vec<Workload>,
    /// How often each is run, 1-1000; the table shows median, smallest and largest.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Also write everything as JSON to this file, after each run what there is by then.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Where random choices come from. Default: by chance; always told.
    #[arg(long)]
    pub seed: Option<u64>,
    /// No progress on standard error.
    #[arg(long)]
    pub quiet: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its fields are documented")]
    pub own: OwnArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its fields are documented")]
    pub other: OtherArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its fields are documented")]
    pub load: LoadArgs,
}

/// The cluster that the bench starts.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnArgs {
    /// Where the data lies: a folder on the disk that is to be measured. Default: the folder for temporary
    /// files.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Keep data and logs.
    #[arg(long)]
    pub keep: bool,
    /// Replicas, 1-9.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: u8,
    /// An option of every replica's configuration file; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub set: Vec<String>,
    /// Everything speaks TLS, with certificates that are made for the run.
    #[arg(long, conflicts_with = "servers")]
    pub tls: bool,
}

/// A cluster that runs already.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherArgs {
    /// Load this cluster instead of one of the bench's own: base URLs of its replicas, by comma.
    #[arg(long, value_delimiter = ',', requires_all = ["access_key", "secret_file", "internal", "executor_secret_file"])]
    pub servers: Vec<String>,
    /// The caller's key; its limits must allow the load.
    #[arg(long, requires = "servers")]
    pub access_key: Option<String>,
    /// A private file that holds the caller's secret and nothing else.
    #[arg(long, requires = "servers")]
    pub secret_file: Option<PathBuf>,
    /// Internal addresses of its replicas, host:port, by comma, for the bench's executors.
    #[arg(long, value_delimiter = ',', requires = "servers")]
    pub internal: Vec<String>,
    /// A private file that holds the executors' secret and nothing else.
    #[arg(long, requires = "servers")]
    pub executor_secret_file: Option<PathBuf>,
    /// Its `audience`.
    #[arg(long, default_value = "default")]
    pub audience: String,
    /// Process ids of its replicas, by comma, where they run on this machine: CPU and memory are then told.
    #[arg(long, value_delimiter = ',', requires = "servers")]
    pub pids: Vec<u32>,
}

/// Who submits what, and who runs it.
#[derive(Debug, Clone, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadArgs {
    /// Executors, 1-1000.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub executors: u32,
    /// Slots of each, 1-10000.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slots: u32,
    /// Callers at once, 1-10000.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// How tasks of `life`, `burst` and `max` are submitted. Default: life both ways, burst in batches, max one by one.
    #[arg(long, value_enum)]
    pub submit: Option<Way>,
    /// Tasks in one batch, 2-1000.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub batch: u32,
    /// Callers at once that send batches, 1-1000.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub batch_clients: u32,
    /// Tasks, at most a thousand million. Default: 50000; of `pending` 1000000.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MOST_TASKS))]
    pub tasks: Option<u64>,
    /// Bytes of parameters that each task carries beside what its handler reads; batches become smaller where the API
    /// takes no more.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=130_000))]
    pub payload: u32,
    /// life: the span over which they are due, in s.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=MOST_S))]
    pub spread_s: u64,
    /// life, burst, jobs: from the expected end of what comes before to the first due instant, in s.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=MOST_S))]
    pub lead_s: u64,
    /// steady, failover, callers: submissions a second.
    #[arg(long, default_value_t = 200.0, value_parser = rate)]
    pub rate: f64,
    /// steady, max, jobs: how long, in s; callers: how long each of its two halves takes.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=MOST_S))]
    pub seconds: u64,
    /// steady, failover, callers: how long a task takes, in ms.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=MOST_S * 1_000))]
    pub sleep_ms: u64,
    /// max: the most tasks that are submitted and not done.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=MOST_TASKS))]
    pub outstanding: u64,
    /// max: tasks that are run and kept before the measurement begins.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MOST_TASKS))]
    pub finished: u64,
    /// max: tasks a second are told for each slice of so many s.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub slice_s: u64,
    /// pending: how many of the tasks, at most all, are due within the leader's window.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=MOST_TASKS))]
    pub soon: u64,
    /// pending: how many of the tasks are due at once, while no executor is there; failover: how many more there are, of a
    /// handler that nobody has.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=MOST_TASKS))]
    pub ready: u64,
    /// pending, jobs: how long idle CPU is measured, in s; half of it passes before, for memory and disk to come to rest.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub idle_s: u64,
    /// pending, jobs: how many changes of leader are measured at a time, 0-1000.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub changes: u32,
    /// failover: how often the leader is killed, 1-1000.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub kills: u32,
    /// failover: from one kill to the next, in s, 10 at least.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(10..=MOST_S))]
    pub every_s: u64,
    /// jobs: how many there are.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub jobs: u64,
    /// jobs: how many fire in each second.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub fires: u64,
    /// jobs: they fire by cron, once a minute each, instead of at a fixed rate.
    #[arg(long)]
    pub cron: bool,
    /// callers: how many submit, each with a key of its own and the default limits.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub keys: u16,
    /// callers: requests at once of the one that keeps to no limit, 1-1000.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub hammer_clients: u32,
    /// To whom requests go.
    #[arg(long, value_enum, default_value_t)]
    pub via: ViaArg,
    /// Send an Idempotency-Key with every submission, and repeat it when it fails for a reason that passes. failover always does.
    #[arg(long)]
    pub idempotency_keys: bool,
}

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Delayed tasks that do nothing, due over a span.
    Life,
    /// The same, all due at one instant.
    Burst,
    /// So many submissions a second, whatever comes back.
    Steady,
    /// As much as can be done, slice by slice.
    Max,
    /// Many tasks of a later hour: memory, restart, change of leader.
    Pending,
    /// steady, with the leader killed again and again.
    Failover,
    /// Many jobs: making and listing them, their fires, memory, restart, change of leader.
    Jobs,
    /// steady by many callers within their limits, and once more beside one that keeps to none.
    Callers,
}

/// How tasks are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// One in a request.
    Single,
    /// Many in a request.
    Batch,
}

impl Way {
    /// The word in the names of workloads.
    pub fn word(self) -> &'static str {
        match self {
            Way::Single => "single",
            Way::Batch => "batch",
        }
    }
}

/// To whom requests go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ViaArg {
    /// The leader, like a client that remembers who leads.
    #[default]
    Leader,
    /// All replicas in turn.
    Any,
}

impl From<ViaArg> for orloj_bench::message::Via {
    fn from(via: ViaArg) -> Self {
        match via {
            ViaArg::Leader => Self::Leader,
            ViaArg::Any => Self::Any,
        }
    }
}

/// `orloj bench-part`: a process that a bench or a script starts. It reads lines of JSON.
#[derive(Debug, Args)]
pub struct PartArgs {
    /// Which part.
    #[arg(value_enum)]
    pub part: Part,
    /// Read the lines from this file instead of from standard input.
    #[arg(long)]
    pub spec: Option<PathBuf>,
    /// End with the process of this id, which started this one.
    #[arg(long)]
    pub exit_with_parent: Option<u32>,
}

/// A part of a bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Executors that record.
    Executors,
    /// Callers that submit and check.
    Load,
    /// A server that does nothing but answer.
    Null,
}
