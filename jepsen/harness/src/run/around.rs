//! Everything that stands around the cluster in one run: clients, mock executors, the sink, and who looks at the
//! replicas; and the hand of the nemesis on them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use orloj_jepsen_agents::generator::{Mix, Shares};
use orloj_jepsen_agents::mock::{Profile, Vices};
use orloj_jepsen_core::event::{Probe, What};
use orloj_wire::sign::Secret;
use tokio_util::sync::CancellationToken;

use super::sightings::Sightings;
use crate::action::Action;
use crate::agents::client::{Client, Credentials};
use crate::agents::executor::{self, Executor, Place};
use crate::agents::http::Connection;
use crate::agents::load::Load;
use crate::agents::recorder::{Note, Recorder};
use crate::agents::sink::{Sink, SinkVices};
use crate::agents::{knocker, prober};
use crate::cluster::Cluster;
use crate::cluster::files::Keys;
use crate::fabric::Fabric;
use crate::hosts::{
    self, ADMIN, API_PORT, DEBUG_PORT, EXECUTOR_PORT, INTERNAL_PORT, MOCKS, REPLICAS, SINK, SINK_NAME,
    SINK_PORT,
};
use crate::inside::Inside;
use crate::nemesis::hand::Actors;
use crate::nemesis::resolve::Sighting;
use crate::plan::RunOptions;
use crate::store::RunDir;

/// For agents to end once they are told to.
const PATIENCE: Duration = Duration::from_secs(40);

/// See the module's description.
pub struct Around<'a> {
    fabric: &'a Fabric,
    dir: &'a RunDir,
    options: &'a RunOptions,
    keys: &'a Keys,
    executors: Vec<Executor>,
    sink: Sink,
    sightings: Arc<Sightings>,
    recorders: Mutex<Vec<Recorder>>,
    threads: Mutex<Vec<Inside<Result<()>>>>,
    /// Ends everything but the clients.
    stop: CancellationToken,
    /// Ends the clients.
    stop_clients: CancellationToken,
    load: Load,
}

/// The process number of each replica, as whoever starts processes counts it.
pub type Lives = BTreeMap<String, Arc<AtomicU64>>;

