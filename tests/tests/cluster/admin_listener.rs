//! `listen-admin`: administrators' calls go to a listener of their own, on real replicas.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::until;

const PATIENCE: Duration = Duration::from_secs(60);

/// The status of an unsigned call, if there is an answer: 404 where the listener does not take it, else 401.
async fn answer(url: &str) -> Option<u16> {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    client.get(url).send().await.ok().map(|answer| answer.status().as_u16())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_calls_of_administrators_where_it_is_told_to() {
    let cluster = Cluster::start(Setup::default()).await;
    let name = cluster.replica(0);
    let public = cluster.ready().replicas[0].api.clone();
    let (tasks, callers) = ("/openapi/v1/tasks", "/openapi/v1/callers");
    for path in [tasks, callers] {
        assert_eq!(answer(&format!("{public}{path}")).await, Some(401), "as a rule one listener takes both");
    }
    cluster.kill(&name).await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = cluster.dir().join("config").join(format!("{name}.toml"));
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("listen-admin = \"{free}\"\n{config}")).unwrap();
    cluster.start_again(&name, &[]);
    let admin = format!("http://{free}");
    until(&format!("{name} answers"), PATIENCE, async || {
        answer(&format!("{admin}{callers}")).await == Some(401)
    })
    .await;
    assert_eq!(answer(&format!("{admin}{tasks}")).await, Some(404));
    assert_eq!(answer(&format!("{public}{tasks}")).await, Some(401));
    assert_eq!(answer(&format!("{public}{callers}")).await, Some(404));
    assert_eq!(answer(&format!("{admin}/healthz")).await, Some(200));
}
