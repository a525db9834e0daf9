//! The child processes of a demo cluster: started, watched, stopped.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::process::send;
use crate::remote::output::note;

/// How a child is started.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its name in messages and file names.
    pub name: String,
    /// The subcommand that it runs.
    pub role: Role,
    /// Its configuration file.
    pub config: PathBuf,
    /// Where its output goes.
    pub log: PathBuf,
}

/// The subcommand of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `orloj server`
    Server,
    /// `orloj executor`
    Executor,
}

impl Role {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Executor => "executor",
        }
    }
}

impl Spec {
    /// The command with which a person can start this process again.
    pub fn command_line(&self) -> String {
        format!("orloj {} --config {}", self.role.word(), self.config.display())
    }
}

/// A child of the fleet.
#[derive(Debug)]
pub struct Member {
    /// How it was started.
    pub spec: Spec,
    /// Its process id; `None` once it has ended.
    pub pid: Option<u32>,
    /// How often it has been started again.
    pub restarts: u32,
}

/// A child that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its place in the fleet.
    pub index: usize,
    /// How.
    pub status: ExitStatus,
}

/// Running attempts get this long to end when the cluster is stopped.
const EXECUTOR_DRAIN: Duration = Duration::from_secs(5);
/// Executors get this long to hand back their work and say goodbye.
const EXECUTOR_PATIENCE: Duration = Duration::from_secs(8);
/// Replicas get this long to hand over the leadership and close their databases.
const REPLICA_PATIENCE: Duration = Duration::from_secs(10);

/// All children. Must be used from the main thread alone: a child dies with the thread that started it.
#[derive(Debug, Default)]
pub struct Fleet {
    members: Vec<Member>,
    exits: JoinSet<Ended>,
}

impl Fleet {
    /// The children, in the order of their start.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Starts a child.
    ///
    /// # Errors
    /// The log file or the process could not be made.
    pub fn start(&mut self, spec: Spec) -> anyhow::Result<()> {
        self.members.push(Member { spec, pid: None, restarts: 0 });
        self.spawn(self.members.len() - 1)
    }

    /// Starts a child that has ended once more.
    ///
    /// # Errors
    /// As [`start`](Fleet::start).
    pub fn restart(&mut self, index: usize) -> anyhow::Result<()> {
        self.members[index].restarts += 1;
        self.spawn(index)
    }

    fn spawn(&mut self, index: usize) -> anyhow::Result<()> {
        let spec = &self.members[index].spec;
        let log = open_log(&spec.log)?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.arg(spec.role.word()).arg("--config").arg(&spec.config);
        if spec.role == Role::Executor {
            command.arg("--drain-ms").arg(EXECUTOR_DRAIN.as_millis().to_string());
        }
        let mut child = command
            .arg("--exit-with-parent")
            .arg(std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A Ctrl-C in the terminal reaches the supervisor alone, which stops its children in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", spec.name))?;
        let (name, pid) = (spec.name.clone(), child.id());
        self.members[index].pid = pid;
        self.exits.spawn(async move {
            match child.wait().await {
                Ok(status) => Ended { index, status },
                // Waiting for one's own child fails only when somebody else has reaped it.
                Err(error) => unreachable!("cannot wait for {name}: {error}"),
            }
        });
        Ok(())
    }

    /// Waits for the next child that ends; for ever when none runs.
    pub async fn next_end(&mut self) -> Ended {
        match self.exits.join_next().await {
            Some(Ok(ended)) => {
                self.members[ended.index].pid = None;
                ended
            }
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => std::future::pending().await,
        }
    }

    /// Whether any child runs.
    pub fn any_alive(&self) -> bool {
        self.members.iter().any(|member| member.pid.is_some())
    }

    /// Stops every child: the executors first, so that they can hand back their work, then the replicas;
    /// those that do not end in time are killed.
    pub async fn stop(&mut self) {
        self.stop_role(Role::Executor, EXECUTOR_PATIENCE).await;
        self.stop_role(Role::Server, REPLICA_PATIENCE).await;
    }

    async fn stop_role(&mut self, role: Role, patience: Duration) {
        self.signal(role, Signal::TERM);
        // A process that is stopped cannot act on the signal above.
        self.signal(role, Signal::CONT);
        let deadline = Instant::now() + patience;
        while self.alive(role) {
            if timeout_at(deadline, self.next_end()).await.is_err() {
                for member in self.members.iter().filter(|member| member.spec.role == role) {
                    if let Some(pid) = member.pid {
                        let name = &member.spec.name;
                        note(&format!("{name} (pid {pid}) did not stop within {patience:?}: killed"));
                    }
                }
                break;
            }
        }
        self.kill(role).await;
    }

    async fn kill(&mut self, role: Role) {
        self.signal(role, Signal::KILL);
        while self.alive(role) {
            self.next_end().await;
        }
    }

    fn alive(&self, role: Role) -> bool {
        self.members.iter().any(|member| member.spec.role == role && member.pid.is_some())
    }

    fn signal(&self, role: Role, signal: Signal) {
        for member in self.members.iter().filter(|member| member.spec.role == role) {
            if let Some(pid) = member.pid {
                send(pid, signal);
            }
        }
    }
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open the log {}", path.display()))
}

/// The last lines of a child's log, for the message that it failed.
pub fn log_tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
