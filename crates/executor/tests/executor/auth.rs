//! Who may push.

use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::protocol::RunVerdict;
use orloj_wire::sign;
use serde_json::json;

use crate::support::{Executor, FakeLeader, dispatch};

async fn start() -> (Executor, FakeLeader, tempfile::TempDir) {
    let (leader, dir) = (FakeLeader::start().await, tempfile::tempdir().unwrap());
    (Executor::start(&leader, dir.path()).await, leader, dir)
}

fn body(executor: &Executor) -> Vec<u8> {
    serde_json::to_vec(&executor.run_body(1, &[dispatch("echo", json!(1))])).unwrap()
}

async fn refused(request: reqwest::RequestBuilder, status: u16, code: &str) {
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert_eq!(response.status().as_u16(), status, "{code}");
    let problem: serde_json::Value = response.json().await.unwrap();
    assert_eq!((problem["code"].as_str(), problem["status"].as_u64()), (Some(code), Some(status.into())));
    assert_eq!(problem["type"], format!("urn:orloj:problem:{code}"));
}

#[tokio::test]
async fn b124_a_request_of_a_stranger_is_refused() {
    let (executor, _leader, _dir) = start().await;
    let body = body(&executor);
    let plain = reqwest::Client::new();
    for path in ["/v1/run", "/v1/cancel", "/v1/round", "/v1/log"] {
        let url = format!("http://{}{path}", executor.handle.address());
        refused(plain.post(url).body(body.clone()), 401, "missing_credentials").await;
    }
    let forged = executor.signed("e1", "/v1/run", b"{}").body(body.clone());
    refused(forged, 401, "invalid_signature").await;
    let elsewhere = executor.signed("e2", "/v1/run", &body);
    refused(elsewhere, 401, "invalid_signature").await;
    let other_path = executor.signed("e1", "/v1/cancel", &body).build().unwrap();
    let mut moved = plain.post(format!("http://{}/v1/run", executor.handle.address())).body(body.clone());
    moved = moved.headers(other_path.headers().clone());
    refused(moved, 401, "invalid_signature").await;
}

#[tokio::test]
async fn a_request_is_taken_once_and_in_time() {
    let (executor, _leader, _dir) = start().await;
    let body = body(&executor);
    let request = executor.signed("e1", "/v1/run", &body);
    let (status, answer) = Executor::send(request.try_clone().unwrap()).await;
    assert_eq!((status, &answer["verdicts"][0]), (200, &serde_json::to_value(RunVerdict::Accepted).unwrap()));
    refused(request, 401, "nonce_replayed").await;
    let now = SystemClock::new().wall_ms() / 1_000;
    for seconds in [now - 310, now + 310] {
        refused(executor.signed_at("e1", "/v1/run", &body, seconds), 401, "timestamp_out_of_window").await;
    }
}

#[tokio::test]
async fn a_bad_signature_does_not_use_up_the_nonce() {
    let (executor, _leader, _dir) = start().await;
    let body = body(&executor);
    let good = executor.signed("e1", "/v1/run", &body);
    let bad = good.try_clone().unwrap().body("{}");
    refused(bad, 401, "invalid_signature").await;
    assert_eq!(Executor::send(good).await.0, 200);
}

#[tokio::test]
async fn doubled_and_malformed_headers_are_refused() {
    let (executor, _leader, _dir) = start().await;
    let body = body(&executor);
    let doubled =
        [sign::ACCESS_KEY_HEADER, sign::TIMESTAMP_HEADER, sign::NONCE_HEADER, sign::SIGNATURE_HEADER];
    for name in doubled {
        let request = executor.signed("e1", "/v1/run", &body).header(name, "n1");
        refused(request, 401, "malformed_credentials").await;
    }
    let milliseconds = executor.signed_at("e1", "/v1/run", &body, SystemClock::new().wall_ms());
    refused(milliseconds, 401, "malformed_credentials").await;
}

#[tokio::test]
async fn too_much_and_nonsense_are_refused() {
    let (executor, _leader, _dir) = start().await;
    refused(executor.signed("e1", "/v1/run", &vec![b' '; (4 << 20) + 1]), 413, "body_too_large").await;
    refused(executor.signed("e1", "/v1/run", b"{\"executorId\":1}"), 400, "invalid_request").await;
    refused(executor.signed("e1", "/v1/nothing", b""), 404, "not_found").await;
    let url = format!("http://{}/v1/run", executor.handle.address());
    refused(reqwest::Client::new().get(url), 405, "method_not_allowed").await;
    assert_eq!(executor.get("/healthz").await, "ok\n");
}
