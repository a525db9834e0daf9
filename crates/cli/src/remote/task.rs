//! `orloj task …`

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use orloj_client::{Client, Error, ListQuery, LogQuery};
use orloj_wire::json::Strict;
use orloj_wire::rest::{BackoffMs, LogSource, MAX_PAGE, Retry, Strategy, Submit, Submitted, Task};
use orloj_wire::sign::new_nonce;
use orloj_wire::time::Time;

use super::{Principal, connect, graph, output, unsure};
use crate::args::{ListArgs, Placement, SubmitArgs, TaskCommand};
use crate::exit::{Code, Failure, Outcome};

/// A wait without an end, as far as a person is concerned.
const NO_END: Duration = Duration::from_secs(10 * 365 * 86_400);
/// One long poll for more of a log.
const LOG_POLL: Duration = Duration::from_secs(20);
/// Before a log that nobody has at the moment is asked for again.
const LOG_PAUSE: Duration = Duration::from_millis(500);

/// Runs one of the commands.
///
/// # Errors
/// What the cluster refused, or what the command line got wrong.
pub async fn run(command: TaskCommand, json: bool) -> Outcome {
    let client = connect(Principal::Caller)?;
    match command {
        TaskCommand::Submit(args) => submit(&client, *args, json).await,
        TaskCommand::Get { task } => {
            let task = client.get(&task).await?;
            show(&task, json)?;
            Ok(ExitCode::SUCCESS)
        }
        TaskCommand::List(args) => list(&client, args, json).await,
        TaskCommand::Cancel { task } => cancel(&client, &task, json).await,
        TaskCommand::Retry { task } => taken(client.retry(&task, None).await?, json),
        TaskCommand::Graph { task } => graph::show(&client, &task, json).await,
        TaskCommand::Callbacks { task, redeliver } => callbacks(&client, &task, redeliver, json).await,
        TaskCommand::Logs { task, shard, attempt, follow } => {
            let query = LogQuery { attempt, shard_index: Some(shard), ..LogQuery::default() };
            logs(&client, &task, query, follow, json).await
        }
        TaskCommand::Wait { task, timeout_ms } => wait(&client, &task, timeout_ms, json).await,
    }
}

async fn submit(client: &Client, args: SubmitArgs, json: bool) -> Outcome {
    let task = submission(&args).map_err(Failure::usage)?;
    let key = args.idempotency_key.clone().unwrap_or_else(new_nonce);
    if args.sync {
        let task = client.submit_sync(&task, Some(&key)).await.map_err(repeat(&key))?;
        show(&task, json)?;
        if !task.is_terminal() {
            // It has not failed, and goes on; nor is it done.
            output::note(&format!("{} has not ended within the call; see orloj task wait", task.task_id));
            return Ok(Code::TimedOut.into());
        }
        return Ok(ended(&task));
    }
    let submitted = client.submit(&task, Some(&key)).await.map_err(repeat(&key))?;
    if args.wait {
        if !json {
            output::note(&format!("submitted {}", submitted.task_id));
        }
        return wait(client, &submitted.task_id, args.wait_timeout_ms, json).await;
    }
    taken(submitted, json)
}

/// What to do when the answer to a request under this key was lost.
pub(super) fn repeat(key: &str) -> impl FnOnce(Error) -> Failure {
    unsure(format!("repeat it with --idempotency-key {key}, and it is done once"))
}

/// A submission that was taken.
fn taken(submitted: Submitted, json: bool) -> Outcome {
    if json {
        output::json(&submitted)?;
    } else {
        output::fields(&[
            ("task", Some(submitted.task_id)),
            ("status", Some(submitted.status)),
            ("due", Some(submitted.due_at.to_string())),
        ])?;
    }
    Ok(ExitCode::SUCCESS)
}

fn submission(args: &SubmitArgs) -> anyhow::Result<Submit> {
    let mut task = Submit::new(&args.handler, serde_json::Value::Null);
    task.params = params(&args.params)?;
    task.run_at = instant("--run-at", args.run_at.as_deref())?;
    task.delay_ms = args.delay_ms;
    task.priority = args.priority;
    task.timeout_ms = args.timeout_ms;
    task.estimated_duration_ms = args.estimate_ms;
    task.expire_at = instant("--expire-at", args.expire_at.as_deref())?;
    task.labels = labels(&args.labels)?;
    task.strategy = strategy(args);
    task.zone.clone_from(&args.zone);
    task.allow_unknown_handler = args.allow_unknown_handler;
    task.shard_total = args.shards;
    task.on_shard_failure = args.on_shard_failure.map(graph::policy);
    task.depends_on = graph::parents(&args.after)?;
    task.routing_key.clone_from(&args.routing_key);
    task.business_key.clone_from(&args.business_key);
    task.dedupe_key.clone_from(&args.dedupe_key);
    task.callback_url.clone_from(&args.callback_url);
    task.retry = retry(args);
    Ok(task)
}

