//! Two of three replicas are gone: the last one says so, whichever it was, and serves again once one is back.

use std::process::Command;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::{binary, until};
use serde_json::Value;

/// Far more than three times the longest silence before an election.
const PATIENCE: Duration = Duration::from_secs(60);

/// The status of `/readyz` and its code.
async fn ready(cluster: &Cluster, place: usize) -> Option<(u16, String)> {
    let url = format!("{}/readyz", cluster.ready().replicas[place].api);
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build().ok()?;
    let answer = http.get(url).send().await.ok()?;
    let (status, body) = (answer.status().as_u16(), answer.json::<Value>().await.ok()?);
    Some((status, body["code"].as_str().unwrap_or_default().to_owned()))
}

/// What `orloj cluster status` prints, asked of the replica at this place alone.
fn shown(cluster: &Cluster, place: usize) -> String {
    let output = Command::new(binary())
        .args(["cluster", "status"])
        .envs(cluster.environment(place))
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let code = if text.contains("no leader") { 3 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Kills everybody but the replica at this place, which then has to say this of itself; and lets them come back.
async fn left_alone(cluster: &Cluster, place: usize, code: &str) {
    let others: Vec<usize> = (0..3).filter(|other| *other != place).collect();
    for other in &others {
        cluster.kill(&cluster.replica(*other)).await;
    }
    until("the last replica says that it cannot serve", PATIENCE, async || {
        ready(cluster, place).await.is_some_and(|(status, said)| (status, said.as_str()) == (503, code))
    })
    .await;
    let shown = shown(cluster, place);
    let row = |place: usize| {
        let api = &cluster.ready().replicas[place].api;
        shown.lines().find(|line| line.contains(api)).expect("each replica has a row").to_owned()
    };
    assert!(shown.lines().any(|line| line.starts_with("leader") && line.ends_with("no leader")), "{shown}");
    assert!(!row(place).contains("unreachable") && !row(place).contains("leader"), "{shown}");
    assert!(others.iter().all(|other| row(*other).contains("unreachable")), "{shown}");
    cluster.start_again(&cluster.replica(others[0]), &[]);
    until("it serves again", PATIENCE, async || {
        ready(cluster, place).await.is_some_and(|(status, _)| status == 200)
    })
    .await;
    cluster.start_again(&cluster.replica(others[1]), &[]);
    cluster.all_answer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_three_replicas_says_that_nobody_leads() {
    let cluster = Cluster::start(Setup::default()).await;
    for place in 0..3 {
        assert_eq!(ready(&cluster, place).await, Some((200, String::new())), "replica {place}");
    }
    left_alone(&cluster, cluster.leader().await, "no_majority").await;
    left_alone(&cluster, (cluster.leader().await + 1) % 3, "no_leader").await;
}
