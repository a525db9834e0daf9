//! The executor's own listener: pushes from the leader, and what an operator asks.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use orloj_net::{ClusterTls, Peer, Role};
use orloj_wire::protocol::{
    AnnounceRound, AttemptRef, Cancel, CancelAck, CancelReason, Dispatch, Holdings, LogChunk, LogRequest,
    Run, RunAck, RunVerdict,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::auth::Auth;
use crate::book::Offer;
use crate::core::{Core, RoundError};
use crate::log::{Growth, log_path, read_part};
use crate::metrics;
use crate::problem::Problem;
use crate::sync::lock;

/// Longest body of a push, in bytes.
const BODY_LIMIT: usize = 4 << 20;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Most attempts of one push.
const BATCH: usize = 512;
/// Most bytes of one part of a log.
const LOG_PART: u32 = 256 << 10;
/// Longest wait for more of a log, in ms.
const LOG_WAIT_MS: u64 = 20_000;

/// How often to look whether a queued attempt has started.
const QUEUE_POLL: Duration = Duration::from_millis(100);

/// What the routes need.
#[derive(Clone)]
pub(crate) struct Intake {
    pub(crate) core: Arc<Core>,
    pub(crate) auth: Arc<Auth>,
    /// With it, who pushes must show the certificate of a replica.
    pub(crate) tls: Option<ClusterTls>,
    /// Cancelled when the executor stops. A connection may outlive it; from then on nothing is answered for.
    pub(crate) running: CancellationToken,
}

/// Every route.
pub(crate) fn router(intake: Intake) -> Router {
    Router::new()
        .route("/v1/run", post(run))
        .route("/v1/cancel", post(cancel))
        .route("/v1/round", post(round))
        .route("/v1/log", post(log))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(show_metrics))
        .fallback(|| async { Problem::new(404, "not_found", "there is no such path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(405, "method_not_allowed", "the path does not take this method")
        })
        .with_state(intake)
}

impl Intake {
    /// A verified body.
    async fn read<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, Problem> {
        let (parts, body) = request.into_parts();
        if self.running.is_cancelled() {
            return Err(Problem::stopping());
        }
        if let Some(tls) = &self.tls {
            let checked = tls.check(parts.extensions.get::<Peer>(), Role::Replica, None);
            checked.map_err(|impostor| Problem::new(403, "certificate_denied", impostor.to_string()))?;
        }
        self.auth.precheck(&parts.headers)?;
        let body = match timeout(BODY_TIMEOUT, to_bytes(body, BODY_LIMIT)).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => {
                let detail = format!("the body is longer than {BODY_LIMIT} bytes, or broke off");
                return Err(Problem::new(413, "body_too_large", detail));
            }
            Err(_) => return Err(Problem::new(408, "timeout", "the body did not arrive in time")),
        };
        self.auth.check(&parts.uri, &parts.headers, &body)?;
        serde_json::from_slice(&body).map_err(|cause| Problem::bad(format!("the body: {cause}")))
    }

    fn meant(&self, executor_id: &str) -> Result<(), Problem> {
        let own = &self.core.settings.id;
        if executor_id == own {
            return Ok(());
        }
        Err(Problem::conflict("wrong_executor", format!("this is `{own}`, not `{executor_id}`")))
    }

    async fn in_round(&self, round: u64) -> Result<(), Problem> {
        self.core.see_round(round).await.map_err(|error| match error {
            RoundError::Stale(seen) => {
                Problem::conflict("stale_round", format!("round {round} is over; round {seen} was seen"))
            }
            RoundError::Stopping => Problem::stopping(),
        })
    }
}

fn json(body: &impl Serialize) -> Response {
    // Every answer is made of strings, numbers and lists.
    let bytes = serde_json::to_vec(body).expect("answers have a JSON form");
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}

async fn run(State(intake): State<Intake>, request: Request<Body>) -> Result<Response, Problem> {
    let push: Run = intake.read(request).await?;
    intake.meant(&push.executor_id)?;
    let own = intake.core.settings.incarnation;
    if push.incarnation != own {
        let detail = format!("this is life {own}, not {}", push.incarnation);
        return Err(Problem::conflict("wrong_incarnation", detail));
    }
    if push.attempts.len() > BATCH {
        let detail = format!("attempts: {} in one push; at most {BATCH} are allowed", push.attempts.len());
        return Err(Problem::bad(detail));
    }
    if let Some(bad) = push.attempts.iter().find(|dispatch| !is_task_id(&dispatch.attempt.task_id)) {
        let detail = format!("taskId: {:?} is not 1-64 of A-Z a-z 0-9 _ -", bad.attempt.task_id);
        return Err(Problem::bad(detail));
    }
    intake.in_round(push.round).await?;
    Ok(json(&take(&intake.core, push.round, push.attempts)?))
}