fn strategy(args: &SubmitArgs) -> Option<Strategy> {
    match (args.broadcast, &args.pin, args.strategy) {
        (true, ..) => Some(Strategy::Broadcast),
        (_, Some(executor), _) => Some(Strategy::Pinned(executor.clone())),
        (.., Some(Placement::Ring)) => Some(Strategy::Ring),
        (.., Some(Placement::RoundRobin)) => Some(Strategy::RoundRobin),
        (.., Some(Placement::LeastLoaded)) => Some(Strategy::LeastLoaded),
        (.., Some(Placement::Random)) => Some(Strategy::Random),
        (.., None) => None,
    }
}

/// What the options say of further tries; absent where they say nothing.
fn retry(args: &SubmitArgs) -> Option<Retry> {
    let mut retry = Retry::default();
    retry.max_retries = args.retries.unwrap_or(retry.max_retries);
    retry.jitter_pct = args.jitter_pct.unwrap_or(retry.jitter_pct);
    retry.max_lost = args.max_lost.unwrap_or(retry.max_lost);
    if !args.backoff_ms.is_empty() {
        retry.backoff_ms = args.backoff_ms.iter().copied().map(BackoffMs).collect();
    }
    let said = args.retries.is_some() || args.jitter_pct.is_some() || args.max_lost.is_some();
    (said || !args.backoff_ms.is_empty()).then_some(retry)
}

/// Parameters: JSON text, or `@FILE`, or `@-` for standard input.
pub(super) fn params(text: &str) -> anyhow::Result<Strict> {
    let text = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some("-") => {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input).context("--params: cannot read standard input")?;
            input
        }
        Some(path) => {
            fs::read_to_string(path).with_context(|| format!("--params: cannot read the file {path:?}"))?
        }
    };
    orloj_wire::json::read(text.as_bytes()).map_err(|error| match error.pointer.as_str() {
        "" => anyhow!("--params is not JSON: {}", error.message),
        pointer => anyhow!("--params is not JSON: {} at {pointer:?}", error.message),
    })
}

pub(super) fn instant(option: &str, text: Option<&str>) -> anyhow::Result<Option<Time>> {
    text.map(|text| Time::parse(text).map_err(|error| anyhow!("{option}: {error}"))).transpose()
}

fn labels(given: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for text in given {
        let (name, value) =
            text.split_once('=').with_context(|| format!("--label {text:?} is not NAME=VALUE"))?;
        if labels.insert(name.to_owned(), value.to_owned()).is_some() {
            bail!("--label {name:?} is given twice");
        }
    }
    Ok(labels)
}

pub(super) async fn wait(client: &Client, task: &str, timeout_ms: Option<u64>, json: bool) -> Outcome {
    let task = client.wait(task, timeout_ms.map_or(NO_END, Duration::from_millis)).await?;
    show(&task, json)?;
    Ok(ended(&task))
}

/// The code for the end of a task that was waited for.
fn ended(task: &Task) -> ExitCode {
    if task.status == "SUCCESS" { ExitCode::SUCCESS } else { Code::TaskFailed.into() }
}

