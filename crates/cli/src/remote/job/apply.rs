//! `orloj job apply` and `orloj job diff`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use orloj_client::{Client, Error};
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::rest::job::{Calendar, Job, JobSpec};
use orloj_wire::rest::trigger::CalendarSpec;
use serde::Serialize;
use serde_json::Value;

use super::super::{Principal, connect, output};
use super::diff::{Difference, differences};
use super::file::{self, Written};
use crate::exit::{Code, Failure, Outcome};

/// What to do about the differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Show and make them.
    Apply,
    /// Show them.
    Diff,
}

/// One thing that a file names, and what has to be done about it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    kind: &'static str,
    name: String,
    /// `create`, `change` or `none`.
    change: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Difference>,
    /// The version that is there; 0 for none.
    #[serde(skip)]
    version: u64,
}

/// Reads the files, compares them with the cluster, and does what the mode says.
pub(super) async fn run(files: &[PathBuf], mode: Mode, json: bool) -> Outcome {
    let written = file::read_all(files, SystemClock::new().wall_ms()).map_err(Failure::usage)?;
    let client = connect(Principal::Caller)?;
    let mut changes = Vec::new();
    // Calendars first: jobs name them.
    for (name, spec) in &written.calendars {
        changes.push(calendar_change(name, spec, found(client.calendar(name).await)?)?);
    }
    for (id, spec) in &written.jobs {
        changes.push(job_change(id, spec, found(client.job(id).await)?)?);
    }
    match mode {
        Mode::Apply => make(&client, &written, &changes, json).await?,
        Mode::Diff if !json => changes.iter().try_for_each(|change| show(change, mode))?,
        Mode::Diff => {}
    }
    if json {
        output::json(&changes)?;
    }
    let differ = mode == Mode::Diff && changes.iter().any(|change| change.change != "none");
    Ok(if differ { Code::TaskFailed.into() } else { ExitCode::SUCCESS })
}

/// What is there, if anything is.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Error::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn job_change(id: &str, spec: &JobSpec, known: Option<Job>) -> Result<Change, Failure> {
    let Some(known) = known else { return Ok(created("job", id)) };
    let newer = |fault: orloj_wire::problem::FieldError| {
        anyhow!("job {id:?}: the server is newer than this program: {}", fault.message)
    };
    let from = known.spec().map_err(newer)?;
    // What counts from the creation of the job counts from that of the one that is there.
    let to = spec
        .spelled_out(known.created_at.0)
        .map_err(|faults| Failure::usage(anyhow!("job {id:?}{}", file::listed(&faults, &value(spec)))))?;
    Ok(changed("job", id, known.version, differences(&value(&from), &value(&to))))
}

fn calendar_change(name: &str, spec: &CalendarSpec, known: Option<Calendar>) -> Result<Change, Failure> {
    let Some(known) = known else { return Ok(created("calendar", name)) };
    let newer = |fault: orloj_wire::problem::FieldError| {
        anyhow!("calendar {name:?}: the server is newer than this program: {}", fault.message)
    };
    let from = known.spec().map_err(newer)?;
    let to = spec.check().map_err(|error| Failure::usage(anyhow!("calendar {name:?}: {error}")))?;
    let to = CalendarSpec::from(&to);
    Ok(changed("calendar", name, known.version, differences(&value(&from), &value(&to))))
}

fn created(kind: &'static str, name: &str) -> Change {
    Change { kind, name: name.to_owned(), change: "create", differences: Vec::new(), version: 0 }
}

fn changed(kind: &'static str, name: &str, version: u64, differences: Vec<Difference>) -> Change {
    let change = if differences.is_empty() { "none" } else { "change" };
    Change { kind, name: name.to_owned(), change, differences, version }
}

fn value(spec: &impl Serialize) -> Value {
    // Structs with string keys always serialise.
    serde_json::to_value(spec).expect("a job serialises")
}

fn show(change: &Change, mode: Mode) -> std::io::Result<()> {
    let what = match (change.change, mode) {
        ("create", Mode::Apply) => "created",
        ("create", Mode::Diff) => "is not there",
        ("change", Mode::Apply) => "changed",
        ("change", Mode::Diff) => "differs",
        _ => "as it is",
    };
    output::line(&format!("{} {}: {what}", change.kind, change.name))?;
    change.differences.iter().try_for_each(|difference| output::line(&format!("  {difference}")))
}

/// Makes the changes, each of the version that was compared: who edits meanwhile is not written over. Each is shown
/// once it is made, so that after a refusal it can be seen how far it came.
async fn make(client: &Client, written: &Written, changes: &[Change], json: bool) -> Result<(), Failure> {
    let (calendars, jobs) = changes.split_at(written.calendars.len());
    for ((name, spec), change) in written.calendars.iter().zip(calendars) {
        if change.change != "none" {
            let put = client.put_calendar(name, spec, Some(change.version)).await;
            put.map_err(|error| named(Failure::from(error), "calendar", name))?;
        }
        if !json {
            show(change, Mode::Apply)?;
        }
    }
    for ((id, spec), change) in written.jobs.iter().zip(jobs) {
        if change.change != "none" {
            let put = client.put_job(id, spec, Some(change.version)).await;
            put.map_err(|error| named(file::pointed(error, &value(spec)), "job", id))?;
        }
        if !json {
            show(change, Mode::Apply)?;
        }
    }
    Ok(())
}

fn named(failure: Failure, kind: &str, name: &str) -> Failure {
    Failure { code: failure.code, error: failure.error.context(format!("{kind} {name:?}")) }
}
