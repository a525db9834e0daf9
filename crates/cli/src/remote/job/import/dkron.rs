//! Dkron's jobs, as `GET /v1/jobs` answers them. Pure.

use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_wire::rest::Retry;
use orloj_wire::rest::job::JobSpec;
use orloj_wire::rest::trigger::{KindName, TriggerSpec};
use orloj_wire::time::Time;
use serde_json::{Map, Value, json};

use super::cron::from_robfig;
use super::{Imported, number, text};

/// The most retries of a job here.
const MAX_RETRIES: u64 = 10;
/// Fields that say how a job has been, not what it is.
const REPORTS: [&str; 9] = [
    "id",
    "success_count",
    "error_count",
    "last_success",
    "last_error",
    "status",
    "next",
    "parent_job_status",
    "dependent_jobs_status",
];

/// One job, by its name.
pub(super) fn map(row: &Map<String, Value>, zone: &str) -> (String, Result<Imported, String>) {
    let name = text(row, "name").unwrap_or("(without a name)").to_owned();
    (name.clone(), job(row, name, zone))
}

fn job(row: &Map<String, Value>, name: String, zone: &str) -> Result<Imported, String> {
    let mut notes = Vec::new();
    let (handler, params, timeout_ms) = executor(row, &mut notes)?;
    let mut job = JobSpec::new(handler, params);
    job.job_id = Some(name.clone());
    job.title = text(row, "displayname").unwrap_or_default().to_owned();
    job.timeout_ms = timeout_ms;
    job.allow_unknown_handler = true;
    job.triggers = trigger(row, zone, &mut notes)?.into_iter().collect();
    job.overlap = Some(match text(row, "concurrency").unwrap_or("allow") {
        "allow" => OverlapPolicy::Allow,
        "forbid" => OverlapPolicy::Skip,
        other => return Err(format!("concurrency {other:?} is neither allow nor forbid")),
    });
    let retries = number(row, "retries").unwrap_or(0);
    if retries > MAX_RETRIES {
        notes.push(format!("retries {retries}: {MAX_RETRIES} at most"));
    }
    job.retry = Some(Retry { max_retries: retries.min(MAX_RETRIES), ..Retry::default() });
    labels(row, &mut job, &mut notes);
    for field in ["owner", "owner_email", "metadata", "processors", "ephemeral"] {
        if let Some(value) = row.get(field).filter(|value| is_set(value)) {
            notes.push(format!("{field} {value}"));
        }
    }
    let known = [
        "name",
        "displayname",
        "timezone",
        "schedule",
        "disabled",
        "tags",
        "retries",
        "concurrency",
        "executor",
        "executor_config",
        "starts_at",
        "expires_at",
        "owner",
        "owner_email",
        "metadata",
        "processors",
        "parent_job",
        "dependent_jobs",
        "ephemeral",
    ];
    for (field, value) in row {
        if !known.contains(&field.as_str()) && !REPORTS.contains(&field.as_str()) && is_set(value) {
            notes.push(format!("{field} {value}"));
        }
    }
    let paused = row.get("disabled").and_then(Value::as_bool).unwrap_or(false);
    let dependents = row.get("dependent_jobs").and_then(Value::as_array).into_iter().flatten();
    let runs_before = dependents.filter_map(Value::as_str).map(str::to_owned).collect();
    let runs_after = text(row, "parent_job").map(str::to_owned);
    Ok(Imported { job_id: name, job, paused, notes, joined: Vec::new(), runs_before, runs_after })
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The trigger of a schedule; none of a job that is run by hand or by its parent.
fn trigger(
    row: &Map<String, Value>,
    zone: &str,
    notes: &mut Vec<String>,
) -> Result<Option<TriggerSpec>, String> {
    let schedule = text(row, "schedule").unwrap_or("@manually").trim();
    let mut trigger = match schedule {
        "@manually" => return Ok(None),
        _ => match schedule.strip_prefix("@at ") {
            Some(at) => {
                let at = Time::parse(at.trim()).map_err(|error| format!("schedule {schedule:?}: {error}"))?;
                TriggerSpec { at: Some(at), ..TriggerSpec::of(KindName::Once) }
            }
            None => {
                let (expression, own) = from_robfig(schedule);
                let named = own.or_else(|| text(row, "timezone"));
                if named.is_none() && !schedule.starts_with("@every") {
                    notes.push(format!("no timezone: local times are taken as {zone}, see --time-zone"));
                }
                TriggerSpec {
                    expression: Some(expression),
                    time_zone: Some(named.unwrap_or(zone).to_owned()),
                    ..TriggerSpec::of(KindName::Cron)
                }
            }
        },
    };
    let instant = |field: &str| match text(row, field) {
        Some(at) => Time::parse(at).map(Some).map_err(|error| format!("{field}: {error}")),
        None => Ok(None),
    };
    trigger.start_at = instant("starts_at")?;
    trigger.end_at = instant("expires_at")?;
    Ok(Some(trigger))
}

/// The handler, its parameters and its timeout.
fn executor(
    row: &Map<String, Value>,
    notes: &mut Vec<String>,
) -> Result<(String, Value, Option<u64>), String> {
    let none = Map::new();
    let config = row.get("executor_config").and_then(Value::as_object).unwrap_or(&none);
    let mut used = vec!["timeout"];
    let (handler, params) = match text(row, "executor") {
        Some("shell") => {
            used.extend(["command", "shell"]);
            let command = text(config, "command").ok_or("executor_config has no command")?;
            ("shell".to_owned(), shell(command, text(config, "shell") == Some("true")))
        }
        Some("http") => {
            used.extend(["method", "url", "headers", "body", "expectCode"]);
            ("http".to_owned(), http(config)?)
        }
        Some(other) => {
            notes.push(format!(
                "executor {other:?} becomes a handler of this name, with executor_config as it is"
            ));
            return Ok((other.to_owned(), escaped(Value::Object(config.clone())), None));
        }
        None => return Err("it has no executor".to_owned()),
    };
    for (field, value) in config {
        if !used.contains(&field.as_str()) && is_set(value) {
            notes.push(format!("executor_config {field} {value}"));
        }
    }
    let timeout_ms = match text(config, "timeout") {
        Some(text) => Some(milliseconds(text).ok_or_else(|| format!("executor_config timeout {text:?}"))?),
        None => None,
    };
    Ok((handler, escaped(params), timeout_ms))
}

/// Without `shell`, Dkron splits the command at blanks, and quotes hold parts together.
fn shell(command: &str, through_a_shell: bool) -> Value {
    if through_a_shell {
        return json!({ "command": command });
    }
    let mut words = words(command).into_iter();
    let program = words.next().unwrap_or_default();
    json!({ "program": program, "args": words.collect::<Vec<_>>() })
}

fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, char) if char.is_whitespace() => words.extend(word.take()),
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

