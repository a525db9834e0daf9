//! The cluster that is measured: one that the bench starts, in a folder of its own, or one that runs already.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use orloj_bench::executors;
use orloj_bench::message::Target;
use orloj_bench::usage::{self, Usage};
use orloj_client::{Client, Credentials, Options};
use orloj_wire::clock::SystemClock;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout};

use super::args::{BenchArgs, OtherArgs};
use super::scratch::Scratch;
use crate::cert::AUTHORITY;
use crate::dev::certificates;
use crate::dev::files::{self, Wishes};
use crate::dev::fleet::{Ended, Fleet, Member, Role, Spec, log_tail};
use crate::dev::keys::Keys;
use crate::dev::plan::{Layout, Plan, Wish};
use crate::dev::ready;
use crate::exit::Failure;
use crate::process::send;
use crate::secret::read_private;

/// Lines of a failed replica's log that are shown.
const TAIL_LINES: usize = 20;
/// For a replica to be there again.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// For an answer to the question whether a replica is ready.
const ANSWER: Duration = Duration::from_secs(2);

/// A cluster that is measured.
pub struct Cluster {
    target: Target,
    internal: Vec<String>,
    executor_secret: String,
    /// Where everything speaks TLS: the folder of all certificates.
    certificates: Option<PathBuf>,
    kind: Kind,
    /// Dropped last, when nobody writes there any more.
    scratch: Scratch,
}

enum Kind {
    Own(Box<Own>),
    Other(Vec<u32>),
}

/// What a cluster of the bench's own is made of.
struct Own {
    plan: Plan,
    keys: Keys,
    fleet: Fleet,
    /// What those processes used that have ended, by the place of their replica.
    spent: BTreeMap<usize, Usage>,
    /// Which replicas ended though nobody asked them to, and how.
    deaths: Vec<String>,
}

/// A bench that is broken off leaves no processes behind.
impl Drop for Own {
    fn drop(&mut self) {
        let alive = self.fleet.members().iter().filter_map(|member| member.pid);
        alive.for_each(|pid| send(pid, Signal::KILL));
    }
}

impl Own {
    /// Takes note of the end of a process that was not to end.
    fn note_death(&mut self, ended: &Ended) {
        let name = &self.fleet.members()[ended.index].spec.name;
        self.deaths.push(format!("{name} ended by itself: {}", ended.status));
    }
}

impl Cluster {
    /// Starts a cluster in a new folder, or takes the one that was named.
    ///
    /// # Errors
    /// A folder or files that cannot be used, a replica that does not start.
    pub async fn start(args: &BenchArgs) -> Result<Cluster, Failure> {
        let scratch = Scratch::new(&data_dir(args), args.own.keep).map_err(Failure::usage)?;
        let via = args.load.via.into();
        if !args.other.servers.is_empty() {
            let cluster = other(&args.other, via, scratch).map_err(Failure::usage)?;
            cluster
                .client()?
                .cluster()
                .await
                .context("the cluster of --servers cannot be used")
                .map_err(Failure::usage)?;
            return Ok(cluster);
        }
        let layout = Layout::new(scratch.path())?;
        let replicas = Some(args.own.replicas);
        let wish = Wish { base_port: Some(0), replicas, executors: Some(0), tls: args.own.tls };
        let plan = Plan::load_or_make(&layout, wish).map_err(Failure::usage)?;
        let keys = Keys::load_or_make(&layout)?;
        let ca_pem = args.own.tls.then(|| make_certificates(&layout, &plan, args)).transpose()?;
        files::write(&layout, &plan, &keys, &Wishes { slots: None, set: &args.own.set, callback_ports: &[] })
            .map_err(Failure::usage)?;
        let target = Target {
            servers: plan.replicas.iter().map(|replica| replica.api()).collect(),
            access_key: keys.access_key.clone(),
            secret_key: keys.secret_key.clone(),
            audience: "default".to_owned(),
            via,
            keys: Vec::new(),
            ca_pem,
        };
        let mut cluster = Cluster {
            target,
            internal: plan.replicas.iter().map(|replica| replica.internal()).collect(),
            executor_secret: keys.executor_secret.clone(),
            certificates: plan.tls().then(|| layout.certificates()),
            kind: Kind::Own(Box::new(Own {
                plan,
                keys,
                fleet: Fleet::default(),
                spent: BTreeMap::new(),
                deaths: Vec::new(),
            })),
            scratch,
        };
        cluster.start_replicas(&layout).await?;
        Ok(cluster)
    }

