//! Jobs and calendars as the API shows them. Pure.

use orloj_model::graph::{JobFlow, Step};
use orloj_model::job::{
    BackfillRow, CalendarKey, CalendarRow, Counts, Definition, HistoryRow, JobKey, JobOutcome,
};
use orloj_model::query::JobView;
use orloj_model::trigger::{self, Next, Trigger, Zone};
use orloj_wire::json::Strict;
use orloj_wire::rest::job::{
    Backfill, Calendar, HistoryEntry, Job, JobCounts, JobSpec, JobState, Misfire, NextFire, Paused,
};
use orloj_wire::rest::trigger::{CalendarSpec, TriggerSpec};
use orloj_wire::rest::{StepNeed, StepSpec};
use orloj_wire::time::Time;
use serde_json::Value;

use super::Detail;
use super::graph::{on, on_shard_failure};

/// A job.
pub fn job(view: &JobView, detail: Detail, applied_index: u64) -> Job {
    let (job, state) = (&view.job, &view.state);
    let mut definition =
        serde_json::to_value(spec(&job.definition, &view.flow)).expect("a definition serialises");
    if let (Detail::Listed, Value::Object(fields)) = (detail, &mut definition) {
        fields.remove("params");
        fields.remove("steps");
    }
    Job {
        job_id: view.key.job.to_string(),
        version: job.version,
        created_at: Time(job.created_at),
        updated_at: Time(job.updated_at),
        definition,
        state: JobState {
            paused: state
                .paused
                .as_ref()
                .map(|pause| Paused { note: pause.note.clone(), since: Time(pause.at) }),
            next_fire: state.next.as_ref().map(|next| next_fire(next, &job.definition.triggers)),
            open_tasks: state.open,
            queued_task: state.queued.map(|task| task.to_string()),
            backfilling: state.backfilling,
            counts: counts(&state.counts),
        },
        applied_index,
    }
}

/// A step as its owner could have written it.
fn step(step: &Step, all: &[Step]) -> StepSpec {
    let template = &step.template;
    let needs = step.needs.iter().filter_map(|need| {
        let name = all.get(usize::from(need.step))?.name.clone();
        Some(StepNeed { step: name, on: on(need.on) })
    });
    StepSpec {
        depends_on: needs.collect(),
        priority: Some(template.priority.into()),
        timeout_ms: template.timeout_ms,
        retry: Some(super::retry(&template.retry)),
        labels: template.labels.clone(),
        routing_key: template.routing_key.clone(),
        zone: template.zone.clone(),
        strategy: Some(super::strategy(&template.strategy)),
        business_key: template.business_key.clone(),
        shard_total: Some(template.shard_total.into()),
        on_shard_failure: Some(on_shard_failure(step.on_shard_failure)),
        estimated_duration_ms: template.estimated_duration_ms,
        ..StepSpec::new(
            step.name.clone(),
            template.handler.clone(),
            super::json_or_text(template.params.as_bytes()),
        )
    }
}

/// The definition as its owner could have written it, with every default spelled out.
pub fn spec(definition: &Definition, flow: &JobFlow) -> JobSpec {
    let template = &definition.template;
    let (misfire, misfire_cap) = match definition.misfire.policy {
        trigger::Misfire::Skip => (Misfire::Skip, None),
        trigger::Misfire::FireOnce => (Misfire::FireOnce, None),
        trigger::Misfire::FireAll { cap } => (Misfire::FireAll, Some(cap.into())),
    };
    JobSpec {
        title: definition.title.clone(),
        description: definition.description.clone(),
        params: Strict(super::json_or_text(template.params.as_bytes())),
        triggers: definition.triggers.iter().map(TriggerSpec::from).collect(),
        calendars: definition.calendars.iter().map(ToString::to_string).collect(),
        misfire: Some(misfire),
        misfire_cap,
        misfire_grace_ms: Some(definition.misfire.grace_ms),
        overlap: Some(definition.overlap),
        max_running: definition.max_running.map(u64::from),
        priority: Some(template.priority.into()),
        timeout_ms: template.timeout_ms,
        expire_after_ms: template.expire_after_ms,
        retry: Some(super::retry(&template.retry)),
        labels: template.labels.clone(),
        routing_key: template.routing_key.clone(),
        zone: template.zone.clone(),
        strategy: Some(super::strategy(&template.strategy)),
        business_key: template.business_key.clone(),
        shard_total: Some(template.shard_total.into()),
        on_shard_failure: Some(on_shard_failure(flow.on_shard_failure)),
        steps: flow.steps.iter().map(|one| step(one, &flow.steps)).collect(),
        callback_url: template.callback_url.clone(),
        estimated_duration_ms: template.estimated_duration_ms,
        ..JobSpec::new(template.handler.clone(), Value::Null)
    }
}

