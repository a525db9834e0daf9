use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_wire::rest::Strategy;
use orloj_wire::rest::job::Misfire;
use serde_json::json;

use super::*;

/// 2027-01-15T08:00:00Z.
const NOW: i64 = 1_800_000_000_000;

type Map1 = fn(&Map<String, Value>, &str) -> (String, Result<Imported, String>);

fn import(map: Map1, value: Value) -> Import {
    let mut import = Import::default();
    for row in rows(&value.to_string()).unwrap() {
        let (name, mapped) = map(&row, "Asia/Shanghai");
        import.add(name, mapped, NOW);
    }
    import
}

fn one(map: Map1, value: Value) -> Imported {
    let mut import = import(map, json!([value]));
    assert_eq!(import.left_out, []);
    import.jobs.remove(0)
}

fn why(map: Map1, value: Value) -> String {
    let mut import = import(map, json!([value]));
    assert_eq!(import.jobs, []);
    import.left_out.remove(0).why
}

#[test]
fn a_dkron_job_with_everything() {
    let imported = one(
        dkron::map,
        json!({"id": "nightly", "name": "nightly", "displayname": "Nightly report", "timezone": "Europe/Berlin",
            "schedule": "0 30 2 * * *", "owner": "ops", "owner_email": "", "success_count": 20, "error_count": 1,
            "last_success": "2027-01-01T00:00:00Z", "disabled": true, "tags": {"role": "web:1"}, "metadata": null,
            "retries": 3, "dependent_jobs": ["after"], "parent_job": "", "processors": {"log": {"forward": "true"}},
            "concurrency": "forbid", "executor": "shell", "status": "success", "ephemeral": false,
            "executor_config": {"command": "echo ${HOME} done", "shell": "true", "timeout": "1h30m", "cwd": "/tmp"},
            "starts_at": "2027-02-01T00:00:00Z", "expires_at": null, "next": "2027-01-16T01:30:00Z"}),
    );
    assert!(imported.paused);
    let job = &imported.job;
    assert_eq!((imported.job_id.as_str(), job.title.as_str()), ("nightly", "Nightly report"));
    assert_eq!((job.handler.as_str(), &job.params.0), ("shell", &json!({"command": "echo $${HOME} done"})));
    assert_eq!((job.overlap, job.timeout_ms), (Some(OverlapPolicy::Skip), Some(5_400_000)));
    assert_eq!(job.labels["role"], "web");
    assert_eq!(job.retry.as_ref().unwrap().max_retries, 3);
    let trigger = serde_json::to_value(&job.triggers[0]).unwrap();
    assert_eq!(
        trigger,
        json!({"kind": "cron", "expression": "0 30 2 * * *", "timeZone": "Europe/Berlin",
               "startAt": "2027-02-01T00:00:00.000Z"})
    );
    let notes = imported.notes.join("\n");
    assert_eq!(imported.runs_before, ["after"]);
    for part in ["owner \"ops\"", "processors", "executor_config cwd"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert_eq!(imported.notes.len(), 3, "{notes}");
}

#[test]
fn dkrons_schedules() {
    let triggers = |schedule: &str| {
        let job = json!({"name": "j", "schedule": schedule, "executor": "http",
            "executor_config": {"method": "POST", "url": "https://example.com/x", "expectCode": "200, 201",
                                "headers": "[\"X-A: b\"]", "body": "{}", "timeout": "30s"}});
        one(dkron::map, job)
            .job
            .triggers
            .iter()
            .map(|one| serde_json::to_value(one).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(triggers("@manually"), Vec::<Value>::new());
    assert_eq!(
        triggers("@at 2027-06-01T00:00:00Z"),
        [json!({"kind": "once", "at": "2027-06-01T00:00:00.000Z"})]
    );
    let cron =
        |expression: &str, zone: &str| json!({"kind": "cron", "expression": expression, "timeZone": zone});
    assert_eq!(triggers("@every 10m"), [cron("@every 10m", "Asia/Shanghai")]);
    assert_eq!(triggers("0 0 3 * * MON"), [cron("0 0 3 * * MON", "Asia/Shanghai")]);
    assert_eq!(triggers("TZ=UTC 0 0 3 * * *"), [cron("0 0 3 * * *", "UTC")]);
    assert!(
        why(
            dkron::map,
            json!({"name": "j", "schedule": "0 0 30 2 *", "executor": "shell",
        "executor_config": {"command": "x"}})
        )
        .contains("/triggers/0/expression")
    );
}

#[test]
fn dkrons_commands_without_a_shell_are_split() {
    let job = |command: &str| {
        one(
            dkron::map,
            json!({"name": "j", "executor": "shell", "executor_config": {"command": command, "shell": "false"}}),
        )
    };
    assert_eq!(
        job(r#"/bin/backup --to "/a b" 'c d' e\ f """#).job.params.0,
        json!({"program": "/bin/backup", "args": ["--to", "/a b", "c d", "e f", ""]})
    );
}

#[test]
fn what_of_dkron_does_not_map_is_said() {
    let job = |fields: Value| {
        let mut job = json!({"name": "j", "schedule": "@daily", "timezone": "UTC", "executor": "kafka",
                             "executor_config": {"topic": "t"}});
        job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        job
    };
    let kafka = one(dkron::map, job(json!({"retries": 50, "tags": {"dc": "fra"}, "mem_limit": "1G"})));
    assert_eq!((kafka.job.handler.as_str(), &kafka.job.params.0), ("kafka", &json!({"topic": "t"})));
    assert_eq!(kafka.job.retry.unwrap().max_retries, 10);
    let notes = kafka.notes.join("\n");
    for part in ["kafka", "retries 50", "every node", "mem_limit"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert!(why(dkron::map, job(json!({"executor": null}))).contains("executor"));
    assert!(why(dkron::map, job(json!({"concurrency": "maybe"}))).contains("maybe"));
    assert!(why(dkron::map, job(json!({"name": "a b"}))).contains("/jobId"));
    assert!(why(dkron::map, job(json!({"timezone": "Mars/Phobos"}))).contains("Mars/Phobos"));
    let shell = json!({"executor": "shell", "executor_config": {"command": "x", "timeout": "soon"}});
    assert!(why(dkron::map, job(shell)).contains("soon"));
}

fn xxl_row() -> Value {
    json!({"id": 7, "job_group": 2, "job_desc": "Demo", "add_time": "2026-01-01 00:00:00", "author": "li",
        "alarm_email": "", "schedule_type": "CRON", "schedule_conf": "0 0 2 ? * 2-6", "misfire_strategy": "FIRE_ONCE_NOW",
        "executor_route_strategy": "ROUND", "executor_handler": "demoJobHandler", "executor_param": "a=1",
        "executor_block_strategy": "DISCARD_LATER", "executor_timeout": 60, "executor_fail_retry_count": 1,
        "glue_type": "BEAN", "glue_source": "", "child_jobid": "8", "trigger_status": 1, "trigger_last_time": 0})
}

fn with(fields: Value) -> Value {
    let mut row = xxl_row();
    row.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    row
}

#[test]
fn b40_an_xxl_job_with_everything() {
    let imported = one(xxl::map, xxl_row());
    assert!(!imported.paused);
    let job = &imported.job;
    assert_eq!((imported.job_id.as_str(), job.title.as_str()), ("xxl-7", "Demo"));
    assert_eq!((job.handler.as_str(), &job.params.0), ("demoJobHandler", &json!({"param": "a=1"})));
    assert_eq!((job.misfire, job.overlap), (Some(Misfire::FireOnce), Some(OverlapPolicy::Skip)));
    assert_eq!((job.strategy.clone(), job.timeout_ms), (Some(Strategy::RoundRobin), Some(60_000)));
    let trigger = serde_json::to_value(&job.triggers[0]).unwrap();
    assert_eq!(trigger, json!({"kind": "cron", "expression": "0 0 2 ? * 1-5", "timeZone": "Asia/Shanghai"}));
    let notes = imported.notes.join("\n");
    assert_eq!(imported.runs_before, ["xxl-8"]);
    for part in ["author", "job_group 2", "Asia/Shanghai"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    // The same row, as the console's own call answers it, and as CSV.
    let camel: Map<String, Value> = xxl_row()
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| {
            let mut parts = name.split('_');
            let mut camel = parts.next().unwrap().to_owned();
            for part in parts {
                camel.push_str(&part[..1].to_uppercase());
                camel.push_str(&part[1..]);
            }
            (camel, value.clone())
        })
        .collect();
    let page = json!({"recordsTotal": 1, "recordsFiltered": 1, "data": [camel]});
    assert_eq!(import(xxl::map, page).jobs, std::slice::from_ref(&imported));
    let head: Vec<_> = xxl_row().as_object().unwrap().keys().cloned().collect();
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), |text| format!("\"{text}\""));
    let cells: Vec<_> = xxl_row().as_object().unwrap().values().map(cell).collect();
    let table = csv::rows(&format!("{}\n{}\n", head.join(","), cells.join(","))).unwrap();
    assert_eq!(xxl::map(&table[0], "Asia/Shanghai").1.unwrap(), imported);
}

#[test]
fn xxls_other_kinds() {
    let rate = one(xxl::map, with(json!({"schedule_type": "FIX_RATE", "schedule_conf": "30"})));
    assert_eq!(
        serde_json::to_value(&rate.job.triggers[0]).unwrap(),
        json!({"kind": "fixedRate", "everyMs": 30_000})
    );
    assert!(one(xxl::map, with(json!({"schedule_type": "NONE"}))).job.triggers.is_empty());
    assert!(one(xxl::map, with(json!({"trigger_status": 0}))).paused);
    let old = one(
        xxl::map,
        json!({"id": 1, "job_cron": "0 0 0 * * ?", "executor_handler": "h", "glue_type": "BEAN"}),
    );
    assert_eq!(old.job.triggers[0].expression.as_deref(), Some("0 0 0 * * ?"));
    let both = one(xxl::map, with(json!({"schedule_conf": "0 0 0 1 * 2"})));
    let shown = serde_json::to_value(&both.job.triggers[0]).unwrap();
    assert_eq!((&shown["expression"], &shown["dayRule"]), (&"0 0 0 1 * 1".into(), &"and".into()));
    let shell = one(xxl::map, with(json!({"glue_type": "GLUE_SHELL", "glue_source": "echo ${1}"})));
    assert_eq!(
        (shell.job.handler.as_str(), &shell.job.params.0),
        ("shell", &json!({"command": "echo $${1}"}))
    );
    let serial = one(xxl::map, with(json!({"executor_block_strategy": "SERIAL_EXECUTION"})));
    assert_eq!(serial.job.overlap, Some(OverlapPolicy::Queue));
    assert!(serial.notes.join("\n").contains("SERIAL_EXECUTION"));
    let cover = one(xxl::map, with(json!({"executor_block_strategy": "COVER_EARLY"})));
    assert_eq!(cover.job.overlap, Some(OverlapPolicy::CancelOther));
    let first = one(xxl::map, with(json!({"executor_route_strategy": "FIRST"})));
    assert!(first.notes.join("\n").contains("FIRST"));
}

#[test]
fn what_of_xxl_cannot_be_taken_over_is_left_out_with_the_reason() {
    for (fields, part) in [
        (json!({"glue_type": "GLUE_GROOVY"}), "GLUE_GROOVY"),
        (json!({"schedule_conf": "0 0 0 30 2 ?"}), "/triggers/0/expression"),
        (json!({"schedule_conf": ""}), "schedule_conf"),
        (json!({"schedule_type": "FIX_DELAY"}), "FIX_DELAY"),
        (json!({"executor_handler": ""}), "executor_handler"),
        (json!({"executor_handler": "a b"}), "/handler"),
        (json!({"executor_route_strategy": "MAGIC"}), "MAGIC"),
        (json!({"id": null}), "id"),
    ] {
        let said = why(xxl::map, with(fields.clone()));
        assert!(said.contains(part), "{fields}: {said}");
    }
}

#[test]
fn files_hold_rows_however_they_are_wrapped() {
    let row = json!({"id": 1});
    for text in
        [json!([row]), json!({"RECORDS": [row]}), json!({"xxl_job_info": [row], "other": 1}), row.clone()]
    {
        assert_eq!(rows(&text.to_string()).unwrap().len(), 1, "{text}");
    }
    assert!(rows("[1]").is_err() && rows("x").is_err());
}

fn joined(map: Map1, rows: Value) -> Import {
    let mut import = import(map, rows);
    import.join(NOW);
    import
}

/// The steps of a workflow, with those that they need.
fn needs(job: &JobSpec) -> Vec<(&str, Vec<&str>)> {
    job.steps
        .iter()
        .map(|step| (step.name.as_str(), step.depends_on.iter().map(|need| need.step.as_str()).collect()))
        .collect()
}

#[test]
fn xxls_children_become_steps_of_a_workflow() {
    let import = joined(
        xxl::map,
        json!([
            with(json!({"id": 1, "child_jobid": "2, 3", "executor_handler": "load", "executor_timeout": 5})),
            with(json!({"id": 2, "child_jobid": 4, "schedule_type": "NONE", "executor_handler": "book"})),
            with(json!({"id": 3, "child_jobid": "", "trigger_status": 0, "executor_handler": "tell"})),
            with(json!({"id": 4, "child_jobid": "", "schedule_type": "NONE", "executor_handler": "sum"})),
            with(json!({"id": 5, "child_jobid": "", "executor_handler": "alone"})),
        ]),
    );
    assert_eq!(import.left_out, []);
    let ids: Vec<_> = import.jobs.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!(ids, ["xxl-1", "xxl-3", "xxl-5"], "those without a schedule of their own are steps alone");
    let first = &import.jobs[0];
    let right: Vec<(&str, Vec<&str>)> =
        vec![("xxl-1", vec![]), ("xxl-2", vec!["xxl-1"]), ("xxl-4", vec!["xxl-2"]), ("xxl-3", vec!["xxl-1"])];
    assert_eq!(needs(&first.job), right);
    assert_eq!((first.job.triggers.len(), first.job.overlap), (1, Some(OverlapPolicy::Skip)));
    assert_eq!((first.job.steps[0].handler.as_str(), first.job.steps[0].timeout_ms), ("load", Some(5_000)));
    assert_eq!(
        first.joined,
        ["xxl-2, no job of its own", "xxl-4, no job of its own", "xxl-3, and a job of its own beside that"]
    );
    assert!(import.jobs[1].paused && import.jobs[1].job.steps.is_empty());
}

#[test]
fn dkrons_parents_become_workflows() {
    let job = |name: &str, schedule: &str, fields: Value| {
        let mut job = json!({"name": name, "schedule": schedule, "timezone": "UTC", "executor": "shell",
                             "executor_config": {"command": name, "shell": "true"}});
        job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        job
    };
    let import = joined(
        dkron::map,
        json!([
            job("after", "", json!({"parent_job": "first"})),
            job("first", "@daily", json!({"dependent_jobs": ["after"]})),
            job("last", "", json!({"parent_job": "after"})),
            job("orphan", "", json!({"parent_job": "gone"})),
        ]),
    );
    let ids: Vec<_> = import.jobs.iter().map(|job| job.job_id.as_str()).collect();
    assert_eq!(ids, ["first", "orphan"]);
    let right: Vec<(&str, Vec<&str>)> =
        vec![("first", vec![]), ("after", vec!["first"]), ("last", vec!["after"])];
    assert_eq!(needs(&import.jobs[0].job), right);
    assert_eq!(import.jobs[0].job.steps[1].params.0, json!({"command": "after"}));
    assert_eq!(import.jobs[1].notes, ["it ran after gone, which is not in the file, or is left out"]);
}

#[test]
fn what_cannot_be_a_workflow_names_each_job_that_would_have_followed() {
    let row = |id: u64, children: &str| with(json!({"id": id, "child_jobid": children}));
    for (rows, whom, why) in [
        (json!([row(1, "2,9"), row(2, "")]), vec!["xxl-2", "xxl-9"], "xxl-9 is not in the file"),
        (json!([row(1, "2"), row(2, "1")]), vec!["xxl-2"], "a cycle: xxl-1 before xxl-2 before xxl-1"),
        (json!([row(1, "1")]), vec!["xxl-1"], "a cycle"),
        (
            json!([row(1, "2,3"), row(2, "4"), row(3, "4"), row(4, "")]),
            vec!["xxl-2", "xxl-3"],
            "xxl-4 follows several",
        ),
        (json!([row(1, "x, 7"), row(7, "")]), vec![], "child_jobid \"x\" is no number of a job"),
    ] {
        let import = joined(xxl::map, rows.clone());
        let notes = import.jobs[0].notes.join("\n");
        assert!(notes.contains(why), "{rows}: {notes}");
        for child in whom {
            assert!(notes.contains(&format!("{child} ran after it, and does not here")), "{rows}: {notes}");
            assert!(import.jobs[0].job.steps.is_empty());
        }
    }
}
