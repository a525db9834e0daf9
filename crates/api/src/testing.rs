//! Whole-API tests over the real model in memory: several nodes share one replicated state, each with its
//! own listeners, clock and idea of who leads.

mod access;
mod batch;
mod bodies;
mod callbacks;
mod client;
mod denied;
pub(crate) mod fake;
mod fake_keys;
mod fake_leader;
mod fake_work;
mod forwarding;
mod graph;
mod internal;
mod job_check;
mod job_preview;
mod job_runs;
mod jobs;
mod json;
mod limits;
mod listeners;
mod lists;
mod markers;
mod messages;
mod repeats;
mod replay;
mod retries;
mod sealing;
mod signing;
mod sockets;
mod sync;
mod tasks;
mod tenants;
mod terms;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use orloj_wire::sign::{
    ACCESS_KEY_HEADER, IDEMPOTENCY_HEADER, Label, NONCE_HEADER, Parts, SIGNATURE_HEADER, Secret,
    TIMESTAMP_HEADER, new_nonce,
};
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) use fake::{Node, T, Universe};

pub(crate) const SECRET_A: &str = "sk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
pub(crate) const SECRET_A2: &str = "sk_A2A2A2A2A2A2A2A2A2A2A2A2A2A2A2A2A2A2A2A2A2A";
pub(crate) const SECRET_B: &str = "sk_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";
pub(crate) const SECRET_ADMIN: &str = "sk_DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD";

