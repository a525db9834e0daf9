//! An executor under test, and the leader's side of its protocol.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orloj_executor::{Handle, Handlers, Options, Service};
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::protocol::{
    AnnounceRound, AttemptRef, Cancel, CancelAck, CancelReason, Dispatch, Holdings, Run, RunAck,
};
use orloj_wire::sign::{self, Label, Parts, Secret, new_nonce};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{FakeLeader, SECRET, within};

/// An executor and a pusher.
pub struct Executor {
    pub handle: Handle,
    http: reqwest::Client,
}

static FENCES: AtomicU64 = AtomicU64::new(100);

/// A fence that no test has used.
pub fn next_fence() -> u64 {
    FENCES.fetch_add(1, Ordering::SeqCst)
}

/// An attempt of a task of its own.
pub fn dispatch(handler: &str, params: Value) -> Dispatch {
    let fence = next_fence();
    let task_id = format!("tsk_{fence}");
    Dispatch {
        attempt: AttemptRef { task_id: task_id.clone(), shard_index: 0, attempt: 1, fence },
        shard_total: 1,
        handler: handler.to_owned(),
        params,
        caller_id: "c".to_owned(),
        business_key: None,
        dedupe_key: task_id,
        timeout_ms: None,
        due_at: 0,
        scheduled_at: None,
        job_id: None,
        checkpoint: None,
    }
}

pub fn shell(command: &str) -> Dispatch {
    dispatch("shell", json!({ "command": command }))
}

pub fn sleep(ms: u64) -> Dispatch {
    dispatch("sleep", json!({ "durationMs": ms }))
}

pub fn attempt(of: &Dispatch) -> AttemptRef {
    of.attempt.clone()
}

/// Whether a process is there and not a zombie.
pub fn pid_runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

impl Executor {
    pub fn options(leader: &FakeLeader, dir: &Path) -> Options {
        let mut options = Options {
            id: "e1".to_owned(),
            replicas: vec![leader.address.to_string()],
            secret: Some(SECRET.to_owned().into()),
            dir: dir.to_owned(),
            slots: Some(2),
            queue: Some(4),
            stop_grace_ms: 200,
            ..Options::default()
        };
        options.handlers.fail = true;
        options.handlers.shell.enabled = true;
        options.handlers.shell.allow_any = true;
        options.handlers.shell.kill_grace_ms = 300;
        options
    }

    pub async fn start(leader: &FakeLeader, dir: &Path) -> Self {
        Executor::start_with(Executor::options(leader, dir), Handlers::new()).await
    }

    pub async fn start_with(options: Options, handlers: Handlers) -> Self {
        let handle = Service::start(options, handlers, Arc::new(SystemClock::new())).await.unwrap();
        Executor { handle, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    /// Stops at once, as a crash would, but so that the folder can be opened again.
    pub async fn crash(self) {
        self.handle.shutdown();
        within("the end", self.handle.stopped()).await.unwrap();
    }

    /// A signed request that is not sent yet.
    pub fn signed(&self, audience: &str, path: &str, body: &[u8]) -> reqwest::RequestBuilder {
        self.signed_at(audience, path, body, SystemClock::new().wall_ms() / 1_000)
    }

    pub fn signed_at(
        &self,
        audience: &str,
        path: &str,
        body: &[u8],
        seconds: i64,
    ) -> reqwest::RequestBuilder {
        let (timestamp, nonce) = (format!("{seconds:010}"), new_nonce());
        let parts = Parts {
            label: Label::Executor,
            audience,
            access_key: "n1",
            timestamp: &timestamp,
            nonce: &nonce,
            method: "POST",
            path,
            query: "",
            idempotency_key: "",
            body,
        };
        let signature = parts.sign(&Secret::new(SECRET).unwrap());
        self.http
            .post(format!("http://{}{path}", self.handle.address()))
            .header(sign::ACCESS_KEY_HEADER, "n1")
            .header(sign::TIMESTAMP_HEADER, timestamp)
            .header(sign::NONCE_HEADER, nonce)
            .header(sign::SIGNATURE_HEADER, signature)
            .body(body.to_vec())
    }

    /// Sends; answers status and JSON.
    pub async fn send(request: reqwest::RequestBuilder) -> (u16, Value) {
        let response = within("an answer", request.send()).await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    pub async fn push(&self, path: &str, body: &impl Serialize) -> (u16, Value) {
        let body = serde_json::to_vec(body).unwrap();
        Executor::send(self.signed("e1", path, &body)).await
    }

    pub async fn ask<A: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> A {
        let (status, answer) = self.push(path, body).await;
        assert_eq!(status, 200, "{answer}");
        serde_json::from_value(answer).unwrap()
    }

    pub fn run_body(&self, round: u64, attempts: &[Dispatch]) -> Run {
        let incarnation = self.handle.incarnation();
        Run { executor_id: "e1".to_owned(), incarnation, round, attempts: attempts.to_vec() }
    }

    pub async fn run(&self, attempts: &[Dispatch]) -> RunAck {
        self.ask("/v1/run", &self.run_body(1, attempts)).await
    }

    pub async fn cancel(&self, reason: CancelReason, attempts: &[&Dispatch]) -> Vec<bool> {
        let attempts = attempts.iter().map(|dispatch| dispatch.attempt.clone()).collect();
        let body = Cancel { executor_id: "e1".to_owned(), round: 1, reason, attempts };
        self.ask::<CancelAck>("/v1/cancel", &body).await.held
    }

    pub fn round_body(&self, round: u64, leader: &FakeLeader) -> AnnounceRound {
        AnnounceRound { executor_id: "e1".to_owned(), round, leader: leader.address.to_string() }
    }

    pub async fn announce(&self, round: u64, leader: &FakeLeader) -> Holdings {
        self.ask("/v1/round", &self.round_body(round, leader)).await
    }

    pub async fn get(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.handle.address());
        within("an answer", self.http.get(url).send()).await.unwrap().text().await.unwrap()
    }
}
