//! `orloj job apply` and `orloj job diff`

use std::collections::BTreeSet;
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
use super::fate::{self, Fate, Refused};
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
pub(super) struct Change {
    kind: &'static str,
    name: String,
    /// `create`, `change` or `none`.
    pub(super) change: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) differences: Vec<Difference>,
    /// The version that is there; 0 for none.
    #[serde(skip)]
    pub(super) version: u64,
    /// What became of it; of a difference that is only shown, [`Fate::Refused`] where it would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Fate>,
    /// Why that was not what was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
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
        Mode::Apply => make(&client, &written, &mut changes, json).await?,
        Mode::Diff => judge(&client, &written, &mut changes).await?,
    }
    if json {
        output::json(&changes)?;
    } else if mode == Mode::Diff {
        changes.iter().try_for_each(|change| show(change, mode))?;
    }
    let fates: Vec<Fate> = changes.iter().filter_map(|change| change.result).collect();
    if mode == Mode::Apply {
        if !json {
            output::line(&fate::summary(&fates))?;
        }
        return Ok(fate::code(&fates));
    }
    let differ = changes.iter().any(|change| change.change != "none");
    Ok(match fates.is_empty() {
        false => fate::code(&fates),
        true if differ => Code::TaskFailed.into(),
        true => ExitCode::SUCCESS,
    })
}

/// What is there, if anything is.
pub(super) fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Error::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// How a job differs from the one that is there.
///
/// # Errors
/// The server is newer than this program, or a trigger of the job is not acceptable beside the one that is there.
pub(super) fn job_change(id: &str, spec: &JobSpec, known: Option<Job>) -> Result<Change, Failure> {
    let Some(known) = known else { return Ok(created("job", id)) };
    let newer = |fault: orloj_wire::problem::FieldError| {
        anyhow!("job {id:?}: the server is newer than this program: {}: {}", fault.pointer, fault.message)
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
        anyhow!(
            "calendar {name:?}: the server is newer than this program: {}: {}",
            fault.pointer,
            fault.message
        )
    };
    let from = known.spec().map_err(newer)?;
    let to = spec.check().map_err(|error| Failure::usage(anyhow!("calendar {name:?}: {error}")))?;
    let to = CalendarSpec::from(&to);
    Ok(changed("calendar", name, known.version, differences(&value(&from), &value(&to))))
}

fn created(kind: &'static str, name: &str) -> Change {
    Change { change: "create", ..changed(kind, name, 0, Vec::new()) }
}

fn changed(kind: &'static str, name: &str, version: u64, differences: Vec<Difference>) -> Change {
    let change = if differences.is_empty() { "none" } else { "change" };
    Change { kind, name: name.to_owned(), change, differences, version, result: None, why: None }
}

pub(super) fn value(spec: &impl Serialize) -> Value {
    // Structs with string keys always serialise.
    serde_json::to_value(spec).expect("a job serialises")
}

fn show(change: &Change, mode: Mode) -> std::io::Result<()> {
    let what = match (change.result, change.change, mode) {
        (Some(Fate::Refused), _, Mode::Apply) => "refused",
        (Some(Fate::Unknown), _, Mode::Apply) => "not known whether it was made",
        (Some(Fate::NotTried), _, Mode::Apply) => "not tried",
        (_, "create", Mode::Apply) => "created",
        (_, "change", Mode::Apply) => "changed",
        (_, "create", Mode::Diff) => "is not there",
        (_, "change", Mode::Diff) => "differs",
        _ => "as it is",
    };
    let why = match (&change.why, mode) {
        (None, _) => String::new(),
        (Some(why), Mode::Apply) => format!(": {why}"),
        (Some(why), Mode::Diff) => format!(", and would be refused: {why}"),
    };
    output::line(&format!("{} {}: {what}{why}", change.kind, change.name))?;
    change.differences.iter().try_for_each(|difference| output::line(&format!("  {difference}")))
}

/// Makes the changes, each by itself and of the version that was compared: who edits meanwhile is not written over, and
/// one that is refused keeps back none of the others. Only when nobody answers any more is nothing else tried.
async fn make(client: &Client, written: &Written, changes: &mut [Change], json: bool) -> Result<(), Failure> {
    let mut lost = false;
    let (calendars, jobs) = changes.split_at_mut(written.calendars.len());
    for ((name, spec), change) in written.calendars.iter().zip(calendars) {
        let made = match lost || change.change == "none" {
            true => Ok(()),
            false => client.put_calendar(name, spec, Some(change.version)).await.map(drop),
        };
        settle(change, made.map_err(|error| Refused::by(error, &value(spec))), &mut lost, json)?;
    }
    for ((id, spec), change) in written.jobs.iter().zip(jobs) {
        let made = match lost || change.change == "none" {
            true => Ok(()),
            false => client.put_job(id, spec, Some(change.version)).await.map(drop),
        };
        settle(change, made.map_err(|error| Refused::by(error, &value(spec))), &mut lost, json)?;
    }
    Ok(())
}

/// Writes down what became of a change, and shows it.
fn settle(
    change: &mut Change,
    made: Result<(), Refused>,
    lost: &mut bool,
    json: bool,
) -> std::io::Result<()> {
    change.result = Some(match (&made, change.change) {
        (Err(refused), _) => refused.fate,
        (Ok(()), "none") => Fate::Unchanged,
        (Ok(()), _) if *lost => Fate::NotTried,
        (Ok(()), "create") => Fate::Created,
        (Ok(()), _) => Fate::Updated,
    });
    *lost |= change.result == Some(Fate::Unknown);
    change.why = made.err().map(|refused| refused.why);
    if json { Ok(()) } else { show(change, Mode::Apply) }
}

/// Asks the cluster which of the jobs that differ it would refuse. One that names a calendar of the same files that is
/// not there yet cannot be asked about before that is.
async fn judge(client: &Client, written: &Written, changes: &mut [Change]) -> Result<(), Failure> {
    let (calendars, jobs) = changes.split_at_mut(written.calendars.len());
    let to_come: BTreeSet<&str> =
        calendars.iter().filter(|one| one.change == "create").map(|one| one.name.as_str()).collect();
    for ((id, spec), change) in written.jobs.iter().zip(jobs) {
        if change.change == "none" || spec.calendars.iter().any(|name| to_come.contains(name.as_str())) {
            continue;
        }
        match client.check_job(id, spec, Some(change.version)).await {
            Ok(_) => {}
            Err(error @ Error::Problem(_)) => {
                let refused = Refused::by(error, &value(spec));
                (change.result, change.why) = (Some(refused.fate), Some(refused.why));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
