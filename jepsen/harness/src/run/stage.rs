//! Sets one run up: its folder, its network, its cluster and everything around it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use orloj_jepsen_core::event::What;

use super::around::Lives;
use crate::agents::recorder::{Note, Recorder};
use crate::cluster::{Cluster, Parts};
use crate::fabric::{Fabric, HostSpec};
use crate::hosts::{self, REPLICAS};
use crate::journal::Journal;
use crate::plan::Plan;
use crate::process::Record;
use crate::run_id::RunId;
use crate::store::RunDir;

/// What a run stands on. The parts end in this order: processes, network, and at last what the journal still knows.
pub struct Stage {
    /// The cluster.
    pub cluster: Cluster,
    /// The network.
    pub fabric: Fabric,
    /// The run's folder.
    pub dir: RunDir,
    /// Writes down what becomes of processes.
    pub supervisor: Recorder,
    /// Writes down what the nemesis does.
    pub nemesis: Recorder,
    /// Writes down the phases of the run.
    pub run: Recorder,
    /// The process number of each replica.
    pub lives: Lives,
    /// What undoes everything.
    pub journal: Journal,
}

impl Stage {
    /// Sets everything up; the processes are started and nothing is waited for. `program` is what is tested, and
    /// whether this machine can shift the monotonic clocks of its replicas. What was made until an error is undone.
    ///
    /// # Errors
    /// What could not be made.
    pub fn set(
        plan: &Plan,
        store: &Path,
        program: (&Path, bool),
        journal: Journal,
        id: &RunId,
    ) -> Result<Stage> {
        let undo = journal.clone();
        Stage::build(plan, store, program, journal, id).inspect_err(|_| {
            // The error that is reported is the first one; leftovers stay in the journal for `clean`.
            let _ = undo.undo_all();
        })
    }

    fn build(
        plan: &Plan,
        store: &Path,
        program: (&Path, bool),
        journal: Journal,
        id: &RunId,
    ) -> Result<Stage> {
        let dir = RunDir::create(store, id)?;
        plan.save(&dir.plan())?;
        let recorder = |src: &str| Recorder::create(&dir.parts(), src);
        let (supervisor, nemesis, run) = (recorder("supervisor")?, recorder("nemesis")?, recorder("run")?);
        let specs: Vec<HostSpec> = hosts::all(plan.options.clients)
            .into_iter()
            .map(|name| hosts::last_byte(&name).map(|last| HostSpec::new(name, last)))
            .collect::<Option<_>>()
            .context("a host has no address")?;
        let fabric = Fabric::start(id, &specs, plan.options.network_seed, &journal).context("the network")?;
        let lives: Lives = REPLICAS.iter().map(|name| ((*name).to_owned(), Arc::default())).collect();
        let record = |host: &str| recorded(host, &supervisor, &lives);
        // The program stays as it is for the whole run, whatever is built meanwhile.
        let (orloj, can_shift) = program;
        let program = dir.path().join("orloj");
        fs::hard_link(orloj, &program)
            .or_else(|_| fs::copy(orloj, &program).map(drop))
            .context("keep the program")?;
        let parts = Parts {
            dir: &dir,
            id: id.as_str(),
            orloj: &program,
            options: &plan.options.cluster,
            shift_monotonic: can_shift && plan.options.cluster.shift_monotonic,
            fabric: &fabric,
            journal: &journal,
            record: &record,
        };
        let cluster = Cluster::start(&parts)?;
        Ok(Stage { cluster, fabric, dir, supervisor, nemesis, run, lives, journal })
    }

    /// Ends every process, removes the network and everything else. Returns what could not be undone.
    pub fn strike(self, keep: bool) -> Vec<String> {
        let Stage { cluster, fabric, dir, journal, .. } = self;
        cluster.stop();
        let mut problems = Vec::new();
        if keep {
            problems.extend(keep_data(&cluster, &dir).err().map(|error| format!("keep the data: {error:#}")));
        }
        drop((cluster, fabric));
        problems.extend(journal.undo_all());
        // The program can be built again.
        problems.extend(fs::remove_file(dir.path().join("orloj")).err().map(|error| error.to_string()));
        problems
    }
}

/// Copies what lies on the replicas' disks, which go with the run.
fn keep_data(cluster: &Cluster, dir: &RunDir) -> Result<()> {
    for replica in &cluster.replicas {
        replica.disk.mount()?;
        let target = dir.data(&replica.name);
        crate::tool::tool("cp", &["-a", "--sparse=always", text(&replica.data())?, text(&target)?])?;
    }
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

fn recorded(host: &str, recorder: &Recorder, lives: &Lives) -> Record {
    let (host, recorder, life) = (host.to_owned(), recorder.clone(), lives.get(host).cloned());
    Arc::new(move |process| {
        if let Some(life) = life.as_deref().filter(|_| process.state == "started") {
            AtomicU64::store(life, process.life, Ordering::SeqCst);
        }
        recorder.note(Note::event(&host, What::Process(process)));
    })
}

/// The program under test: as the command line says, else beside this program.
///
/// # Errors
/// There is none.
pub fn program(given: Option<&Path>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("orloj"),
    };
    ensure!(
        path.is_file(),
        "{} is missing: build it (cargo build -p orloj-cli) or name it with --orloj",
        path.display()
    );
    Ok(fs::canonicalize(path)?)
}