    async fn start_replicas(&mut self, layout: &Layout) -> Result<(), Failure> {
        let own = self.own()?;
        for replica in &own.plan.replicas {
            let name = replica.name();
            let (config, log) = (layout.config(&name), layout.log(&name));
            own.fleet.start(Spec { name, role: Role::Server, config, log })?;
        }
        tokio::select! {
            ready = ready::wait(layout, &own.plan, &own.keys) => Ok(ready?),
            ended = own.fleet.next_end() => {
                let spec = &own.fleet.members()[ended.index].spec;
                let tail = log_tail(&spec.log, TAIL_LINES);
                Err(Failure::usage(anyhow::anyhow!("{} ended: {}\n{tail}", spec.name, ended.status)))
            }
        }
    }

    /// Whom the load asks.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Internal addresses of the replicas.
    pub fn internal(&self) -> &[String] {
        &self.internal
    }

    /// The secret of executors.
    pub fn executor_secret(&self) -> &str {
        &self.executor_secret
    }

    /// The folder of all certificates, where everything speaks TLS.
    pub fn certificates(&self) -> Option<&Path> {
        self.certificates.as_deref()
    }

    /// A client for what is not signed, that waits so long for an answer.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn http(&self, timeout: Duration) -> anyhow::Result<reqwest::Client> {
        let mut builder = reqwest::Client::builder().no_proxy().timeout(timeout);
        if let Some(pem) = &self.target.ca_pem {
            builder = builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(pem.as_bytes())?);
        }
        builder.build().context("no HTTP client")
    }

    /// The folder of this run.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// A client that signs as the caller.
    ///
    /// # Errors
    /// Addresses or keys that cannot be used.
    pub fn client(&self) -> anyhow::Result<Client> {
        client(&self.target, &self.target.access_key, &self.target.secret_key)
    }

    /// A client that signs as the administrator of a cluster of the bench's own.
    ///
    /// # Errors
    /// The cluster is another's.
    pub fn admin(&mut self) -> anyhow::Result<Client> {
        let keys = self.own()?.keys.clone();
        client(&self.target, &keys.admin_key, &keys.admin_secret)
    }

    /// Each replica's process: name and process id.
    pub fn processes(&self) -> Vec<(String, u32)> {
        match &self.kind {
            Kind::Own(own) => {
                let alive =
                    own.fleet.members().iter().filter_map(|member| Some((&member.spec.name, member.pid?)));
                alive.map(|(name, pid)| (name.clone(), pid)).collect()
            }
            Kind::Other(pids) => pids.iter().map(|pid| (format!("replica {pid}"), *pid)).collect(),
        }
    }

    /// CPU time of all replicas since they started, in s, also of those that have been killed.
    pub fn cpu_s(&self) -> f64 {
        self.usages().iter().map(|(_, usage)| usage.cpu_s).sum::<f64>()
    }

    /// CPU time of the replicas' processes that run now, in s; `None` where they are not known.
    pub fn alive_cpu_s(&self) -> Option<f64> {
        let processes = self.processes();
        let known = matches!(self.kind, Kind::Own(_)) || !processes.is_empty();
        known.then(|| processes.iter().map(|(_, pid)| usage::of(*pid).cpu_s).sum::<f64>())
    }

    /// What each replica uses, with all that its processes used before which have ended.
    pub fn usages(&self) -> Vec<(String, Usage)> {
        let Kind::Own(own) = &self.kind else {
            return self.processes().into_iter().map(|(name, pid)| (name, usage::of(pid))).collect();
        };
        let used = |(place, member): (usize, &Member)| {
            let before = own.spent.get(&place).copied().unwrap_or_default();
            (member.spec.name.clone(), before.then(member.pid.map(usage::of).unwrap_or_default()))
        };
        own.fleet.members().iter().enumerate().map(used).collect()
    }

    fn own(&mut self) -> anyhow::Result<&mut Own> {
        match &mut self.kind {
            Kind::Own(own) => Ok(own),
            Kind::Other(_) => {
                bail!("this workload runs on the bench's own cluster alone")
            }
        }
    }

    /// The place of the replica that leads, asked of whoever answers.
    ///
    /// # Errors
    /// Nobody leads in time.
    pub async fn leader(&self) -> anyhow::Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        let client = self.client()?;
        while Instant::now() < deadline {
            if let Ok(view) = client.cluster().await {
                let leader = view.members.iter().find(|member| Some(member.id) == view.leader);
                let place =
                    leader.and_then(|leader| self.target.servers.iter().position(|url| *url == leader.api));
                if let Some(place) = place {
                    return Ok(place);
                }
            }
            sleep(PAUSE).await;
        }
        bail!("no replica leads after {PATIENCE:?}")
    }

    /// Ends a replica with this signal and waits until it has ended; returns when the signal had been sent, in µs since
    /// the Unix epoch. Nothing that a killed replica did is later than that.
    ///
    /// # Errors
    /// The cluster is another's, or the replica does not run.
    pub async fn end(&mut self, place: usize, signal: Signal) -> anyhow::Result<i64> {
        let (own, clock) = (self.own()?, SystemClock::new());
        let pid = own.fleet.members()[place].pid.context("the replica does not run")?;
        let spent = own.spent.entry(place).or_default();
        *spent = spent.then(usage::of(pid));
        send(pid, signal);
        let sent_us = clock.wall_us();
        while own.fleet.members()[place].pid.is_some() {
            let ended = own.fleet.next_end().await;
            if ended.index != place {
                own.note_death(&ended);
            }
        }
        Ok(sent_us)
    }

    /// The replicas that have ended though nobody asked them to, and how.
    pub async fn deaths(&mut self) -> Vec<String> {
        let Kind::Own(own) = &mut self.kind else { return Vec::new() };
        // What has ended is told at once.
        while let Ok(ended) = timeout(Duration::ZERO, own.fleet.next_end()).await {
            own.note_death(&ended);
        }
        std::mem::take(&mut own.deaths)
    }

    /// Starts a replica that has ended and waits until it says that it can serve; returns how long that took from the
    /// start of its process.
    ///
    /// # Errors
    /// The cluster is another's, the process cannot be started, or it is not ready in time.
    pub async fn restart(&mut self, place: usize) -> anyhow::Result<Duration> {
        // Made before: it reads certificates.
        let http = self.http(ANSWER)?;
        let begin = Instant::now();
        self.own()?.fleet.restart(place)?;
        self.serves(&http, place).await?;
        Ok(begin.elapsed())
    }

    /// Waits until a replica says that it can serve.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn ready(&self, place: usize) -> anyhow::Result<()> {
        self.serves(&self.http(ANSWER)?, place).await
    }

    async fn serves(&self, http: &reqwest::Client, place: usize) -> anyhow::Result<()> {
        let (begin, url) = (Instant::now(), format!("{}/readyz", self.target.servers[place]));
        while begin.elapsed() < PATIENCE {
            if http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
        bail!("replica {} is not ready after {PATIENCE:?}", place + 1)
    }

    /// Keeps the folder, whatever becomes of the cluster.
    pub fn keep(&mut self) {
        self.scratch.keep();
    }

    /// Stops what was started, and removes the folder unless it shall be kept.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if let Kind::Own(own) = &mut self.kind {
            own.fleet.stop().await;
        }
        self.scratch.remove()
    }
}

