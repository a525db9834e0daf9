//! The rows of xxl-job's table `xxl_job_info`. Pure.

use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_wire::rest::job::{JobSpec, Misfire};
use orloj_wire::rest::trigger::{KindName, TriggerSpec};
use orloj_wire::rest::{Retry, Strategy};
use serde_json::{Map, Value, json};

use super::cron::{from_quartz, restricts_both_days};
use super::{Imported, number, text};

/// The most retries of a job here.
const MAX_RETRIES: u64 = 10;

/// One job, by its number and its description.
pub(super) fn map(row: &Map<String, Value>, zone: &str) -> (String, Result<Imported, String>) {
    // The table writes job_desc, the console's own API jobDesc.
    let row: Map<String, Value> = row.iter().map(|(name, value)| (snake(name), value.clone())).collect();
    let id = number(&row, "id");
    let name = match (id, text(&row, "job_desc")) {
        (Some(id), Some(title)) => format!("{id} {title}"),
        (Some(id), None) => id.to_string(),
        (None, title) => title.unwrap_or("(without an id)").to_owned(),
    };
    let mapped = match id {
        Some(id) => job(&row, id, zone),
        None => Err("it has no id".to_owned()),
    };
    (name, mapped)
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    // Two spellings of one column.
    if snake == "child_job_id" { "child_jobid".to_owned() } else { snake }
}

fn job(row: &Map<String, Value>, id: u64, zone: &str) -> Result<Imported, String> {
    let mut notes = Vec::new();
    let (handler, params) = handler(row, &mut notes)?;
    let mut job = JobSpec::new(handler, params);
    let job_id = format!("xxl-{id}");
    job.job_id = Some(job_id.clone());
    job.title = text(row, "job_desc").unwrap_or_default().to_owned();
    job.allow_unknown_handler = true;
    job.triggers = trigger(row, zone, &mut notes)?.into_iter().collect();
    policies(row, &mut job, &mut notes)?;
    route(row, &mut job, &mut notes)?;
    job.timeout_ms = number(row, "executor_timeout").filter(|s| *s > 0).map(|s| s.saturating_mul(1_000));
    let retries = number(row, "executor_fail_retry_count").unwrap_or(0);
    if retries > MAX_RETRIES {
        notes.push(format!("executor_fail_retry_count {retries}: {MAX_RETRIES} at most"));
    }
    job.retry = Some(Retry { max_retries: retries.min(MAX_RETRIES), ..Retry::default() });
    let runs_before = children(row, &mut notes);
    for field in ["author", "alarm_email"] {
        if let Some(value) = text(row, field) {
            notes.push(format!("{field} {value:?}"));
        }
    }
    if let Some(group) = number(row, "job_group") {
        notes.push(format!(
            "job_group {group}: give the job a label where not every executor has its handler"
        ));
    }
    let paused = number(row, "trigger_status") != Some(1);
    Ok(Imported { job_id, job, paused, notes, joined: Vec::new(), runs_before, runs_after: None })
}

/// The jobs that it starts when it has succeeded.
fn children(row: &Map<String, Value>, notes: &mut Vec<String>) -> Vec<String> {
    // A single one may be written as a number.
    let list = text(row, "child_jobid").map(str::to_owned);
    let list = list.or_else(|| number(row, "child_jobid").filter(|id| *id > 0).map(|id| id.to_string()));
    let list = list.unwrap_or_default();
    let mut children = Vec::new();
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        match id.parse::<u64>() {
            Ok(id) => children.push(format!("xxl-{id}")),
            Err(_) => notes.push(format!("child_jobid {id:?} is no number of a job")),
        }
    }
    children
}

