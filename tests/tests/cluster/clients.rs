//! The examples of the documents and the client in Python, against a real cluster.

use std::process::{Command, Output};

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::tidy::{read, root};
use serde_json::Value;

/// The fenced blocks of `text` in this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
}

/// The one block that has this in it.
fn block(text: &str, language: &str, part: &str) -> String {
    let found: Vec<String> =
        blocks(text, language).into_iter().filter(|block| block.contains(part)).collect();
    assert_eq!(found.len(), 1, "{language} with {part:?}");
    found.concat()
}

fn run(cluster: &Cluster, program: &str, arguments: &[&str]) -> Output {
    let mut environment = cluster.environment(0);
    // The examples take the first of several replicas.
    let others: Vec<&str> = cluster.ready().replicas.iter().map(|replica| replica.api.as_str()).collect();
    environment[0].1 = others.join(",");
    let output = Command::new(program)
        .args(arguments)
        .envs(environment)
        .env("PYTHONPATH", root().join("clients/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {output:?}");
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The whole client, call by call.
const TOUR: &str = r#"
import orloj
client = orloj.Client.from_env()
task = client.submit("echo", {"é": [1, 2.5, None]}, idempotency_key="tour-1")
assert client.submit("echo", {"é": [1, 2.5, None]}, idempotency_key="tour-1")["taskId"] == task["taskId"]
try:
    client.submit("echo", {"other": 1}, idempotency_key="tour-1")
    raise SystemExit("a key for another request was taken")
except orloj.Refused as refused:
    assert (refused.status, refused.code) == (422, "idempotency_key_reused"), refused
done = client.wait(task["taskId"], timeout=60)
assert done["status"] == "SUCCESS" and done["params"] == {"é": [1, 2.5, None]}, done
assert client.attempts(task["taskId"])[0]["outcome"] == "succeeded"
loud = client.submit("shell", {"command": "echo one; echo two"})
assert client.wait(loud["taskId"], timeout=60)["status"] == "SUCCESS"
assert "".join(client.logs(loud["taskId"])) == "one\ntwo\n"
results = client.submit_batch([{"handler": "echo"}, {"handler": "no such"}, {"handler": "echo", "params": {"n": 1}}])
assert [one["status"] for one in results] == [202, 422, 202], results
short = client.submit_sync("echo", {"n": 1}, estimated_duration_ms=100)
assert short["taskId"] and short["params"] == {"n": 1}, short
assert client.wait(short["taskId"], timeout=60)["status"] == "SUCCESS"
try:
    client.submit_sync("echo", estimated_duration_ms=3_000)
    raise SystemExit("a long task was taken")
except orloj.Refused as refused:
    assert (refused.status, refused.code) == (400, "sync_duration_too_long"), refused
late = client.submit("echo", delayMs=3_600_000)
try:
    client.wait(late["taskId"], timeout=0.2)
    raise SystemExit("an hour has passed")
except orloj.TimedOut as timed_out:
    assert timed_out.task["status"] == "PENDING"
assert client.cancel(late["taskId"])["status"] == "CANCELLED"
again = client.wait(client.retry(late["taskId"])["taskId"], timeout=60)
assert again["status"] == "SUCCESS" and again["retryOf"] == late["taskId"], again
assert [one["taskId"] for one in client.tasks(status="CANCELLED")] == [late["taskId"]]
assert len(list(client.tasks(page_size=2))) == 7
assert len(client.cluster()["members"]) == 3 and len(client.executors()) == 2
print("toured")
"#;

#[tokio::test(flavor = "multi_thread")]
async fn examples_and_the_python_client_work() {
    let cluster = Cluster::start(Setup::default()).await;
    let openapi = read(&root().join("docs/openapi.md"));
    let curl = stdout(&run(&cluster, "bash", &["-euc", &block(&openapi, "sh", "openssl dgst")]));
    let answer: Value = serde_json::from_str(&curl).unwrap_or_else(|error| panic!("{error}: {curl}"));
    assert_eq!(answer["status"], "PENDING", "{answer}");
    assert_eq!(stdout(&run(&cluster, "python3", &["-c", TOUR_FIRST])), "");
    let python = stdout(&run(&cluster, "python3", &["-c", &block(&openapi, "python", "from_env")]));
    assert!(python.contains("SUCCESS hello") && python.contains("invalid_request"), "{python}");
    // On a busy machine the wait may be over first.
    assert!(["SUCCESS at once", "RUNNING", "PENDING"].iter().any(|one| python.contains(one)), "{python}");
    the_readme_of_the_python_client_works(&cluster);
    the_document_is_served(&cluster).await;
}

/// A callback as it comes, for the example that checks one: its headers and its body.
const CALLBACK: &str = r#"
import base64, hashlib, hmac, os, time
body = b'{"type":"task.succeeded","timestamp":"2027-01-15T08:00:00.000Z","data":{"taskId":"tsk_1","status":"SUCCESS"}}'
stamp = str(int(time.time()))
key = base64.b64decode(os.environ["ORLOJ_WEBHOOK_SECRET"][len("whsec_"):])
signature = hmac.new(key, f"evt_1.{stamp}.".encode() + body, hashlib.sha256).digest()
headers = {
    "Webhook-Id": "evt_1",
    "Webhook-Timestamp": stamp,
    "Webhook-Signature": "v1," + base64.b64encode(signature).decode(),
}
"#;

fn the_readme_of_the_python_client_works(cluster: &Cluster) {
    let (readme, ready) = (read(&root().join("clients/python/README.md")), cluster.ready());
    let mut first = block(&readme, "python", "Client([");
    for (shown, meant) in [
        ("http://127.0.0.1:7070", &ready.replicas[0].api),
        ("ak_…", &ready.access_key),
        ("sk_…", &ready.secret_key),
    ] {
        assert!(first.contains(shown), "{shown}: {first}");
        first = first.replace(shown, meant);
    }
    let said = stdout(&run(cluster, "python3", &["-c", &first]));
    assert!(said.starts_with("SUCCESS hello"), "{said}");
    let secret = format!("import os; os.environ['ORLOJ_WEBHOOK_SECRET'] = '{}'", ready.webhook_secret);
    let checks = block(&readme, "python", "verify_callback(");
    let program = format!("{secret}\n{CALLBACK}\n{checks}\nprint(event['type'])\n");
    assert_eq!(stdout(&run(cluster, "python3", &["-c", &program])), "task.succeeded\n");
}

/// Fails at once, with what is missing, where Python is too old.
const TOUR_FIRST: &str = "import sys; assert sys.version_info >= (3, 9), sys.version";

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_tours_a_cluster_of_tls() {
    let cluster = Cluster::start(Setup { tls: true, ..Setup::default() }).await;
    assert_eq!(stdout(&run(&cluster, "python3", &["-c", TOUR])), "toured\n");
}

async fn the_document_is_served(cluster: &Cluster) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let committed: Value = serde_json::from_str(&read(&root().join("docs/openapi.json"))).unwrap();
    for replica in &cluster.ready().replicas {
        let get = |path: &str| http.get(format!("{}{path}", replica.api)).send();
        let served: Value = get("/openapi.json").await.unwrap().json().await.unwrap();
        assert_eq!(served, committed, "the committed document is the served one");
        let page = get("/docs").await.unwrap();
        assert!(page.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
        assert!(page.text().await.unwrap().contains("Submit a task"));
    }
    for replica in &cluster.ready().replicas {
        every_call_wants_a_signature(&replica.api, &http, &committed).await;
    }
}

/// Every call of the document: without credentials 401, with another method 405 and what is allowed.
async fn every_call_wants_a_signature(base: &str, http: &reqwest::Client, document: &Value) {
    let mut calls = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let url = format!("{base}{}", path.replace(['{', '}'], ""));
        for (method, operation) in item.as_object().unwrap() {
            if operation["security"].as_array().unwrap().is_empty() {
                continue;
            }
            calls += 1;
            let method = method.to_uppercase().parse().unwrap();
            let answer = http.request(method, &url).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 401, "{url}");
            assert_eq!(answer.headers()["content-type"], "application/problem+json");
            assert!(answer.headers().contains_key("www-authenticate"));
            let other = http.request(reqwest::Method::OPTIONS, &url).send().await.unwrap();
            assert_eq!(other.status().as_u16(), 405, "{url}");
            let allowed = other.headers()["allow"].to_str().unwrap().to_owned();
            assert!(item.as_object().unwrap().keys().all(|method| allowed.contains(&method.to_uppercase())));
        }
    }
    assert!(calls >= 13, "{calls}");
}

#[test]
fn the_python_clients_own_tests_pass() {
    let tests = root().join("clients/python/tests");
    let output = Command::new("python3")
        .args(["-m", "unittest", "discover", "-s"])
        .arg(tests)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
