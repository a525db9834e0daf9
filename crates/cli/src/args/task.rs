//! `orloj task …`

use clap::{Args, Subcommand, ValueEnum};

use super::limit;

/// `orloj task …`
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Submit a task.
    Submit(Box<SubmitArgs>),
    /// Show a task.
    Get {
        /// Its id, tsk_…
        task: String,
    },
    /// List tasks, newest first.
    List(ListArgs),
    /// Cancel a task.
    Cancel {
        /// Its id, tsk_…
        task: String,
    },
    /// Submit a task that has ended without success again, as a new one that points back.
    Retry {
        /// Its id, tsk_…
        task: String,
    },
    /// Show the tasks around one and who waits for whom; of a workflow the whole run.
    Graph {
        /// Its id, tsk_…
        task: String,
    },
    /// Show where a task's callback stands, and its sends.
    Callbacks {
        /// Its id, tsk_…
        task: String,
        /// Deliver it again first.
        #[arg(long)]
        redeliver: bool,
    },
    /// Print the log of a task's newest attempt.
    Logs {
        /// Its id, tsk_…
        task: String,
        /// The shard.
        #[arg(long, default_value_t = 0)]
        shard: u16,
        /// The attempt; by default the newest.
        #[arg(long)]
        attempt: Option<u32>,
        /// Go on until the attempt has ended.
        #[arg(long, short)]
        follow: bool,
    },
    /// Wait until a task has ended.
    Wait {
        /// Its id, tsk_…
        task: String,
        /// The longest wait, in ms; without it the wait has no end.
        #[arg(long)]
        timeout_ms: Option<u64>,
    },
}

/// `orloj task submit`
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// What to run: the name of a handler.
    pub handler: String,
    /// Its parameters: JSON, or @FILE, or @- for standard input.
    #[arg(long, default_value = "{}")]
    pub params: String,
    /// When to run: an instant in RFC 3339.
    #[arg(long, conflicts_with = "delay_ms")]
    pub run_at: Option<String>,
    /// When to run: so many ms from now.
    #[arg(long)]
    pub delay_ms: Option<u64>,
    /// 0-9; more goes first among tasks that wait for a slot. Default: 5.
    #[arg(long)]
    pub priority: Option<u64>,
    /// The longest an attempt may run, in ms.
    #[arg(long)]
    pub timeout_ms: Option<u64>,
    /// It must have started by then (RFC 3339), else it is skipped.
    #[arg(long)]
    pub expire_at: Option<String>,
    /// Retries after failures, 0-10. Default: 2.
    #[arg(long)]
    pub retries: Option<u64>,
    /// Delays between tries, in ms, by comma. Default: 10000,30000,60000.
    #[arg(long, value_delimiter = ',')]
    pub backoff_ms: Vec<u64>,
    /// Up to so many per cent are added to each delay between tries, by chance, 0-100. Default: 0.
    #[arg(long)]
    pub jitter_pct: Option<u64>,
    /// Tries after attempts that were lost with their executor, 0-10. Default: 3.
    #[arg(long)]
    pub max_lost: Option<u64>,
    /// A label that the executor must carry, NAME=VALUE; may be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
    /// How many shards, 1-1024. Default: 1.
    #[arg(long)]
    pub shards: Option<u64>,
    /// What becomes of the other shards when one has failed for good. Default: wait.
    #[arg(long, value_enum)]
    pub on_shard_failure: Option<ShardFailure>,
    /// Run once on each executor that has the handler.
    #[arg(long, conflicts_with_all = ["pin", "shards"])]
    pub broadcast: bool,
    /// A task that must end first, TASK or TASK:success|completed|failure; may be repeated.
    #[arg(long = "after", value_name = "TASK[:ON]")]
    pub after: Vec<String>,
    /// Run on this executor alone.
    #[arg(long)]
    pub pin: Option<String>,
    /// How an executor is chosen; see also --pin and --broadcast. Default: ring.
    #[arg(long, value_enum, conflicts_with_all = ["pin", "broadcast"])]
    pub strategy: Option<Placement>,
    /// The zone whose executors come first.
    #[arg(long)]
    pub zone: Option<String>,
    /// Place on the ring; tasks with the same key go to the same few executors.
    #[arg(long)]
    pub routing_key: Option<String>,
    /// Handed to the handler, so that it can be idempotent.
    #[arg(long)]
    pub business_key: Option<String>,
    /// Names the work for the executors' memory of outcomes: what one of them has done under this name, it does not do
    /// again. Default: the task's id.
    #[arg(long)]
    pub dedupe_key: Option<String>,
    /// Take the task although no executor has registered its handler yet.
    #[arg(long)]
    pub allow_unknown_handler: bool,
    /// A name for the effect that is wanted once; a repeated submission finds the first one's task. Made up
    /// when absent.
    #[arg(long)]
    pub idempotency_key: Option<String>,
    /// Where to announce its end: an address that the caller's allow-list names.
    #[arg(long)]
    pub callback_url: Option<String>,
    /// Wait until it has ended; print its result and output.
    #[arg(long)]
    pub wait: bool,
    /// With --wait: the longest wait, in ms.
    #[arg(long, requires = "wait", conflicts_with = "sync")]
    pub wait_timeout_ms: Option<u64>,
    /// Submit it and wait for its end in one call, at most 3 s; for what is estimated to take less. Ends with 6 when it
    /// has not ended by then.
    #[arg(long, conflicts_with_all = ["wait", "wait_timeout_ms"], requires = "estimate_ms")]
    pub sync: bool,
    /// How long it is expected to take, in ms.
    #[arg(long)]
    pub estimate_ms: Option<u64>,
}

/// How an executor is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// By the weighted consistent-hash ring.
    Ring,
    /// In turn.
    RoundRobin,
    /// The one with the most free slots in proportion.
    LeastLoaded,
    /// By chance.
    Random,
}

/// What becomes of the other shards of a task when one has failed for good.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ShardFailure {
    /// They go on.
    Wait,
    /// They are stopped.
    Cancel,
}

/// `orloj task list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only tasks with this status: PENDING, RUNNING, SUCCESS, FAILED, CANCELLED or SKIPPED.
    #[arg(long)]
    pub status: Option<String>,
    /// Only tasks of this handler.
    #[arg(long)]
    pub handler: Option<String>,
    /// How many, at most.
    #[arg(long, default_value_t = 50, value_parser = limit)]
    pub limit: usize,
}
