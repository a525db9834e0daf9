//! Files with jobs and calendars: TOML, JSON or YAML with the names of the API.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use orloj_client::Error;
use orloj_wire::json::Strict;
use orloj_wire::problem::FieldError;
use orloj_wire::rest::job::JobSpec;
use orloj_wire::rest::trigger::CalendarSpec;
use serde_json::{Map, Number, Value};

use crate::exit::Failure;

/// What files say.
#[derive(Debug, Default)]
pub struct Written {
    /// Jobs, each with its id.
    pub jobs: Vec<(String, JobSpec)>,
    /// Calendars with their names.
    pub calendars: Vec<(String, CalendarSpec)>,
}

/// Reads files.
///
/// # Errors
/// A file that cannot be read or understood, or a name that stands there twice, with the place.
pub fn read_all<P: AsRef<Path>>(paths: &[P], now: i64) -> anyhow::Result<Written> {
    let mut written = Written::default();
    for path in paths {
        let path = path.as_ref();
        let added = value(path).and_then(|value| add(&mut written, value, now));
        added.with_context(|| path.display().to_string())?;
    }
    let mut seen = BTreeSet::new();
    let names = written.jobs.iter().map(|(name, _)| ("job", name));
    let names = names.chain(written.calendars.iter().map(|(name, _)| ("calendar", name)));
    for (kind, name) in names {
        if !seen.insert((kind, name)) {
            bail!("{kind} {name:?} stands there twice");
        }
    }
    Ok(written)
}

/// The value of a file, by the end of its name; of standard input it is YAML, of which JSON is a part.
///
/// # Errors
/// It cannot be read or is not of its kind.
pub fn value(path: &Path) -> anyhow::Result<Value> {
    let text = match path.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            text
        }
        _ => std::fs::read_to_string(path).context("cannot read the file")?,
    };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => from_toml(toml::Value::Table(toml::from_str(&text)?)),
        Some("json") => {
            let Strict(value) =
                orloj_wire::json::read(text.as_bytes()).map_err(|fault| anyhow!(shown(&fault)))?;
            Ok(value)
        }
        Some("yaml" | "yml") => from_yaml(&text),
        None if path == Path::new("-") => from_yaml(&text),
        _ => bail!("the name does not end in .toml, .json, .yaml or .yml"),
    }
}

fn from_yaml(text: &str) -> anyhow::Result<Value> {
    // The plain form of an error speaks of the reader's own options.
    let value = serde_saphyr::from_str(text).map_err(|error| {
        let words = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        anyhow!(words)
    })?;
    whole_numbers(value, &mut String::new())
}

/// The reader takes whole numbers that are longer than 64 bits, or begin with 0, for ones with a fraction. The first would
/// be other numbers then.
fn whole_numbers(value: Value, at: &mut String) -> anyhow::Result<Value> {
    /// From here on a double does not tell neighbours apart.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let length = at.len();
    let mut below = |part: &str, value: Value| {
        at.push('/');
        at.push_str(part);
        let value = whole_numbers(value, at);
        at.truncate(length);
        value
    };
    Ok(match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() != 0.0 {
                return Ok(Value::Number(number));
            }
            if float.abs() >= EXACT {
                bail!(
                    "{at}: {float} would be read as another number; write it in quotes, or with at most 64 bits"
                );
            }
            Value::from(float as i64)
        }
        Value::Array(items) => {
            let items = items.into_iter().enumerate().map(|(place, item)| below(&place.to_string(), item));
            Value::Array(items.collect::<anyhow::Result<_>>()?)
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, field)| {
                let field = below(&name, field)?;
                Ok((name, field))
            });
            Value::Object(fields.collect::<anyhow::Result<Map<_, _>>>()?)
        }
        other => other,
    })
}

/// TOML's own instants become the text that they stand for.
fn from_toml(value: toml::Value) -> anyhow::Result<Value> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Number::from_f64(number)
            .map(Value::Number)
            .with_context(|| format!("{number} is no number of JSON"))?,
        toml::Value::Boolean(value) => Value::Bool(value),
        toml::Value::Datetime(instant) => Value::String(instant.to_string()),
        toml::Value::Array(items) => items.into_iter().map(from_toml).collect::<anyhow::Result<_>>()?,
        toml::Value::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| Ok((key, from_toml(value)?)));
            Value::Object(entries.collect::<anyhow::Result<Map<_, _>>>()?)
        }
    })
}

/// One job, a list of jobs, or an object with `jobs` and `calendars`.
fn add(written: &mut Written, value: Value, now: i64) -> anyhow::Result<()> {
    match value {
        Value::Array(jobs) => add_jobs(written, jobs, now),
        Value::Object(mut fields) if holds_lists(&fields) => {
            let mut list = |name: &str| match fields.remove(name) {
                None => Ok(Vec::new()),
                Some(Value::Array(items)) => Ok(items),
                Some(_) => Err(anyhow!("{name} is not a list")),
            };
            let (jobs, calendars) = (list("jobs")?, list("calendars")?);
            if let Some(name) = fields.keys().next() {
                bail!("{name:?} is neither jobs nor calendars");
            }
            for (place, calendar) in calendars.into_iter().enumerate() {
                let at = || format!("calendars[{place}]");
                written.calendars.push(calendar_of(calendar).with_context(at)?);
            }
            add_jobs(written, jobs, now)
        }
        job @ Value::Object(_) => add_jobs(written, vec![job], now),
        _ => bail!("it holds neither a job nor a list of jobs"),
    }
}

