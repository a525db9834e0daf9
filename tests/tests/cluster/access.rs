//! Callers and keys on real replicas, through the death of a leader and a restart of everything.

use std::fs;
use std::process::Command;
use std::time::Duration;

use orloj_client::{AuditQuery, Client, Credentials, Error, Options};
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::{binary, until};
use orloj_wire::rest::{KeyLimits, MadeKey, NewKey, PutCaller, Submit};
use serde_json::json;

fn client(cluster: &Cluster, place: usize, key: &MadeKey) -> Client {
    let credentials = Credentials::new(&key.access_key, &key.secret_key).unwrap();
    let options = Options { deadline: Duration::from_secs(30), ..Options::default() };
    Client::new([&cluster.ready().replicas[place].api], credentials, options).unwrap()
}

/// A caller that may submit as fast as it likes.
fn fast() -> PutCaller {
    let limits = KeyLimits { submits_per_s: 1_000.0, submits_burst: 1_000, ..KeyLimits::default() };
    PutCaller { limits, ..PutCaller::default() }
}

async fn submits(cluster: &Cluster, key: &MadeKey) {
    for place in 0..3 {
        client(cluster, place, key).submit(&Submit::new("echo", json!({})), None).await.unwrap();
    }
}

async fn is_refused(cluster: &Cluster, key: &MadeKey, code: &str) {
    for place in 0..3 {
        let refused = client(cluster, place, key).submit(&Submit::new("echo", json!({})), None).await;
        let found = refused.err().as_ref().and_then(Error::code).map(|code| code.as_str());
        assert_eq!(found, Some(code), "replica {place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_and_keys_survive_what_replicas_do_not() {
    let mut cluster = Cluster::start(Setup::default()).await;
    let admin = cluster.admin();
    admin.put_caller("shop", &fast()).await.unwrap();
    let first = admin.add_key("shop", &NewKey::default()).await.unwrap();
    let second = admin.add_key("shop", &NewKey::default()).await.unwrap();
    submits(&cluster, &first).await;
    let leader = cluster.replica(cluster.leader().await);
    cluster.kill(&leader).await;
    admin.set_key(&first.access_key, false).await.unwrap();
    cluster.start_again(&leader, &[]);
    cluster.all_answer().await;
    is_refused(&cluster, &first, "access_key_disabled").await;
    submits(&cluster, &second).await;
    cluster.agree(3).await;
    cluster.kill(&leader).await;
    cluster.stop().await;
    cluster.start_on_the_same_folder().await;
    cluster.all_answer().await;
    let admin = cluster.admin();
    is_refused(&cluster, &first, "access_key_disabled").await;
    submits(&cluster, &second).await;
    admin.delete_caller("shop").await.unwrap();
    is_refused(&cluster, &second, "invalid_signature").await;
    let audit = admin.audit(&AuditQuery::default()).await.unwrap();
    let mut actions: Vec<_> = audit.records.iter().map(|record| record.action.as_str()).collect();
    // A change whose answer died with the leader may have been asked for twice.
    actions.dedup();
    assert_eq!(actions, ["delete_caller", "disable_key", "create_key", "create_caller"]);
}

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_runs_no_more_than_it_may_under_any_leader() {
    let cluster = Cluster::start(Setup::default()).await;
    let admin = cluster.admin();
    admin.put_caller("shop", &PutCaller { max_running: Some(1), ..fast() }).await.unwrap();
    let key = admin.add_key("shop", &NewKey::default()).await.unwrap();
    let (shop, other) = (client(&cluster, 0, &key), cluster.client());
    let submit = async |client: &Client, handler: &str, params| {
        client.submit(&Submit::new(handler, params), None).await.unwrap().task_id
    };
    let long = submit(&shop, "sleep", json!({"durationMs": 600_000})).await;
    let running = async || shop.get(&long).await.is_ok_and(|task| task.status == "RUNNING");
    until("the first task runs", PATIENCE, running).await;
    let mut held_up = vec![submit(&shop, "echo", json!({})).await];
    for change_of_leader in [true, false] {
        // Another caller's task goes all the way, so the leader hands out what it may.
        let passes = submit(&other, "echo", json!({})).await;
        assert_eq!(other.wait(&passes, PATIENCE).await.unwrap().status, "SUCCESS");
        for task in &held_up {
            assert_eq!(shop.get(task).await.unwrap().status, "PENDING", "the caller runs as much as it may");
        }
        if change_of_leader {
            let leader = cluster.replica(cluster.leader().await);
            cluster.kill(&leader).await;
            cluster.start_again(&leader, &[]);
            cluster.all_answer().await;
            held_up.push(submit(&shop, "echo", json!({})).await);
        }
    }
    shop.cancel(&long).await.unwrap();
    for task in &held_up {
        assert_eq!(shop.wait(task, PATIENCE).await.unwrap().status, "SUCCESS");
    }
}

/// Gives every replica these sealing keys, from the next start on.
fn set_sealing_keys(cluster: &Cluster, keys: &[&str]) {
    let path = cluster.dir().join("secrets/keys.toml");
    let mut file: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
    file.insert("sealing-key".into(), keys[0].into());
    file.insert("older-sealing-keys".into(), keys[1..].to_vec().into());
    fs::write(&path, toml::to_string(&file).unwrap()).unwrap();
}

fn sealing_key(cluster: &Cluster) -> String {
    let text = fs::read_to_string(cluster.dir().join("secrets/keys.toml")).unwrap();
    text.parse::<toml::Table>().unwrap()["sealing-key"].as_str().unwrap().to_owned()
}

fn orloj(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = Command::new(binary()).args(arguments).envs(cluster.environment(0)).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealing_key_is_exchanged_and_the_old_one_is_not_needed_any_more() {
    const NEW: &str = "kek_a-new-sealing-key-of-forty-seven-characters";
    let mut cluster = Cluster::start(Setup::default()).await;
    let admin = cluster.admin();
    admin.put_caller("shop", &fast()).await.unwrap();
    let key = admin.add_key("shop", &NewKey::default()).await.unwrap();
    admin.add_webhook_secret("shop").await.unwrap();
    let old = sealing_key(&cluster);
    // Both keys on every replica: the old one opens, the new one seals.
    cluster.stop().await;
    set_sealing_keys(&cluster, &[NEW, &old]);
    cluster.start_on_the_same_folder().await;
    cluster.all_answer().await;
    submits(&cluster, &key).await;
    let before = cluster.admin().sealing().await.unwrap();
    assert_eq!((before.current, before.older, before.unreadable), (0, 2, 0));
    let said = orloj(&cluster, &["key", "reseal"]);
    assert!(said.contains("2 secrets are sealed anew"), "{said}");
    assert!(orloj(&cluster, &["key", "reseal"]).contains("0 secrets"), "it can be repeated");
    let shown = orloj(&cluster, &["key", "sealing", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 3, "{shown}");
    for place in 0..3 {
        assert_eq!(shown[place]["sealing"]["older"], 0, "{shown}");
    }
    submits(&cluster, &key).await;
    // The new key alone.
    cluster.stop().await;
    set_sealing_keys(&cluster, &[NEW]);
    cluster.start_on_the_same_folder().await;
    cluster.all_answer().await;
    let after = cluster.admin().sealing().await.unwrap();
    assert_eq!((after.current, after.older, after.unreadable), (2, 0, 0));
    submits(&cluster, &key).await;
    let audit = cluster.admin().audit(&AuditQuery::default()).await.unwrap();
    assert!(audit.records.iter().any(|record| record.action == "renew_sealing"), "{audit:?}");
}