/// A request that can be taken apart: what is signed, and what is sent.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) label: Label,
    pub(crate) audience: String,
    pub(crate) access_key: String,
    pub(crate) secret: String,
    pub(crate) timestamp: String,
    pub(crate) nonce: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Draft {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Draft {
            label: Label::Caller,
            audience: "default".into(),
            access_key: "ak_A".into(),
            secret: SECRET_A.into(),
            timestamp: T.to_string(),
            nonce: new_nonce(),
            method: method.into(),
            path: path.into(),
            query: String::new(),
            idempotency_key: None,
            body: Vec::new(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Draft::new("GET", path)
    }

    pub(crate) fn post(path: &str, body: Value) -> Self {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Draft { body, ..Draft::new("POST", path) }
    }

    pub(crate) fn submit(body: Value) -> Self {
        Draft::post("/openapi/v1/tasks", body)
    }

    pub(crate) fn query(mut self, query: &str) -> Self {
        self.query = query.into();
        self
    }

    pub(crate) fn key(mut self, key: &str) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    pub(crate) fn by(mut self, access_key: &str, secret: &str) -> Self {
        self.access_key = access_key.into();
        self.secret = secret.into();
        self
    }

    pub(crate) fn by_b(self) -> Self {
        self.by("ak_B", SECRET_B)
    }

    pub(crate) fn by_admin(mut self) -> Self {
        self.label = Label::Admin;
        self.by("adk_A", SECRET_ADMIN)
    }

    pub(crate) fn signature(&self) -> String {
        let parts = Parts {
            label: self.label,
            audience: &self.audience,
            access_key: &self.access_key,
            timestamp: &self.timestamp,
            nonce: &self.nonce,
            method: &self.method,
            path: &self.path,
            query: &self.query,
            idempotency_key: self.idempotency_key.as_deref().unwrap_or_default(),
            body: &self.body,
        };
        parts.sign(&Secret::new(self.secret.as_str()).unwrap())
    }

    /// The request, with the signature of `signed`, which may be another draft.
    pub(crate) fn signed_as(&self, signed: &Draft) -> Request<Body> {
        self.with_signature(&signed.signature())
    }

    pub(crate) fn with_signature(&self, signature: &str) -> Request<Body> {
        let mut request = self
            .unsigned()
            .header(ACCESS_KEY_HEADER, &self.access_key)
            .header(TIMESTAMP_HEADER, &self.timestamp)
            .header(NONCE_HEADER, &self.nonce)
            .header(SIGNATURE_HEADER, signature);
        if let Some(key) = &self.idempotency_key {
            request = request.header(IDEMPOTENCY_HEADER, key);
        }
        request.body(Body::from(self.body.clone())).unwrap()
    }

    pub(crate) fn unsigned(&self) -> axum::http::request::Builder {
        let target = match self.query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        };
        let mut request = Request::builder().method(self.method.as_str()).uri(target);
        let own_type = self.headers.iter().any(|(name, _)| *name == "content-type");
        if !self.body.is_empty() && !own_type {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request
    }

    pub(crate) fn signed(&self) -> Request<Body> {
        self.signed_as(self)
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Reply {
    async fn of(response: Response) -> Self {
        let (head, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 24).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Reply { status: head.status.as_u16(), headers: head.headers, text, body }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// The task of a submission that was taken.
    pub(crate) fn task_id(&self) -> String {
        assert_eq!(self.status, 202, "{self:?}");
        self.body["taskId"].as_str().unwrap().to_owned()
    }

    /// Asserts that it is no refusal.
    #[track_caller]
    pub(crate) fn is_ok(&self) {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
    }

    /// Asserts a problem document of this code.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        let request_id = self.header("x-request-id");
        assert_eq!(self.body["instance"], format!("urn:orloj:request:{request_id}"));
        assert_eq!(self.body["status"], status);
        assert_eq!(status == 401, !self.header("www-authenticate").is_empty());
        assert!(status != 503 || !self.header("retry-after").is_empty());
    }
}

impl Node {
    /// Sends a request to the public listener.
    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        Reply::of(self.public.clone().oneshot(request).await.unwrap()).await
    }

    /// Sends a request to the internal listener.
    pub(crate) async fn send_internal(&self, request: Request<Body>) -> Reply {
        Reply::of(self.internal.clone().oneshot(request).await.unwrap()).await
    }

    pub(crate) async fn call(&self, draft: &Draft) -> Reply {
        self.send(draft.signed()).await
    }
}

#[tokio::test]
async fn health_and_metrics_need_no_signature_and_the_probe_a_switch() {
    let universe = Universe::with(1, |options| options.debug_probe = false).await;
    let node = universe.leader();
    let get = |path: &str| Draft::get(path).unsigned().body(Body::empty()).unwrap();
    let alive = node.send(get("/healthz")).await;
    assert_eq!((alive.status, alive.text.as_str()), (200, "ok\n"));
    node.call(&Draft::get("/openapi/v1/tasks")).await;
    let metrics = node.send(get("/metrics")).await;
    assert!(metrics.text.contains("orloj_api_requests_total{operation=\"list_tasks\",status=\"200\"} 1"));
    node.send(get("/debug/probe")).await.is(404, "not_found");
    let post = Draft::post("/healthz", Value::Null).unsigned().body(Body::empty()).unwrap();
    let refused = node.send(post).await;
    refused.is(405, "method_not_allowed");
    assert_eq!(refused.header("allow"), "GET");
}

#[tokio::test]
async fn a_node_is_ready_when_it_knows_a_leader_and_as_the_leader_schedules() {
    let universe = Universe::of(2).await;
    let ready = |node: &Node| {
        let node = node.clone();
        async move { node.send(Draft::get("/readyz").unsigned().body(Body::empty()).unwrap()).await }
    };
    for node in &universe.nodes {
        assert_eq!(ready(node).await.body, serde_json::json!({"ready": true}));
    }
    universe.leader().leader.stop_serving();
    let reply = ready(universe.leader()).await;
    assert_eq!((reply.status, &reply.body["code"]), (503, &"not_scheduling".into()));
    universe.elect(None);
    let reply = ready(&universe.nodes[1]).await;
    assert_eq!((reply.status, &reply.body["code"]), (503, &"no_leader".into()));
}

#[tokio::test]
async fn the_probe_shows_where_a_node_stands() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    node.call(&Draft::submit(serde_json::json!({"handler": "echo"}))).await.task_id();
    let probe = node.send(Draft::get("/debug/probe").unsigned().body(Body::empty()).unwrap()).await;
    let applied = universe.applied();
    assert_eq!(probe.body["applied"], applied);
    assert_eq!(probe.body["digestIndex"], applied);
    assert_eq!((&probe.body["role"], &probe.body["leader"]), (&"leader".into(), &1.into()));
    for name in ["term", "round", "lastLog", "committed", "purged", "digest", "wheel", "wallMs", "birth"] {
        assert!(!probe.body[name].is_null(), "{name} is missing: {}", probe.text);
    }
}

#[tokio::test]
async fn the_debug_listener_shows_this_nodes_table_page_by_page() {
    let universe = Universe::of(2).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let draft = Draft::submit(serde_json::json!({"handler": "echo", "params": {"label": "w"}}));
        ids.push(universe.leader().call(&draft).await.task_id());
    }
    ids.sort();
    let follower = &universe.nodes[1];
    let get = |target: String| async move {
        let request = Request::get(target).body(Body::empty()).unwrap();
        Reply::of(follower.debug.clone().oneshot(request).await.unwrap()).await
    };
    let first = get("/debug/tasks?limit=2".into()).await;
    assert_eq!(first.body["applied"], universe.applied());
    let next = first.body["next"].as_str().unwrap().to_owned();
    let second = get(format!("/debug/tasks?limit=2&after={next}")).await;
    assert_eq!(second.body["next"], Value::Null);
    let mut seen = Vec::new();
    for task in [&first, &second].iter().flat_map(|page| page.body["tasks"].as_array().unwrap()) {
        assert_eq!((&task["callerId"], &task["params"]["label"]), (&"a".into(), &"w".into()));
        assert_eq!(task["attempts"], serde_json::json!([]));
        seen.push(task["taskId"].as_str().unwrap().to_owned());
    }
    // The order is that of the bytes, which is not that of their text.
    seen.sort();
    assert_eq!(seen, ids, "each once, whoever leads");
    get("/debug/tasks?after=nobody".into()).await.is(400, "invalid_query");
    get("/debug/tasks?limit=1001".into()).await.is(400, "invalid_query");
    let probe = get("/debug/probe".into()).await;
    assert_eq!(probe.body["digests"], serde_json::json!({"256": "0000000000000007"}));
    assert_eq!((&probe.body["birth"], &probe.body["state"]), (&"b2".into(), &"ok".into()));
    assert!(probe.body["rss"].as_u64().unwrap() > 0 && probe.body["fds"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_page_of_the_table_ends_where_its_tasks_are_large() {
    const LARGE: usize = 100 << 10;
    let universe = Universe::of(1).await;
    for _ in 0..15 {
        let params = serde_json::json!({"text": "x".repeat(LARGE)});
        let draft = Draft::submit(serde_json::json!({"handler": "echo", "params": params}));
        universe.leader().call(&draft).await.task_id();
    }
    let (mut after, mut pages) = (String::new(), Vec::new());
    loop {
        let target = format!("/debug/tasks?limit=1000{after}");
        let request = Request::get(target).body(Body::empty()).unwrap();
        let page = Reply::of(universe.leader().debug.clone().oneshot(request).await.unwrap()).await;
        assert!(page.text.len() < 12 * (LARGE + 2_000), "{} bytes", page.text.len());
        pages.push(page.body["tasks"].as_array().unwrap().len());
        match page.body["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(pages, [11, 4]);
}

/// Waits until something holds; a test that waits longer than ten seconds has failed.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "not so: {what}");
        tokio::task::yield_now().await;
    }
}
