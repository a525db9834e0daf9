//! What must not pass, on real replicas: captured requests at every replica, under the next leader, after an
//! installed snapshot and a restart of everything; forged ones; and more of them than a key may send.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::load::Load;
use orloj_tests::process::until;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::rest::{NewKey, PutCaller, Submit};
use orloj_wire::sign::{Label, Outgoing, SIGNATURE_HEADER, Secret};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::replica_data::SHORT_LOG;

const PATIENCE: Duration = Duration::from_secs(120);
/// The third submission of a key with the usual limits is too many when all come within so long.
const AT_ONCE: Duration = Duration::from_millis(300);

/// A signed request, as somebody on the way has seen it.
#[derive(Clone)]
struct Captured {
    method: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn signed(key: (&str, &str), method: &'static str, path: &'static str, body: &Value) -> Captured {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let outgoing = Outgoing {
        label: Label::Caller,
        audience: "default",
        access_key: key.0,
        method,
        path,
        query: "",
        idempotency_key: "",
        body: &body,
    };
    let now_s = SystemClock::new().wall_ms().div_euclid(1000);
    let headers = outgoing.headers(&Secret::new(key.1).unwrap(), now_s).into();
    Captured { method, path, headers, body }
}

/// The status and the code of the refusal, if it is one.
async fn send(cluster: &Cluster, place: usize, request: &Captured) -> (u16, String) {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().unwrap();
    let url = format!("{}{}", cluster.ready().replicas[place].api, request.path);
    let mut call = http.request(request.method.parse().unwrap(), url);
    for (name, value) in &request.headers {
        call = call.header(*name, value);
    }
    if !request.body.is_empty() {
        call = call.header("content-type", "application/json").body(request.body.clone());
    }
    let answer = call.send().await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

async fn is_spent(cluster: &Cluster, places: &[usize], request: &Captured) {
    for place in places {
        // While leaders change nobody may be there to ask.
        until(&format!("replica {place} refuses what was used"), PATIENCE, async || {
            let answer = send(cluster, *place, request).await;
            assert!(answer.0 != 200 && answer.0 != 202, "{} {} passed again", request.method, request.path);
            answer == (401, "nonce_replayed".to_owned())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_request_is_good_once_whoever_leads_and_whatever_is_started_again() {
    let mut cluster = Cluster::start(Setup { set: SHORT_LOG.to_vec(), ..Setup::default() }).await;
    let ready = cluster.ready().clone();
    let key = (ready.access_key.as_str(), ready.secret_key.as_str());
    let leader = cluster.leader().await;
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let last = cluster.probe(away).await.expect("the probe answers")["lastLog"].as_u64().unwrap();
    cluster.kill(&cluster.replica(away)).await;
    let write = signed(key, "POST", "/openapi/v1/tasks", &json!({"handler": "echo"}));
    let read = signed(key, "GET", "/openapi/v1/tasks", &Value::Null);
    let view = signed(key, "GET", "/openapi/v1/cluster", &Value::Null);
    let forged = Captured {
        headers: write
            .headers
            .iter()
            .map(|(name, value)| {
                (*name, if *name == SIGNATURE_HEADER { "0".repeat(64) } else { value.clone() })
            })
            .collect(),
        ..write.clone()
    };
    assert_eq!(send(&cluster, leader, &forged).await.0, 401);
    assert_eq!(send(&cluster, other, &forged).await.0, 401);
    assert_eq!(send(&cluster, other, &write).await.0, 202, "a forgery spends no nonce");
    assert_eq!(send(&cluster, other, &read).await.0, 200);
    assert_eq!(send(&cluster, leader, &view).await.0, 200);
    for request in [&write, &read, &view] {
        is_spent(&cluster, &[leader, other], request).await;
    }
    the_log_forgets(&cluster, leader, last).await;
    cluster.start_again(&cluster.replica(away), &[]);
    cluster.agree(3).await;
    let admin = cluster.admin();
    admin.transfer(ready.replicas[away].id).await.unwrap();
    until("the replica that was away leads", PATIENCE, async || cluster.leader().await == away).await;
    is_spent(&cluster, &[away, leader, other], &write).await;
    cluster.kill(&cluster.replica(away)).await;
    is_spent(&cluster, &[leader, other], &write).await;
    cluster.stop().await;
    cluster.start_on_the_same_folder().await;
    cluster.all_answer().await;
    is_spent(&cluster, &[0, 1, 2], &write).await;
}

/// Waits until the leader's log no longer has what a replica needs that has it up to `last`.
async fn the_log_forgets(cluster: &Cluster, leader: usize, last: u64) {
    let make = |_: &str, number| Submit::new("echo", json!({ "number": number, "fill": "x".repeat(500) }));
    let running = Load::new(cluster.client(), "fill", make).callers(4).start(usize::MAX);
    until("the log is cut", PATIENCE, async || {
        let probe = cluster.probe(leader).await;
        probe.is_some_and(|probe| probe["purged"].as_u64().is_some_and(|purged| purged > last + 50))
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_submission_at_once_is_too_many_over_three_replicas_and_forgeries_count_for_nothing() {
    let cluster = Cluster::start(Setup::default()).await;
    let admin = cluster.admin();
    let mut round = 0;
    until("three submissions came at once", PATIENCE, async || {
        // A new caller, whose buckets are full.
        round += 1;
        let caller = format!("shop-{round}");
        admin.put_caller(&caller, &PutCaller::default()).await.unwrap();
        let made = admin.add_key(&caller, &NewKey::default()).await.unwrap();
        let key = (made.access_key.as_str(), made.secret_key.as_str());
        let submit =
            |secret| signed((key.0, secret), "POST", "/openapi/v1/tasks", &json!({"handler": "echo"}));
        for number in 0..30 {
            let forged = send(&cluster, number % 3, &submit("not the secret of this key")).await;
            assert_eq!(forged, (401, "invalid_signature".to_owned()));
        }
        let began = Instant::now();
        let mut answers = Vec::new();
        for place in 0..3 {
            answers.push(send(&cluster, place, &submit(key.1)).await);
        }
        assert_eq!((answers[0].0, answers[1].0), (202, 202), "forgeries drain no bucket");
        let at_once = began.elapsed() < AT_ONCE;
        assert!(!at_once || answers[2] == (429, "rate_limited".to_owned()), "{answers:?}");
        at_once
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_cut_off_lets_no_key_in_that_was_disabled_meanwhile() {
    let cluster = Cluster::start(Setup::default()).await;
    let ready = cluster.ready().clone();
    let admin = cluster.admin();
    admin.put_caller("shop", &PutCaller::default()).await.unwrap();
    let made = admin.add_key("shop", &NewKey::default()).await.unwrap();
    let view = |key: (&str, &str)| signed(key, "GET", "/openapi/v1/cluster", &Value::Null);
    let (key, own) = (
        (made.access_key.as_str(), made.secret_key.as_str()),
        (ready.access_key.as_str(), ready.secret_key.as_str()),
    );
    let leader = cluster.leader().await;
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    assert_eq!(send(&cluster, away, &view(key)).await.0, 200);
    cluster.pause(&cluster.replica(away));
    admin.set_key(&made.access_key, false).await.unwrap();
    for place in [leader, other] {
        cluster.pause(&cluster.replica(place));
    }
    cluster.resume(&cluster.replica(away));
    // It may still have been told in time; if it was not, it must not guess.
    for _ in 0..3 {
        for request in [view(key), signed(key, "GET", "/openapi/v1/tasks", &Value::Null)] {
            let answer = send(&cluster, away, &request).await;
            assert!(
                answer == (503, "no_leader".to_owned()) || answer == (403, "access_key_disabled".to_owned()),
                "{} {answer:?}",
                request.path
            );
        }
    }
    until("it answers a key of its file by itself", PATIENCE, async || {
        send(&cluster, away, &view(own)).await.0 == 200
    })
    .await;
    for place in [leader, other] {
        cluster.resume(&cluster.replica(place));
    }
    until("it is told", PATIENCE, async || {
        let answer = send(&cluster, away, &view(key)).await;
        assert_ne!(answer.0, 200);
        answer == (403, "access_key_disabled".to_owned())
    })
    .await;
}
