//! The agents against a cluster of real processes: `orloj dev` on loopback.
//!
//! Needs the binary `orloj`, in `ORLOJ_BIN` or beside this test's folder; says so and passes without it.
#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use orloj_jepsen::agents::client::{Client, Credentials};
use orloj_jepsen::agents::executor::{self, Executor, Place};
use orloj_jepsen::agents::final_reads;
use orloj_jepsen::agents::load::Load;
use orloj_jepsen::agents::prober;
use orloj_jepsen::agents::recorder::Recorder;
use orloj_jepsen::agents::sink::{Sink, SinkVices};
use orloj_jepsen_agents::generator::Mix;
use orloj_jepsen_agents::mock::{Profile, Vices};
use orloj_jepsen_core::check;
use orloj_jepsen_core::event::{Effect, Event, Kind, What};
use orloj_jepsen_core::history::History;
use orloj_jepsen_core::verdict::Validity;
use orloj_wire::sign::Secret;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Clients of the load.
const CLIENTS: u32 = 6;
/// How long the load goes on.
const LOAD: Duration = Duration::from_secs(5);
/// For everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("ORLOJ_BIN").map(PathBuf::from);
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().and_then(Path::parent).map(|profile| profile.join("orloj"));
    named.or(beside).filter(|path| path.is_file())
}

/// A demo cluster; it ends with the value.
struct Cluster {
    supervisor: Child,
    ready: Value,
    dir: TempDir,
}

impl Cluster {
    /// Three replicas and one executor, with more words for `orloj dev`.
    async fn start(binary: &Path, more: &[&str]) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let ready_file = dir.path().join("ready.json");
        let log = File::create(dir.path().join("supervisor.log")).unwrap();
        let supervisor = Command::new(binary)
            .args(["dev", "--base-port", "0", "--executors", "1", "--set", "scheduler.heartbeat-ms=500"])
            .args(more)
            .arg("--dir")
            .arg(dir.path())
            .arg("--ready-file")
            .arg(&ready_file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut cluster = Cluster { supervisor, ready: Value::Null, dir };
        until("the demo cluster is ready", async || {
            let Ok(text) = fs::read_to_string(&ready_file) else { return false };
            cluster.ready = serde_json::from_str(&text).unwrap();
            true
        })
        .await;
        cluster
    }

    fn replicas(&self) -> &Vec<Value> {
        self.ready["replicas"].as_array().unwrap()
    }

    fn api(&self, place: usize) -> (String, SocketAddr) {
        let url = self.replicas()[place]["api"].as_str().unwrap();
        (format!("n{}", place + 1), url.strip_prefix("http://").unwrap().parse().unwrap())
    }

    fn secret(&self) -> Secret {
        let text = fs::read_to_string(self.dir.path().join("secrets/executors.secret")).unwrap();
        Secret::new(text.trim()).unwrap()
    }

    fn client(&self, number: u32, recorder: Recorder) -> Client {
        let (node, address) = self.api(number as usize % self.replicas().len());
        let text = |name: &str| self.ready[name].as_str().unwrap().to_owned();
        let credentials = Credentials {
            audience: "default".to_owned(),
            access_key: text("accessKey"),
            secret: Secret::new(text("secretKey")).unwrap(),
        };
        Client::new(number, CLIENTS, &node, address, credentials, recorder)
    }

