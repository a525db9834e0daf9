//! One seed in this process.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_jepsen_core::check::Report;
use orloj_jepsen_core::{History, Validity};
use serde::{Deserialize, Serialize};
use tracing::dispatcher::with_default;

use crate::plan::Plan;
use crate::run::{self, Outcome};
use crate::{entropy, trace};

/// How long the load with faults goes on unless told otherwise, in simulated seconds.
pub const DEFAULT_LOAD_S: u64 = 20;
/// How much real time a seed may take unless told otherwise, in seconds: many times what one takes on a busy machine.
pub const DEFAULT_LIMIT_S: u64 = 180;
/// Anomalies of one invariant that are told.
const TOLD: usize = 3;
/// A file system in memory, where there is one: the replicas' small files are synced a lot.
const MEMORY: &str = "/dev/shm";

/// One run of one seed.
#[derive(Debug, Clone)]
pub struct Single {
    /// The seed.
    pub seed: u64,
    /// How long the load with faults goes on, in simulated seconds.
    pub seconds: u64,
    /// Only faults of these names, such as `clock.jump`; all of them when none is named.
    pub only: Vec<String>,
    /// What the replicas log on stderr, as `RUST_LOG` has it; nothing by default.
    pub log: Option<String>,
    /// It has failed when it is not over after so much real time, in seconds.
    pub limit_s: u64,
}

impl Single {
    /// Runs it, on a thread of its own, whose random numbers all come from the seed. This thread watches the other:
    /// a seed may find something that never ends, and a thread cannot be ended from outside, so that the process is
    /// of no more use after an error.
    ///
    /// Two runs of a seed are the same only in two processes: tokio numbers its runtimes across the process.
    ///
    /// # Errors
    /// The simulation itself failed, or was not over in time.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        let dir = match Path::new(MEMORY).is_dir() {
            true => tempfile::tempdir_in(MEMORY),
            false => tempfile::tempdir(),
        };
        let dir = dir.context("cannot make a folder for the replicas")?;
        let (this, path) = (self.clone(), dir.path().to_owned());
        let printer = self.log.as_deref().map(trace::printer);
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            entropy::seed(this.seed);
            let mut plan = Plan::expand(this.seed, this.seconds.saturating_mul(1_000));
            plan.keep(&this.only);
            let outcome = match &printer {
                Some(printer) => with_default(printer, || run::run(&plan, &path)),
                None => run::run(&plan, &path),
            };
            // Nobody listens any more when it was too late.
            let _ = sender.send(outcome);
        });
        match ended.recv_timeout(Duration::from_secs(self.limit_s)) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => {
                bail!("seed {}: not over after {} s of real time", self.seed, self.limit_s)
            }
            Err(RecvTimeoutError::Disconnected) => bail!("seed {}: the simulation panicked", self.seed),
        }
    }
}

/// What a process says of its seed to the one that started it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// The verdict.
    #[serde(flatten)]
    pub report: Report,
    /// How much time passed in the simulation, in ms.
    pub simulated_ms: u64,
}

impl Said {
    /// What there is to say.
    pub fn of(outcome: &Outcome) -> Said {
        Said { report: outcome.report.clone(), simulated_ms: outcome.simulated_ms }
    }
}

/// The verdict for people.
pub fn tell(seed: u64, report: &Report) -> String {
    let mut lines = vec![format!("seed {seed}: {:?}", report.validity)];
    for judgement in &report.judgements {
        if judgement.validity == Validity::Valid {
            continue;
        }
        lines
            .push(format!("  {} {:?}: {} in all", judgement.id, judgement.validity, judgement.anomaly_count));
        for anomaly in judgement.anomalies.iter().take(TOLD) {
            lines.push(format!("    {} {:?}", anomaly.what, anomaly.events));
        }
    }
    lines.join("\n")
}

/// 0 for valid, 1 for invalid, 3 for unknown.
pub fn exit(validity: Validity) -> ExitCode {
    ExitCode::from(match validity {
        Validity::Valid => 0,
        Validity::Invalid => 1,
        Validity::Unknown => 3,
    })
}

/// Writes a history as JSON lines.
///
/// # Errors
/// The writer's own.
pub fn write_history(history: &History, to: impl Write) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    for event in history.events() {
        serde_json::to_writer(&mut to, event)?;
        to.write_all(b"\n")?;
    }
    to.flush()
}
