//! A cluster of real processes, started by `orloj dev`, with a hand on each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orloj_client::{Client, Credentials, Options};
use orloj_wire::clock::Clock;
use orloj_wire::rest::Cluster as View;
use rustix::process::Signal;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::OwnedMutexGuard;

use crate::process::{binary, ended, is_alive, send, until};

/// From the start of the supervisor to the ready file.
const START: Duration = Duration::from_secs(90);
/// For a process to die of SIGKILL.
const DEATH: Duration = Duration::from_secs(10);
/// For the replicas to agree after the load has ended.
const AGREE: Duration = Duration::from_secs(60);
/// Lines of each log that are shown when a test fails.
const TAIL_LINES: usize = 15;

/// The ready file of `orloj dev`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ready {
    /// The replicas.
    pub replicas: Vec<ReadyReplica>,
    /// The executors.
    pub executors: Vec<ReadyExecutor>,
    /// The demo caller's key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
    /// The administrator's key.
    pub admin_key: String,
    /// Its secret.
    pub admin_secret: String,
    /// Signs the demo caller's callbacks.
    pub webhook_secret: String,
    /// The authority of the servers' certificates, where they speak TLS.
    #[serde(default)]
    pub ca: Option<PathBuf>,
}

impl Ready {
    /// Every process.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        let executors = self.executors.iter().map(|executor| executor.pid);
        self.replicas.iter().map(|replica| replica.pid).chain(executors)
    }
}

/// A replica in the ready file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyReplica {
    /// The id under which it booted.
    pub id: u64,
    /// Its process.
    pub pid: u32,
    /// Base URL of its API.
    pub api: String,
    /// `host:port` of its internal listener.
    pub internal: String,
    /// Its data.
    pub dir: PathBuf,
}

/// An executor in the ready file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyExecutor {
    /// Its id.
    pub id: String,
    /// Its process.
    pub pid: u32,
    /// `host:port` of its listener.
    pub address: String,
    /// Its data.
    pub dir: PathBuf,
}

/// One process of the cluster.
#[derive(Debug)]
struct Process {
    word: &'static str,
    pid: u32,
    /// Set once the test has started it again itself.
    child: Option<Child>,
}

/// What the cluster shall be.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Executors; 0 takes the default, 2.
    pub executors: u8,
    /// Slots of each executor.
    pub slots: Option<u32>,
    /// Whether everything speaks TLS.
    pub tls: bool,
    /// Options of the replicas that differ from the defaults, as `key=value`.
    pub set: Vec<&'static str>,
    /// Ports of this machine to which the demo caller's callbacks may go.
    pub callback_ports: Vec<u16>,
}

/// A running cluster. Everything ends with it; its folder is kept when the test fails.
#[derive(Debug)]
pub struct Cluster {
    ready: Ready,
    processes: Mutex<BTreeMap<String, Process>>,
    supervisor: Child,
    setup: Setup,
    dir: Option<TempDir>,
    _alone: OwnedMutexGuard<()>,
}

/// Clusters of one test process run one after the other; they would measure each other otherwise.
fn turn() -> Arc<tokio::sync::Mutex<()>> {
    static TURN: std::sync::LazyLock<Arc<tokio::sync::Mutex<()>>> = std::sync::LazyLock::new(Arc::default);
    Arc::clone(&TURN)
}