/// The folder that the data of all runs goes to.
pub fn data_dir(args: &BenchArgs) -> PathBuf {
    args.own.dir.clone().unwrap_or_else(std::env::temp_dir)
}

fn other(args: &OtherArgs, via: orloj_bench::message::Via, scratch: Scratch) -> anyhow::Result<Cluster> {
    let secret = |path: &Option<PathBuf>| {
        let path = path.as_ref().context("a file with a secret is missing")?;
        anyhow::Ok(read_private(path)?.trim().to_owned())
    };
    let target = Target {
        servers: args.servers.clone(),
        access_key: args.access_key.clone().context("--access-key is missing")?,
        secret_key: secret(&args.secret_file)?,
        audience: args.audience.clone(),
        via,
        keys: Vec::new(),
        ca_pem: None,
    };
    let executor_secret = secret(&args.executor_secret_file)?;
    let (internal, kind) = (args.internal.clone(), Kind::Other(args.pids.clone()));
    Ok(Cluster { target, internal, executor_secret, certificates: None, kind, scratch })
}

/// Makes the certificates of all processes, those of the bench's executors among them; returns that of the authority.
fn make_certificates(layout: &Layout, plan: &Plan, args: &BenchArgs) -> anyhow::Result<String> {
    let executors: Vec<String> = (1..=args.load.executors).map(executors::id).collect();
    certificates::make(layout, plan, &executors)?;
    let path = layout.certificates().join(AUTHORITY);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn client(target: &Target, key: &str, secret: &str) -> anyhow::Result<Client> {
    let options = Options {
        audience: target.audience.clone(),
        ca_pem: target.ca_pem.clone().map(String::into_bytes),
        deadline: Duration::from_secs(10),
        try_timeout: Duration::from_secs(1),
        ..Options::default()
    };
    Ok(Client::new(&target.servers, Credentials::new(key, secret)?, options)?)
}
