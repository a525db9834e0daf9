//! Jobs as people read them.

use std::io;

use orloj_wire::rest::job::{HistoryEntry, HistoryPage, Job, JobCounts};
use orloj_wire::rest::preview::PreviewAnswer;
use serde_json::Value;

use super::super::output;

/// Jobs, one a line.
pub(super) fn jobs(jobs: &[Job], json: bool) -> io::Result<()> {
    if json {
        return output::json(&jobs);
    }
    let mut table =
        output::table(["job", "version", "state", "next fire", "open", "fired", "missed", "handler"]);
    for job in jobs {
        let state = &job.state;
        table.add_row([
            job.job_id.clone(),
            job.version.to_string(),
            if state.paused.is_some() { "paused" } else { "on" }.to_owned(),
            state.next_fire.as_ref().map_or_else(|| "-".to_owned(), |next| next.local.clone()),
            state.open_tasks.to_string(),
            state.counts.fired.to_string(),
            state.counts.missed.to_string(),
            job.definition["handler"].as_str().unwrap_or("-").to_owned(),
        ]);
    }
    output::print(&table)
}

/// One job.
pub(super) fn job(job: &Job, json: bool) -> io::Result<()> {
    if json {
        return output::json(job);
    }
    let (definition, state) = (&job.definition, &job.state);
    let text = |field: &str| definition[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let paused = state.paused.as_ref().map(|paused| match paused.note.as_str() {
        "" => format!("since {}", paused.since),
        note => format!("since {}: {note}", paused.since),
    });
    let next = state.next_fire.as_ref().map(|next| format!("{} ({})", next.local, next.scheduled_at));
    let calendars = definition["calendars"].as_array().filter(|names| !names.is_empty());
    output::fields(&[
        ("job", Some(job.job_id.clone())),
        ("title", text("title")),
        ("version", Some(job.version.to_string())),
        ("handler", text("handler")),
        ("overlap", text("overlap")),
        ("misfire", text("misfire")),
        ("max running", definition["maxRunning"].as_u64().map(|most| most.to_string())),
        ("calendars", calendars.map(|names| words(names))),
        ("paused", paused),
        ("next fire", next),
        ("open tasks", Some(state.open_tasks.to_string())),
        ("backfill", state.backfilling.then(|| "under way".to_owned())),
        ("counts", Some(counts(&state.counts))),
        ("params", definition.get("params").map(ToString::to_string)),
    ])?;
    for step in definition["steps"].as_array().into_iter().flatten() {
        output::line(&format!("step        {step}"))?;
    }
    for trigger in definition["triggers"].as_array().into_iter().flatten() {
        output::line(&format!("trigger     {trigger}"))?;
    }
    Ok(())
}

fn words(values: &[Value]) -> String {
    values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

fn counts(counts: &JobCounts) -> String {
    let mut text = format!("{} fired, {} missed", counts.fired, counts.missed);
    for (reason, count) in &counts.skipped {
        text.push_str(&format!(", {count} skipped ({reason})"));
    }
    text
}

/// A page of history.
pub(super) fn history(page: &HistoryPage, json: bool) -> io::Result<()> {
    if json {
        return output::json(page);
    }
    output::line(&format!("{}: {}", page.job_id, counts(&page.counts)))?;
    let mut table = output::table(["number", "at", "what", "instant", "task or count"]);
    for entry in &page.entries {
        let (what, instant, result) = row(entry);
        table.add_row([entry.number.to_string(), entry.at.to_string(), what, instant, result]);
    }
    output::print(&table)
}

fn row(entry: &HistoryEntry) -> (String, String, String) {
    let cause = entry.cause.as_deref().unwrap_or("-");
    let stretch = match (entry.from, entry.to) {
        (Some(from), Some(to)) if from != to => format!("{from} to {to}"),
        (Some(from), _) => from.to_string(),
        _ => entry.scheduled_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
    };
    match entry.kind.as_str() {
        "fired" => {
            let waited = if entry.queued == Some(true) { " (waited)" } else { "" };
            let task = entry.task_id.clone().unwrap_or_default();
            (format!("fired by {cause}"), stretch, format!("{task}{waited}"))
        }
        "skipped" => {
            let reason = entry.reason.map_or("-", |reason| reason.name());
            let more = if entry.exact == Some(false) { "more than " } else { "" };
            (format!("skipped: {reason}"), stretch, format!("{more}{}", entry.count.unwrap_or(0)))
        }
        other => {
            let (fired, skipped) = (entry.fired.unwrap_or(0), entry.skipped.unwrap_or(0));
            let ended = match (entry.through, entry.to) {
                (Some(through), Some(to)) if through < to => format!(", stopped at {through}"),
                (None, _) => ", stopped before its first instant".to_owned(),
                _ => String::new(),
            };
            (other.to_owned(), stretch, format!("{fired} fired, {skipped} skipped{ended}"))
        }
    }
}

/// A preview.
pub(super) fn preview(answer: &PreviewAnswer, json: bool) -> io::Result<()> {
    if json {
        return output::json(answer);
    }
    let mut table = output::table(["scheduled at", "local", "clock change"]);
    for fire in &answer.fires {
        let dst = fire.dst.and_then(|dst| serde_json::to_value(dst).ok());
        let dst = dst.as_ref().and_then(Value::as_str).unwrap_or("").to_owned();
        table.add_row([fire.scheduled_at.to_string(), fire.local.clone(), dst]);
    }
    output::print(&table)?;
    if answer.fires.is_empty() {
        output::line("no fires")?;
    }
    for skip in &answer.skipped {
        output::line(&format!("skipped  {}  {}", skip.local, skip.reason.name()))?;
    }
    if answer.truncated {
        output::line("… and more that are skipped")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backfill_that_was_stopped_says_where() {
        let entry = |through: Option<&str>| -> HistoryEntry {
            serde_json::from_value(serde_json::json!({
                "number": 7, "at": "2027-01-15T08:00:00Z", "kind": "backfilled", "from": "2027-01-01T00:00:00Z",
                "to": "2027-01-10T00:00:00Z", "through": through, "fired": 3, "skipped": 0,
            }))
            .expect("an entry as the API shows it")
        };
        let told = |through| row(&entry(through)).2;
        assert_eq!(told(Some("2027-01-10T00:00:00Z")), "3 fired, 0 skipped");
        assert!(told(Some("2027-01-03T00:00:00Z")).ends_with("stopped at 2027-01-03T00:00:00.000Z"));
        assert!(told(None).ends_with("stopped before its first instant"));
    }
}
