//! The command line.

pub mod access;
mod job;
mod task;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::bench::args::{BenchArgs, PartArgs};
use crate::cert::CertCommand;
use crate::telemetry::LogFormat;

pub use job::{
    BackfillArgs, CalendarCommand, FileFormat, ImportArgs, JobCommand, JobRunArgs, OverlapArg, PreviewArgs,
    Source,
};
pub use task::{ListArgs, Placement, ShardFailure, SubmitArgs, TaskCommand};

/// Runs tasks at the right time, on the right machine, on a replicated cluster.
#[derive(Debug, Parser)]
#[command(name = "orloj", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 the task that was waited for did not succeed, `job diff` found a difference, or `bench` a loss or a \
doubled, early or unfinished task; 2 wrong command line, configuration or environment; 3 no replica answers, none leads, or the outcome is unknown; 4 refused, also when others of several jobs were \
taken; 5 no such thing; 6 the wait ended before the task did; 70 the program failed.

Environment: ORLOJ_URL (one or more replicas, by comma), ORLOJ_ACCESS_KEY and ORLOJ_SECRET_KEY (a \
caller), ORLOJ_ADMIN_KEY and ORLOJ_ADMIN_SECRET (an administrator), ORLOJ_AUDIENCE (the servers' \
`audience`; default), ORLOJ_CA (a file with the authorities of the servers' certificates, PEM; the \
machine's), ORLOJ_CERT and ORLOJ_KEY (a certificate to show, and its key), ORLOJ_DEADLINE_MS (how long a command tries to reach the cluster; 15000), \
ORLOJ_LOG (log levels).";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a demo cluster on this machine: replicas, executors and keys, with real data folders.
    Dev(DevArgs),
    /// Run a scheduler replica.
    Server(ServerArgs),
    /// Run an executor, or look after executors.
    #[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
    Executor(ExecutorArgs),
    /// Submit tasks and look after them.
    #[command(subcommand)]
    Task(TaskCommand),
    /// Define jobs, which make tasks by themselves, and look after them.
    #[command(subcommand)]
    Job(Box<JobCommand>),
    /// Look after calendars, on whose days jobs do not fire.
    #[command(subcommand)]
    Calendar(CalendarCommand),
    /// Show and change the cluster.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Make callers, change them and take them away.
    #[command(subcommand)]
    Caller(access::CallerCommand),
    /// Make access keys, switch them off and take them away.
    #[command(subcommand)]
    Key(access::KeyCommand),
    /// Show what administrators changed, or which calls were refused.
    Audit(access::AuditArgs),
    /// Make the secrets that a new cluster begins with, and the first administrator's key.
    Init(access::InitArgs),
    /// Make certificates: a cluster's own authority, and those of replicas, executors and clients.
    #[command(subcommand)]
    Cert(CertCommand),
    /// Measure how fast a cluster on this machine is.
    Bench(Box<BenchArgs>),
    /// Load or executors of a bench, as a process of its own.
    #[command(hide = true)]
    BenchPart(PartArgs),
    /// Print a script that completes this command line in a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// `orloj dev`
#[derive(Debug, Args)]
pub struct DevArgs {
    /// The cluster's folder; kept between runs. Default: orloj/dev in the user's data folder
    /// ($XDG_DATA_HOME, else ~/.local/share).
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// First port; 0 takes free ones. Remembered in the folder. Default: 7070.
    #[arg(long)]
    pub base_port: Option<u16>,
    /// Scheduler replicas, 1-9. Remembered in the folder. Default: 3.
    #[arg(long)]
    pub replicas: Option<u8>,
    /// Executors, 0-50. Remembered in the folder. Default: 2.
    #[arg(long)]
    pub executors: Option<u8>,
    /// Speak TLS: make an authority and certificates, kept in the folder. Remembered in the folder.
    #[arg(long)]
    pub tls: bool,
    /// Slots of each executor. Default: 2 x CPU cores.
    #[arg(long)]
    pub slots: Option<u32>,
    /// Write a JSON file with process ids, addresses and keys once everything runs.
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
    /// An option of every replica's configuration file, for instance scheduler.tick-ms=5; may be repeated.
    /// Holds for this run.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A port of this machine to which the demo caller's callbacks may go, beside 3000, 8000, 8080 and 9000; may be
    /// repeated, up to 12 times. Holds for this run.
    #[arg(long, value_name = "PORT")]
    pub callback_port: Vec<u16>,
    /// Start a child that ends by itself again, after 1 s, 2 s, ... 30 s.
    #[arg(long)]
    pub restart: bool,
}

/// `orloj server`
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// The configuration file (docs/configuration.md).
    #[arg(long)]
    pub config: PathBuf,
    /// Listen on other addresses than loopback although nothing is configured that encrypts the traffic.
    #[arg(long)]
    pub insecure_plaintext: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its fields are documented")]
    pub run: RunArgs,
}

/// `orloj executor`
#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// Run an executor with this configuration file (docs/configuration.md).
    #[arg(long, required = true)]
    pub config: Option<PathBuf>,
    /// Listen on another address than loopback although nothing is configured that encrypts the traffic.
    #[arg(long)]
    pub insecure_plaintext: bool,
    /// How long running attempts may go on after SIGTERM before they are stopped and handed back, in ms.
    #[arg(long, default_value_t = 25_000)]
    pub drain_ms: u64,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its fields are documented")]
    pub run: RunArgs,
    /// Look after executors.
    #[command(subcommand)]
    pub command: Option<ExecutorCommand>,
}