impl<'a> Around<'a> {
    /// Starts sink, mock executors and probes.
    ///
    /// # Errors
    /// A thread or a file that cannot be made.
    pub fn start(
        fabric: &'a Fabric,
        dir: &'a RunDir,
        options: &'a RunOptions,
        cluster: &'a Cluster,
        lives: &Lives,
    ) -> Result<Around<'a>> {
        let keys = &cluster.keys;
        let sink_recorder = Recorder::create(&dir.parts(), SINK)?;
        let webhook = Some(keys.webhook.clone());
        let sink = Sink::new(SINK, options.agents_seed, webhook, sink_recorder.clone());
        let load = Load::new(options.agents_seed, "t", mix(options, cluster.knows_sink), options.clients);
        let mut around = Around {
            fabric,
            dir,
            options,
            keys,
            executors: Vec::new(),
            sink,
            sightings: Arc::default(),
            recorders: Mutex::new(vec![sink_recorder]),
            threads: Mutex::default(),
            stop: CancellationToken::new(),
            stop_clients: CancellationToken::new(),
            load,
        };
        around.start_sink()?;
        for name in MOCKS {
            around.start_executor(name)?;
        }
        for name in REPLICAS {
            around.start_prober(name, lives)?;
        }
        Ok(around)
    }

    fn recorder(&self, src: &str) -> Result<Recorder> {
        let recorder = Recorder::create(&self.dir.parts(), src)?;
        lock(&self.recorders).push(recorder.clone());
        Ok(recorder)
    }

    fn keep(&self, thread: Inside<Result<()>>) {
        lock(&self.threads).push(thread);
    }

    fn start_sink(&self) -> Result<()> {
        let (sink, stop, address) = (self.sink.clone(), self.stop.clone(), socket(SINK, SINK_PORT)?);
        self.keep(self.fabric.host(SINK).spawn_inside("sink", move || sink.run(address, stop))?);
        Ok(())
    }

    fn start_executor(&mut self, name: &str) -> Result<()> {
        let address = hosts::address(name, EXECUTOR_PORT);
        let internal = |name: &&str| (hosts::address(name, INTERNAL_PORT), (*name).to_owned());
        let profile = Profile {
            id: name.to_owned(),
            address: address.clone(),
            handlers: vec!["mock".to_owned()],
            slots: self.options.cluster.executor_slots,
            queue: self.options.cluster.executor_slots,
            weight: 100,
            zone: None,
            labels: BTreeMap::new(),
            replicas: REPLICAS.iter().map(internal).collect(),
            seed: self.options.agents_seed,
        };
        let mut replicas: BTreeMap<IpAddr, String> = BTreeMap::new();
        for name in REPLICAS {
            replicas.insert(socket(name, INTERNAL_PORT)?.ip(), name.to_owned());
        }
        let secret = Secret::new(self.keys.executors.clone()).context("an empty secret")?;
        let place = Place { listen: address.parse()?, secret, replicas };
        let executor = Executor::new(profile, self.recorder(&format!("executor-{name}"))?);
        let (hand, stop) = (executor.clone(), self.stop.clone());
        let work = move || async move { executor::run(hand, place, stop).await };
        self.keep(self.fabric.host(name).spawn_inside("executor", work)?);
        self.executors.push(executor);
        Ok(())
    }

    fn start_prober(&self, name: &'static str, lives: &Lives) -> Result<()> {
        let address: SocketAddr = format!("127.0.0.1:{DEBUG_PORT}").parse()?;
        let life = Arc::clone(lives.get(name).context("every replica has a life")?);
        let (recorder, stop) = (self.recorder(&format!("probe-{name}"))?, self.stop.clone());
        let sightings = Arc::clone(&self.sightings);
        let seen = move |probe: Option<&Probe>| sightings.tell(name, probe);
        let work = move || async move {
            prober::run(name, address, life, recorder, seen, stop).await;
            Ok(())
        };
        self.keep(self.fabric.host(name).spawn_inside("probe", work)?);
        Ok(())
    }

    /// A client of this number, which asks the replicas in turn by its number.
    fn client(&self, number: u32, src: &str) -> Result<Client> {
        let place = usize::try_from(number).unwrap_or(0) % REPLICAS.len();
        let node = REPLICAS[place];
        let credentials = Credentials {
            audience: "default".to_owned(),
            access_key: self.keys.access_key.clone(),
            secret: Secret::new(self.keys.secret_key.clone()).context("an empty secret")?,
        };
        let address = socket(node, API_PORT)?;
        Ok(Client::new(number, self.options.clients, node, address, credentials, self.recorder(src)?))
    }

    /// Lets the load begin.
    ///
    /// # Errors
    /// A thread or a file that cannot be made.
    pub fn start_clients(&self) -> Result<()> {
        for number in 1..=self.options.clients {
            let client = self.client(number, &format!("client-{number}"))?;
            let (load, stop) = (self.load.clone(), self.stop_clients.clone());
            let work = move || async move {
                client.run(load, stop).await;
                Ok(())
            };
            self.keep(self.fabric.host(&hosts::client(number)).spawn_inside("client", work)?);
        }
        self.start_knockers()
    }

    /// Lets one client for each replica ask for more than its key may.
    fn start_knockers(&self) -> Result<()> {
        let recorder = self.recorder("knocker")?;
        recorder.note(Note::event(ADMIN, What::KeyLimits(self.keys.narrow_limits())));
        for node in REPLICAS {
            let credentials = Credentials {
                audience: "default".to_owned(),
                access_key: self.keys.narrow_key.clone(),
                secret: Secret::new(self.keys.narrow_secret.clone()).context("an empty secret")?,
            };
            let connection = Connection::new(socket(node, API_PORT)?);
            let (recorder, stop) = (recorder.clone(), self.stop_clients.clone());
            let work = move || async move {
                knocker::run(node, connection, credentials, recorder, stop).await;
                Ok(())
            };
            self.keep(self.fabric.host(ADMIN).spawn_inside("knocker", work)?);
        }
        Ok(())
    }

    /// Lets the load end; operations that are under way are waited for in [`Around::finish`].
    pub fn stop_clients(&self) {
        self.stop_clients.cancel();
    }

    /// Clients for the last reads, and what they have to read.
    ///
    /// # Errors
    /// A file that cannot be made.
    pub fn last_readers(&self) -> Result<Vec<Client>> {
        let number = |place: u32| self.client(place + 1, &format!("client-last-{}", place + 1));
        (0..REPLICAS.len() as u32).map(number).collect()
    }

    /// What was acknowledged.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// What was seen of the replicas.
    pub fn sightings(&self) -> &Sightings {
        &self.sightings
    }

    /// Whether every mock executor is known to the leader.
    pub fn executors_registered(&self) -> bool {
        self.executors.iter().all(Executor::is_registered)
    }

    /// Attempts that the mock executors hold together.
    pub fn held(&self) -> usize {
        self.executors.iter().map(Executor::holds).sum()
    }

    /// The sink.
    pub fn sink_itself(&self) -> &Sink {
        &self.sink
    }

    /// Ends everything and writes out what was recorded. Returns what went wrong.
    pub fn finish(&self) -> Vec<String> {
        self.stop_clients.cancel();
        self.stop.cancel();
        let mut problems = Vec::new();
        let deadline = crate::wait::monotonic() + PATIENCE;
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            let name = thread.name().to_owned();
            while !thread.is_finished() && crate::wait::monotonic() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            if !thread.is_finished() {
                problems.push(format!("{name} does not end"));
            } else if let Err(error) = thread.join().and_then(|outcome| outcome) {
                problems.push(format!("{name}: {error:#}"));
            }
        }
        for recorder in std::mem::take(&mut *lock(&self.recorders)) {
            problems.extend(recorder.finish().err().map(|error| format!("{error:#}")));
        }
        problems
    }

    fn executor(&self, name: &str) -> Result<&Executor> {
        self.executors
            .iter()
            .find(|executor| executor.id() == name)
            .with_context(|| format!("{name} is no mock executor"))
    }
}

