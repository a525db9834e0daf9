//! What a report is about: everything that a run left behind, put in order once.

use std::fs;
use std::path::Path;

use anyhow::Result;
use orloj_jepsen_core::attempts::Tasks;
use orloj_jepsen_core::clocks::Clocks;
use orloj_jepsen_core::event::What;
use orloj_jepsen_core::faults::{Installed, end_ns, installed};
use orloj_jepsen_core::history::{History, Operation};
use orloj_jepsen_core::leaders::Leaders;
use orloj_jepsen_core::spans::MS;

use crate::doctor;
use crate::plan::Plan;
use crate::store::{Results, RunDir};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000 * MS;
/// Offsets of clocks that the measuring itself explains, in ms.
const CLOCK_NOISE_MS: u64 = 50;

/// The files of a run.
#[derive(Debug)]
pub struct Files {
    /// The name of its folder, which is its id.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// What the machine could do, where it was examined.
    pub machine: Option<doctor::Report>,
    /// The history.
    pub history: History,
    /// The verdict.
    pub results: Results,
}

impl Files {
    /// Reads them.
    ///
    /// # Errors
    /// The folder has no plan, no history or no verdict, or one of them cannot be understood.
    pub fn read(run_dir: &Path) -> Result<Files> {
        let dir = RunDir::open(run_dir)?;
        let path = fs::canonicalize(dir.path())?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // A machine that was not examined is told of in the report.
        let machine = fs::read_to_string(dir.path().join("doctor.json"))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        Ok(Files {
            name,
            plan: Plan::load(&dir.plan())?,
            machine,
            history: dir.read_history()?,
            results: dir.read_results()?,
        })
    }
}

/// The same, looked through.
pub struct Subject<'a> {
    /// The files.
    pub files: &'a Files,
    /// Client operations in the order of their beginning.
    pub operations: Vec<Operation<'a>>,
    /// Everything of each task.
    pub tasks: Tasks<'a>,
    /// Faults that were installed.
    pub faults: Vec<Installed<'a>>,
    /// Who led.
    pub leaders: Leaders<'a>,
    /// The wall clocks.
    pub clocks: Clocks,
    /// The instant that the report calls 0: the beginning of the load, or of the history when it has no load.
    pub zero_ns: u64,
    /// Where plots of the whole run end: the last reads, or the end of the history.
    pub end_ns: u64,
}

impl<'a> Subject<'a> {
    /// Looks through the files of a run.
    pub fn of(files: &'a Files) -> Subject<'a> {
        let history = &files.history;
        let first = history.events().first().map_or(0, |event| event.mono_ns);
        let zero_ns = history.phase("load").unwrap_or(first);
        let last = history.phase("final").unwrap_or_else(|| end_ns(history));
        Subject {
            files,
            operations: history.operations(),
            tasks: Tasks::of(history),
            faults: installed(history),
            leaders: Leaders::of(history),
            clocks: Clocks::of(history, CLOCK_NOISE_MS),
            zero_ns,
            end_ns: last.max(zero_ns + 10 * MS),
        }
    }

    /// Seconds since the beginning of the load; negative before it.
    pub fn seconds(&self, mono_ns: u64) -> f64 {
        mono_ns as f64 / SECOND as f64 - self.zero_ns as f64 / SECOND as f64
    }

    /// The monotonic instant at which the harness's wall clock showed this; none when the history does not
    /// tell.
    pub fn instant_of_wall(&self, wall_ms: i64) -> Option<u64> {
        let ahead = self.clocks.wall_ms(0)?;
        u64::try_from(wall_ms - ahead).ok().map(|ms| ms * MS)
    }

    /// When the first attempt at a task was due, as its caller asked for it: its instant, or its delay after
    /// the acknowledgement (after the request, when nobody heard the answer).
    pub fn asked_due_ns(&self, task: &str) -> Option<u64> {
        let life = self.tasks.by_id.get(task)?;
        let request = life.request()?;
        let made = life.acked_ns().or(life.invoked_ns())?;
        match request.run_at_ms {
            Some(at) => self.instant_of_wall(at).map(|at| at.max(made)),
            None => Some(made + request.delay_ms.unwrap_or(0).saturating_mul(MS)),
        }
    }

    /// Names of the replicas that were looked at.
    pub fn replicas(&self) -> Vec<&'a str> {
        let probed = self.files.history.events().iter().filter(|event| matches!(event.what, What::Probe(_)));
        let mut names: Vec<&str> = probed.filter_map(|event| event.node.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Phases of the run and when each began.
    pub fn phases(&self) -> Vec<(&'a str, u64)> {
        let all = self.files.history.events().iter();
        all.filter_map(|event| match &event.what {
            What::Phase(phase) => Some((phase.name.as_str(), event.mono_ns)),
            _ => None,
        })
        .collect()
    }
}