async fn callbacks(client: &Client, task: &str, redeliver: bool, json: bool) -> Outcome {
    if redeliver {
        client.redeliver(task).await?;
    }
    let found = client.callbacks(task).await?;
    if json {
        output::json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(callback) = &found.callback else {
        output::line("this task has no callback address")?;
        return Ok(ExitCode::SUCCESS);
    };
    let next = callback.next_at.map(|at| format!(", next send at {at}")).unwrap_or_default();
    output::line(&format!("{} to {}{next}", callback.state, callback.url))?;
    let mut table = output::table(["delivery", "send", "at", "outcome", "status"]);
    for send in &found.sends {
        let outcome = match (send.delivered, &send.error_kind) {
            (Some(true), _) => "delivered",
            (Some(false), Some(kind)) => kind,
            _ => "under way",
        };
        table.add_row([
            send.delivery.to_string(),
            send.number.to_string(),
            send.sent_at.to_string(),
            outcome.to_owned(),
            send.status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
        ]);
    }
    output::print(&table)?;
    Ok(ExitCode::SUCCESS)
}

async fn cancel(client: &Client, task: &str, json: bool) -> Outcome {
    let cancelled = client.cancel(task).await?;
    if json {
        output::json(&cancelled)?;
    } else if cancelled.cancel_requested && cancelled.status == "RUNNING" {
        output::line(&format!("{}: its executor has been asked to stop it", cancelled.task_id))?;
    } else {
        output::line(&format!("{}: {}", cancelled.task_id, cancelled.status))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &Client, args: ListArgs, json: bool) -> Outcome {
    let (mut tasks, mut goes_on) = (Vec::new(), true);
    let mut query = ListQuery { status: args.status, handler: args.handler, ..ListQuery::default() };
    while goes_on && tasks.len() < args.limit {
        query.page_size = Some(MAX_PAGE.min(args.limit - tasks.len()));
        let page = client.list(&query).await?;
        tasks.extend(page.tasks);
        goes_on = page.next_page_token.is_some();
        query.page_token = page.next_page_token;
    }
    if goes_on {
        output::goes_on(tasks.len());
    }
    if json {
        output::json(&tasks)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(["task", "handler", "status", "reason", "attempt", "due", "finished"]);
    for task in &tasks {
        table.add_row([
            task.task_id.clone(),
            task.handler.clone(),
            task.status.clone(),
            task.reason.clone().unwrap_or_default(),
            task.attempt.to_string(),
            task.due_at.to_string(),
            task.finished_at.map(|time| time.to_string()).unwrap_or_default(),
        ]);
    }
    output::print(&table)?;
    Ok(ExitCode::SUCCESS)
}

async fn logs(client: &Client, task: &str, mut query: LogQuery, follow: bool, json: bool) -> Outcome {
    query.wait = if follow { LOG_POLL } else { Duration::ZERO };
    loop {
        let piece = client.logs(task, &query).await?;
        if json {
            output::json(&piece)?;
        } else {
            output::raw(&piece.text)?;
        }
        let more = piece.next_offset > query.offset;
        query.offset = piece.next_offset;
        if piece.attempt > 0 {
            // A retry has a log of its own: the offset counts within this attempt.
            query.attempt = Some(piece.attempt);
        }
        match piece.source {
            LogSource::Tail if !json => {
                output::note(
                    "the executor cannot be reached: this is the end of the log as kept in the task",
                );
            }
            LogSource::None if !json && !follow => output::note("there is no attempt yet"),
            _ => {}
        }
        if piece.complete || piece.source == LogSource::Tail || (!follow && !more) {
            return Ok(ExitCode::SUCCESS);
        }
        if piece.source == LogSource::None {
            attempt_begins(client, task).await?;
        }
    }
}

/// Waits until a task without an attempt has changed. Where there is no log, the answer comes at once, and
/// asking again at once would be a flood.
async fn attempt_begins(client: &Client, task: &str) -> Result<(), Error> {
    let known = client.get(task).await?;
    match known.attempt {
        0 => client.get_after(task, known.version, LOG_POLL).await.map(drop),
        _ => {
            tokio::time::sleep(LOG_PAUSE).await;
            Ok(())
        }
    }
}

fn show(task: &Task, json: bool) -> std::io::Result<()> {
    if json {
        return output::json(task);
    }
    let status = match &task.reason {
        Some(reason) => format!("{} ({reason})", task.status),
        None => task.status.clone(),
    };
    let error = task.error.as_ref().map(|error| match &error.message {
        Some(message) => format!("{}: {message}", error.code),
        None => error.code.clone(),
    });
    let progress =
        task.progress.as_ref().map(|at| format!("{} % {}", at.percent, at.note).trim_end().to_owned());
    let last = task.attempts.as_ref().and_then(|attempts| attempts.last());
    output::fields(&[
        ("task", Some(task.task_id.clone())),
        ("retry of", task.retry_of.clone()),
        ("step", task.step.clone()),
        ("run", task.run_id.clone()),
        ("handler", Some(task.handler.clone())),
        ("status", Some(status)),
        ("waits for", task.waiting_for.clone()),
        ("shards", shards(task)),
        ("attempt", (task.attempt > 0).then(|| task.attempt.to_string())),
        ("executor", last.map(|attempt| attempt.executor_id.clone())),
        ("created", Some(task.created_at.to_string())),
        ("due", Some(task.due_at.to_string())),
        ("started", task.started_at.map(|time| time.to_string())),
        ("finished", task.finished_at.map(|time| time.to_string())),
        ("progress", progress),
        ("error", error),
        ("result", task.result.as_ref().map(ToString::to_string)),
    ])?;
    match task.log_tail.as_deref() {
        Some(tail) if !tail.is_empty() => {
            output::line("output")?;
            tail.lines().try_for_each(|text| output::line(&format!("  {text}")))
        }
        _ => Ok(()),
    }
}

fn shards(task: &Task) -> Option<String> {
    let (ok, running, failed) = (task.shards_succeeded, task.shards_running, task.shards_failed);
    let of = task.shard_total;
    (of > 1).then(|| format!("{of}: {ok} succeeded, {running} running, {failed} failed"))
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
