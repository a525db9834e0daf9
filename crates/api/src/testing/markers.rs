//! What must be seen by nobody, or by its owner alone, whatever is asked.

use axum::body::Body;
use orloj_wire::rest::PARAMS_LIMIT;
use serde_json::{Value, json};

use super::jobs::{minutely, put};
use super::{Draft, Universe};

/// In the parameters of a task, of a job, and in a title.
const MARKER: &str = "markerOfA";

/// The task in the paths of the document's samples; the job there is `nightly`.
const SAMPLE: &str = "tsk_AAECAwQFBgcICQoLDA0ODw";

/// What every call that there is says of a task and of the job `nightly`, signed by somebody.
async fn everything(universe: &Universe, task: &str, by: fn(Draft) -> Draft) -> String {
    let mut seen = String::new();
    for (method, path) in crate::document::samples() {
        // Its buckets are full again each time.
        universe.clock.advance_ms(1_000);
        let path = path.replace(SAMPLE, task);
        let reply = universe.leader().call(&by(Draft::new(method, &path))).await;
        seen.push_str(&format!("{method} {path} {:?} {}\n", reply.headers, reply.text));
    }
    seen
}

#[tokio::test]
async fn b130_no_call_shows_a_secret_or_what_is_anothers() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let task =
        node.call(&Draft::submit(json!({"handler": "echo", "params": {"word": MARKER}}))).await.task_id();
    let mut job = minutely();
    job["params"] = json!({ "word": MARKER });
    job["title"] = json!(MARKER);
    assert_eq!(put(&universe, "nightly", job).await.status, 201);
    let of_b = everything(&universe, &task, Draft::by_b).await;
    assert!(of_b.contains(&task) && of_b.contains("nightly"), "they were asked for: {of_b}");
    let open = ["/metrics", "/readyz", "/healthz", "/openapi.json", "/docs", "/nothing"];
    let mut seen = of_b;
    for path in open {
        let reply = node.send(Draft::get(path).unsigned().body(Body::empty()).unwrap()).await;
        seen.push_str(&format!("{:?}{}", reply.headers, reply.text));
    }
    assert!(!seen.contains(MARKER), "{seen}");
    seen.push_str(&everything(&universe, &task, Draft::by_admin).await);
    let secrets = [
        super::SECRET_A,
        super::SECRET_A2,
        super::SECRET_B,
        super::SECRET_ADMIN,
        super::fake::CLUSTER_SECRET,
    ];
    for secret in secrets {
        assert!(!seen.contains(secret), "{secret}");
    }
    let own = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
    assert_eq!(own.body["params"], json!({ "word": MARKER }), "its owner sees it");
}

#[tokio::test]
async fn b133_the_largest_parameters_are_the_same_when_shown_and_when_tried_again() {
    let universe = Universe::of(2).await;
    let node = &universe.nodes[1];
    // Characters of four bytes, up to the last byte: two quotes, and one of a single byte.
    let text = format!("{}x", "\u{1f980}".repeat((PARAMS_LIMIT - 3) / 4));
    assert_eq!(json!(text).to_string().len(), PARAMS_LIMIT - 1);
    let largest = json!(format!("{text}y"));
    let too_long = node.call(&Draft::submit(json!({"handler": "echo", "params": format!("{text}yz")}))).await;
    assert!(matches!(too_long.status, 413 | 422), "{}", too_long.text);
    let task = node.call(&Draft::submit(json!({"handler": "echo", "params": largest}))).await.task_id();
    let post = |path: String| Draft::post(&path, Value::Null);
    assert_eq!(node.call(&post(format!("/openapi/v1/tasks/{task}/cancel"))).await.status, 200);
    let again = node.call(&post(format!("/openapi/v1/tasks/{task}/retry"))).await.task_id();
    for task in [task, again] {
        let shown = node.call(&Draft::get(&format!("/openapi/v1/tasks/{task}"))).await;
        assert_eq!(shown.body["params"], largest);
    }
}