/// The turn of something that starts a cluster by itself; it ends with the guard.
pub async fn alone() -> OwnedMutexGuard<()> {
    turn().lock_owned().await
}

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    ///
    /// # Panics
    /// It does not get ready; the output of the supervisor is shown.
    pub async fn start(setup: Setup) -> Cluster {
        let alone = alone().await;
        let dir = tempfile::Builder::new().prefix("orloj-test-").tempdir().expect("a folder for the cluster");
        let (supervisor, ready) = supervise(dir.path(), &setup).await;
        let processes = Mutex::new(processes(&ready));
        Cluster { ready, processes, supervisor, setup, dir: Some(dir), _alone: alone }
    }

    /// Sends the supervisor SIGTERM, waits until it and every child have ended, and returns how it ended.
    ///
    /// # Panics
    /// A process goes on.
    pub async fn stop(&mut self) -> std::process::ExitStatus {
        send(self.supervisor.id(), Signal::TERM);
        let pids: Vec<u32> = self.ready.pids().collect();
        let status = self.supervisor.wait().expect("a test waits for its own child");
        for pid in pids {
            ended(pid, DEATH).await;
        }
        status
    }

    /// Starts the whole cluster on its folder again, after [`stop`](Cluster::stop).
    pub async fn start_on_the_same_folder(&mut self) {
        let (supervisor, ready) = supervise(self.dir(), &self.setup).await;
        self.processes = Mutex::new(processes(&ready));
        (self.supervisor, self.ready) = (supervisor, ready);
    }

    /// The environment in which the command `orloj` finds the replica at this place.
    pub fn environment(&self, place: usize) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("ORLOJ_URL", self.ready.replicas[place].api.clone()),
            ("ORLOJ_ACCESS_KEY", self.ready.access_key.clone()),
            ("ORLOJ_SECRET_KEY", self.ready.secret_key.clone()),
            ("ORLOJ_ADMIN_KEY", self.ready.admin_key.clone()),
            ("ORLOJ_ADMIN_SECRET", self.ready.admin_secret.clone()),
        ];
        if let Some(ca) = &self.ready.ca {
            variables.push(("ORLOJ_CA", ca.display().to_string()));
        }
        variables
    }

    /// What the supervisor said when it was ready.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The cluster's folder.
    ///
    /// # Panics
    /// Never while the cluster lives.
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().expect("the folder lives as long as the cluster").path()
    }

    /// The name of the replica at this place, counted from 0.
    pub fn replica(&self, place: usize) -> String {
        format!("replica-{}", self.ready.replicas[place].id)
    }

    /// The name of the executor at this place, counted from 0.
    pub fn executor(&self, place: usize) -> String {
        self.ready.executors[place].id.clone()
    }

    /// The process that the supervisor runs in.
    pub fn supervisor(&self) -> u32 {
        self.supervisor.id()
    }

    /// The process id of a replica or an executor.
    pub fn pid(&self, name: &str) -> u32 {
        self.with(name, |process| process.pid)
    }

    fn with<T>(&self, name: &str, act: impl FnOnce(&mut Process) -> T) -> T {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        act(processes.get_mut(name).unwrap_or_else(|| panic!("no process is named {name}")))
    }

    /// A client of all replicas that signs as the demo caller.
    pub fn client(&self) -> Client {
        self.client_of(&(0..self.ready.replicas.len()).collect::<Vec<_>>(), Duration::from_secs(60))
    }

    /// A client of some replicas that gives up after `deadline`.
    ///
    /// # Panics
    /// The addresses of the ready file cannot be used.
    pub fn client_of(&self, places: &[usize], deadline: Duration) -> Client {
        self.signed(&self.ready.access_key, &self.ready.secret_key, places, options(deadline))
    }

    /// A client of all replicas that signs as the administrator.
    pub fn admin(&self) -> Client {
        let places: Vec<usize> = (0..self.ready.replicas.len()).collect();
        self.signed(
            &self.ready.admin_key,
            &self.ready.admin_secret,
            &places,
            options(Duration::from_secs(30)),
        )
    }

    /// A client of some replicas that signs with the time of this clock.
    pub fn client_with_clock(&self, places: &[usize], clock: Arc<dyn Clock>) -> Client {
        let options = Options { clock, ..options(Duration::from_secs(60)) };
        self.signed(&self.ready.access_key, &self.ready.secret_key, places, options)
    }

    fn signed(&self, key: &str, secret: &str, places: &[usize], options: Options) -> Client {
        let ca_pem = self.ready.ca.as_ref().map(|path| fs::read(path).expect("the authority is there"));
        let options = Options { ca_pem, ..options };
        let credentials = Credentials::new(key, secret).expect("the ready file has good keys");
        let urls = places.iter().map(|place| &self.ready.replicas[*place].api);
        Client::new(urls, credentials, options).expect("the ready file has good addresses")
    }

    /// The place of the replica that leads, asked of one that answers.
    pub async fn leader(&self) -> usize {
        let mut leader = None;
        until("a replica leads", AGREE, async || {
            let Ok(view) = self.client().cluster().await else { return false };
            leader = self.place_of(&view);
            leader.is_some()
        })
        .await;
        leader.expect("a leader was found")
    }

    fn place_of(&self, view: &View) -> Option<usize> {
        let leader = view.leader?;
        let api = &view.members.iter().find(|member| member.id == leader)?.api;
        self.ready.replicas.iter().position(|replica| replica.api == *api)
    }

    /// Kills a process with SIGKILL and waits until it is gone.
    pub async fn kill(&self, name: &str) {
        let pid = self.pid(name);
        send(pid, Signal::KILL);
        if let Some(mut child) = self.with(name, |process| process.child.take()) {
            child.wait().expect("a test waits for its own child");
        }
        ended(pid, DEATH).await;
    }

    /// Stops a process where it is (SIGSTOP).
    pub fn pause(&self, name: &str) {
        send(self.pid(name), Signal::STOP);
    }

    /// Lets a stopped process go on (SIGCONT).
    pub fn resume(&self, name: &str) {
        send(self.pid(name), Signal::CONT);
    }

    /// Starts a killed process again, as the supervisor told its user to, with these environment variables.
    ///
    /// # Panics
    /// The process runs, or cannot be started.
    pub fn start_again(&self, name: &str, environment: &[(&str, &str)]) {
        let config = self.dir().join("config").join(format!("{name}.toml"));
        let log = fs::File::options().append(true).create(true).open(self.log(name)).expect("the log opens");
        self.with(name, |process| {
            assert!(!is_alive(process.pid), "{name} still runs");
            let child = Command::new(binary())
                .arg(process.word)
                .arg("--config")
                .arg(&config)
                .arg("--exit-with-parent")
                .arg(std::process::id().to_string())
                .envs(environment.iter().copied())
                .stdin(Stdio::null())
                .stdout(log.try_clone().expect("a file handle can be shared"))
                .stderr(log)
                .spawn()
                .expect("the process starts");
            process.pid = child.id();
            process.child = Some(child);
        });
    }

    /// The log of a process.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir().join("logs").join(format!("{name}.log"))
    }

    /// Waits until every replica answers for itself.
    pub async fn all_answer(&self) {
        for place in 0..self.ready.replicas.len() {
            let client = self.client_of(&[place], Duration::from_secs(2));
            until(&format!("{} answers", self.replica(place)), AGREE, async || {
                client.cluster().await.is_ok_and(|view| view.leader.is_some())
            })
            .await;
        }
    }

    /// Waits until `count` members have applied the same entries, and checks that their digests are equal.
    /// Returns the view in which they were.
    ///
    /// # Panics
    /// The digests differ at one index, or the members never come together.
    pub async fn agree(&self, count: usize) -> View {
        let client = self.client();
        let mut agreed = None;
        until(&format!("{count} members have applied the same"), AGREE, async || {
            let Ok(view) = client.cluster().await else { return false };
            let mut states =
                view.members.iter().filter_map(|member| member.applied_index.zip(member.digest.as_ref()));
            let Some(first) = states.next() else { return false };
            let others: Vec<_> = states.collect();
            let together = others.len() + 1 == count && others.iter().all(|(index, _)| *index == first.0);
            if together {
                assert!(others.iter().all(|(_, digest)| *digest == first.1), "digests differ: {view:?}");
                agreed = Some(view.clone());
            }
            together
        })
        .await;
        agreed.expect("the members came together")
    }

    /// The debug probe of a replica, or `None` when it does not answer.
    pub async fn probe(&self, place: usize) -> Option<serde_json::Value> {
        let url = format!("{}/debug/probe", self.ready.replicas[place].api);
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build().ok()?;
        http.get(url).send().await.ok()?.error_for_status().ok()?.json().await.ok()
    }
}