fn mix(options: &RunOptions, knows_sink: bool) -> Mix {
    Mix {
        ops_per_s: f64::from(options.rate),
        executors: MOCKS.iter().map(|name| (*name).to_owned()).collect(),
        effect_url: Some(format!("http://{}/effect", hosts::address(SINK, SINK_PORT))),
        callback_url: knows_sink.then(callback_url),
        shares: Shares { extra: options.extra, ..Shares::default() },
        ..Mix::default()
    }
}

/// Where the ends of tasks are announced.
pub(super) fn callback_url() -> String {
    format!("http://{SINK_NAME}:{SINK_PORT}/hook")
}

fn socket(host: &str, port: u16) -> Result<SocketAddr> {
    Ok(hosts::address(host, port).parse()?)
}

/// Each list is whole at any time.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Actors for Around<'_> {
    fn sighting(&self) -> Sighting {
        let held = self.executors.iter().map(|executor| (executor.id(), executor.holds())).collect();
        Sighting { held, ..self.sightings.now() }
    }

    fn vices(&self, executor: &str, vices: Vices) -> Result<()> {
        self.executor(executor)?.set_vices(vices);
        Ok(())
    }

    fn kill(&self, executor: &str) -> Result<()> {
        self.executor(executor)?.kill();
        Ok(())
    }

    fn restart(&self, executor: &str) -> Result<()> {
        self.executor(executor)?.start(false);
        Ok(())
    }

    fn sink(&self, action: Option<&Action>) -> Result<()> {
        let none = SinkVices::default();
        self.sink.set_vices(match action {
            Some(Action::SinkErrors) => SinkVices { errors: 1.0, ..none },
            Some(Action::SinkSilent) => SinkVices { silent: 1.0, ..none },
            Some(Action::SinkSlow { delay_ms }) => {
                SinkVices { slow_body: Duration::from_millis(*delay_ms), ..none }
            }
            Some(Action::SinkDown) => SinkVices { down: true, ..none },
            _ => none,
        });
        Ok(())
    }

    fn relent(&self) -> Result<()> {
        self.sink.set_vices(SinkVices::default());
        for executor in &self.executors {
            executor.set_vices(Vices::default());
            if !executor.is_up() {
                executor.start(false);
            }
        }
        Ok(())
    }
}
