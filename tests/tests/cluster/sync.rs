//! Submissions that are answered with the end of their task, on real replicas.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::{Footprints, faults};
use orloj_tests::process::until;
use orloj_wire::rest::Submit;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(120);

fn short(handler: &str, params: serde_json::Value, estimated_ms: u64) -> Submit {
    Submit { estimated_duration_ms: Some(estimated_ms), ..Submit::new(handler, params) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_task_and_its_end_are_one_call_at_every_replica_and_through_the_death_of_the_leader() {
    let cluster = Cluster::start(Setup::default()).await;
    for place in 0..3 {
        let client = cluster.client_of(&[place], Duration::from_secs(60));
        let ended = client.submit_sync(&short("echo", json!({ "n": place }), 50), None).await.unwrap();
        // On a busy machine the wait may be over first; the task is the same.
        let ended = client.wait(&ended.task_id, PATIENCE).await.unwrap();
        assert_eq!((ended.status.as_str(), ended.result), ("SUCCESS", Some(json!({ "n": place }))));
    }
    let prints = Footprints::new(&cluster.dir().join("footprints"));
    let leader = cluster.replica(cluster.leader().await);
    let client = cluster.client();
    let waiting = tokio::spawn({
        let (client, task) = (client.clone(), short("shell", prints.shell("one", "sleep 2"), 2_500));
        async move { client.submit_sync(&task, Some("one")).await }
    });
    until("its handler runs", PATIENCE, async || prints.runs("one") == 1).await;
    cluster.kill(&leader).await;
    let task = waiting.await.unwrap().unwrap();
    let ended = client.wait(&task.task_id, PATIENCE).await.unwrap();
    assert_eq!(faults(&ended), Vec::<String>::new());
    assert_eq!(prints.runs("one"), 1);
    let again = client.submit_sync(&short("shell", prints.shell("one", "sleep 2"), 2_500), Some("one")).await;
    assert_eq!(again.unwrap().task_id, task.task_id, "one key, one task");
}
