//! A cluster in which everything speaks TLS, and who gets in.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use orloj_client::{Client, Credentials, Options};
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::{binary, send, until};
use orloj_wire::rest::Submit;
use rustix::process::Signal;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

async fn secure() -> Cluster {
    let set = vec!["tls.reload-ms=60000"];
    Cluster::start(Setup { tls: true, set, ..Setup::default() }).await
}

fn certificate(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.dir().join("certificates").join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_tls_runs_tasks_and_survives_its_leader() {
    let cluster = secure().await;
    assert!(cluster.ready().replicas.iter().all(|replica| replica.api.starts_with("https://")));
    let client = cluster.client();
    let early = client.submit(&Submit::new("shell", json!({"command": "echo hello"})), None).await.unwrap();
    assert_eq!(client.wait(&early.task_id, PATIENCE).await.unwrap().status, "SUCCESS");
    let log = client.logs(&early.task_id, &Default::default()).await.unwrap();
    assert!(log.text.contains("hello"), "{log:?}");
    let mut later = Submit::new("echo", json!({"n": 1}));
    later.delay_ms = Some(1_500);
    let later = client.submit(&later, None).await.unwrap();
    let leader = cluster.replica(cluster.leader().await);
    cluster.kill(&leader).await;
    assert_eq!(client.wait(&later.task_id, PATIENCE).await.unwrap().status, "SUCCESS");
    // The one that was away finds its way back in, with the same certificate.
    cluster.start_again(&leader, &[]);
    cluster.all_answer().await;
    cluster.agree(3).await;
    nobody_gets_in_without_a_certificate(&cluster).await;
}

async fn nobody_gets_in_without_a_certificate(cluster: &Cluster) {
    let ca = fs::read(cluster.ready().ca.as_ref().unwrap()).unwrap();
    let roots = || reqwest::Certificate::from_pem_bundle(&ca).unwrap();
    let stranger = reqwest::Client::builder().no_proxy().tls_certs_only(roots()).build().unwrap();
    let replica = &cluster.ready().replicas[0];
    let vote = format!("https://{}/raft/v1/vote", replica.internal);
    assert!(stranger.post(&vote).send().await.is_err(), "the internal listener wants a certificate");
    // An executor's certificate is good for executors' calls alone.
    let executor = cluster.executor(0);
    let pem = |name: &str| fs::read(certificate(cluster, name)).unwrap();
    let identity = |name: &str| {
        let both = [pem(&format!("{name}.key")), pem(&format!("{name}.pem"))].concat();
        reqwest::Identity::from_pem(&both).unwrap()
    };
    let as_executor = || {
        let builder = reqwest::Client::builder().no_proxy().tls_certs_only(roots());
        builder.identity(identity(&executor)).build().unwrap()
    };
    let answer = as_executor().post(&vote).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 403);
    assert!(answer.text().await.unwrap().contains("certificate_denied"));
    // Whoever has no certificate sees an executor's figures, and pushes nothing.
    let address = &cluster.ready().executors[0].address;
    let figures = stranger.get(format!("https://{address}/metrics")).send().await.unwrap();
    assert_eq!(figures.status().as_u16(), 200);
    for one in [stranger, as_executor()] {
        let push = one.post(format!("https://{address}/v1/run")).send().await.unwrap();
        assert_eq!(push.status().as_u16(), 403);
        assert!(push.text().await.unwrap().contains("certificate_denied"));
    }
    // In clear nobody is heard.
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let told = plain.get(format!("http://{}/healthz", replica.internal)).send().await.unwrap();
    assert_eq!(told.status().as_u16(), 400);
    let credentials = Credentials::new(&cluster.ready().access_key, &cluster.ready().secret_key).unwrap();
    let options = Options { deadline: Duration::from_secs(1), ..Options::default() };
    let untrusting = Client::new([&replica.api], credentials, options).unwrap();
    assert!(untrusting.cluster().await.is_err(), "the machine's authorities do not know this one");
}

/// Makes certificates anew, by the authority in the cluster's folder.
fn renew(cluster: &Cluster) {
    let dir = cluster.dir().join("certificates");
    let made = |arguments: &[&str], from: String, to: &str| {
        let output =
            Command::new(binary()).arg("cert").args(arguments).arg("--dir").arg(&dir).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        for end in ["key", "pem"] {
            fs::rename(dir.join(format!("{from}.{end}")), dir.join(format!("{to}.{end}"))).unwrap();
        }
    };
    for replica in &cluster.ready().replicas {
        let file = format!("replica-{}", replica.internal.replace(':', "_"));
        made(&["replica", &replica.internal], file, &format!("replica-{}", replica.id));
    }
    for executor in &cluster.ready().executors {
        made(&["executor", &executor.id], format!("executor-{}", executor.id), &executor.id);
    }
}

/// The certificate of a process and its key, as they are now.
fn identity_of(cluster: &Cluster, name: &str) -> Vec<u8> {
    ["key", "pem"].map(|end| fs::read(certificate(cluster, &format!("{name}.{end}"))).unwrap()).concat()
}

