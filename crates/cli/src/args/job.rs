//! `orloj job …` and `orloj calendar …`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use orloj_wire::rest::preview::PREVIEW_LIMIT;

use super::limit;

/// `orloj job …`
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Create and change jobs and calendars as files say. What is so already is left alone. Each stands for itself: when
    /// one is refused the others are made nevertheless, and the command ends with 4.
    Apply {
        #[command(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        files: FilesArgs,
    },
    /// Show what `apply` would change, and what the cluster would refuse of it, and change nothing. Ends with 1 when there
    /// is a difference, with 4 when something would be refused.
    Diff {
        #[command(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        files: FilesArgs,
    },
    /// List jobs by id.
    List {
        /// How many, at most.
        #[arg(long, default_value_t = 1_000, value_parser = limit)]
        limit: usize,
    },
    /// Show a job.
    Get {
        /// Its id.
        job: String,
        /// Print its definition as a file that `job apply` takes.
        #[arg(long)]
        definition: bool,
        /// With --definition, which this stands for, too: the kind of file. Default: yaml, with --json json.
        #[arg(long, short, value_enum)]
        output: Option<FileFormat>,
    },
    /// Let a job fire no more until it is resumed. Its tasks go on.
    Pause {
        /// Its id.
        job: String,
        /// Why, for those who find it paused. Without it, the note of a job that is paused already stays; an empty one takes
        /// it away.
        #[arg(long)]
        note: Option<String>,
    },
    /// Let a paused job fire again. What it missed is counted and not made up for.
    Resume {
        /// Its id.
        job: String,
    },
    /// Run a job now.
    Run(JobRunArgs),
    /// Show the next fires of a job or of an expression, and what clock changes do to them.
    Preview(PreviewArgs),
    /// Make up for a stretch of the past; without --from and --to show how far it is.
    Backfill(BackfillArgs),
    /// Show what became of a job's instants, newest first.
    History {
        /// Its id.
        job: String,
        /// How many entries, at most.
        #[arg(long, default_value_t = 50, value_parser = limit)]
        limit: usize,
    },
    /// Delete a job. Its tasks go on.
    Delete {
        /// Its id.
        job: String,
        /// Only this version of it.
        #[arg(long)]
        version: Option<u64>,
    },
    /// Take over the jobs of another scheduler (docs/jobs.md). Jobs that are there already are left alone unless --update is
    /// given. Each is tried; the command ends with 4 when one was refused or left out.
    Import(ImportArgs),
}

/// A kind of file that holds jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// TOML.
    Toml,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Files with jobs and calendars.
#[derive(Debug, Args)]
pub struct FilesArgs {
    /// A file with jobs and calendars: .toml, .json, .yaml or .yml, or - for YAML or JSON on standard input; may be
    /// repeated (docs/jobs.md).
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// `orloj job run`
#[derive(Debug, Args)]
pub struct JobRunArgs {
    /// Its id.
    pub job: String,
    /// Parameters in place of the job's own: JSON, or @FILE, or @- for standard input.
    #[arg(long)]
    pub params: Option<String>,
    /// What becomes of it while earlier tasks are open, in place of the job's own policy.
    #[arg(long, value_enum)]
    pub overlap: Option<OverlapArg>,
    /// A name for the effect that is wanted once; a repeated run finds the first one's task. Made up when absent.
    #[arg(long)]
    pub idempotency_key: Option<String>,
    /// Wait until the task has ended; print its result and output.
    #[arg(long)]
    pub wait: bool,
    /// With --wait: the longest wait, in ms.
    #[arg(long, requires = "wait")]
    pub wait_timeout_ms: Option<u64>,
}

/// `orloj job preview`
#[derive(Debug, Args)]
pub struct PreviewArgs {
    /// A job's id.
    #[arg(required_unless_present = "cron", conflicts_with = "cron")]
    pub job: Option<String>,
    /// A cron expression, of no job.
    #[arg(long)]
    pub cron: Option<String>,
    /// With --cron: the zone of its local times; the triggers of a job have their own. Default: UTC.
    // What a conflict keeps away, clap does not require: both are said, or the option would be ignored.
    #[arg(long, requires = "cron", conflicts_with = "job")]
    pub time_zone: Option<String>,
    /// From when on (RFC 3339). Default: now.
    #[arg(long)]
    pub from: Option<String>,
    /// How many fires, 1-1,000.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=PREVIEW_LIMIT))]
    pub count: u64,
}

/// `orloj job backfill`
#[derive(Debug, Args)]
pub struct BackfillArgs {
    /// The job's id.
    pub job: String,
    /// The first instant (RFC 3339).
    #[arg(long, requires = "to")]
    pub from: Option<String>,
    /// The last instant (RFC 3339); not in the future.
    #[arg(long, requires = "from")]
    pub to: Option<String>,
    /// What becomes of each while earlier tasks are open. Default: queue, one after the other.
    #[arg(long, value_enum, requires = "from")]
    pub overlap: Option<OverlapArg>,
    /// Stop it: nothing further is made up for, and those of its tasks that no executor has taken are cancelled.
    #[arg(long, conflicts_with_all = ["from", "to", "overlap"])]
    pub stop: bool,
}

/// `orloj job import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Which scheduler the file comes from.
    #[arg(long, value_enum)]
    pub from: Source,
    /// Dkron: the answer of its call GET /v1/jobs. xxl-job: the table xxl_job_info as JSON or, with a head line, CSV.
    pub file: PathBuf,
    /// The zone of local times where the file names none: that of the other scheduler's server.
    #[arg(long, default_value = "UTC")]
    pub time_zone: String,
    /// Replace jobs that are there already and differ.
    #[arg(long)]
    pub update: bool,
    /// Show what would be created, what does not map and, where ORLOJ_URL names a cluster, what that would refuse; change
    /// nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Another scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// Dkron.
    Dkron,
    /// xxl-job.
    XxlJob,
}

/// An overlap policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OverlapArg {
    /// Another task runs beside them.
    Allow,
    /// No task is made.
    Skip,
    /// One task waits until they have ended.
    Queue,
    /// They are cancelled, and the new task waits until they have ended.
    CancelOther,
}

/// `orloj calendar …`
#[derive(Debug, Subcommand)]
pub enum CalendarCommand {
    /// Create or change a calendar.
    Put {
        /// Its name.
        name: String,
        /// A file with the days that it excludes: .toml, .json, .yaml or .yml, or - for standard input.
        #[arg(short = 'f', long = "file", value_name = "FILE")]
        file: PathBuf,
        /// Only this version of it; 0 when there must be none.
        #[arg(long)]
        version: Option<u64>,
    },
    /// Show a calendar.
    Get {
        /// Its name.
        name: String,
    },
    /// List calendars by name.
    List,
    /// Delete a calendar that no job uses.
    Delete {
        /// Its name.
        name: String,
        /// Only this version of it.
        #[arg(long)]
        version: Option<u64>,
    },
}
