//! A crowd of connections that say nothing, or drip.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_wire::rest::Submit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// More than a public listener has places.
const CROWD: usize = 12_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// The connections of this process need descriptors as well. Where the system allows fewer, the crowd is smaller.
fn crowd() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CROWD.min(usize::try_from(allowed).unwrap_or(CROWD).saturating_sub(200))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_says_nothing_keeps_nobody_out() {
    let cluster = Cluster::start(Setup::default()).await;
    let api = cluster.ready().replicas[0].api.clone();
    let address = api.strip_prefix("http://").unwrap();
    let mut crowd_of = Vec::new();
    for number in 0..crowd() {
        // A full backlog answers late; that is what a crowd does to itself.
        let Ok(Ok(mut stream)) = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await else {
            break;
        };
        if number % 3 == 0 {
            let _ = stream.write_all(b"POST /openapi/v1/tasks HTTP/1.1\r\nx-drip: ").await;
        }
        crowd_of.push(stream);
    }
    println!("{} connections", crowd_of.len());
    let client = cluster.client_of(&[0], PATIENCE);
    let task = client.submit(&Submit::new("echo", json!({"n": 1})), None).await.unwrap();
    assert_eq!(client.wait(&task.task_id, PATIENCE).await.unwrap().status, "SUCCESS");
}
