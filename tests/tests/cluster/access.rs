//! Callers and keys on real replicas, through the death of a leader and a restart of everything.

use std::time::Duration;

use orloj_client::{AuditQuery, Client, Credentials, Error, Options};
use orloj_tests::cluster::{Cluster, Setup};
use orloj_wire::rest::{KeyLimits, MadeKey, NewKey, PutCaller, Submit};
use serde_json::json;

fn client(cluster: &Cluster, place: usize, key: &MadeKey) -> Client {
    let credentials = Credentials::new(&key.access_key, &key.secret_key).unwrap();
    let options = Options { deadline: Duration::from_secs(30), ..Options::default() };
    Client::new([&cluster.ready().replicas[place].api], credentials, options).unwrap()
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
    let fast = KeyLimits { submits_per_s: 1_000.0, submits_burst: 1_000, ..KeyLimits::default() };
    admin.put_caller("shop", &PutCaller { limits: fast, ..PutCaller::default() }).await.unwrap();
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
