//! The calls of the API, one method each.

use std::time::Duration;

use orloj_wire::rest::{
    AddMember, Attempts, Callbacks, Cancelled, Cluster, Drain, Drained, Executors, LogPiece, MAX_WAIT_MS,
    MemberChanged, Redelivering, SYNC_LIMIT_MS, Submit, SubmitBatch, Submitted, SubmittedBatch, Task,
    TaskGraph, TaskPage, Transfer, Transferred,
};
use orloj_wire::sign;
use tokio::time::Instant;

use crate::error::Error;
use crate::send::{Call, Client};

/// The longest that a new member may take to catch up.
const CATCH_UP: Duration = Duration::from_secs(150);
/// The longest that a change of leader or of members may take.
const HAND_OVER: Duration = Duration::from_secs(20);
/// How long one long poll of [`Client::wait`] lasts.
const POLL: Duration = Duration::from_secs(20);

/// Which tasks to list.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only those with this status, for instance `PENDING`.
    pub status: Option<String>,
    /// Only those of this handler.
    pub handler: Option<String>,
    /// At most so many, 1-100; by default the server's choice.
    pub page_size: Option<usize>,
    /// `nextPageToken` of the page before.
    pub page_token: Option<String>,
}

/// Which piece of a log to read.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// From this byte.
    pub offset: u64,
    /// At most so many bytes.
    pub limit: Option<u32>,
    /// Waits up to so long for more while the attempt runs, at most 20 s.
    pub wait: Duration,
    /// The attempt; by default the newest.
    pub attempt: Option<u32>,
    /// The shard; by default the first.
    pub shard_index: Option<u16>,
}

impl Client {
    /// Submits a task; answered after the commit. Without an Idempotency-Key a fresh one is made, so that
    /// repeated tries never make two tasks.
    pub async fn submit(&self, task: &Submit, idempotency_key: Option<&str>) -> Result<Submitted, Error> {
        let mut call = Call::post("/openapi/v1/tasks".to_owned()).with_body(task);
        call.idempotency_key = Some(idempotency_key.map_or_else(sign::new_nonce, str::to_owned));
        self.send(call).await
    }

    /// Submits many tasks in one request, each for itself: see [`SubmittedBatch`]. Without an Idempotency-Key a fresh
    /// one is made; it stands for this list in this order.
    pub async fn submit_batch(
        &self,
        tasks: Vec<Submit>,
        idempotency_key: Option<&str>,
    ) -> Result<SubmittedBatch, Error> {
        let mut call = Call::post("/openapi/v1/tasks/batch".to_owned()).with_body(&SubmitBatch { tasks });
        call.idempotency_key = Some(idempotency_key.map_or_else(sign::new_nonce, str::to_owned));
        self.send(call).await
    }

    /// Submits a short task and waits for its end in the same call, at most 3 s: the task, which is terminal unless it
    /// took longer. `estimated_duration_ms` must be given and be below 3,000. Without an Idempotency-Key a fresh one
    /// is made.
    pub async fn submit_sync(&self, task: &Submit, idempotency_key: Option<&str>) -> Result<Task, Error> {
        let mut call = Call::post("/openapi/v1/tasks/sync".to_owned()).with_body(task);
        call.idempotency_key = Some(idempotency_key.map_or_else(sign::new_nonce, str::to_owned));
        call.wait = Duration::from_millis(SYNC_LIMIT_MS);
        self.send(call).await
    }

    /// One task, with everything that is known about it.
    pub async fn get(&self, task_id: &str) -> Result<Task, Error> {
        self.send(Call::get(task_path(task_id, "")?)).await
    }

    /// The task as soon as its version is above `after_version`, or as it stands after `wait` (at most
    /// 30 s).
    pub async fn get_after(&self, task_id: &str, after_version: u64, wait: Duration) -> Result<Task, Error> {
        let wait = wait.min(Duration::from_millis(MAX_WAIT_MS));
        let mut call = Call::get(task_path(task_id, "")?)
            .with("after_version", after_version)
            .with("wait_ms", wait.as_millis());
        call.wait = wait;
        self.send(call).await
    }