fn handler(row: &Map<String, Value>, notes: &mut Vec<String>) -> Result<(String, Value), String> {
    let parameter = text(row, "executor_param");
    match text(row, "glue_type").unwrap_or("BEAN") {
        "BEAN" => {
            let name = text(row, "executor_handler").ok_or("it has no executor_handler")?;
            let parameter = parameter.unwrap_or_default().replace("${", "$${");
            Ok((name.to_owned(), json!({ "param": parameter })))
        }
        "GLUE_SHELL" => {
            let source = text(row, "glue_source").ok_or("it has no glue_source")?;
            if let Some(parameter) = parameter {
                notes.push(format!("executor_param {parameter:?}: was the script's first argument"));
            }
            Ok(("shell".to_owned(), json!({ "command": source.replace("${", "$${") })))
        }
        other => Err(format!("glue_type {other}: its source cannot be run here; make a handler of it")),
    }
}

/// The trigger; none of a job that is run by hand.
fn trigger(
    row: &Map<String, Value>,
    zone: &str,
    notes: &mut Vec<String>,
) -> Result<Option<TriggerSpec>, String> {
    // Before 2.3 the expression stood in a column of its own.
    let old = text(row, "job_cron");
    let kind = text(row, "schedule_type").unwrap_or(if old.is_some() { "CRON" } else { "NONE" });
    let conf = text(row, "schedule_conf").or(old);
    match kind {
        "NONE" => Ok(None),
        "CRON" => {
            let conf = conf.ok_or("schedule_conf is empty")?;
            notes.push(format!("local times are taken as {zone}, see --time-zone"));
            let both = restricts_both_days(conf);
            Ok(Some(TriggerSpec {
                expression: Some(from_quartz(conf)),
                time_zone: Some(zone.to_owned()),
                day_rule: both.then_some(orloj_model::trigger::DayRule::And),
                ..TriggerSpec::of(KindName::Cron)
            }))
        }
        "FIX_RATE" => {
            let seconds: Option<u64> = conf.and_then(|conf| conf.trim().parse().ok());
            let seconds = seconds.ok_or_else(|| format!("schedule_conf {conf:?} is no number of seconds"))?;
            let every_ms = Some(seconds.saturating_mul(1_000));
            Ok(Some(TriggerSpec { every_ms, ..TriggerSpec::of(KindName::FixedRate) }))
        }
        other => Err(format!("schedule_type {other}")),
    }
}

fn policies(row: &Map<String, Value>, job: &mut JobSpec, notes: &mut Vec<String>) -> Result<(), String> {
    job.misfire = Some(match text(row, "misfire_strategy").unwrap_or("DO_NOTHING") {
        "DO_NOTHING" => Misfire::Skip,
        "FIRE_ONCE_NOW" => Misfire::FireOnce,
        other => return Err(format!("misfire_strategy {other}")),
    });
    job.overlap = Some(match text(row, "executor_block_strategy").unwrap_or("SERIAL_EXECUTION") {
        "SERIAL_EXECUTION" => {
            notes.push(
                "executor_block_strategy SERIAL_EXECUTION: here one task waits, further ones are skipped"
                    .into(),
            );
            OverlapPolicy::Queue
        }
        "DISCARD_LATER" => OverlapPolicy::Skip,
        "COVER_EARLY" => OverlapPolicy::CancelOther,
        other => return Err(format!("executor_block_strategy {other}")),
    });
    Ok(())
}

fn route(row: &Map<String, Value>, job: &mut JobSpec, notes: &mut Vec<String>) -> Result<(), String> {
    let route = text(row, "executor_route_strategy").unwrap_or("CONSISTENT_HASH");
    let (strategy, exact) = match route {
        "CONSISTENT_HASH" => (Strategy::Ring, true),
        "ROUND" => (Strategy::RoundRobin, true),
        "RANDOM" => (Strategy::Random, true),
        // A handler moves to another executor by itself when one is gone or full.
        "FAILOVER" | "BUSYOVER" => (Strategy::Ring, true),
        "LEAST_FREQUENTLY_USED" | "LEAST_RECENTLY_USED" => (Strategy::LeastLoaded, false),
        "FIRST" | "LAST" => (Strategy::Ring, false),
        "SHARDING_BROADCAST" => (Strategy::Broadcast, true),
        other => return Err(format!("executor_route_strategy {other}")),
    };
    if !exact {
        notes.push(format!("executor_route_strategy {route}"));
    }
    job.strategy = Some(strategy);
    Ok(())
}
