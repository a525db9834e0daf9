//! From the model's records to the API's bodies. Pure.

mod callback;
mod graph;
mod job;
mod waiting;

pub use callback::{callback, callback_sends, event};

use orloj_model::executor::{Executor, ExecutorState};
use orloj_model::query::TaskView;
use orloj_model::task::{self, Origin, Outcome, Reason, Shard, Status};
use orloj_scheduler::LiveExecutor;
use orloj_scheduler::results::{json_or_text, of_shards};
use orloj_wire::rest;
use orloj_wire::time::Time;

pub use graph::graph;
pub use waiting::waiting_for;

pub use job::{backfill, calendar, counts as job_counts, history as job_history, job, spec as job_spec};

/// How much of a task or a job is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Everything.
    Whole,
    /// What a list shows: without parameters, and of a task without attempts, result and log.
    Listed,
}

/// A task as the API shows it.
pub fn task(view: &TaskView, detail: Detail, applied_index: u64) -> rest::Task {
    let (spec, state) = (&view.spec, &view.state);
    let whole = detail == Detail::Whole;
    let first = view.shards.first();
    let (run_id, step) = graph::step(&spec.origin);
    rest::Task {
        task_id: view.id.to_string(),
        handler: spec.handler.clone(),
        status: state.status.name().to_owned(),
        reason: state.reason.name().map(str::to_owned),
        cancel_requested: state.cancel_requested,
        version: state.version,
        attempt: newest_attempt(&view.shards),
        priority: spec.priority,
        created_at: Time(state.created_at),
        updated_at: Time(state.updated_at),
        due_at: Time(state.due_at),
        started_at: state.started_at.map(Time),
        finished_at: state.finished_at.map(Time),
        expire_at: spec.expire_at.map(Time),
        timeout_ms: spec.timeout_ms,
        estimated_duration_ms: spec.estimated_duration_ms,
        retry: retry(&spec.retry),
        labels: spec.labels.clone(),
        routing_key: spec.routing_key.clone(),
        zone: spec.zone.clone(),
        strategy: strategy(&spec.strategy),
        business_key: spec.business_key.clone(),
        dedupe_key: spec.dedupe_key.clone(),
        shard_total: state.shards,
        shards_succeeded: state.succeeded,
        shards_running: state.running,
        shards_failed: state.failed,
        depends_on: spec.depends_on.iter().map(graph::depends_on).collect(),
        retry_of: match &spec.origin {
            Origin::RetryOf(task) => Some(task.to_string()),
            _ => None,
        },
        run_id,
        step,
        params: whole.then(|| json_or_text(&spec.params)),
        progress: progress(view),
        checkpoint_bytes: first.and_then(|shard| shard.checkpoint.as_ref()).map(|bytes| bytes.len() as u64),
        result: if whole { of_shards(&view.shards) } else { None },
        error: error(view),
        waiting_for: None,
        callback: None,
        log_tail: if whole { log_tail(&view.shards) } else { None },
        attempts: whole.then(|| attempts(&view.shards)),
        applied_index,
    }
}

fn newest_attempt(shards: &[Shard]) -> u32 {
    shards.iter().map(|shard| shard.next_attempt.saturating_sub(1)).max().unwrap_or(0)
}

fn retry(policy: &task::RetryPolicy) -> rest::Retry {
    rest::Retry {
        max_retries: policy.max_retries.into(),
        backoff_ms: policy.backoff_ms.iter().copied().map(rest::BackoffMs).collect(),
        jitter_pct: policy.jitter_pct.into(),
        max_lost: policy.max_lost.into(),
    }
}

fn strategy(strategy: &task::Strategy) -> rest::Strategy {
    match strategy {
        task::Strategy::Ring => rest::Strategy::Ring,
        task::Strategy::RoundRobin => rest::Strategy::RoundRobin,
        task::Strategy::LeastLoaded => rest::Strategy::LeastLoaded,
        task::Strategy::Random => rest::Strategy::Random,
        task::Strategy::Pinned(executor) => rest::Strategy::Pinned(executor.to_string()),
        task::Strategy::Broadcast => rest::Strategy::Broadcast,
    }
}

/// Every kept attempt, shard by shard, oldest first.
pub fn attempts(shards: &[Shard]) -> Vec<rest::Attempt> {
    let mut attempts = Vec::new();
    for (shard_index, shard) in (0..).zip(shards) {
        attempts.extend(shard.attempts.iter().map(|one| attempt(shard_index, one)));
    }
    attempts
}

fn attempt(shard_index: u16, attempt: &task::Attempt) -> rest::Attempt {
    let name = |outcome: &Outcome| outcome.name().to_owned();
    rest::Attempt {
        shard_index,
        attempt: attempt.number,
        executor_id: attempt.executor.to_string(),
        incarnation: attempt.incarnation,
        round: attempt.round,
        fence: attempt.fence,
        granted_at: Time(attempt.granted_at),
        started_at: attempt.started_at.map(Time),
        ended_at: attempt.ended_at.map(Time),
        outcome: attempt.outcome.as_ref().map(name),
        late_outcome: attempt.late_outcome.as_ref().map(name),
        retryable: match attempt.outcome {
            Some(Outcome::Failed { retryable, .. }) => Some(retryable),
            _ => None,
        },
        message: attempt.message.clone(),
    }
}

