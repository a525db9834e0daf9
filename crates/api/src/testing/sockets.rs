//! Requests as bytes on a connection: what HTTP lets others change on the way does not change what is signed.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use orloj_wire::sign::{
    ACCESS_KEY_HEADER, IDEMPOTENCY_HEADER, NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER,
};
use serde_json::{Value, json};

use super::{Draft, Node, Universe};

/// Sends bytes; answers with the status of the last answer and its body.
async fn send(node: &Node, bytes: &[u8]) -> (u16, Value) {
    let address = node.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = String::new();
    let whole = stream.read_to_string(&mut answer);
    tokio::time::timeout(std::time::Duration::from_secs(30), whole).await.expect("it closes").unwrap();
    let last = answer.rfind("HTTP/1.1 ").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let (head, body) = answer[last..].split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A signed submission as head and body; `write` writes each header.
fn head(draft: &Draft, more: &[&str], write: fn(&str, &str) -> String) -> String {
    let signature = draft.signature();
    let mut lines = vec![format!("POST {} HTTP/1.1", draft.path), "Host: orloj.example.com".to_owned()];
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    for (name, value) in [
        (SIGNATURE_HEADER, signature.as_str()),
        (NONCE_HEADER, &draft.nonce),
        (IDEMPOTENCY_HEADER, draft.idempotency_key.as_deref().unwrap()),
        (TIMESTAMP_HEADER, &draft.timestamp),
        (ACCESS_KEY_HEADER, &draft.access_key),
        ("Content-Type", "application/json"),
        ("Connection", "close"),
    ] {
        lines.push(write(name, value));
    }
    lines.join("\r\n")
}

fn plainly(name: &str, value: &str) -> String {
    format!("{name}: {value}")
}

fn oddly(name: &str, value: &str) -> String {
    let mut upper = false;
    let name: String = name
        .chars()
        .map(|c| {
            upper = !upper;
            if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
        })
        .collect();
    format!("{name}: \t  {value}  ")
}

/// The same in chunks of 5 bytes.
fn chunked(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in body.chunks(5) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

#[tokio::test]
async fn b126_what_http_may_change_on_the_way_changes_nothing() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let draft = || Draft::submit(json!({"handler": "echo", "params": {"text": "é + %20"}})).key("order-1");
    let length = format!("Content-Length: {}", draft().body.len());
    let proxy =
        ["Via: 1.1 proxy", "X-Forwarded-For: 192.0.2.1, 10.0.0.1", "X-Request-Id: proxy-1", "Accept: */*"];
    let mut tasks = Vec::new();
    for (name, more, chunks, write) in [
        ("plain", vec![], false, plainly as fn(&str, &str) -> String),
        ("chunks", vec!["Transfer-Encoding: chunked"], true, plainly),
        ("expect", vec!["Expect: 100-continue"], false, plainly),
        ("case and blanks", vec![], false, oddly),
        ("a proxy's headers", proxy.to_vec(), false, plainly),
    ] {
        let draft = draft();
        let mut more = more;
        if !chunks {
            more.push(&length);
        }
        let mut bytes = format!("{}\r\n\r\n", head(&draft, &more, write)).into_bytes();
        bytes.extend(if chunks { chunked(&draft.body) } else { draft.body.clone() });
        let (status, body) = send(node, &bytes).await;
        assert_eq!(status, 202, "{name}: {body}");
        tasks.push(body["taskId"].clone());
    }
    assert!(tasks.iter().all(|task| *task == tasks[0]), "the Idempotency-Key was read alike: {tasks:?}");

    // And what it may not: a byte of the body, in whatever chunks.
    let draft = draft();
    let mut bytes =
        format!("{}\r\n\r\n", head(&draft, &["Transfer-Encoding: chunked"], plainly)).into_bytes();
    let mut other = draft.body.clone();
    let last = other.len() - 2;
    other.insert(last, b' ');
    bytes.extend(chunked(&other));
    let (status, body) = send(node, &bytes).await;
    assert_eq!((status, &body["code"]), (401, &"invalid_signature".into()));
}