fn http(config: &Map<String, Value>) -> Result<Value, String> {
    let url = text(config, "url").ok_or("executor_config has no url")?;
    let mut params = json!({ "method": text(config, "method").unwrap_or("GET"), "url": url });
    if let Some(body) = text(config, "body") {
        params["body"] = body.into();
    }
    if let Some(code) = text(config, "expectCode") {
        let codes: Result<Vec<u16>, _> = code.split(',').map(|code| code.trim().parse()).collect();
        params["expectedStatus"] = json!(codes.map_err(|_| format!("executor_config expectCode {code:?}"))?);
    }
    if let Some(headers) = text(config, "headers") {
        params["headers"] = header_lines(headers)?;
    }
    Ok(params)
}

/// Dkron keeps headers as a JSON list of lines in a text.
fn header_lines(headers: &str) -> Result<Value, String> {
    let fault = || format!("executor_config headers {headers:?} is no list of lines");
    let lines: Vec<String> = serde_json::from_str(headers).map_err(|_| fault())?;
    let split =
        lines.iter().map(|line| line.split_once(':').map(|(name, value)| (name.trim(), value.trim())));
    let split: Option<Map<String, Value>> =
        split.map(|pair| pair.map(|(name, value)| (name.to_owned(), Value::from(value)))).collect();
    split.map(Value::Object).ok_or_else(fault)
}

/// What would be read as a placeholder here, and is a shell's variable there, is written so that it stays one.
fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("${", "$${")),
        Value::Array(items) => items.into_iter().map(escaped).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, escaped(value))).collect(),
        other => other,
    }
}

/// A duration such as `1h30m` or `45s`.
fn milliseconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0_u64, text.trim());
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit())?;
        let amount: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|char: char| char.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        rest = &rest[end..];
        total = total.checked_add(amount.checked_mul(unit)?)?;
    }
    (total > 0).then_some(total)
}

/// `role: "web:1"` is one of the nodes with this tag: a label. Without a number Dkron runs the job on each of them.
fn labels(row: &Map<String, Value>, job: &mut JobSpec, notes: &mut Vec<String>) {
    for (tag, value) in row.get("tags").and_then(Value::as_object).into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        let (label, count) = match text.rsplit_once(':') {
            Some((label, count)) if count.parse::<u32>().is_ok() => (label, Some(count)),
            _ => (text, None),
        };
        job.labels.insert(tag.clone(), label.to_owned());
        match count {
            Some("1") => {}
            Some(count) => notes.push(format!("tag {tag} {text:?}: it ran on {count} nodes, here on one")),
            None => notes.push(format!("tag {tag} {text:?}: it ran on every node with it, here on one")),
        }
    }
}