/// What every long-running process takes.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Check the configuration, print it with every default and without secrets, and end.
    #[arg(long)]
    pub print_config: bool,
    /// How the log looks.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// End with the process of this id, which started this one.
    #[arg(long, hide = true)]
    pub exit_with_parent: Option<u32>,
}

/// `orloj executor …`
#[derive(Debug, Subcommand)]
pub enum ExecutorCommand {
    /// List the executors.
    List,
    /// Give an executor no more work.
    Drain {
        /// Its id.
        executor: String,
        /// Give it work again.
        #[arg(long)]
        undo: bool,
    },
}

/// How many things a list shows: none is no list, and is refused by every command alike.
///
/// # Errors
/// The text is not a whole number from 1 on.
fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err("is not a whole number from 1 on".to_owned()),
    }
}

/// `orloj cluster …`
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show leader, round and members.
    Status,
    /// Move the leadership to a replica.
    Transfer {
        /// Its id.
        to: u64,
    },
    /// Let a replica that was started without data join.
    Add {
        /// Its internal address, host:port.
        internal: String,
        /// Where it serves the API, for instance http://10.0.0.4:7070.
        api: String,
    },
    /// Take a replica out. Its id never comes back.
    Remove {
        /// Its id.
        id: u64,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_executor_is_run_or_looked_after() {
        let run = parse("orloj executor --config e.toml").unwrap();
        assert!(matches!(
            run.command,
            Command::Executor(ExecutorArgs { config: Some(_), command: None, .. })
        ));
        let list = parse("orloj executor list --json").unwrap();
        assert!(list.json);
        let wanted = Some(ExecutorCommand::List);
        assert!(
            matches!(list.command, Command::Executor(args) if args.command.is_some() == wanted.is_some())
        );
        assert!(parse("orloj executor").is_err());
        assert!(parse("orloj executor --config e.toml list").is_err());
    }

    #[test]
    fn secrets_are_no_arguments() {
        let mut command = Cli::command();
        let help = command.render_long_help().to_string();
        assert!(!help.contains("--secret") && !help.contains("--access-key"));
        assert!(parse("orloj task list --secret-key x").is_err());
    }

    #[test]
    fn options_that_exclude_one_another_are_refused() {
        assert!(parse("orloj task submit echo --delay-ms 5 --run-at 2030-01-01T00:00:00Z").is_err());
        assert!(parse("orloj task submit echo --wait-timeout-ms 5").is_err());
        assert!(parse("orloj task submit echo --sync").is_err());
        assert!(parse("orloj task submit echo --sync --estimate-ms 5").is_ok());
        // The wait of a synchronous call has a length of its own.
        let both = parse("orloj task submit echo --sync --estimate-ms 5 --wait-timeout-ms 5").unwrap_err();
        assert!(both.to_string().contains("--wait-timeout-ms"), "{both}");
        for (some, none) in
            [("--handlers echo", "--no-handlers"), ("--callback-host a.b", "--no-callback-hosts")]
        {
            assert!(parse(&format!("orloj caller put shop {some}")).is_ok(), "{some}");
            assert!(parse(&format!("orloj caller put shop {none} --waiters 3")).is_ok(), "{none}");
            assert!(parse(&format!("orloj caller put shop {some} {none}")).is_err(), "{some} {none}");
        }
        assert!(parse("orloj task submit echo --wait --wait-timeout-ms 5 --backoff-ms 1,2,3").is_ok());
        assert!(parse("orloj task submit echo --strategy random --pin e1").is_err());
        assert!(parse("orloj task submit echo --strategy random --broadcast").is_err());
        assert!(parse("orloj job get j --definition").is_ok());
    }

    #[test]
    fn an_option_of_another_kind_of_call_is_refused_by_its_name() {
        for (line, option) in [
            ("job preview nightly --time-zone Europe/Berlin", "--time-zone"),
            ("job backfill nightly --stop --to 2027-01-15T08:00:00Z", "--to"),
            ("job backfill nightly --stop --overlap queue", "--overlap"),
            ("key create shop --scopes audit", "--scopes"),
        ] {
            let error = parse(&format!("orloj {line}")).unwrap_err().to_string();
            assert!(error.contains(option), "{line}: {error}");
        }
        for line in [
            "job preview nightly",
            "job preview --cron @daily --time-zone Europe/Berlin",
            "job backfill nightly --stop",
            "job backfill nightly --from 2027-01-15T08:00:00Z --to 2027-01-15T09:00:00Z --overlap queue",
            "key create --admin --scopes audit",
        ] {
            assert!(parse(&format!("orloj {line}")).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_list_of_nothing_is_refused_by_every_command() {
        for command in ["task list", "job list", "job history j", "audit"] {
            assert!(parse(&format!("orloj {command} --limit 1")).is_ok(), "{command}");
            for limit in ["0", "-1", "x"] {
                let error = parse(&format!("orloj {command} --limit={limit}")).unwrap_err().to_string();
                assert!(error.contains("from 1 on"), "{command}: {error}");
            }
        }
    }
}
