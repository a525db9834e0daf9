//! Callbacks through the death of leaders: at least once, at most four sends, none before the end of its task.

use std::collections::BTreeMap;
use std::time::Duration;

use orloj_client::Client;
use orloj_client::callback::Receiver;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::until;
use orloj_tests::setup::{pick, seeded};
use orloj_tests::sink::{Arrived, Sink};
use orloj_wire::rest::Submit;
use rand::RngExt as _;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(180);

/// Most are taken at once, some only by the second or the third send.
fn usual(count: usize) -> u16 {
    if count == 1 { 204 } else { 200 }
}

/// Never satisfied.
fn never(_: usize) -> u16 {
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
    let sink = Sink::start(usual).await;
    let deaf = Sink::start(never).await;
    let callback_ports = vec![sink.port, deaf.port];
    let cluster = Cluster::start(Setup { callback_ports, ..Setup::default() }).await;
    let client = cluster.client();
    let receiver = Receiver::new(&cluster.ready().webhook_secret).unwrap();
    let mut tasks = Vec::new();
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
                submit(&client, &deaf.url(), &format!("deaf-{key}"), json!(null)).await;
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
    check(&receiver, &sink.arrived());
    check(&receiver, &deaf.arrived());
    assert_eq!(sink.arrived().len(), tasks.len(), "nothing else was sent");
    cluster.agree(3).await;
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
