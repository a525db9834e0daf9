//! The wall clock of the leader is stepped while its monotonic clock goes on.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use orloj_client::Client;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::{History, faults};
use orloj_tests::load::{Load, outcomes};
use orloj_tests::setup::pick;
use orloj_wire::clock::{Clock, SystemClock};
use orloj_wire::rest::{Submit, Task};

const PATIENCE: Duration = Duration::from_secs(60);
const HOUR_S: i64 = 3_600;
/// Waits longer than the test needs, and not so long that a step of an hour does not make it due.
const LATER_MS: u64 = 1_200_000;
/// What may become due in one tick of 10 ms.
const PER_TICK: usize = 20;

/// A cluster in which the wall clock of each replica can be stepped.
struct Stepped {
    cluster: Cluster,
    clocks: Vec<File>,
}

/// The true time and a step of it: callers sign with the clock of the cluster that they call.
struct Offset(SystemClock, i64);

impl Clock for Offset {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms() + self.1 * 1000
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

impl Stepped {
    async fn start() -> Stepped {
        let set = vec!["scheduler.due-per-tick=20"];
        // Slots to spare: what waits for one is not bounded by the tick when it goes out.
        let cluster = Cluster::start(Setup { slots: Some(1_000), set, ..Setup::default() }).await;
        let library = compile(cluster.dir());
        let mut clocks = Vec::new();
        for place in 0..3 {
            let path = cluster.dir().join(format!("clock-{place}"));
            fs::write(&path, 0_i64.to_ne_bytes()).unwrap();
            clocks.push(File::options().write(true).open(&path).unwrap());
            let (library, path) = (library.display().to_string(), path.display().to_string());
            let name = cluster.replica(place);
            cluster.kill(&name).await;
            cluster.start_again(&name, &[("LD_PRELOAD", &library), ("ORLOJ_TEST_CLOCK", &path)]);
            cluster.all_answer().await;
        }
        Stepped { cluster, clocks }
    }

    /// Steps the wall clock of one replica, away from the true time.
    fn step(&self, place: usize, seconds: i64) {
        self.clocks[place].write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// A client whose clock is as far from the true time.
    fn client(&self, seconds: i64) -> Client {
        self.cluster.client_with_clock(&[0, 1, 2], Arc::new(Offset(SystemClock::new(), seconds)))
    }
}

/// Compiles the library that is preloaded into the replicas.
fn compile(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("clock/step.c");
    let library = dir.join("step.so");
    let compiler =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).status();
    assert!(compiler.expect("a C compiler is installed").success());
    library
}

async fn wait_later(client: &Client, name: &str, count: usize) -> History {
    let later = |_: &str, _| {
        let mut task = Submit::new("echo", serde_json::json!({}));
        task.delay_ms = Some(LATER_MS);
        task
    };
    Load::new(client.clone(), name, later).start(count).finish().await
}

/// New tasks run, whatever the clock says.
async fn work(client: &Client, name: &str) {
    let make = |_: &str, _| Submit::new("echo", serde_json::json!({}));
    let history = Load::new(client.clone(), name, make).start(50).finish().await;
    succeeded(&outcomes(client, &history, PATIENCE).await);
}

fn succeeded(tasks: &[Task]) {
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults, for instance {:?}", faults.len(), &faults[..faults.len().min(3)]);
}

fn granted(task: &Task) -> i64 {
    task.attempts.as_ref().expect("a whole task")[0].granted_at.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_starts_nothing_early_and_stalls_nothing() {
    let stepped = Stepped::start().await;
    let waiting = wait_later(&stepped.client(0), "later", 100).await;
    let leader = stepped.cluster.leader().await;
    stepped.step(leader, -HOUR_S);
    let client = stepped.client(0);
    work(&client, "after").await;
    for (_, id) in waiting.tasks() {
        let task = client.get(id).await.unwrap();
        assert_eq!(task.status, "PENDING", "started early: {task:?}");
    }
    stepped.step(leader, 0);
    work(&stepped.client(0), "true-again").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_forward_neither_bursts_nor_stalls_figures() {
    let stepped = Stepped::start().await;
    let count = pick(500, 5_000);
    let waiting = wait_later(&stepped.client(0), "later", count).await;
    let leader = stepped.cluster.leader().await;
    stepped.step(leader, HOUR_S);
    let client = stepped.client(0);
    work(&client, "after").await;
    let tasks = outcomes(&client, &waiting, PATIENCE).await;
    succeeded(&tasks);
    assert!(tasks.iter().all(|task| granted(task) >= task.due_at.0), "granted before it was due");
    bounded(tasks.iter().map(granted).collect());
    // Whoever leads next goes on with the cluster's time, whatever its own clock says.
    stepped.cluster.kill(&stepped.cluster.replica(leader)).await;
    work(&stepped.client(0), "next-leader").await;
}

/// What was overdue went out smoothed.
fn bounded(mut grants: Vec<i64>) {
    const WINDOW_MS: i64 = 100;
    grants.sort_unstable();
    let within =
        |at: usize| grants[at..].iter().take_while(|instant| **instant < grants[at] + WINDOW_MS).count();
    let densest = (0..grants.len()).map(within).max().unwrap_or(0);
    let took = grants[grants.len() - 1] - grants[0];
    println!(
        "figures: {} overdue tasks went out within {took} ms, at most {densest} in {WINDOW_MS} ms",
        grants.len()
    );
    // A loop that is held up by other work makes up for the ticks that it owes: half as many again.
    let ticks = usize::try_from(WINDOW_MS / 10 * 3 / 2).expect("a small number");
    assert!(densest <= ticks * PER_TICK, "{densest} grants in {WINDOW_MS} ms");
}