/// Calls that replicas may make, at every listener that asks for a certificate.
fn listeners(cluster: &Cluster) -> Vec<String> {
    let replicas = cluster.ready().replicas.iter();
    let replicas = replicas.map(|replica| format!("https://{}/raft/v1/vote", replica.internal));
    let executors = cluster.ready().executors.iter();
    replicas.chain(executors.map(|executor| format!("https://{}/v1/run", executor.address))).collect()
}

/// Whether somebody with this certificate is let in, over a connection of its own: then a signature is asked for.
async fn lets_in(identity: &[u8], roots: &str, url: &str) -> bool {
    let roots = reqwest::Certificate::from_pem_bundle(roots.as_bytes()).unwrap();
    // An executor's certificate names it by its id and not by its address.
    let builder = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_hostnames(true);
    let identity = reqwest::Identity::from_pem(identity).unwrap();
    let client = builder.tls_certs_only(roots).identity(identity).build().unwrap();
    match client.post(url).send().await {
        Ok(answer) => answer.status().as_u16() == 401,
        Err(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_changed_without_a_restart() {
    let cluster = secure().await;
    let client = cluster.client();
    // A new authority takes the place of the old one: in a transition, both are trusted.
    let dir = cluster.dir().join("certificates");
    let old = fs::read_to_string(dir.join("ca.pem")).unwrap();
    let old_replica = identity_of(&cluster, &cluster.replica(0));
    for name in ["ca.pem", "ca.key"] {
        fs::rename(dir.join(name), dir.join(format!("old-{name}"))).unwrap();
    }
    let output = Command::new(binary()).args(["cert", "ca", "dev", "--dir"]).arg(&dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    renew(&cluster);
    let new = fs::read_to_string(dir.join("ca.pem")).unwrap();
    fs::write(dir.join("ca.pem"), format!("{old}{new}")).unwrap();
    let names: Vec<String> = (0..3)
        .map(|place| cluster.replica(place))
        .chain((0..2).map(|place| cluster.executor(place)))
        .collect();
    for name in &names {
        send(cluster.pid(name), Signal::HUP);
    }
    for name in &names {
        until(&format!("{name} has taken its new certificate"), PATIENCE, async || {
            fs::read_to_string(cluster.log(name)).unwrap().contains("new certificates are in use")
        })
        .await;
    }
    let new_replica = identity_of(&cluster, &cluster.replica(0));
    for url in listeners(&cluster) {
        assert!(lets_in(&old_replica, &new, &url).await, "{url}: both authorities are good");
    }
    // Now only the new one: every connection that is made from here on is judged by it.
    fs::write(dir.join("ca.pem"), &new).unwrap();
    for name in &names {
        send(cluster.pid(name), Signal::HUP);
    }
    for url in listeners(&cluster) {
        until(&format!("{url} refuses the old authority"), PATIENCE, async || {
            !lets_in(&old_replica, &new, &url).await
        })
        .await;
        assert!(lets_in(&new_replica, &new, &url).await, "{url}: the new authority is good");
    }
    let leader = cluster.leader().await;
    let leading = cluster.replica(leader);
    cluster.kill(&leading).await;
    let task = cluster.client().submit(&Submit::new("echo", json!({"n": 1})), None).await.unwrap();
    assert_eq!(cluster.client().wait(&task.task_id, PATIENCE).await.unwrap().status, "SUCCESS");
    cluster.start_again(&leading, &[]);
    cluster.all_answer().await;
    drop(client);
}

#[test]
fn a_process_that_others_could_reach_in_clear_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = dir.path().join("secrets.toml");
    let config = dir.path().join("replica.toml");
    let write = |text: &str| fs::write(&config, text).unwrap();
    let refused = || {
        let output = Command::new(binary()).args(["server", "--config"]).arg(&config).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let secrets = secrets.display();
    write(&format!("listen = '0.0.0.0:0'\nsecrets-file = '{secrets}'\n[store]\njoin = ['127.0.0.1:1']\n"));
    let error = refused();
    for told in ["listen", "0.0.0.0:0", "[tls]", "orloj cert", "--insecure-plaintext"] {
        assert!(error.contains(told), "{told}: {error}");
    }
    let made = |arguments: &[&str]| {
        let output = Command::new(binary()).arg("cert").args(arguments).arg("--dir").arg(dir.path()).output();
        assert!(output.unwrap().status.success());
    };
    made(&["ca", "orloj"]);
    made(&["replica", "10.0.0.1:7071"]);
    let tls = format!(
        "[tls]\nca = '{0}/ca.pem'\ncert = '{0}/replica-10.0.0.1_7071.pem'\nkey = '{0}/replica-10.0.0.1_7071.key'\n",
        dir.path().display()
    );
    // The certificate is another replica's.
    write(&format!(
        "listen = '0.0.0.0:0'\nsecrets-file = '{secrets}'\n{tls}[store]\ninternal = '10.0.0.2:7071'\njoin = ['127.0.0.1:1']\n"
    ));
    let error = refused();
    assert!(error.contains("10.0.0.1:7071") && error.contains("10.0.0.2:7071"), "{error}");
}