    fn profile(&self, listen: SocketAddr) -> Profile {
        let replicas = (1..).zip(self.replicas());
        let replicas = replicas.map(|(number, replica)| {
            (replica["internal"].as_str().unwrap().to_owned(), format!("n{number}"))
        });
        Profile {
            id: "e1".to_owned(),
            address: listen.to_string(),
            handlers: vec!["mock".to_owned()],
            slots: 16,
            queue: 16,
            weight: 100,
            zone: None,
            labels: BTreeMap::new(),
            replicas: replicas.collect(),
            seed: 1,
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Its children die with it.
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn history(dir: &Path) -> History {
    let mut events: Vec<Event> = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let file = File::open(entry.unwrap().path()).unwrap();
        events.extend(History::read_lines(BufReader::new(file)).unwrap());
    }
    History::merge(events)
}

/// An address of loopback that was free a moment ago.
async fn free_address() -> SocketAddr {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_and_a_mock_executor_leave_a_whole_history() {
    let Some(binary) = binary() else {
        eprintln!("skipped: there is no binary `orloj`; name one in ORLOJ_BIN");
        return;
    };
    let cluster = Cluster::start(&binary, &[]).await;
    let runs = tempfile::tempdir().unwrap();
    let recorder = |src: &str| Recorder::create(runs.path(), src).unwrap();
    let stop = CancellationToken::new();

    let listen = free_address().await;
    let executor = Executor::new(cluster.profile(listen), recorder("executor-e1"));
    let place = Place { listen, secret: cluster.secret(), replicas: BTreeMap::new() };
    let life = tokio::spawn(executor::run(executor.clone(), place, stop.clone()));
    until("the executor is registered", async || executor.is_registered()).await;

    let mix = Mix { longest_delay_ms: 2_000, ..Mix::default() };
    let load = Load::new(11, "t", mix, CLIENTS);
    let over = CancellationToken::new();
    let mut clients = JoinSet::new();
    for number in 1..=CLIENTS {
        let client = cluster.client(number, recorder(&format!("client-{number}")));
        clients.spawn(client.run(load.clone(), over.clone()));
    }
    sleep(LOAD / 2).await;
    executor.kill();
    executor.start(false);
    executor.set_vices(Vices { report_twice: 0.5, broken_answer: 0.2, ..Vices::default() });
    sleep(LOAD / 2).await;
    executor.set_vices(Vices::default());
    over.cancel();
    clients.join_all().await;
    until("the executor holds nothing", async || executor.holds() == 0).await;

    let last = cluster.client(1, recorder("client-last"));
    let acknowledged = load.acknowledged();
    let missed =
        final_reads::gets(acknowledged.clone(), vec![last], Instant::now() + PATIENCE).await.unwrap();
    stop.cancel();
    life.await.unwrap().unwrap();
    drop((executor, load));
    assert_eq!(missed, 0);
    let history = history(runs.path());
    exercised(&history, &acknowledged);
    let report = check::judge(&history, &check::Options::default());
    let wrong: Vec<_> = report.judgements.iter().filter(|word| word.validity == Validity::Invalid).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn exercised(history: &History, acknowledged: &BTreeSet<String>) {
    let count = |holds: fn(&Event) -> bool| history.events().iter().filter(|event| holds(event)).count();
    let submitted = count(|event| event.kind == Kind::Ok && matches!(event.what, What::Submit(_)));
    assert!(submitted >= acknowledged.len() && acknowledged.len() > 50, "{submitted} submissions");
    let finals: BTreeSet<_> = history
        .events()
        .iter()
        .filter(|event| matches!(&event.what, What::Get(get) if get.last && get.answer.is_some()))
        .filter_map(|event| event.key.clone())
        .collect();
    assert_eq!(&finals, acknowledged, "every acknowledged task is there at last");
    assert!(count(|event| matches!(&event.what, What::Recv(recv) if recv.verdict == "accepted")) > 50);
    assert!(count(|event| matches!(event.what, What::Start(_))) > 50);
    assert!(count(|event| matches!(&event.what, What::Finish(end) if end.outcome == "succeeded")) > 20);
    assert!(count(|event| matches!(&event.what, What::ReportAcked(ack) if ack.verdict == "accepted")) > 50);
    assert!(count(|event| matches!(&event.what, What::ReportAcked(ack) if ack.verdict == "repeated")) > 0);
    assert_eq!(count(|event| matches!(event.what, What::ExecutorUp(_))), 2);
    let refused: BTreeSet<_> = history
        .events()
        .iter()
        .filter(|event| event.kind == Kind::Fail)
        .filter_map(|event| event.err.clone())
        .collect();
    assert!(refused.iter().all(|code| code == "task_already_terminal"), "{refused:?}");
    assert_eq!(count(|event| event.kind == Kind::Info), 0, "nothing disturbed the cluster");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_probed_and_its_table_is_read() {
    let Some(binary) = binary() else {
        eprintln!("skipped: there is no binary `orloj`; name one in ORLOJ_BIN");
        return;
    };
    let debug = free_address().await;
    let option = format!("listen-debug={debug}");
    let cluster = Cluster::start(&binary, &["--replicas", "1", "--set", &option]).await;
    let runs = tempfile::tempdir().unwrap();
    let recorder = |src: &str| Recorder::create(runs.path(), src).unwrap();
    let stop = CancellationToken::new();
    let probes = recorder("probe-n1");
    let (life, watch) = (Arc::new(AtomicU64::new(3)), stop.clone());
    let prober = async move { prober::run("n1", debug, life, probes, |_| (), watch).await };
    let prober = tokio::spawn(prober);
    let load = Load::new(12, "p", Mix { handlers: vec!["echo".to_owned()], ..Mix::default() }, 1);
    let over = CancellationToken::new();
    let client = tokio::spawn(cluster.client(1, recorder("client-1")).run(load.clone(), over.clone()));
    until("enough is acknowledged", async || load.acknowledged().len() > 20).await;
    over.cancel();
    client.await.unwrap();
    let supervisor = recorder("table-n1");
    final_reads::table("n1", debug, &supervisor, None, Instant::now() + PATIENCE).await.unwrap();
    stop.cancel();
    prober.await.unwrap();
    let acknowledged = load.acknowledged();
    drop((supervisor, load));

    let history = history(runs.path());
    let probes: Vec<_> = history.events().iter().filter(|event| event.src == "probe-n1").collect();
    let wrong = |event: &&&Event| match &event.what {
        What::Probe(probe) => probe.life != 3 || probe.role != "leader" || probe.wall_offset_ms.abs() > 1_000,
        _ => true,
    };
    assert!(!probes.is_empty() && !probes.iter().any(|event| wrong(&event)), "{probes:#?}");
    let mut rows = BTreeSet::new();
    let mut told = None;
    for event in history.events() {
        match &event.what {
            What::FinalTask(row) => {
                assert!(row.label.as_deref().is_some_and(|label| label.starts_with("p-")), "{row:?}");
                rows.insert(row.task.task_id.clone());
            }
            What::FinalTable(table) => told = Some(table.tasks),
            _ => {}
        }
    }
    assert_eq!((&rows, told), (&acknowledged, Some(rows.len() as u64)));
}

#[tokio::test]
async fn the_sink_applies_each_effect_once_unless_it_is_told_to_forget() {
    use hyper::Method;
    use orloj_jepsen::agents::http::{Ask, Connection, Failure};

    let runs = tempfile::tempdir().unwrap();
    let sink = Sink::new("sink", 1, None, Recorder::create(runs.path(), "sink").unwrap());
    let address = free_address().await;
    let stop = CancellationToken::new();
    let server = tokio::spawn(sink.clone().run(address, stop.clone()));
    let ask = |key: &str| Ask {
        method: Method::POST,
        path: "/effect".to_owned(),
        query: format!("label=l-{key}&key={key}"),
        ..Ask::default()
    };
    let mut connection = Connection::new(address);
    let second = Duration::from_secs(5);
    until("the sink listens", async || connection.ask(ask("a"), second).await.is_ok()).await;
    assert_eq!(connection.ask(ask("a"), second).await.unwrap().status, 200);
    assert_eq!(sink.effects(), 1);
    sink.set_vices(SinkVices { silent: 1.0, ..SinkVices::default() });
    let silence = connection.ask(ask("b"), Duration::from_millis(100)).await;
    assert!(matches!(silence, Err(Failure::Lost(_))));
    assert_eq!(sink.effects(), 2, "it took effect without a word");
    sink.set_vices(SinkVices { down: true, ..SinkVices::default() });
    until("the sink is down", async || {
        matches!(Connection::new(address).ask(ask("c"), second).await, Err(Failure::NotSent(_)))
    })
    .await;
    sink.set_vices(SinkVices { errors: 1.0, ..SinkVices::default() });
    until("the sink is up and fails", async || {
        Connection::new(address).ask(ask("d"), second).await.is_ok_and(|reply| reply.status == 500)
    })
    .await;
    sink.set_vices(SinkVices { slow_body: Duration::from_millis(200), ..SinkVices::default() });
    let before = Instant::now();
    assert_eq!(Connection::new(address).ask(ask("e"), second).await.unwrap().status, 200);
    assert!(before.elapsed() >= Duration::from_millis(200));
    let applied = sink.effects();
    sink.set_vices(SinkVices::default());
    assert_eq!(Connection::new(address).ask(ask("a"), second).await.unwrap().status, 200);
    assert_eq!(sink.effects(), applied, "a repetition is answered and not applied");
    sink.set_vices(SinkVices { forgetful: true, ..SinkVices::default() });
    assert_eq!(Connection::new(address).ask(ask("a"), second).await.unwrap().status, 200);
    assert_eq!(sink.effects(), applied + 1);
    stop.cancel();
    server.await.unwrap().unwrap();
    drop(sink);
    let history = history(runs.path());
    let of_key = |wanted: &str, was: fn(&Effect) -> bool| {
        let effects = history.events().iter().filter_map(|event| match &event.what {
            What::Effect(effect) if effect.business_key.as_deref() == Some(wanted) => Some(effect),
            _ => None,
        });
        effects.filter(|effect| was(effect)).count()
    };
    for key in ["b", "e"] {
        assert_eq!(of_key(key, |effect| effect.took), 1, "{key} is applied once");
    }
    assert!(of_key("a", |effect| effect.repeated && !effect.took) >= 1, "a repetition is written down");
    assert_eq!(of_key("a", |effect| effect.took), 2, "and a second effect as one");
    let report = check::judge(&history, &check::Options::default());
    let word = report.judgements.iter().find(|judgement| judgement.id == "B1").unwrap();
    assert_eq!(word.validity, Validity::Invalid, "two effects under one key are noticed");
}

#[tokio::test]
async fn the_sink_writes_down_each_callback_with_its_signature_and_its_answer() {
    use hyper::Method;
    use orloj_jepsen::agents::http::{Ask, Connection};
    use orloj_wire::callback::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, WebhookSecret, sign};

    let runs = tempfile::tempdir().unwrap();
    let secret = WebhookSecret::of([7; 32]);
    let recorder = Recorder::create(runs.path(), "sink").unwrap();
    let sink = Sink::new("sink", 1, Some(secret.clone()), recorder);
    let address = free_address().await;
    let stop = CancellationToken::new();
    let server = tokio::spawn(sink.clone().run(address, stop.clone()));
    let ask = |secret: &WebhookSecret| {
        let body =
            br#"{"type":"task.failed","data":{"taskId":"tsk_1","status":"FAILED","version":5}}"#.to_vec();
        let signature = sign(std::slice::from_ref(secret), "evt_1", 1_800_000_000, &body);
        let headers = [
            (ID_HEADER, "evt_1".to_owned()),
            (TIMESTAMP_HEADER, "1800000000".to_owned()),
            (SIGNATURE_HEADER, signature),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).into();
        Ask { method: Method::POST, path: "/hook".to_owned(), body, headers, ..Ask::default() }
    };
    let mut connection = Connection::new(address);
    let second = Duration::from_secs(5);
    let other = WebhookSecret::of([8; 32]);
    until("the sink listens", async || connection.ask(ask(&other), second).await.is_ok()).await;
    sink.set_vices(SinkVices { errors: 1.0, ..SinkVices::default() });
    assert_eq!(connection.ask(ask(&secret), second).await.unwrap().status, 500);
    sink.set_vices(SinkVices::default());
    assert_eq!(connection.ask(ask(&secret), second).await.unwrap().status, 200);
    stop.cancel();
    server.await.unwrap().unwrap();
    drop(sink);
    let history = history(runs.path());
    let callbacks = history.events().iter().filter_map(|event| match &event.what {
        What::Callback(callback) => Some((callback.signed, callback.answered, callback.version)),
        _ => None,
    });
    assert_eq!(callbacks.collect::<Vec<_>>(), [(false, 200, 5), (true, 500, 5), (true, 200, 5)]);
}
