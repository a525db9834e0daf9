//! Handler `shell`: runs a command in its own process group, and ends the whole group with the attempt.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup, ResetSigmask};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::allow::AllowList;
use crate::error::OptionsError;
use crate::handler::{AttemptContext, Handler, HandlerError, HandlerOutput};
use crate::options::ShellOptions;
use crate::procs::{self, MARK_VARIABLE};

/// How much of stdout becomes the result, in bytes; escaped as JSON it stays below 64 KiB.
const RESULT_TAIL: usize = 8 << 10;
/// How long output is awaited after the group is gone: only a process that left the group can hold it.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);
/// What of the executor's own environment a command sees. Nothing else: it may hold secrets.
const PASSED_ON: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"];

#[derive(Deserialize)]
#[serde(untagged)]
enum Params {
    Line(Line),
    Program(Program),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Run by `sh -c`.
    command: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    /// Run without a shell.
    program: String,
    #[serde(default)]
    args: Vec<String>,
}

/// Runs commands.
pub(super) struct Shell {
    allow: AllowList,
    kill_grace: Duration,
}

impl Shell {
    pub(super) fn new(options: &ShellOptions) -> Result<Self, OptionsError> {
        let allow = AllowList::new(&options.allow, options.allow_any)?;
        Ok(Shell { allow, kill_grace: Duration::from_millis(options.kill_grace_ms) })
    }

    fn command(&self, params: &Params) -> Result<Command, HandlerError> {
        let text = match params {
            Params::Line(line) => &line.command,
            Params::Program(program) => &program.program,
        };
        if !self.allow.allows(text) {
            return Err(HandlerError::fatal(format!("`{text}` is not on this executor's allow-list")));
        }
        Ok(match params {
            Params::Line(line) => {
                let mut command = Command::new("sh");
                command.arg("-c").arg(&line.command);
                command
            }
            Params::Program(program) => {
                let mut command = Command::new(&program.program);
                command.args(&program.args);
                command
            }
        })
    }

    /// Waits for the end, or ends the group when the attempt is cancelled. The status is None when it was.
    async fn finish(
        &self,
        context: &AttemptContext,
        group: &mut Group,
    ) -> std::io::Result<Option<ExitStatus>> {
        tokio::select! {
            status = group.leader_exits() => {
                // What the command left behind in its group ends with it.
                group.end().await;
                return status.map(Some);
            }
            () = context.cancelled() => {}
        }
        context.log("[stopping: the process group is asked to end]");
        procs::signal_group(group.id, libc::SIGTERM);
        if timeout(self.kill_grace, group.empties()).await.is_err() {
            context.log("[stopping: the process group is killed]");
        }
        group.end().await;
        // Processes that left the group still carry the attempt's mark.
        let escaped = procs::kill_marked(context.mark(), procs::Match::Whole).await;
        if escaped > 0 {
            context.log(&format!("[stopping: {escaped} processes outside the group were killed]"));
        }
        Ok(None)
    }
}

impl Handler for Shell {
    async fn run(&self, context: AttemptContext) -> Result<HandlerOutput, HandlerError> {
        let params: Params = Params::deserialize(context.params()).map_err(|_| {
            HandlerError::fatal(
                "params: either {\"command\": \"…\"} or {\"program\": \"…\", \"args\": […]} is needed",
            )
        })?;
        let mut command = self.command(&params)?;
        set_environment(&mut command, &context);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(ProcessGroup::leader()).wrap(ResetSigmask).wrap(KillOnDrop);
        let child = wrapped
            .spawn()
            .map_err(|cause| HandlerError::retryable(format!("the command cannot be started: {cause}")))?;
        let id = child.id().ok_or_else(|| HandlerError::retryable("the command has no process id"))?;
        let mut group = Group { child, id, ended: false };
        let stdout = group.child.stdout().take().map(|pipe| copy(pipe, context.clone()));
        let stderr = group.child.stderr().take().map(|pipe| copy(pipe, context.clone()));
        let status = self.finish(&context, &mut group).await;
        let tail = collect(stdout).await;
        collect(stderr).await;
        match status {
            Ok(None) => Err(HandlerError::retryable("stopped")),
            Ok(Some(status)) if status.success() => {
                Ok(Value::String(String::from_utf8_lossy(&tail).into_owned()).into())
            }
            Ok(Some(status)) => Err(HandlerError::retryable(format!("the command failed: {status}"))),
            Err(cause) => Err(HandlerError::retryable(format!("waiting for the command: {cause}"))),
        }
    }

    fn grace(&self) -> Option<Duration> {
        // The group is killed by this handler itself; the abort is for the case that even that hangs.
        Some(self.kill_grace + OUTPUT_GRACE * 3 + Duration::from_secs(4))
    }
}

fn set_environment(command: &mut Command, context: &AttemptContext) {
    command.env_clear();
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
        .env(MARK_VARIABLE, context.mark())
        .env("ORLOJ_TASK_ID", context.task_id())
        .env("ORLOJ_SHARD_INDEX", context.shard_index().to_string())
        .env("ORLOJ_SHARD_TOTAL", context.shard_total().to_string())
        .env("ORLOJ_ATTEMPT", context.attempt().to_string())
        .env("ORLOJ_FENCE", context.fence().to_string());
    for (name, value) in [("ORLOJ_BUSINESS_KEY", context.business_key()), ("ORLOJ_JOB_ID", context.job_id())]
    {
        // A variable's value ends at a zero byte; a key with one in it cannot be handed over.
        if let Some(value) = value.filter(|value| !value.contains('\0')) {
            command.env(name, value);
        }
    }
}

/// A process group that does not outlive this value.
struct Group {
    child: Box<dyn ChildWrapper>,
    /// The leader's process id. The number stays taken while the group has a member; between the end of the
    /// last one and a signal it could only be given away again by a whole turn of the process table.
    id: u32,
    ended: bool,
}

impl Group {
    /// The command itself exits; others of its group may still run.
    async fn leader_exits(&mut self) -> std::io::Result<ExitStatus> {
        self.child.inner_mut().wait().await
    }

    /// The command and every process of its group exit.
    async fn empties(&mut self) {
        let _ = self.leader_exits().await;
        // There is no event for the end of a group of strangers.
        while procs::group_runs(self.id) {
            // Where this process is the one that inherits orphans, it has to collect them.
            let _ = self.child.try_wait();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills what is left of the group, and waits until it is gone.
    async fn end(&mut self) {
        procs::signal_group(self.id, libc::SIGKILL);
        let _ = timeout(OUTPUT_GRACE, self.empties()).await;
        self.ended = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            procs::signal_group(self.id, libc::SIGKILL);
        }
    }
}

/// Copies a pipe to the log; returns its end.
fn copy(mut pipe: impl AsyncRead + Send + Unpin + 'static, context: AttemptContext) -> JoinHandle<Vec<u8>> {
    tokio::spawn(async move {
        let mut tail = Vec::new();
        let mut buffer = vec![0; 16 << 10];
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            context.log_bytes(&buffer[..count]);
            tail.extend_from_slice(&buffer[..count]);
            let excess = tail.len().saturating_sub(RESULT_TAIL);
            tail.drain(..excess);
        }
        tail
    })
}

async fn collect(copying: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    let Some(mut copying) = copying else { return Vec::new() };
    match timeout(OUTPUT_GRACE, &mut copying).await {
        Ok(tail) => tail.unwrap_or_default(),
        Err(_) => {
            copying.abort();
            Vec::new()
        }
    }
}
