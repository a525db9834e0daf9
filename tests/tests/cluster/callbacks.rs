//! Callbacks through the death of leaders: at least once, at most four sends, none before the end of its task.

use std::collections::BTreeMap;
use std::time::Duration;

use orloj_client::callback::Receiver;
use orloj_client::{Client, Credentials, Options};
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::until;
use orloj_tests::setup::{long, pick, seeded};
use orloj_tests::sink::{Arrived, Sink};
use orloj_wire::callback::HostEntry;
use orloj_wire::rest::{KeyLimits, NewKey, PutCaller, Submit};
use rand::RngExt as _;
use serde_json::json;

use crate::captured::{Captured, GHOST};

const PATIENCE: Duration = Duration::from_secs(180);
/// Until a callback has failed for good: four sends, the last of them about 215 s after the first.
const GIVEN_UP: Duration = Duration::from_secs(420);

/// Takes whatever comes.
fn usual(_: &str, count: usize) -> u16 {
    if count == 1 { 204 } else { 200 }
}

/// Of one callback in eight the first send fails.
fn stumbling(id: &str, count: usize) -> u16 {
    if count <= in_vain(id) { 500 } else { usual(id, count) }
}

/// How many sends of a callback fail.
fn in_vain(id: &str) -> usize {
    usize::from(id.bytes().map(usize::from).sum::<usize>().is_multiple_of(8))
}

/// Never satisfied.
fn never(_: &str, _: usize) -> u16 {
    500
}

async fn submit(client: &Client, url: &str, key: &str, params: serde_json::Value) -> String {
    let mut task = Submit::new("echo", params);
    task.callback_url = Some(url.to_owned());
    client.submit(&task, Some(key)).await.unwrap().task_id
}

fn event(task: &str) -> String {
    task.replacen("tsk_", "evt_", 1)
}

