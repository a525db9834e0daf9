//! A part of the bench as a child process: told and asked in lines of JSON.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use crate::dev::fleet::log_tail;
use crate::process::send;

/// For a part to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(15);
/// Lines of its log that are shown when a part has ended though it was not to.
const TAIL_LINES: usize = 20;

/// A part that runs. It is killed when it is dropped.
pub struct PartProcess<T> {
    name: &'static str,
    log: PathBuf,
    process: Child,
    input: Speaker,
    messages: mpsc::UnboundedReceiver<serde_json::Result<T>>,
}

/// Says things to a part; clones speak to the same one.
#[derive(Clone)]
pub struct Speaker {
    input: Arc<Mutex<ChildStdin>>,
}

impl Speaker {
    /// Sends one message.
    ///
    /// # Errors
    /// The part has gone.
    pub async fn say(&self, message: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.input.lock().await.write_all(&line).await.context("a part of the bench has gone")
    }
}

impl<T: DeserializeOwned + Send + 'static> PartProcess<T> {
    /// Starts a part; its log goes to a file in `logs`. From the main thread alone, since it dies with the
    /// thread that started it.
    ///
    /// # Errors
    /// The log or the process cannot be made.
    pub fn start(name: &'static str, logs: &Path) -> anyhow::Result<Self> {
        Self::start_as(name, name, logs)
    }

    /// [`start`](Self::start) under another name, beside one that runs already.
    ///
    /// # Errors
    /// As there.
    pub fn start_as(part: &'static str, name: &'static str, logs: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(logs)?;
        let log = logs.join(format!("bench-{name}.log"));
        let writer = File::create(&log)?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut process = Command::new(program)
            .args(["bench-part", part, "--exit-with-parent", &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start the part {name}"))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (input, output) = (input.context("no standard input")?, output.context("no standard output")?);
        let (sender, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            // A pipe that breaks is at its end, like one that was closed.
            while let Ok(Some(line)) = lines.next_line().await {
                if sender.send(serde_json::from_str(&line)).is_err() {
                    return;
                }
            }
        });
        let input = Speaker { input: Arc::new(Mutex::new(input)) };
        Ok(PartProcess { name, log, process, input, messages })
    }

    /// Its process id; 0 once it has ended.
    pub fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    /// Somebody who can speak to it.
    pub fn speaker(&self) -> Speaker {
        self.input.clone()
    }

    /// What it says next.
    ///
    /// # Errors
    /// It has ended, or said something that is not understood.
    pub async fn next(&mut self) -> anyhow::Result<T> {
        match self.messages.recv().await {
            Some(message) => message.with_context(|| format!("the part {} is not understood", self.name)),
            None => bail!("the part {} of the bench ended:\n{}", self.name, log_tail(&self.log, TAIL_LINES)),
        }
    }

    /// Ends it with SIGTERM, or when that takes too long with SIGKILL.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        send(self.pid(), Signal::TERM);
        if timeout(PATIENCE, self.process.wait()).await.is_err() {
            self.process.kill().await.context("cannot kill a part of the bench")?;
        }
        Ok(())
    }
}