/// Task ids name folders; nothing else gets that far.
fn is_task_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Offers a batch to the book and does what follows from it.
fn take(core: &Arc<Core>, round: u64, attempts: Vec<Dispatch>) -> Result<RunAck, Problem> {
    let mut verdicts = Vec::with_capacity(attempts.len());
    let mut refusal = None;
    let mut superseded = Vec::new();
    let mut remembered = Vec::new();
    let mut known = false;
    let mut book = lock(&core.book);
    if book.round() > round {
        // A newer leader has spoken while this round was being written down.
        let detail = format!("round {round} is over; round {} was seen", book.round());
        return Err(Problem::conflict("stale_round", detail));
    }
    for dispatch in attempts.into_iter().map(Arc::new) {
        let has_handler = core.handlers.get(&dispatch.handler).is_some();
        let verdict = match book.offer(&dispatch, has_handler, core.remembers(&dispatch)) {
            Offer::Accepted { superseded: older } => {
                superseded.extend(older);
                RunVerdict::Accepted
            }
            Offer::Remembered => {
                remembered.push(dispatch);
                RunVerdict::Accepted
            }
            Offer::Duplicate => {
                known = true;
                RunVerdict::Duplicate
            }
            Offer::Refused(why) => {
                refusal.get_or_insert(why.code());
                RunVerdict::Refused
            }
        };
        verdicts.push(verdict);
    }
    drop(book);
    for older in &superseded {
        core.stop(older, CancelReason::LeaseLost);
    }
    remembered.iter().for_each(|dispatch| core.report_remembered(dispatch));
    core.pump();
    if known {
        // It may have ended, and the leader may not have heard of it.
        core.hurry.notify_one();
    }
    let book = lock(&core.book);
    let refusal = refusal.map(str::to_owned);
    Ok(RunAck { verdicts, refusal, free_slots: book.free_slots(), free_places: book.free_places() })
}

async fn cancel(State(intake): State<Intake>, request: Request<Body>) -> Result<Response, Problem> {
    let push: Cancel = intake.read(request).await?;
    intake.meant(&push.executor_id)?;
    intake.in_round(push.round).await?;
    let held = push.attempts.iter().map(|attempt| intake.core.stop(attempt, push.reason)).collect();
    Ok(json(&CancelAck { held }))
}

async fn round(State(intake): State<Intake>, request: Request<Body>) -> Result<Response, Problem> {
    let push: AnnounceRound = intake.read(request).await?;
    intake.meant(&push.executor_id)?;
    intake.in_round(push.round).await?;
    let core = &intake.core;
    core.leader.follow(&push.leader);
    // Whoever waits for a leader need not wait for its backoff.
    core.hurry.notify_one();
    let book = lock(&core.book);
    Ok(json(&Holdings {
        incarnation: core.settings.incarnation,
        round: book.round(),
        holding: book.holding(core.clock.monotonic()),
        free_slots: book.free_slots(),
        free_places: book.free_places(),
        draining: book.draining(),
    }))
}

async fn log(State(intake): State<Intake>, request: Request<Body>) -> Result<Response, Problem> {
    let push: LogRequest = intake.read(request).await?;
    intake.meant(&push.executor_id)?;
    if !is_task_id(&push.attempt.task_id) {
        return Err(Problem::bad(format!(
            "taskId: {:?} is not 1-64 of A-Z a-z 0-9 _ -",
            push.attempt.task_id
        )));
    }
    let wait = Duration::from_millis(push.wait_ms.min(LOG_WAIT_MS));
    let growth = tokio::select! {
        growth = grow(&intake.core, &push.attempt, push.offset, wait) => growth,
        () = intake.running.cancelled() => return Err(Problem::stopping()),
    };
    let path = log_path(&intake.core.settings.logs, &push.attempt);
    let (offset, limit) = (push.offset, push.limit.min(LOG_PART) as usize);
    let read = tokio::task::spawn_blocking(move || read_part(&path, offset, limit)).await;
    let data = match read {
        Ok(Ok(data)) => data,
        Ok(Err(cause)) => return Err(Problem::new(500, "log_unreadable", cause.to_string())),
        Err(_) => return Err(Problem::stopping()),
    };
    let known = growth.is_some() || lock(&intake.core.book).knows(&push.attempt);
    match data {
        None if !known => Err(Problem::new(404, "log_gone", "there is no log of this attempt here any more")),
        data => Ok(json(&chunk(offset, limit, data.unwrap_or_default(), growth))),
    }
}

/// Waits for bytes after an offset, as long as there may be some. None when nobody writes to the log.
async fn grow(core: &Core, attempt: &AttemptRef, offset: u64, wait: Duration) -> Option<Growth> {
    let more = async {
        loop {
            let live = lock(&core.live).get(attempt).cloned();
            if let Some(live) = live {
                let mut follow = live.log.follow();
                // The writer is held here, so that the wait cannot fail.
                let _ = follow.wait_for(|growth| growth.complete || growth.bytes > offset).await;
                return;
            }
            if !lock(&core.book).is_queued(attempt) {
                return;
            }
            sleep(QUEUE_POLL).await;
        }
    };
    // Without more within the wait, the answer is an empty part.
    let _ = timeout(wait, more).await;
    let live = lock(&core.live).get(attempt).map(|live| *live.log.follow().borrow());
    let to_come = || lock(&core.book).is_queued(attempt).then_some(Growth { bytes: 0, complete: false });
    live.or_else(to_come)
}

fn chunk(offset: u64, limit: usize, data: Vec<u8>, growth: Option<Growth>) -> LogChunk {
    let next_offset = offset + data.len() as u64;
    let complete = match growth {
        Some(growth) => growth.complete && next_offset >= growth.bytes,
        // A file that is not being written ends where a part comes back short.
        None => data.len() < limit,
    };
    LogChunk { data, next_offset, complete }
}

async fn show_metrics(State(intake): State<Intake>) -> Response {
    let text = metrics::render(&intake.core);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