/// Whether an object holds `jobs` and `calendars`. A job has `calendars`, too.
fn holds_lists(fields: &Map<String, Value>) -> bool {
    let is_job = ["jobId", "handler", "steps"].iter().any(|field| fields.contains_key(*field));
    fields.contains_key("jobs") || (fields.contains_key("calendars") && !is_job)
}

fn add_jobs(written: &mut Written, jobs: Vec<Value>, now: i64) -> anyhow::Result<()> {
    for (place, value) in jobs.into_iter().enumerate() {
        let id = value.get("jobId").and_then(Value::as_str);
        let named = || id.map_or_else(|| format!("jobs[{place}]"), |id| format!("jobs[{place}]: {id:?}"));
        written.jobs.push(job_of(&value, now).with_context(named)?);
    }
    Ok(())
}

/// Checks what can be checked without the cluster, so that a file with a mistake changes nothing.
fn job_of(value: &Value, now: i64) -> anyhow::Result<(String, JobSpec)> {
    if value.get("definition").is_some() && value.get("appliedIndex").is_some() {
        let id = value["jobId"].as_str().unwrap_or("JOB");
        bail!(
            "this is a job as the API shows it, with its state; `orloj job get {id} --definition` prints what `apply` takes"
        );
    }
    let spec: JobSpec = orloj_wire::json::read_object(value.to_string().as_bytes())
        .map_err(|fault| anyhow!(shown(&fault)))?;
    let id = spec.job_id.clone().context(
        "jobId is missing; `orloj job get JOB --definition` prints the definition of a job with it",
    )?;
    let mut faults = spec.faults(&id);
    faults.extend(spec.check_triggers(now).err().into_iter().flatten());
    match faults.is_empty() {
        true => Ok((id, spec)),
        false => Err(anyhow!(listed(&faults, value).trim_start_matches('\n').to_owned())),
    }
}

fn calendar_of(mut value: Value) -> anyhow::Result<(String, CalendarSpec)> {
    if value.get("calendar").is_some() && value.get("appliedIndex").is_some() {
        bail!("this is a calendar as the API shows it; take its name and what stands under \"calendar\"");
    }
    let name = value.as_object_mut().and_then(|fields| fields.remove("name"));
    let Some(Value::String(name)) = name else { bail!("name is missing") };
    Ok((name, calendar(&value)?))
}

/// A calendar without its name.
///
/// # Errors
/// What is wrong with it.
pub fn calendar(value: &Value) -> anyhow::Result<CalendarSpec> {
    let spec: CalendarSpec = orloj_wire::json::read_object(value.to_string().as_bytes())
        .map_err(|fault| anyhow!(shown(&fault)))?;
    spec.check().map_err(|error| anyhow!(error))?;
    Ok(spec)
}

fn shown(fault: &FieldError) -> String {
    match fault.pointer.as_str() {
        "" => fault.message.clone(),
        pointer => format!("{pointer}: {}", fault.message),
    }
}

/// Faults, a line each; where one lies in a text, the text with a mark under the character.
pub fn listed(faults: &[FieldError], value: &Value) -> String {
    faults.iter().map(|fault| format!("\n  {}{}", shown(fault), marked(fault, value))).collect()
}

/// The text that a fault lies in, with a mark under the character; nothing where it lies in none.
fn marked(fault: &FieldError, value: &Value) -> String {
    const LONGEST: usize = 200;
    let found = value.pointer(&fault.pointer).and_then(Value::as_str);
    let fits = |text: &&str| text.chars().count() <= LONGEST && !text.chars().any(char::is_control);
    match (fault.position, found.filter(fits)) {
        (Some(position), Some(found)) => format!("\n    {found}\n    {}^", " ".repeat(position)),
        _ => String::new(),
    }
}

/// An error of the API, with a mark under each character of `value`, the body, that it points at. What the error has said
/// already is not said again.
pub fn pointed(error: Error, value: &Value) -> Failure {
    let faults: Vec<FieldError> = match &error {
        Error::Problem(problem) => {
            problem.errors.iter().filter(|fault| fault.position.is_some()).cloned().collect()
        }
        _ => Vec::new(),
    };
    let Failure { code, error } = Failure::from(error);
    if faults.is_empty() {
        return Failure { code, error };
    }
    let told = format!("{error:#}");
    let pointing = |fault: &FieldError| {
        let what = match (told.contains(&fault.message), faults.len()) {
            (true, 1) => String::new(),
            (true, _) => format!("\n  {}", fault.pointer),
            (false, _) => format!("\n  {}", shown(fault)),
        };
        format!("{what}{}", marked(fault, value))
    };
    let places: String = faults.iter().map(pointing).collect();
    Failure { code, error: anyhow!("{told}{places}") }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