/// Options of a client that gives up after `deadline`.
fn options(deadline: Duration) -> Options {
    Options { deadline, try_timeout: Duration::from_secs(5).min(deadline), ..Options::default() }
}

fn processes(ready: &Ready) -> BTreeMap<String, Process> {
    let process = |word, pid| Process { word, pid, child: None };
    let replicas = ready.replicas.iter();
    let replicas =
        replicas.map(|replica| (format!("replica-{}", replica.id), process("server", replica.pid)));
    let executors = ready.executors.iter();
    let executors = executors.map(|executor| (executor.id.clone(), process("executor", executor.pid)));
    replicas.chain(executors).collect()
}

/// Starts the supervisor and waits for its ready file.
async fn supervise(dir: &Path, setup: &Setup) -> (Child, Ready) {
    let ready_file = dir.join("ready.json");
    let output = fs::File::create(dir.join("supervisor.log")).expect("a file for the supervisor's output");
    let mut command = Command::new(binary());
    command.arg("dev").arg("--dir").arg(dir).args(["--base-port", "0"]).arg("--ready-file").arg(&ready_file);
    if setup.executors > 0 {
        command.args(["--executors", &setup.executors.to_string()]);
    }
    if let Some(slots) = setup.slots {
        command.args(["--slots", &slots.to_string()]);
    }
    for port in &setup.callback_ports {
        command.args(["--callback-port", &port.to_string()]);
    }
    if setup.tls {
        command.arg("--tls");
    }
    for option in &setup.set {
        command.args(["--set", option]);
    }
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a file handle can be shared"))
        .stderr(output);
    let mut supervisor = command.spawn().expect("the supervisor starts");
    let mut ready = None;
    until("the supervisor is ready", START, async || {
        if let Some(status) = supervisor.try_wait().expect("a test waits for its own child") {
            let output = fs::read_to_string(dir.join("supervisor.log")).unwrap_or_default();
            panic!("the supervisor ended: {status}\n{output}");
        }
        // The file appears whole.
        let Ok(text) = fs::read_to_string(&ready_file) else { return false };
        ready =
            Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("ready file: {error}\n{text}")));
        true
    })
    .await;
    (supervisor, ready.expect("the ready file was read"))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let processes = std::mem::take(&mut *self.processes.lock().unwrap_or_else(PoisonError::into_inner));
        // The supervisor first: its children die with it.
        send(self.supervisor.id(), Signal::KILL);
        for (_, process) in processes {
            send(process.pid, Signal::KILL);
            if let Some(mut child) = process.child {
                let _ = child.wait();
            }
        }
        let _ = self.supervisor.wait();
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            let kept = dir.keep();
            println!("the cluster's folder is kept: {}", kept.display());
            show_logs(&kept.join("logs"));
        }
    }
}

fn show_logs(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let text = fs::read(entry.path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        println!("--- {}\n{}", entry.file_name().to_string_lossy(), tail.join("\n"));
    }
}
