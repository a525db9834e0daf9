//! `[tls-public]`: what a public listener shows to callers, and what it asks of them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::{binary, own_port, until};

const PATIENCE: Duration = Duration::from_secs(60);

fn cert(dir: &Path, arguments: &[&str]) {
    let output = Command::new(binary()).arg("cert").args(arguments).arg("--dir").arg(dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Who trusts the authority in one folder, and shows a certificate of that name from another one.
fn caller(trusts: &Path, shows: Option<(&Path, &str)>) -> reqwest::Client {
    let ca = fs::read(trusts.join("ca.pem")).unwrap();
    let roots = reqwest::Certificate::from_pem_bundle(&ca).unwrap();
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only(roots).timeout(PATIENCE);
    let Some((dir, name)) = shows else { return builder.build().unwrap() };
    let both = ["key", "pem"].map(|end| fs::read(dir.join(format!("{name}.{end}"))).unwrap()).concat();
    builder.identity(reqwest::Identity::from_pem(&both).unwrap()).build().unwrap()
}

/// The status of an unsigned call, if there is an answer.
async fn answer(caller: &reqwest::Client, base: &str) -> Option<u16> {
    answer_to(caller, base, "tasks").await
}

async fn answer_to(caller: &reqwest::Client, base: &str, call: &str) -> Option<u16> {
    let answer = caller.get(format!("{base}/openapi/v1/{call}")).send().await.ok()?;
    Some(answer.status().as_u16())
}

/// Starts a replica again with this in its configuration, until this caller has an answer, and with a listener for
/// administrators: its `host:port`.
async fn start_with(
    cluster: &Cluster,
    place: usize,
    table: &str,
    caller: &reqwest::Client,
    base: &str,
) -> String {
    let free = SocketAddr::from(([127, 0, 0, 1], own_port()));
    let name = cluster.replica(place);
    cluster.kill(&name).await;
    let path = cluster.dir().join("config").join(format!("{name}.toml"));
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("listen-admin = '{free}'\n{config}\n[tls-public]\n{table}")).unwrap();
    cluster.start_again(&name, &[]);
    until(&format!("{name} answers"), PATIENCE, async || answer(caller, base).await == Some(401)).await;
    free.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_listener_asks_callers_for_what_its_mode_says() {
    let cluster = Cluster::start(Setup { tls: true, ..Setup::default() }).await;
    let (inside, outside) = (cluster.dir().join("certificates"), cluster.dir().join("callers"));
    cert(&outside, &["ca", "callers"]);
    cert(&outside, &["replica", "127.0.0.1:1"]);
    cert(&outside, &["client", "billing"]);
    cert(&inside, &["client", "inside"]);
    let own = |name| Some((inside.as_path(), name));
    let foreign = |name| Some((outside.as_path(), name));
    let base: Vec<&str> = cluster.ready().replicas.iter().map(|replica| replica.api.as_str()).collect();

    // As a rule: the cluster's own certificate, and nobody is asked for one.
    assert_eq!(answer(&caller(&inside, None), base[0]).await, Some(401));
    assert_eq!(answer(&caller(&outside, None), base[0]).await, None, "it shows the cluster's certificate");

    // A certificate and callers of another authority.
    let at = |file: &str| outside.join(file).display().to_string();
    let table = format!(
        "mode = 'mtls'\ncert = '{}'\nkey = '{}'\nclient-ca = '{}'\n",
        at("replica-127.0.0.1_1.pem"),
        at("replica-127.0.0.1_1.key"),
        at("ca.pem")
    );
    let admitted = caller(&outside, foreign("client-billing"));
    let admin = start_with(&cluster, 0, &table, &admitted, base[0]).await;
    let (admin, in_clear) = (format!("https://{admin}"), format!("http://{admin}"));
    assert_eq!(answer_to(&admitted, &admin, "callers").await, Some(401), "administrators are asked the same");
    let kept_out = [
        ("no certificate", caller(&outside, None)),
        ("a certificate of the cluster's authority", caller(&outside, own("client-inside"))),
        ("who trusts the cluster's authority alone", caller(&inside, foreign("client-billing"))),
    ];
    for (who, caller) in &kept_out {
        assert_eq!(answer(caller, base[0]).await, None, "{who}");
        assert_eq!(answer_to(caller, &admin, "callers").await, None, "{who}, as an administrator");
    }
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    assert_ne!(answer_to(&plain, &in_clear, "callers").await, Some(401), "nobody is heard in clear");

    // Callers of the cluster's own authority.
    start_with(&cluster, 1, "mode = 'mtls'\n", &caller(&inside, own("client-inside")), base[1]).await;
    for (who, shows) in [("no certificate", None), ("a foreign one", foreign("client-billing"))] {
        assert_eq!(answer(&caller(&inside, shows), base[1]).await, None, "{who}");
    }

    // Plain HTTP for callers; replicas still want certificates of each other.
    let clear = base[2].replacen("https://", "http://", 1);
    start_with(&cluster, 2, "mode = 'off'\n", &plain, &clear).await;
    assert_eq!(answer(&caller(&inside, None), base[2]).await, None);
    let internal = &cluster.ready().replicas[2].internal;
    let vote = plain.post(format!("http://{internal}/raft/v1/vote")).send().await.unwrap();
    assert_eq!(vote.status().as_u16(), 400, "in clear nobody is heard there");
    let stranger = caller(&inside, None).post(format!("https://{internal}/raft/v1/vote")).send().await;
    assert!(stranger.is_err(), "nor without a certificate");
}

#[test]
fn a_public_listener_that_cannot_be_what_it_is_told_to_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let at = |file: &str| dir.path().join(file).display().to_string();
    cert(dir.path(), &["ca", "orloj"]);
    cert(dir.path(), &["replica", "127.0.0.1:7071"]);
    let pair = format!(
        "cert = '{}'\nkey = '{}'\n",
        at("replica-127.0.0.1_7071.pem"),
        at("replica-127.0.0.1_7071.key")
    );
    let tls = format!("[tls]\nca = '{}'\n{pair}", at("ca.pem"));
    let refused = |listeners: &str, tables: &str| {
        let config = dir.path().join("replica.toml");
        let text = format!(
            "{listeners}\nsecrets-file = '{}'\n[store]\ninternal = '127.0.0.1:7071'\njoin = ['127.0.0.1:1']\n{tables}",
            at("secrets.toml")
        );
        fs::write(&config, text).unwrap();
        let output = Command::new(binary()).args(["server", "--config"]).arg(&config).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{tables}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let loopback = "listen = '127.0.0.1:0'";
    let cases = [
        (loopback, "[tls-public]\nmode = 'mtls'\n".to_owned(), "cert and key are missing"),
        (loopback, format!("[tls-public]\nmode = 'mtls'\n{pair}"), "client-ca is missing"),
        (loopback, "[tls-public]\ncert = 'x'\n".to_owned(), "cert and key belong together"),
        (loopback, format!("{tls}[tls-public]\nclient-ca = '{}'\n", at("ca.pem")), "mode is not \"mtls\""),
        (loopback, format!("{tls}[tls-public]\nmode = 'none'\n"), "none"),
        ("listen = '0.0.0.0:0'", format!("{tls}[tls-public]\nmode = 'off'\n"), "listen = \"0.0.0.0:0\""),
        (
            "listen = '127.0.0.1:0'\nlisten-admin = '0.0.0.0:0'",
            format!("{tls}[tls-public]\nmode = 'off'\n"),
            "listen-admin = \"0.0.0.0:0\"",
        ),
        ("listen = '127.0.0.1:0'\nlisten-admin = '0.0.0.0:0'", String::new(), "listen-admin = \"0.0.0.0:0\""),
    ];
    for (listeners, tables, told) in cases {
        let error = refused(listeners, &tables);
        assert!(error.contains(told), "{listeners} {tables}: {error}");
    }
}