/// Every send is signed, speaks of its own task, and of one that has ended.
fn check(receiver: &Receiver, arrived: &BTreeMap<String, Vec<Arrived>>) {
    for (id, sends) in arrived {
        assert!(sends.len() <= 4, "{id} was sent {} times", sends.len());
        for send in sends.iter().filter(|send| !send.body.is_empty()) {
            let event = receiver.check(&send.id, &send.timestamp, &send.signature, &send.body).unwrap();
            assert_eq!(&event.data.task_id.replacen("tsk_", "evt_", 1), id);
            assert_eq!((event.kind.as_str(), event.data.status.as_str()), ("task.succeeded", "SUCCESS"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b113_callbacks_survive_the_death_of_leaders() {
    let (kills, count) = pick((2, 60), (10, 500));
    let mut chance = seeded("callbacks");
    let sink = Sink::start(stumbling).await;
    let deaf = Sink::start(never).await;
    let callback_ports = vec![sink.port, deaf.port];
    let cluster = Cluster::start(Setup { callback_ports, ..Setup::default() }).await;
    let client = cluster.client();
    let receiver = Receiver::new(&cluster.ready().webhook_secret).unwrap();
    let (mut tasks, mut unheard) = (Vec::new(), Vec::new());
    for round in 0..kills {
        let at = chance.random_range(count / 4..count);
        println!("round {round}: the leader dies after {at} of {count} submissions");
        for number in 0..count {
            if number == at {
                let leader = cluster.replica(cluster.leader().await);
                cluster.kill(&leader).await;
                cluster.start_again(&leader, &[]);
            }
            let key = format!("{round}-{number}");
            tasks.push(submit(&client, &sink.url(), &key, json!(number)).await);
            if number % 10 == 0 {
                unheard.push(submit(&client, &deaf.url(), &format!("deaf-{key}"), json!(null)).await);
            }
        }
        cluster.all_answer().await;
    }
    until("every callback has arrived", PATIENCE, async || {
        let arrived = sink.arrived();
        tasks.iter().all(|task| arrived.contains_key(&event(task)))
    })
    .await;
    for task in &tasks {
        until("the callback is known to be delivered", PATIENCE, async || {
            let found = client.callbacks(task).await.unwrap().callback.unwrap();
            found.state == "delivered"
        })
        .await;
    }
    if long() {
        all_are_given_up(&client, &unheard).await;
    }
    let arrived = sink.arrived();
    check(&receiver, &arrived);
    check(&receiver, &deaf.arrived());
    assert_eq!(arrived.len(), tasks.len(), "nothing else was sent");
    let ids: Vec<String> = tasks.iter().map(|task| event(task)).collect();
    assert!(ids.iter().any(|id| in_vain(id) > 0), "a send failed");
    for id in ids {
        let sends = arrived[&id].len();
        assert!(sends > in_vain(&id), "{id} was sent {sends} times");
    }
    cluster.agree(3).await;
}

/// Each has failed after the fourth send, and not before.
async fn all_are_given_up(client: &Client, tasks: &[String]) {
    for task in tasks {
        until("the callback is given up", GIVEN_UP, async || {
            let found = client.callbacks(task).await.unwrap().callback.unwrap();
            assert_ne!(found.state, "delivered");
            assert!(
                found.state != "failed" || found.sends == 4,
                "{task} was given up after {} sends",
                found.sends
            );
            found.state == "failed"
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_can_be_delivered_again_and_shows_its_sends() {
    let sink = Sink::start(usual).await;
    let cluster = Cluster::start(Setup { callback_ports: vec![sink.port], ..Setup::default() }).await;
    let client = cluster.client();
    let task = submit(&client, &sink.url(), "again", json!({})).await;
    let delivered = async |sends: usize| {
        until("the callback is delivered", PATIENCE, async || {
            let found = client.callbacks(&task).await.unwrap();
            found.callback.unwrap().state == "delivered" && found.sends.len() == sends
        })
        .await;
    };
    delivered(1).await;
    client.redeliver(&task).await.unwrap();
    delivered(2).await;
    let found = client.callbacks(&task).await.unwrap();
    let seen: Vec<_> = found.sends.iter().map(|send| (send.delivery, send.number, send.status)).collect();
    assert_eq!(seen, [(1, 1, Some(204)), (2, 1, Some(200))]);
    assert_eq!(sink.arrived()[&event(&task)].len(), 2);
    let shown = client.get(&task).await.unwrap().callback.unwrap();
    assert_eq!((shown.state.as_str(), shown.sends), ("delivered", 1));
    // Elsewhere on this machine it may not go.
    let mut elsewhere = Submit::new("echo", json!({}));
    for url in ["http://localhost:1/", "http://127.0.0.1:8080/", "https://example.com/"] {
        elsewhere.callback_url = Some(url.to_owned());
        let error = client.submit(&elsewhere, None).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.as_str()), Some("callback_url_not_allowed"), "{url}");
    }
}

/// A client of a new caller whose callbacks may go to these ports of this machine.
async fn caller(cluster: &Cluster, name: &str, ports: Vec<u16>) -> Client {
    let admin = cluster.admin();
    let host = HostEntry {
        host: "localhost".into(),
        ports,
        plain_http: true,
        allow_cidrs: vec!["127.0.0.0/8".into()],
    };
    let limits = KeyLimits { submits_per_s: 1_000.0, submits_burst: 1_000, ..KeyLimits::default() };
    let limits = KeyLimits { requests_per_s: 1_000.0, requests_burst: 1_000, ..limits };
    let settings = PutCaller { callback_hosts: vec![host], limits, ..PutCaller::default() };
    admin.put_caller(name, &settings).await.unwrap();
    admin.add_webhook_secret(name).await.unwrap();
    let key = admin.add_key(name, &NewKey::default()).await.unwrap();
    let credentials = Credentials::new(key.access_key, key.secret_key).unwrap();
    let urls = cluster.ready().replicas.iter().map(|replica| &replica.api);
    Client::new(urls, credentials, Options::default()).unwrap()
}

/// Never answers.
fn silent(_: &str, _: usize) -> u16 {
    0
}

#[tokio::test(flavor = "multi_thread")]
async fn b114_a_slow_receiver_holds_up_no_other_caller() {
    let (slow, quick) = pick((100, 50), (2_000, 50));
    let (hole, sink) = (Sink::start(silent).await, Sink::start(usual).await);
    let cluster = Cluster::start(Setup { callback_ports: vec![hole.port], ..Setup::default() }).await;
    let (greedy, modest) = (cluster.client(), caller(&cluster, "modest", vec![sink.port]).await);
    let mut held_up = Vec::new();
    for number in 0..slow {
        held_up.push(submit(&greedy, &hole.url(), &format!("slow-{number}"), json!(number)).await);
    }
    let mut tasks = Vec::new();
    for number in 0..quick {
        tasks.push(submit(&modest, &sink.url(), &format!("quick-{number}"), json!(number)).await);
    }
    until("every callback of the other has arrived", PATIENCE, async || {
        let arrived = sink.arrived();
        tasks.iter().all(|task| arrived.contains_key(&event(task)))
    })
    .await;
    // Nobody waited for the slow one: most of what it was to be sent has not been sent yet.
    assert!(hole.arrived().len() < held_up.len(), "{} arrived", hole.arrived().len());
}

/// A task has one address: what another one's receiver does is none of its business.
#[tokio::test(flavor = "multi_thread")]
async fn b116_a_receiver_that_fails_makes_no_healthy_one_hear_twice() {
    let (deaf, sink) = (Sink::start(never).await, Sink::start(usual).await);
    let callback_ports = vec![deaf.port, sink.port];
    let cluster = Cluster::start(Setup { callback_ports, ..Setup::default() }).await;
    let client = cluster.client();
    let (mut unheard, mut heard) = (Vec::new(), Vec::new());
    for number in 0..10 {
        unheard.push(submit(&client, &deaf.url(), &format!("deaf-{number}"), json!(number)).await);
        heard.push(submit(&client, &sink.url(), &format!("healthy-{number}"), json!(number)).await);
    }
    until("those that fail are sent again", PATIENCE, async || {
        let arrived = deaf.arrived();
        unheard.iter().all(|task| arrived.get(&event(task)).is_some_and(|sends| sends.len() > 1))
    })
    .await;
    let arrived = sink.arrived();
    for task in &heard {
        assert_eq!(arrived[&event(task)].len(), 1, "{task}");
    }
}

/// At the submission; the send itself refuses them in the next test.
#[tokio::test(flavor = "multi_thread")]
async fn b117_the_cluster_is_not_made_to_call_itself() {
    let sink = Sink::start(usual).await;
    let cluster = Cluster::start(Setup::default()).await;
    let ready = cluster.ready();
    let port = |address: &str| address.rsplit(':').next().unwrap().parse().unwrap();
    let own: Vec<u16> = [&ready.replicas[0].api, &ready.replicas[1].internal, &ready.executors[0].address]
        .map(|address| port(address))
        .into();
    let client = caller(&cluster, "inward", [own.clone(), vec![sink.port]].concat()).await;
    for port in own {
        let mut task = Submit::new("echo", json!({}));
        task.callback_url = Some(format!("http://localhost:{port}/openapi/v1/tasks"));
        let error = client.submit(&task, None).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.as_str()), Some("callback_url_not_allowed"), "{port}");
    }
    let task = submit(&client, &sink.url(), "outward", json!({})).await;
    until("what leads elsewhere on this machine arrives", PATIENCE, async || {
        sink.arrived().contains_key(&event(&task))
    })
    .await;
}

/// What leads to nobody of the cluster as it is submitted leads to one of its executors by the time of its send.
#[tokio::test(flavor = "multi_thread")]
async fn b117_no_callback_is_sent_to_who_has_joined_the_cluster_since_its_submission() {
    let sink = Sink::start(usual).await;
    let cluster = Cluster::start(Setup { callback_ports: vec![sink.port], ..Setup::default() }).await;
    let client = cluster.client();
    let mut later = Submit::new("echo", json!({}));
    later.callback_url = Some(sink.url());
    later.delay_ms = Some(3_600_000);
    let task = client.submit(&later, Some("later")).await.unwrap().task_id;
    let register = json!({"executorId": GHOST, "incarnation": 1, "address": format!("127.0.0.1:{}", sink.port),
        "handlers": [GHOST], "slots": 1, "queue": 0, "weight": 100, "version": "0", "holding": []});
    Captured::taken(&cluster, "register", &register).await;
    // Nothing else has an address for its end: what the leader knows of listeners is read at this send.
    client.cancel(&task).await.unwrap();
    until("the send is refused", PATIENCE, async || {
        let found = client.callbacks(&task).await.unwrap().callback.unwrap();
        assert_ne!(found.state, "delivered");
        found.state == "failed" && found.last_error_kind.as_deref() == Some("blocked")
    })
    .await;
    // The leader speaks to it as to an executor alone.
    assert!(!sink.arrived().contains_key(&event(&task)));
}