/// Local times are those of the (first) trigger's zone.
fn next_fire(next: &Next, triggers: &[Trigger]) -> NextFire {
    let first = next.triggers.first().and_then(|place| triggers.get(usize::from(*place)));
    // A zone that this release has lost shows no local time.
    let zone = first.and_then(|trigger| Zone::named(trigger.time_zone()).ok());
    NextFire {
        scheduled_at: Time(next.scheduled_at),
        due_at: Time(next.due_at),
        local: zone.map_or_else(|| Time(next.scheduled_at).to_string(), |zone| zone.show(next.scheduled_at)),
        dst: next.dst,
    }
}

/// What became of a job's instants.
pub fn counts(counts: &Counts) -> JobCounts {
    JobCounts {
        fired: counts.fired,
        missed: counts.missed(),
        skipped: counts.skipped.iter().map(|(reason, count)| (reason.name().to_owned(), *count)).collect(),
    }
}

/// A row of history.
pub fn history(number: u64, row: &HistoryRow) -> HistoryEntry {
    let entry = HistoryEntry {
        number,
        at: Time(row.at),
        kind: String::new(),
        cause: None,
        scheduled_at: None,
        task_id: None,
        queued: None,
        reason: None,
        count: None,
        exact: None,
        from: None,
        to: None,
        through: None,
        fired: None,
        skipped: None,
    };
    match &row.outcome {
        JobOutcome::Fired { scheduled_at, task, cause, queued } => HistoryEntry {
            kind: "fired".to_owned(),
            cause: Some(cause.name().to_owned()),
            scheduled_at: Some(Time(*scheduled_at)),
            task_id: Some(task.to_string()),
            queued: Some(*queued),
            ..entry
        },
        JobOutcome::Skipped { missed, cause } => HistoryEntry {
            kind: "skipped".to_owned(),
            cause: Some(cause.name().to_owned()),
            reason: Some(missed.reason),
            count: Some(missed.count),
            exact: Some(missed.exact),
            from: Some(Time(missed.first)),
            to: Some(Time(missed.last)),
            ..entry
        },
        JobOutcome::Backfilled { from, to, through, fired, skipped } => HistoryEntry {
            kind: "backfilled".to_owned(),
            from: Some(Time(*from)),
            to: Some(Time(*to)),
            through: (through >= from).then_some(Time(*through)),
            fired: Some(*fired),
            skipped: Some(*skipped),
            ..entry
        },
    }
}

/// A backfill. `running` tells whether it goes on.
pub fn backfill(key: &JobKey, row: &BackfillRow, running: bool, applied_index: u64) -> Backfill {
    Backfill {
        job_id: key.job.to_string(),
        from: Time(row.from),
        to: Time(row.to),
        overlap: row.overlap,
        through: (row.through >= row.from).then_some(Time(row.through)),
        fired: row.fired,
        skipped: row.skipped,
        running,
        created_at: Time(row.created_at),
        applied_index,
    }
}

/// A calendar.
pub fn calendar(key: &CalendarKey, row: &CalendarRow, applied_index: u64) -> Calendar {
    Calendar {
        name: key.calendar.to_string(),
        version: row.version,
        created_at: Time(row.created_at),
        updated_at: Time(row.updated_at),
        calendar: serde_json::to_value(CalendarSpec::from(&row.calendar)).expect("a calendar serialises"),
        applied_index,
    }
}