/// How far the one shard says that it is; of several their mean, where one that succeeded is at its end. Of a run, how
/// many of its steps have ended.
fn progress(view: &TaskView) -> Option<rest::Progress> {
    let said = |shard: &Shard| shard.progress.as_ref().map(|progress| progress.percent);
    let ended =
        |shard: &Shard| shard.attempts.last().is_some_and(|last| last.outcome == Some(Outcome::Succeeded));
    let note = |done: usize, all: usize, what: &str| format!("{done} of {all} {what}");
    match &view.shards[..] {
        [] if view.state.started_at.is_some() => {
            let (all, open) = (usize::from(view.state.shards), usize::from(view.state.running));
            let done = all.saturating_sub(open);
            Some(rest::Progress {
                percent: percent(100 * done, all),
                note: note(done, all, "steps have ended"),
            })
        }
        [] => None,
        [one] => one
            .progress
            .as_ref()
            .map(|progress| rest::Progress { percent: progress.percent, note: progress.note.clone() }),
        many if view.state.started_at.is_some() => {
            let far = |shard| if ended(shard) { 100 } else { said(shard).map_or(0, usize::from) };
            let sum = many.iter().map(far).sum();
            let done = usize::from(view.state.succeeded);
            let note = note(done, many.len(), "shards have succeeded");
            Some(rest::Progress { percent: percent(sum, many.len()), note })
        }
        _ => None,
    }
}

/// A mean of numbers up to 100.
fn percent(sum: usize, count: usize) -> u8 {
    u8::try_from(sum / count.max(1)).unwrap_or(100)
}

/// Why the task did not succeed, of the attempt that decided it.
fn error(view: &TaskView) -> Option<rest::TaskError> {
    let code = |code: &str, message: Option<String>| Some(rest::TaskError { code: code.to_owned(), message });
    match view.state.status {
        Status::Pending | Status::Running | Status::Success => None,
        Status::Cancelled => {
            let stopped = view.state.reason == Reason::BackfillStopped;
            code("cancelled", stopped.then(|| "the backfill that made it was stopped".to_owned()))
        }
        Status::Skipped => match view.state.reason {
            Reason::Dependency => code("dependency", None),
            _ => code("expired", None),
        },
        Status::Failed => {
            // One that failed says why; one that was told to stop for it does not.
            let failed = |outcome: &Outcome| !matches!(outcome, Outcome::Succeeded | Outcome::Cancelled);
            let mut last = view.shards.iter().filter_map(|shard| shard.attempts.last());
            match last.find(|last| last.outcome.as_ref().is_some_and(failed)) {
                Some(last) => {
                    let name = last.outcome.as_ref().map_or("failed", Outcome::name);
                    code(name, last.message.clone())
                }
                None => code("failed", failed_steps(view)),
            }
        }
    }
}

/// What is known of a run that failed.
fn failed_steps(view: &TaskView) -> Option<String> {
    let (failed, all) = (view.state.failed, view.state.shards);
    view.shards.is_empty().then(|| format!("{failed} of {all} steps did not succeed"))
}

fn log_tail(shards: &[Shard]) -> Option<String> {
    let tail = shards.iter().rev().find_map(|shard| shard.log_tail.as_ref())?;
    Some(String::from_utf8_lossy(tail).into_owned())
}

/// An executor as the API shows it: what the tables know, with what the leader knows by the second.
pub fn executor(row: &Executor, live: Option<&LiveExecutor>) -> rest::Executor {
    let registration = &row.registration;
    let state = match row.state {
        ExecutorState::Online if live.is_some_and(|live| live.state == "suspect") => "suspect",
        ExecutorState::Online => "online",
        ExecutorState::Draining => "draining",
        ExecutorState::Offline => "offline",
        ExecutorState::Left => "left",
    };
    // What was heard of an executor that is gone says nothing about now.
    let live = live.filter(|_| matches!(row.state, ExecutorState::Online | ExecutorState::Draining));
    rest::Executor {
        executor_id: registration.id.to_string(),
        state: state.to_owned(),
        incarnation: registration.incarnation,
        address: registration.address.clone(),
        handlers: registration.handlers.clone(),
        slots: registration.slots,
        queue: registration.queue,
        weight: registration.weight,
        zone: registration.zone.clone(),
        labels: registration.labels.clone(),
        version: registration.version.clone(),
        registered_at: Time(row.registered_at),
        free_slots: live.and_then(|live| live.free_slots),
        queued: live.and_then(|live| live.queued),
        cpu_pct: live.and_then(|live| live.cpu_pct),
        last_heartbeat_ms: live.map(|live| live.last_heard_ms),
    }
}

/// The text of a piece of a log, and how many of its bytes that text stands for: a character that is cut at
/// the end waits for its other half, unless nothing more will come.
pub fn text_piece(bytes: &[u8], complete: bool) -> (String, usize) {
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(_) if complete => bytes.len(),
        Err(_) => bytes.len() - cut_tail(bytes),
    };
    (String::from_utf8_lossy(&bytes[..whole]).into_owned(), whole)
}

/// How many bytes at the end begin a character that is not finished: 0-3.
fn cut_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let length = match bytes[bytes.len() - back] {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if length > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_character_waits_for_its_other_half() {
        let text = "aé€😀".as_bytes();
        for cut in 0..=text.len() {
            let (first, used) = text_piece(&text[..cut], false);
            let (second, rest) = text_piece(&text[used..], true);
            assert_eq!(format!("{first}{second}"), "aé€😀", "cut at {cut}");
            assert_eq!(used + rest, text.len());
            assert!(cut - used <= 3);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_and_do_not_stop_it() {
        assert_eq!(text_piece(b"a\xff", false), ("a\u{fffd}".to_owned(), 2));
        assert_eq!(text_piece(b"\x80\x80\x80\x80", false), ("\u{fffd}".repeat(4), 4));
        assert_eq!(text_piece(b"a\xe2\x82", false), ("a".to_owned(), 1));
        assert_eq!(text_piece(b"a\xe2\x82", true).1, 3);
        assert_eq!(text_piece(b"", true), (String::new(), 0));
    }
}