    /// Waits until the task has ended; [`Error::NotFinished`] when it has not within `within`.
    pub async fn wait(&self, task_id: &str, within: Duration) -> Result<Task, Error> {
        let deadline = Instant::now() + within;
        let mut task = self.get(task_id).await?;
        while !task.is_terminal() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::NotFinished { task_id: task.task_id, status: task.status });
            }
            task = self.get_after(task_id, task.version, left.min(POLL)).await?;
        }
        Ok(task)
    }

    /// A page of the caller's tasks, newest first.
    pub async fn list(&self, query: &ListQuery) -> Result<TaskPage, Error> {
        let mut call = Call::get("/openapi/v1/tasks".to_owned());
        if let Some(status) = &query.status {
            call = call.with("status", plain("status", status)?);
        }
        if let Some(handler) = &query.handler {
            call = call.with("handler", plain("handler", handler)?);
        }
        if let Some(size) = query.page_size {
            call = call.with("page_size", size);
        }
        if let Some(token) = &query.page_token {
            call = call.with("page_token", plain("page token", token)?);
        }
        self.send(call).await
    }

    /// Cancels a task. While it runs this asks its executor to stop: see `cancelRequested`.
    pub async fn cancel(&self, task_id: &str) -> Result<Cancelled, Error> {
        self.send(Call::post(task_path(task_id, "/cancel")?)).await
    }

    /// Submits a task that has ended without success again, as a new one that points back with `retryOf`. Without an
    /// Idempotency-Key a fresh one is made.
    pub async fn retry(&self, task_id: &str, idempotency_key: Option<&str>) -> Result<Submitted, Error> {
        let mut call = Call::post(task_path(task_id, "/retry")?);
        call.idempotency_key = Some(idempotency_key.map_or_else(sign::new_nonce, str::to_owned));
        self.send(call).await
    }

    /// Every attempt of a task.
    pub async fn attempts(&self, task_id: &str) -> Result<Attempts, Error> {
        self.send(Call::get(task_path(task_id, "/attempts")?)).await
    }

    /// The graph of tasks around one: of a workflow the whole run.
    pub async fn graph(&self, task_id: &str) -> Result<TaskGraph, Error> {
        self.send(Call::get(task_path(task_id, "/graph")?)).await
    }

    /// Where the task's callback stands, and its newest sends.
    pub async fn callbacks(&self, task_id: &str) -> Result<Callbacks, Error> {
        self.send(Call::get(task_path(task_id, "/callbacks")?)).await
    }

    /// Has the callback of a task that has ended delivered again.
    pub async fn redeliver(&self, task_id: &str) -> Result<Redelivering, Error> {
        self.send(Call::post(task_path(task_id, "/callbacks/redeliver")?)).await
    }

    /// A piece of the log of one attempt.
    pub async fn logs(&self, task_id: &str, query: &LogQuery) -> Result<LogPiece, Error> {
        let mut call = Call::get(task_path(task_id, "/logs")?).with("offset", query.offset);
        if let Some(limit) = query.limit {
            call = call.with("limit", limit);
        }
        if let Some(attempt) = query.attempt {
            call = call.with("attempt", attempt);
        }
        if let Some(shard) = query.shard_index {
            call = call.with("shard_index", shard);
        }
        if !query.wait.is_zero() {
            call.wait = query.wait.min(POLL);
            let wait_ms = call.wait.as_millis();
            call = call.with("wait_ms", wait_ms);
        }
        self.send(call).await
    }

    /// Every executor.
    pub async fn executors(&self) -> Result<Executors, Error> {
        self.send(Call::get("/openapi/v1/executors".to_owned())).await
    }

    /// Drains an executor, or takes the drain back. For administrators.
    pub async fn drain(&self, executor_id: &str, on: bool) -> Result<Drained, Error> {
        let path = format!("/openapi/v1/executors/{}/drain", segment("executor id", executor_id)?);
        self.send(Call::post(path).with_body(&Drain { on })).await
    }

    /// The cluster as the answering replica sees it. Every replica is asked at the same time: this is called when some are
    /// away, and one that is there takes a while to find out which. One that knows of a leader is believed first.
    pub async fn cluster(&self) -> Result<Cluster, Error> {
        let call = || Call::get("/openapi/v1/cluster".to_owned());
        self.ask_each(call, |cluster: &Cluster| cluster.leader.is_some()).await
    }

    /// Moves leadership to a replica. For administrators.
    pub async fn transfer(&self, to: u64) -> Result<Transferred, Error> {
        let mut call = Call::post("/openapi/v1/cluster/transfer".to_owned()).with_body(&Transfer { to });
        call.wait = HAND_OVER;
        self.send(call).await
    }

    /// Adds a replica that has been started without data. For administrators.
    pub async fn add_member(&self, internal: &str, api: &str) -> Result<MemberChanged, Error> {
        let body = AddMember { internal: internal.to_owned(), api: api.to_owned() };
        let mut call = Call::post("/openapi/v1/cluster/members".to_owned()).with_body(&body);
        call.wait = CATCH_UP;
        self.send(call).await
    }

    /// Removes a replica for good; its id is never used again. For administrators.
    pub async fn remove_member(&self, id: u64) -> Result<MemberChanged, Error> {
        let mut call = Call::post(format!("/openapi/v1/cluster/members/{id}/remove"));
        call.wait = HAND_OVER;
        self.send(call).await
    }
}

fn task_path(task_id: &str, rest: &str) -> Result<String, Error> {
    Ok(format!("/openapi/v1/tasks/{}{rest}", segment("task id", task_id)?))
}

/// A value that stands in a path.
pub(crate) fn segment<'a>(what: &'static str, value: &'a str) -> Result<&'a str, Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match !value.is_empty() && value.chars().all(fits) && !matches!(value, "." | "..") {
        true => Ok(value),
        false => Err(Error::Config { what, value: value.to_owned(), why: "is not [A-Za-z0-9_.-]+" }),
    }
}

/// A value that stands in a query.
pub(crate) fn plain<'a>(what: &'static str, value: &'a str) -> Result<&'a str, Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '~');
    match !value.is_empty() && value.chars().all(fits) {
        true => Ok(value),
        false => Err(Error::Config { what, value: value.to_owned(), why: "is not [A-Za-z0-9_.~-]+" }),
    }
}
