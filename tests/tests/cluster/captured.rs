//! What an executor has said, captured on a network without TLS and said again, on real replicas.

use std::fs;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::until;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::sign::{Label, Outgoing, Secret};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
/// An executor that nobody runs: what it says is made here.
pub(crate) const GHOST: &str = "ghost";

/// A signed call of the executor, as somebody on the way has seen it.
pub(crate) struct Captured {
    path: String,
    headers: [(&'static str, String); 4],
    body: String,
}

impl Captured {
    fn of(cluster: &Cluster, call: &str, body: &Value) -> Captured {
        let secret = fs::read_to_string(cluster.dir().join("secrets/executors.secret")).unwrap();
        let (path, body) = (format!("/internal/v1/executors/{call}"), body.to_string());
        let outgoing = Outgoing {
            label: Label::Executor,
            audience: "scheduler",
            access_key: GHOST,
            method: "POST",
            path: &path,
            query: "",
            idempotency_key: "",
            body: body.as_bytes(),
        };
        let now_s = SystemClock::new().wall_ms().div_euclid(1000);
        let headers = outgoing.headers(&Secret::new(secret.trim()).unwrap(), now_s);
        Captured { path, headers, body }
    }

    /// Signed anew until the leader of the moment has taken it, its place, and the answer.
    pub(crate) async fn taken(cluster: &Cluster, call: &str, body: &Value) -> (Captured, usize, Value) {
        let mut taken = None;
        until(&format!("{call} is taken"), PATIENCE, async || {
            let place = cluster.leader().await;
            let captured = Captured::of(cluster, call, body);
            let (status, said) = captured.sent(cluster, place).await;
            taken = matches!(status, 200 | 204).then_some((captured, place, said));
            taken.is_some()
        })
        .await;
        taken.unwrap()
    }

    /// The status, and the body where it is JSON.
    async fn sent(&self, cluster: &Cluster, place: usize) -> (u16, Value) {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let url = format!("http://{}{}", cluster.ready().replicas[place].internal, self.path);
        let mut call = http.post(url).header("content-type", "application/json").body(self.body.clone());
        for (name, value) in &self.headers {
            call = call.header(*name, value);
        }
        let answer = call.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
    }

    /// Nobody takes it any more; while leaders change nobody may be there to ask.
    async fn is_spent(&self, cluster: &Cluster, place: usize) {
        until(&format!("replica {place} refuses {} a second time", self.path), PATIENCE, async || {
            let (status, said) = self.sent(cluster, place).await;
            assert_ne!(status, 200, "{} was taken again: {said}", self.path);
            (status, said["code"].as_str()) == (401, Some("nonce_replayed"))
        })
        .await;
    }
}

async fn has_left(cluster: &Cluster) {
    until("the ghost has left", PATIENCE, async || {
        let Ok(all) = cluster.client().executors().await else { return false };
        all.executors.iter().any(|one| one.executor_id == GHOST && one.state == "left")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_message_of_an_executor_is_taken_once_whoever_leads() {
    let cluster = Cluster::start(Setup::default()).await;
    let register = json!({"executorId": GHOST, "incarnation": 1, "address": "127.0.0.1:1", "handlers": [GHOST],
        "slots": 1, "queue": 0, "weight": 100, "version": "0", "holding": []});
    let (register, _, registered) = Captured::taken(&cluster, "register", &register).await;
    let beat = json!({"executorId": GHOST, "incarnation": 1, "round": registered["round"], "holding": [],
        "freeSlots": 1, "queued": 0, "cpuPct": 0.0});
    let (beat, leader, acknowledged) = Captured::taken(&cluster, "heartbeat", &beat).await;
    assert_eq!(acknowledged["register"], json!(false), "{acknowledged}");
    beat.is_spent(&cluster, leader).await;
    let leave = json!({"executorId": GHOST, "incarnation": 1});
    let (_, leader, _) = Captured::taken(&cluster, "leave", &leave).await;
    has_left(&cluster).await;
    register.is_spent(&cluster, leader).await;
    // The next leader has a memory of its own, and the same log.
    let next = (leader + 1) % 3;
    cluster.admin().transfer(cluster.ready().replicas[next].id).await.unwrap();
    register.is_spent(&cluster, next).await;
    // A heartbeat is of a round that is over; its sender has left.
    let (status, said) = beat.sent(&cluster, next).await;
    assert!(status != 200 || said["register"] == json!(true), "{said}");
    has_left(&cluster).await;
}
