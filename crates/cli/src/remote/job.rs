//! `orloj job …`

mod apply;
mod diff;
mod export;
mod fate;
pub mod file;
mod import;
mod show;

use std::process::ExitCode;

use anyhow::anyhow;
use orloj_client::Client;
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_wire::rest::MAX_PAGE;
use orloj_wire::rest::job::{HistoryEntry, Job, PreviewJob, RunJob, StartBackfill};
use orloj_wire::rest::preview::PreviewRequest;
use orloj_wire::rest::trigger::{KindName, TriggerSpec};
use orloj_wire::sign::new_nonce;
use orloj_wire::time::Time;

use super::{Principal, connect, output, task, unsure};
use crate::args::{BackfillArgs, FileFormat, JobCommand, JobRunArgs, OverlapArg, PreviewArgs};
use crate::exit::{Failure, Outcome};

/// Runs one of the commands.
///
/// # Errors
/// What the cluster refused, or what the command line or a file got wrong.
pub async fn run(command: JobCommand, json: bool) -> Outcome {
    match command {
        JobCommand::Apply { files } => return apply::run(&files.files, apply::Mode::Apply, json).await,
        JobCommand::Diff { files } => return apply::run(&files.files, apply::Mode::Diff, json).await,
        JobCommand::Import(args) => return import::run(&args, json).await,
        JobCommand::Run(args) => return run_now(&caller()?, args, json).await,
        JobCommand::List { limit } => {
            let (jobs, goes_on) = first_jobs(&caller()?, limit).await?;
            show::jobs(&jobs, json)?;
            if goes_on {
                output::goes_on(jobs.len());
            }
        }
        JobCommand::Get { job, definition, output } => {
            let job = caller()?.job(&job).await?;
            match (definition, output) {
                (false, None) => show::job(&job, json)?,
                (_, output) => {
                    let format = output.unwrap_or(if json { FileFormat::Json } else { FileFormat::Yaml });
                    let text = export::text(&job, format).map_err(Failure::usage)?;
                    output::raw(&text)?;
                }
            }
        }
        JobCommand::Pause { job, note } => {
            show::job(&caller()?.pause_job(&job, note.as_deref()).await?, json)?;
        }
        JobCommand::Resume { job } => show::job(&caller()?.resume_job(&job).await?, json)?,
        JobCommand::Preview(args) => preview(&caller()?, args, json).await?,
        JobCommand::Backfill(args) => backfill(&caller()?, args, json).await?,
        JobCommand::History { job, limit } => history(&caller()?, &job, limit, json).await?,
        JobCommand::Delete { job, version } => {
            let deleted = caller()?.delete_job(&job, version).await?;
            if json {
                output::json(&deleted)?;
            } else {
                output::line(&format!("{}: deleted", deleted.job_id))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn caller() -> Result<Client, Failure> {
    connect(Principal::Caller)
}

/// The caller's jobs by id, `limit` at most; and whether there are more.
async fn first_jobs(client: &Client, limit: usize) -> Result<(Vec<Job>, bool), Failure> {
    let (mut jobs, mut token) = (Vec::new(), None::<String>);
    while jobs.len() < limit {
        let size = (limit - jobs.len()).min(MAX_PAGE);
        let page = client.jobs(Some(size), token.as_deref()).await?;
        jobs.extend(page.jobs);
        token = page.next_page_token;
        if token.is_none() {
            break;
        }
    }
    Ok((jobs, token.is_some()))
}

async fn history(client: &Client, job: &str, limit: usize, json: bool) -> Result<(), Failure> {
    let mut page = client.job_history(job, Some(limit.min(MAX_PAGE)), None).await?;
    let mut entries: Vec<HistoryEntry> = std::mem::take(&mut page.entries);
    while entries.len() < limit
        && let Some(token) = page.next_page_token.take()
    {
        let size = (limit - entries.len()).min(MAX_PAGE);
        let next = client.job_history(job, Some(size), Some(&token)).await?;
        entries.extend(next.entries);
        page.next_page_token = next.next_page_token;
    }
    page.entries = entries;
    show::history(&page, json)?;
    if page.next_page_token.is_some() {
        output::goes_on(page.entries.len());
    }
    Ok(())
}

async fn run_now(client: &Client, args: JobRunArgs, json: bool) -> Outcome {
    let params = args.params.as_deref().map(task::params).transpose().map_err(Failure::usage)?;
    let body = RunJob { params, overlap: args.overlap.map(policy) };
    let key = args.idempotency_key.unwrap_or_else(new_nonce);
    let run = client.run_job(&args.job, &body, Some(&key)).await.map_err(task::repeat(&key))?;
    if args.wait {
        if !json {
            output::note(&format!("made {}", run.task_id));
        }
        return task::wait(client, &run.task_id, args.wait_timeout_ms, json).await;
    }
    if json {
        output::json(&run)?;
    } else {
        let queued = (run.queued == Some(true)).then(|| "until earlier tasks have ended".to_owned());
        output::fields(&[("job", Some(run.job_id)), ("task", Some(run.task_id)), ("waits", queued)])?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn preview(client: &Client, args: PreviewArgs, json: bool) -> Result<(), Failure> {
    let from = task::instant("--from", args.from.as_deref()).map_err(Failure::usage)?;
    let answer = match (args.cron, args.job) {
        (Some(expression), _) => {
            let trigger = TriggerSpec {
                expression: Some(expression.clone()),
                time_zone: args.time_zone,
                ..TriggerSpec::of(KindName::Cron)
            };
            let body = PreviewRequest {
                triggers: vec![trigger],
                calendars: Vec::new(),
                from,
                count: Some(args.count),
            };
            let value = serde_json::json!({"triggers": [{"expression": expression}]});
            client.preview_triggers(&body).await.map_err(|error| file::pointed(error, &value))?
        }
        (None, job) => {
            let job = job.ok_or_else(|| Failure::usage(anyhow!("a job or --cron is needed")))?;
            client.preview_job(&job, &PreviewJob { from, count: Some(args.count) }).await?
        }
    };
    Ok(show::preview(&answer, json)?)
}

async fn backfill(client: &Client, args: BackfillArgs, json: bool) -> Result<(), Failure> {
    let from = task::instant("--from", args.from.as_deref()).map_err(Failure::usage)?;
    let to = task::instant("--to", args.to.as_deref()).map_err(Failure::usage)?;
    let backfill = match (from, to) {
        (Some(from), Some(to)) => {
            let body = StartBackfill { from, to, overlap: args.overlap.map(policy) };
            let look = format!("orloj job backfill {0} and orloj job history {0} tell", args.job);
            client.start_backfill(&args.job, &body).await.map_err(unsure(look))?
        }
        _ if args.stop => client.stop_backfill(&args.job).await?,
        _ => client.backfill(&args.job).await?,
    };
    if json {
        return Ok(output::json(&backfill)?);
    }
    let text = |time: Time| Some(time.to_string());
    Ok(output::fields(&[
        ("job", Some(backfill.job_id)),
        ("from", text(backfill.from)),
        ("to", text(backfill.to)),
        ("through", backfill.through.and_then(text)),
        ("fired", Some(backfill.fired.to_string())),
        ("skipped", Some(backfill.skipped.to_string())),
        ("state", Some(if backfill.running { "running" } else { "stopped" }.to_owned())),
    ])?)
}

fn policy(overlap: OverlapArg) -> OverlapPolicy {
    match overlap {
        OverlapArg::Allow => OverlapPolicy::Allow,
        OverlapArg::Skip => OverlapPolicy::Skip,
        OverlapArg::Queue => OverlapPolicy::Queue,
        OverlapArg::CancelOther => OverlapPolicy::CancelOther,
    }
}
