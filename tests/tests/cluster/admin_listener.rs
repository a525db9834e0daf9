//! `listen-admin`: administrators' calls go to a listener of their own, on real replicas.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::{binary, ended, own_port, send, until};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(60);

/// The status of an unsigned call, if there is an answer: 404 where the listener does not take it, else 401.
async fn answer(url: &str) -> Option<u16> {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    client.get(url).send().await.ok().map(|answer| answer.status().as_u16())
}

/// Starts a replica again with a listener for administrators; its base URL, once it answers.
async fn give_own_listener(cluster: &Cluster, place: usize) -> String {
    let name = cluster.replica(place);
    cluster.kill(&name).await;
    let free = SocketAddr::from(([127, 0, 0, 1], own_port()));
    let path = cluster.dir().join("config").join(format!("{name}.toml"));
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("listen-admin = \"{free}\"\n{config}")).unwrap();
    cluster.start_again(&name, &[]);
    let admin = format!("http://{free}");
    until(&format!("{name} answers"), PATIENCE, async || {
        answer(&format!("{admin}/openapi/v1/callers")).await == Some(401)
    })
    .await;
    admin
}

/// Runs `orloj` with these addresses: its exit code, and what it said.
fn orloj(cluster: &Cluster, urls: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    command.args(arguments).envs(cluster.environment(0)).env("ORLOJ_URL", urls);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_works_through_listeners_of_administrators() {
    let cluster = Cluster::start(Setup::default()).await;
    let mut admin = Vec::new();
    for place in 0..3 {
        admin.push(give_own_listener(&cluster, place).await);
    }
    cluster.all_answer().await;
    let works = |urls: &str, arguments: &[&str]| {
        let (code, said) = orloj(&cluster, urls, arguments);
        assert_eq!(code, Some(0), "{urls} {arguments:?}: {said}");
        said
    };
    // Through the leader and through those that do not lead.
    for url in &admin {
        works(url, &["caller", "put", "shop", "--description", url]);
        assert!(works(url, &["caller", "get", "shop", "--json"]).contains(url.as_str()));
    }
    works(&admin[0], &["key", "create", "shop"]);
    let (code, said) = orloj(&cluster, &cluster.ready().replicas[0].api, &["caller", "list"]);
    assert_eq!(code, Some(5), "the public listener takes none of it: {said}");
    // Nor the key, for what both may ask.
    let (code, said) = orloj(&cluster, &cluster.ready().replicas[0].api, &["cluster", "status"]);
    assert_eq!(code, Some(4), "{said}");
    works(&admin[0], &["cluster", "status"]);

    // Every replica is asked at its own listener, or somebody has not been asked.
    let all = admin.join(",");
    let shown: serde_json::Value = serde_json::from_str(&works(&all, &["key", "sealing", "--json"])).unwrap();
    let asked: Vec<_> = shown.as_array().unwrap().iter().map(|one| &one["api"]).collect();
    assert_eq!(asked.len(), 3, "{shown}");
    assert!(admin.iter().all(|url| asked.iter().any(|api| *api == url)), "{shown}");
    assert!(works(&all, &["key", "reseal"]).contains("0 secrets are sealed anew"));
    for command in [["key", "sealing"], ["key", "reseal"]] {
        let (code, said) = orloj(&cluster, &admin[1], &command);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("name that in ORLOJ_URL"), "{said}");
    }

    // It ends with its replica, in order.
    let name = cluster.replica(1);
    let pid = cluster.pid(&name);
    send(pid, Signal::TERM);
    ended(pid, PATIENCE).await;
    assert_eq!(answer(&format!("{}/healthz", admin[1])).await, None);
    let log = fs::read_to_string(cluster.log(&name)).unwrap();
    assert!(!log.contains("did not stop in time"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_calls_of_administrators_where_it_is_told_to() {
    let cluster = Cluster::start(Setup::default()).await;
    let public = cluster.ready().replicas[0].api.clone();
    let (tasks, callers) = ("/openapi/v1/tasks", "/openapi/v1/callers");
    for path in [tasks, callers] {
        assert_eq!(answer(&format!("{public}{path}")).await, Some(401), "as a rule one listener takes both");
    }
    let admin = give_own_listener(&cluster, 0).await;
    assert_eq!(answer(&format!("{admin}{tasks}")).await, Some(404));
    assert_eq!(answer(&format!("{public}{tasks}")).await, Some(401));
    assert_eq!(answer(&format!("{public}{callers}")).await, Some(404));
    assert_eq!(answer(&format!("{admin}/healthz")).await, Some(200));
}
