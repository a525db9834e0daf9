//! `orloj dev`: a demo cluster on loopback. This process only supervises: every replica and every executor
//! is a child of its own, with a real data folder, so that it can be killed like in production.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::args::DevArgs;
use crate::exit::{Code, Failure, Outcome};
use crate::process::stop_token;
use crate::remote::output;

pub mod certificates;
pub mod files;
pub mod fleet;
pub mod keys;
pub mod plan;
pub mod ready;

use fleet::{Ended, Fleet, Role, Spec};
use keys::Keys;
use plan::{Layout, Plan, Wish};

/// Lines of a failed child's log that are shown.
const TAIL_LINES: usize = 20;

/// Runs the demo cluster until a signal or until every child has ended.
///
/// # Errors
/// The folder is in use or contradicts the command line; a child does not start.
pub fn run(args: &DevArgs) -> Outcome {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => default_dir().map_err(Failure::usage)?,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("cannot make the folder {}", dir.display()))
        .map_err(Failure::usage)?;
    let layout = Layout::new(&dir).with_context(|| format!("cannot open the folder {}", dir.display()))?;
    let _lock = lock(&layout).map_err(Failure::usage)?;
    let (replicas, executors) = (args.replicas, args.executors);
    let wish = Wish { base_port: args.base_port, replicas, executors, tls: args.tls };
    let plan = Plan::load_or_make(&layout, wish).map_err(Failure::usage)?;
    let keys = Keys::load_or_make(&layout)?;
    let wishes = files::Wishes { slots: args.slots, set: &args.set, callback_ports: &args.callback_port };
    if plan.tls() {
        certificates::make(&layout, &plan, &[])?;
    }
    files::write(&layout, &plan, &keys, &wishes).map_err(Failure::usage)?;
    // Children die with the thread that started them, so this runtime has one thread: the main one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cluster = Cluster { layout, plan, keys, ready_file: args.ready_file.clone(), restart: args.restart };
    runtime.block_on(cluster.supervise())
}

fn default_dir() -> anyhow::Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = variable("XDG_DATA_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/share")))
        .context("neither XDG_DATA_HOME nor HOME is set: give --dir")?;
    Ok(data.join("orloj/dev"))
}

/// Keeps a second supervisor out of the folder for as long as the file is held.
fn lock(layout: &Layout) -> anyhow::Result<File> {
    let path = layout.lock();
    let file = File::options().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            bail!(
                "another orloj dev runs on the folder {}: stop it, or give another --dir",
                layout.dir().display()
            )
        }
        Err(fs::TryLockError::Error(error)) => Err(error).context("cannot lock the folder"),
    }
}

/// A demo cluster and what its user asked for.
struct Cluster {
    layout: Layout,
    plan: Plan,
    keys: Keys,
    ready_file: Option<PathBuf>,
    restart: bool,
}

impl Cluster {
    async fn supervise(self) -> Outcome {
        let stop = stop_token()?;
        if let Some(path) = &self.ready_file {
            remove_stale(path)?;
        }
        let mut fleet = Fleet::default();
        let outcome = self.start_and_watch(&mut fleet, &stop).await;
        fleet.stop().await;
        if let Some(path) = &self.ready_file {
            remove_stale(path)?;
        }
        outcome
    }

    async fn start_and_watch(&self, fleet: &mut Fleet, stop: &CancellationToken) -> Outcome {
        output::line(&format!("Starting Orloj in {}", self.layout.dir().display()))?;
        for spec in self.specs() {
            fleet.start(spec)?;
        }
        tokio::select! {
            ready = ready::wait(&self.layout, &self.plan, &self.keys) => ready?,
            ended = fleet.next_end() => {
                let member = &fleet.members()[ended.index];
                let tail = fleet::log_tail(&member.spec.log, TAIL_LINES);
                let error = anyhow!("{} ended: {}\n{tail}", member.spec.name, ended.status);
                // What the child says of its configuration comes from our command line: --slots, --set.
                let usage = ended.status.code() == Some(Code::Usage as i32);
                return Err(if usage { Failure::usage(error) } else { error.into() });
            }
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        }
        self.announce(fleet)?;
        loop {
            tokio::select! {
                ended = fleet.next_end() => self.deal_with(ended, fleet, stop).await?,
                () = stop.cancelled() => {
                    output::line("Stopping")?;
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }

    fn specs(&self) -> Vec<Spec> {
        let spec = |name: String, role| Spec {
            config: self.layout.config(&name),
            log: self.layout.log(&name),
            name,
            role,
        };
        let replicas = self.plan.replicas.iter().map(|replica| spec(replica.name(), Role::Server));
        let executors = self.plan.executors.iter().map(|executor| spec(executor.id.clone(), Role::Executor));
        replicas.chain(executors).collect()
    }

    fn announce(&self, fleet: &Fleet) -> anyhow::Result<()> {
        if let Some(path) = &self.ready_file {
            ready::write(path, &self.layout, &self.plan, &self.keys, fleet)?;
        }
        ready::print(&self.layout, &self.plan, &self.keys, fleet)?;
        Ok(())
    }

    /// Says that a child has ended, and starts it again where that was asked for.
    async fn deal_with(
        &self,
        ended: Ended,
        fleet: &mut Fleet,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let member = &fleet.members()[ended.index];
        output::note(&format!("{} ended: {}", member.spec.name, ended.status));
        if !self.restart {
            output::note(&format!("  start it again with: {}", member.spec.command_line()));
            if !fleet.any_alive() {
                return Err(anyhow!("every process of the cluster has ended").into());
            }
            return Ok(());
        }
        let delay = Duration::from_secs(1 << member.restarts.min(5)).min(Duration::from_secs(30));
        output::note(&format!("  starting it again in {delay:?}"));
        tokio::select! {
            () = sleep(delay) => {}
            () = stop.cancelled() => return Ok(()),
        }
        fleet.restart(ended.index)?;
        if let Some(path) = &self.ready_file {
            ready::write(path, &self.layout, &self.plan, &self.keys, fleet)?;
        }
        Ok(())
    }
}

fn remove_stale(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the old ready file {}", path.display()))
        }
        _ => Ok(()),
    }
}
