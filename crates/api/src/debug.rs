//! The debug listener, which only the machine itself can reach: where this node stands, what its own table
//! holds, and a snapshot on demand. Nothing here asks another node, so that what differs between nodes shows.
//!
//! | call | answer |
//! |---|---|
//! | `GET /debug/probe` | [`Probe`] |
//! | `GET /debug/tasks?after=<taskId>&limit=<1-1000>` | tasks of every caller by id, from this node's table; fewer where they are large |
//! | `POST /debug/snapshot` | takes a snapshot now and purges the log behind it |

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::{get, post};
use orloj_model::id::{CallerId, TaskId};
use orloj_raft_store::NodeState;
use orloj_wire::problem::Code;
use orloj_wire::rest;
use serde::Serialize;

use crate::http::{self, new_request_id};
use crate::ops::role_name;
use crate::outcome::{Answer, Failure, finish};
use crate::request::Parameters;
use crate::service::{Api, Shared};
use crate::view::{self, Detail};

/// The largest page of tasks.
const MAX_PAGE: u64 = 1_000;

/// Everything about the node's place in the cluster, for tests and for people in trouble. Shows no name, no
/// parameter and no key.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Probe {
    id: Option<u64>,
    /// The birth token of its data directory.
    birth: String,
    term: u64,
    /// Whom it voted for in this term.
    vote: Option<u64>,
    role: &'static str,
    /// `ok`, `disk_low` or `failed`.
    state: NodeState,
    leader: Option<u64>,
    round: u64,
    /// The round in which this node schedules; null when it does not.
    serving: Option<u64>,
    last_log: u64,
    committed: u64,
    applied: u64,
    purged: u64,
    snapshot: u64,
    /// Snapshots taken over from a leader since the process started.
    snapshots_installed: u64,
    digest: String,
    digest_index: u64,
    /// Digests of the tables at fixed indexes, which are the same on every node.
    digests: BTreeMap<u64, String>,
    /// Terms of some entries applied since the process started, by index.
    log_terms: BTreeMap<u64, u64>,
    /// Timers of tasks in the wheel; 0 on a node that does not lead, like everything below.
    wheel: usize,
    /// Shards that wait for a slot.
    waiting: usize,
    /// Leases in force.
    running: usize,
    /// This node's wall clock, in ms since the epoch.
    wall_ms: i64,
    /// Resident memory of the process, in bytes; 0 where it cannot be told.
    rss: u64,
    /// Open files of the process; 0 where it cannot be told.
    fds: u64,
    /// Every figure of the leader's loop.
    scheduler: orloj_scheduler::Probe,
}

impl Probe {
    pub(crate) fn of(shared: &Shared) -> Probe {
        let (status, history) = (shared.backend.status(), shared.backend.history());
        let scheduler = shared.leader.probe();
        Probe {
            id: status.id,
            birth: history.birth,
            term: status.term,
            // An election may have come between the two looks.
            vote: history.vote.filter(|(term, _)| *term == status.term).map(|(_, node)| node),
            role: role_name(status.role),
            state: status.state,
            leader: status.leader,
            round: status.round,
            serving: shared.leader.serving(),
            last_log: status.last_log,
            committed: status.committed,
            applied: status.applied,
            purged: status.purged,
            snapshot: status.snapshot,
            snapshots_installed: history.snapshots_installed,
            digest: hex(status.digest),
            digest_index: status.applied,
            digests: history.checkpoints.iter().map(|point| (point.index, hex(point.digest))).collect(),
            log_terms: history.terms.into_iter().collect(),
            wheel: scheduler.wheel_size,
            waiting: scheduler.waiting,
            running: scheduler.running,
            wall_ms: shared.clock.wall_ms(),
            rss: resident_bytes().unwrap_or(0),
            fds: fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
            scheduler,
        }
    }
}

fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

/// Resident memory as the kernel tells it, which it does in KiB.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// A task with its owner.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnedTask {
    caller_id: CallerId,
    #[serde(flatten)]
    task: rest::Task,
}

#[derive(Debug, Serialize)]
struct Tasks {
    /// Index of the last entry whose changes the page shows.
    applied: u64,
    /// Digest of the tables at that index.
    digest: String,
    tasks: Vec<OwnedTask>,
    /// What to send as `after` for the next page; null on the last one.
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct Taken {
    /// The last entry of the snapshot.
    index: u64,
}

/// The router of the debug listener. It must not be reachable from other machines: nothing is signed.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/debug/probe", get(probe))
        .route("/debug/tasks", get(tasks))
        .route("/debug/snapshot", post(snapshot))
        .with_state(api)
}

fn respond(answer: Result<Answer, Failure>) -> Response {
    let id = new_request_id();
    http::response(finish(answer.unwrap_or_else(|failure| failure.answer(&id)), &id))
}

async fn probe(State(api): State<Api>) -> Response {
    respond(Ok(Answer::json(200, &Probe::of(api.shared()))))
}

async fn tasks(State(api): State<Api>, RawQuery(query): RawQuery) -> Response {
    respond(list(api.shared(), &query.unwrap_or_default()))
}

fn list(shared: &Arc<Shared>, query: &str) -> Result<Answer, Failure> {
    let mut parameters = Parameters::of(query)?;
    let limit = parameters.number("limit", 1, MAX_PAGE)?.unwrap_or(MAX_PAGE);
    let after = match parameters.text("after") {
        None => None,
        Some(text) => Some(text.parse::<TaskId>().map_err(|error| {
            Failure::new(Code::InvalidQuery, format!("after: {text:?} is no task id: {error}"))
        })?),
    };
    parameters.finish()?;
    let page = shared.backend.tasks(after, usize::try_from(limit).unwrap_or(usize::MAX))?;
    let (applied, page) = (page.applied, page.value);
    let owned = |task: &orloj_model::query::TaskView| OwnedTask {
        caller_id: task.spec.caller.clone(),
        task: view::task(task, Detail::Whole, applied),
    };
    let tasks = page.tasks.iter().map(owned).collect();
    let next = page.next.map(|id| id.to_string());
    Ok(Answer::json(200, &Tasks { applied, digest: hex(page.digest), tasks, next }))
}

async fn snapshot(State(api): State<Api>) -> Response {
    let taken = api.shared().backend.snapshot_now().await;
    respond(taken.map(|index| Answer::json(200, &Taken { index })).map_err(Failure::from))
}
