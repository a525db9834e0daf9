//! The cluster under test: three replicas, each on a disk and a host of its own, and one real executor.

pub mod admin;
pub mod files;
pub mod http;
pub mod replica;

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clock::WallShim;
use crate::disk::Disk;
use crate::fabric::Fabric;
use crate::hosts::{self, REAL, REPLICAS, SINK, SINK_NAME, SINK_PORT};
use crate::journal::Journal;
use crate::limits::{Hierarchy, Limits};
use crate::process::{Proc, Record, Spec};
use crate::scenario::ClusterOptions;
use crate::store::RunDir;
use crate::wait::until;
use admin::Admin;
use files::Keys;
use replica::Replica;

/// From the first start until there is a leader that serves.
const START: Duration = Duration::from_secs(60);

/// See the module's description.
pub struct Cluster {
    /// The replicas, in the order of [`REPLICAS`].
    pub replicas: Vec<Replica>,
    /// The real executor.
    pub executor: Proc,
    /// The administrator.
    pub admin: Admin,
    /// The run's keys.
    pub keys: Keys,
    /// The replicas find the sink by its name, so that callbacks reach it. Without a compiler they do not.
    pub knows_sink: bool,
    journal: Journal,
}

/// What a cluster is made of.
pub struct Parts<'a> {
    /// The run's folder.
    pub dir: &'a RunDir,
    /// The run's short name.
    pub id: &'a str,
    /// The program under test.
    pub orloj: &'a Path,
    /// Its configuration.
    pub options: &'a ClusterOptions,
    /// Whether the monotonic clock of each replica starts elsewhere.
    pub shift_monotonic: bool,
    /// The network.
    pub fabric: &'a Fabric,
    /// What undoes everything.
    pub journal: &'a Journal,
    /// Writes down what becomes of a process of this host.
    pub record: &'a dyn Fn(&str) -> Record,
}

impl Cluster {
    /// Starts every process; does not wait for anything.
    ///
    /// # Errors
    /// What could not be made.
    pub fn start(parts: &Parts<'_>) -> Result<Cluster> {
        let keys = Keys::of_run(&parts.dir.path().to_string_lossy());
        let secrets = parts.dir.config("secrets.toml");
        write_private(&secrets, &toml::to_string_pretty(&keys.file())?)?;
        let secret = parts.dir.config("executor.secret");
        write_private(&secret, &keys.executors)?;
        // Without a compiler clocks stay as they are, and steps that would move one say so.
        let shim = WallShim::compile(&parts.dir.wall()).ok();
        let hierarchy = Hierarchy::find().ok();
        let replicas = REPLICAS.iter().zip(0..).map(|(name, place)| {
            parts
                .replica(name, place, &secrets, shim.as_ref(), hierarchy.as_ref())
                .with_context(|| format!("start {name}"))
        });
        let replicas: Vec<Replica> = replicas.collect::<Result<_>>()?;
        let executor = parts.executor(&secret).with_context(|| format!("start {REAL}"))?;
        let (admin, knows_sink, journal) = (Admin::new(&keys)?, shim.is_some(), parts.journal.clone());
        Ok(Cluster { replicas, executor, admin, keys, knows_sink, journal })
    }

    /// The replica of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn replica(&self, name: &str) -> Result<&Replica> {
        let found = self.replicas.iter().find(|replica| replica.name == name);
        found.with_context(|| format!("{name} is no replica"))
    }

    /// What undoes everything that is done to it.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Waits until every replica answers and knows a leader.
    ///
    /// # Errors
    /// They do not within a minute.
    pub fn wait_ready(&self, fabric: &Fabric) -> Result<()> {
        for replica in &self.replicas {
            let what = format!("{} answers and knows the leader", replica.name);
            until(&what, START, || {
                let view = self.admin.view_of(fabric, &replica.name).ok();
                Ok(view.filter(|view| view.leader.is_some()).map(drop))
            })?;
        }
        Ok(())
    }

    /// Brings every process back, whatever became of it.
    ///
    /// # Errors
    /// The first that cannot be started; the others have been tried.
    pub fn restore(&self) -> Result<()> {
        let mut outcome = Ok(());
        for replica in &self.replicas {
            let restored =
                replica.disk.thaw().and_then(|()| replica.process.resume()).and_then(|()| replica.start());
            outcome = outcome.and(restored.with_context(|| format!("restore {}", replica.name)));
        }
        outcome.and(self.restore_executor())
    }

    /// Brings the real executor back.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn restore_executor(&self) -> Result<()> {
        self.executor.resume()?;
        if self.executor.is_running() {
            return Ok(());
        }
        self.executor.wait(replica::DEATH)?;
        self.executor.start_again()
    }

    /// Ends every process.
    pub fn stop(&self) {
        for replica in &self.replicas {
            // The journal still has what cannot be ended here.
            let _ = replica.kill();
        }
        let _ = self.executor.kill(replica::DEATH);
    }
}

impl Parts<'_> {
    fn replica(
        &self,
        name: &str,
        place: u64,
        secrets: &Path,
        shim: Option<&WallShim>,
        hierarchy: Option<&Hierarchy>,
    ) -> Result<Replica> {
        let disk = Disk::create(self.dir.path(), name, self.options.disk_mib << 20, self.journal)?;
        let config = files::replica(name, &disk.dir().join("data"), secrets, self.options)?;
        let path = self.dir.config(&format!("{name}.toml"));
        fs::write(&path, toml::to_string_pretty(&config)?)?;
        let clock = shim.map(|shim| shim.clock(name)).transpose()?;
        let limits = hierarchy.map(|found| Limits::create(found, self.id, name, self.journal)).transpose()?;
        let mut spec = self.spec(name, "server", &path);
        spec.env.extend(clock.iter().flat_map(|clock| clock.env()));
        let (sink, port) = (hosts::address(SINK, SINK_PORT), format!(":{SINK_PORT}"));
        let address = sink.trim_end_matches(&port).to_owned();
        spec.env.extend([
            ("ORLOJ_SINK_NAME".into(), SINK_NAME.into()),
            ("ORLOJ_SINK_ADDRESS".into(), address.into()),
        ]);
        if self.shift_monotonic {
            // Instants of one process mean nothing to another: no two of them agree here.
            spec.monotonic_ahead = Duration::from_secs(place * 100_000);
        }
        let process = Proc::start(spec, self.journal, (self.record)(name))?;
        Replica::new(name, process, disk, clock, limits)
    }

    fn executor(&self, secret: &Path) -> Result<Proc> {
        let config = files::executor(&self.dir.data(REAL), secret)?;
        let path = self.dir.config(&format!("{REAL}.toml"));
        fs::write(&path, toml::to_string_pretty(&config)?)?;
        Proc::start(self.spec(REAL, "executor", &path), self.journal, (self.record)(REAL))
    }

    fn spec(&self, name: &str, word: &str, config: &PathBuf) -> Spec {
        let mut spec = Spec::new(self.orloj, self.dir.log(name));
        spec.args = vec![word.into(), "--config".into(), config.into(), "--insecure-plaintext".into()];
        spec.env = vec![("RUST_BACKTRACE".into(), "1".into())];
        spec.host = Some(self.fabric.host(name).clone());
        spec
    }
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.with_context(|| format!("create {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("write {}", path.display()))
}
