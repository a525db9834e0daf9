//! `orloj job import`: the jobs of another scheduler as jobs of this one. The mapping itself is pure, and stands in
//! docs/jobs.md.

mod cron;
mod csv;
mod dkron;
mod join;
mod take;
mod xxl;

use std::fs;

use anyhow::{Context as _, anyhow};
use orloj_model::trigger::Zone;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::json::Strict;
use orloj_wire::problem::FieldError;
use orloj_wire::rest::job::JobSpec;
use serde::Serialize;
use serde_json::{Map, Value};

use self::take::{Report, Wish};
use super::super::{Principal, connect, output};
use super::file::listed;
use crate::args::{ImportArgs, Source};
use crate::exit::{Failure, Outcome};

/// One job of the other scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Imported {
    /// Its id here.
    job_id: String,
    /// What it becomes.
    job: JobSpec,
    /// It was switched off there, and is paused here.
    paused: bool,
    /// What of it does not map, or means something else here.
    notes: Vec<String>,
    /// The jobs that became steps of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    joined: Vec<String>,
    /// Jobs that were started when it had succeeded, by their ids here.
    #[serde(skip)]
    runs_before: Vec<String>,
    /// The job after whose success it was started.
    #[serde(skip)]
    runs_after: Option<String>,
}

/// A job that cannot be taken over.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LeftOut {
    name: String,
    why: String,
}

/// What a file comes to.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Import {
    jobs: Vec<Imported>,
    left_out: Vec<LeftOut>,
}

impl Import {
    /// Takes a job, or leaves it out where the mapping says so or what came of it is not acceptable.
    fn add(&mut self, name: String, mapped: Result<Imported, String>, now: i64) {
        let checked = mapped.and_then(|imported| match faults_of(&imported.job_id, &imported.job, now) {
            None => Ok(imported),
            Some(faults) => Err(faults),
        });
        let stands = |id: &str| self.jobs.iter().any(|job| job.job_id == id);
        match checked {
            Ok(imported) if stands(&imported.job_id) => {
                let why = format!("another job of the file has the id {:?} here", imported.job_id);
                self.left_out.push(LeftOut { name, why });
            }
            Ok(imported) => self.jobs.push(imported),
            Err(why) => self.left_out.push(LeftOut { name, why }),
        }
    }
}

/// What is not acceptable in a job, as text.
fn faults_of(id: &str, job: &JobSpec, now: i64) -> Option<String> {
    let mut faults = job.faults(id);
    faults.extend(job.check_triggers(now).err().into_iter().flatten());
    faults.extend(job.submission().faults());
    for (place, step) in job.steps.iter().enumerate() {
        faults.extend(
            step.submission()
                .faults()
                .into_iter()
                .map(|fault| FieldError { pointer: format!("/steps/{place}{}", fault.pointer), ..fault }),
        );
    }
    if faults.is_empty() {
        return None;
    }
    // A struct with string keys always serialises.
    let value = serde_json::to_value(job).expect("a job serialises");
    Some(listed(&faults, &value).trim().to_owned())
}

/// Reads the file, maps it, makes what comes of it or asks what would become of it, and shows that. A dry run needs no
/// cluster: where the environment names one it is asked.
pub(super) async fn run(args: &ImportArgs, json: bool) -> Outcome {
    let zone = Zone::named(&args.time_zone);
    zone.map_err(|error| Failure::usage(anyhow!("--time-zone {:?}: {}", args.time_zone, error.message)))?;
    let import = read(args).with_context(|| args.file.display().to_string()).map_err(Failure::usage)?;
    let mut report = Report::of(&import, Wish { update: args.update, dry_run: args.dry_run });
    if !args.dry_run || std::env::var_os("ORLOJ_URL").is_some() {
        report.take(&connect(Principal::Caller)?).await;
    }
    if json {
        output::json(&report)?;
    } else {
        report.show()?;
    }
    Ok(report.code())
}

fn read(args: &ImportArgs) -> anyhow::Result<Import> {
    let text = fs::read_to_string(&args.file).context("cannot read the file")?;
    let rows = match args.file.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => csv::rows(&text)?,
        _ => rows(&text)?,
    };
    let now = SystemClock::new().wall_ms();
    let mut import = Import::default();
    for row in &rows {
        let (name, mapped) = match args.from {
            Source::Dkron => dkron::map(row, &args.time_zone),
            Source::XxlJob => xxl::map(row, &args.time_zone),
        };
        import.add(name, mapped, now);
    }
    import.join(now);
    Ok(import)
}

/// The objects of a JSON text: one, a list, or the only list of an object, however that is called.
fn rows(text: &str) -> anyhow::Result<Vec<Map<String, Value>>> {
    let Strict(value) = orloj_wire::json::read(text.as_bytes()).map_err(|fault| anyhow!(fault.message))?;
    let items = match value {
        Value::Array(items) => items,
        Value::Object(fields) => match fields.values().filter(|value| value.is_array()).count() {
            1 if fields.len() <= 4 => {
                let list = fields.into_iter().find(|(_, value)| value.is_array());
                list.and_then(|(_, value)| value.as_array().cloned()).unwrap_or_default()
            }
            _ => vec![Value::Object(fields)],
        },
        _ => Vec::new(),
    };
    let row = |item| match item {
        Value::Object(row) => Ok(row),
        other => Err(anyhow!("{other} is no job")),
    };
    items.into_iter().map(row).collect()
}

/// The text of a field, where it has one.
fn text<'a>(row: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    row.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The number of a field, which may be written as a text.
fn number(row: &Map<String, Value>, name: &str) -> Option<u64> {
    let value = row.get(name)?;
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
