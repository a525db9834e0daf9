//! Several jobs at once: what becomes of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use orloj_wire::problem::{Code, FieldError};
use orloj_wire::rest::job::JobSpec;
use serde_json::{Value, json};

use super::stub::{Answer, Request, Said, orloj, refusal, replica};

/// 2027-01-15T08:00:00Z.
const NOW: i64 = 1_800_000_000_000;

/// A stored job: its version, its definition, and whether it is paused.
type Stored = (u64, Value, bool);

/// A replica that keeps jobs in memory. It refuses a job whose title is `refuse me`, has only the handler `shell`, and
/// breaks the connection when the job `broken` is put.
#[derive(Clone, Default)]
struct Jobs(Arc<Mutex<BTreeMap<String, Stored>>>);

impl Jobs {
    fn serve(&self) -> String {
        let jobs = self.clone();
        replica(move |request| jobs.answer(request))
    }

    fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn of(&self, id: &str) -> Stored {
        self.0.lock().unwrap()[id].clone()
    }

    fn answer(&self, request: &Request) -> Answer {
        let rest =
            request.path.strip_prefix("/openapi/v1/jobs/").unwrap_or_else(|| panic!("{}", request.path));
        let (id, call) = rest.split_once('/').unwrap_or((rest, ""));
        let mut jobs = self.0.lock().unwrap();
        match (request.method.as_str(), call) {
            ("GET", "") => {}
            ("POST", "pause") => jobs.get_mut(id).unwrap().2 = true,
            ("PUT", "") if id == "broken" => return None,
            ("PUT" | "POST", "" | "check") => {
                let spec: JobSpec = serde_json::from_value(request.body.clone()).unwrap();
                let known = jobs.get(id).cloned();
                let version = known.as_ref().map_or(0, |known| known.0);
                if !request.query.is_empty() && request.query != format!("version={version}") {
                    return refusal(Code::VersionConflict, "it is at another version", Vec::new());
                }
                if spec.title == "refuse me" {
                    let fault = FieldError::new("/title", "\"refuse me\": not here");
                    return refusal(Code::ValidationFailed, "/title: \"refuse me\": not here", vec![fault]);
                }
                let unknown = spec.handler != "shell";
                if unknown && !spec.allow_unknown_handler {
                    return refusal(Code::HandlerUnknown, &format!("{:?}", spec.handler), Vec::new());
                }
                let definition = json!(spec.spelled_out(NOW).unwrap());
                let same = known.as_ref().is_some_and(|known| known.1 == definition);
                if call == "check" {
                    let change = if known.is_none() {
                        "create"
                    } else if same {
                        "none"
                    } else {
                        "replace"
                    };
                    let handlers = if unknown { vec![spec.handler] } else { Vec::new() };
                    return Some((
                        200,
                        json!({"jobId": id, "change": change, "version": version,
                                             "unknownHandlers": handlers, "appliedIndex": 1}),
                    ));
                }
                let paused = known.is_some_and(|known| known.2);
                jobs.insert(id.to_owned(), (if same { version } else { version + 1 }, definition, paused));
            }
            other => panic!("{other:?}"),
        }
        match jobs.get(id) {
            Some(stored) => Some((200, shown(id, stored))),
            None => refusal(Code::JobNotFound, id, Vec::new()),
        }
    }
}

fn shown(id: &str, (version, definition, paused): &Stored) -> Value {
    let at = "2027-01-15T08:00:00.000Z";
    let mut job = json!({
        "jobId": id, "version": version, "createdAt": at, "updatedAt": at, "definition": definition, "appliedIndex": 9,
        "state": {"openTasks": 0, "backfilling": false, "counts": {"fired": 0, "missed": 0, "skipped": {}}},
    });
    if *paused {
        job["state"]["paused"] = json!({"note": "", "since": at});
    }
    job
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn apply(url: &str, file: &str) -> Said {
    orloj(&[url], &["job", "apply", "-f", file])
}

const THREE: &str = r#"
jobs:
  - {jobId: first, handler: shell}
  - {jobId: second, handler: nobody}
  - {jobId: third, handler: shell, triggers: [{kind: cron, expression: "0 2 * * *"}]}
"#;

#[test]
fn apply_makes_each_job_by_itself_and_says_which_was_refused_and_why() {
    let (jobs, dir) = (Jobs::default(), tempfile::tempdir().unwrap());
    let (url, file) = (jobs.serve(), write(dir.path(), "jobs.yaml", THREE));
    let diff = orloj(&[&url], &["job", "diff", "-f", &file]);
    diff.is(
        4,
        &["job first: is not there\n", "job second: is not there, and would be refused: handler_unknown"],
    );
    assert_eq!(jobs.ids(), Vec::<String>::new());
    let said = apply(&url, &file);
    said.is(4, &["job first: created\n", "job second: refused: handler_unknown", "job third: created\n"]);
    said.is(4, &["2 created, 1 refused\n"]);
    assert!(said.err.contains("1 refused"), "{said:?}");
    assert_eq!(jobs.ids(), ["first", "third"]);
    let json = orloj(&[&url], &["job", "apply", "-f", &file, "--json"]);
    let report: Value = serde_json::from_str(&json.is(4, &[]).out).unwrap();
    let results: Vec<_> = report.as_array().unwrap().iter().map(|one| &one["result"]).collect();
    assert_eq!(results, ["unchanged", "refused", "unchanged"]);
    assert!(report[1]["why"].as_str().unwrap().contains("nobody"), "{report}");
    let mended = write(dir.path(), "mended.yaml", &THREE.replace("nobody", "shell"));
    orloj(&[&url], &["job", "diff", "-f", &mended]).is(1, &["job second: is not there\n"]);
    apply(&url, &mended).is(0, &["job first: as it is", "job second: created", "1 created, 2 unchanged\n"]);
}

#[test]
fn when_nobody_answers_any_more_what_was_not_tried_is_named() {
    let (jobs, dir) = (Jobs::default(), tempfile::tempdir().unwrap());
    let text = THREE.replace("second", "broken").replace("nobody", "shell");
    let (url, file) = (jobs.serve(), write(dir.path(), "jobs.yaml", &text));
    let said = apply(&url, &file);
    said.is(
        3,
        &["job first: created", "job broken: not known whether it was made: ", "job third: not tried\n"],
    );
    assert_eq!(jobs.ids(), ["first"]);
}

#[test]
fn what_get_prints_as_a_definition_is_a_file_that_apply_takes() {
    let (jobs, dir) = (Jobs::default(), tempfile::tempdir().unwrap());
    let url = jobs.serve();
    let text = r#"{"jobId": "j", "handler": "shell", "params": {"command": "echo ${date:%d}\n# two", "yes": "no"},
        "triggers": [{"kind": "cron", "expression": "*/5 * * * *", "timeZone": "Europe/Berlin"}]}"#;
    apply(&url, &write(dir.path(), "first.json", text)).is(0, &["job j: created"]);
    for (options, ending) in [
        (&["--definition"][..], "yaml"),
        (&["-o", "yaml"], "yml"),
        (&["-o", "toml"], "toml"),
        (&["--output", "json"], "json"),
        (&["--definition", "--json"], "json"),
    ] {
        let said = orloj(&[&url], &[&["job", "get", "j"], options].concat());
        let file = write(dir.path(), &format!("again.{ending}"), &said.is(0, &["jobId"]).out);
        apply(&url, &file).is(0, &["job j: as it is", "1 unchanged"]);
    }
    let whole = orloj(&[&url], &["job", "get", "j", "--json"]);
    let said = apply(&url, &write(dir.path(), "whole.json", &whole.is(0, &["appliedIndex"]).out));
    said.is(2, &[]);
    assert!(said.err.contains("`orloj job get j --definition`"), "{said:?}");
    let bare = jobs.of("j").1.to_string();
    let said = apply(&url, &write(dir.path(), "bare.json", &bare));
    assert!(said.code == Some(2) && said.err.contains("jobId is missing; `orloj job get"), "{said:?}");
}

fn dkron(jobs: &[(&str, Value)]) -> String {
    let job = |(name, fields): &(&str, Value)| {
        let mut job = json!({"name": name, "schedule": "0 0 3 * * *", "timezone": "UTC", "executor": "shell",
                             "executor_config": {"command": "true", "shell": "true"}});
        job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        job
    };
    jobs.iter().map(job).collect::<Value>().to_string()
}

#[test]
fn import_tries_each_job_and_tells_created_from_updated_from_unchanged_from_refused() {
    let (jobs, dir) = (Jobs::default(), tempfile::tempdir().unwrap());
    let url = jobs.serve();
    let text = dkron(&[
        ("off", json!({"disabled": true})),
        ("bad", json!({"displayname": "refuse me", "disabled": true})),
        ("kafka", json!({"executor": "kafka", "executor_config": {"topic": "t"}})),
        ("mars", json!({"timezone": "Mars/Phobos"})),
    ]);
    let file = write(dir.path(), "dkron.json", &text);
    let import =
        |more: &[&str]| orloj(&[&url], &[&["job", "import", "--from", "dkron", &file], more].concat());
    let dry = import(&["--dry-run"]);
    dry.is(4, &["off: would be created, paused\n", "bad: would be refused: ", "\"refuse me\": not here"]);
    dry.is(
        4,
        &[
            "kafka: would be created\n",
            "no executor has its handler \"kafka\" yet",
            "mars: left out: ",
            "Mars/Phobos",
        ],
    );
    dry.is(4, &["dry run: 3 jobs (2 created, 1 refused), 1 left out\n", "Not known before the import"]);
    assert_eq!(jobs.ids(), Vec::<String>::new(), "a dry run makes nothing");
    let first = import(&[]);
    first.is(
        4,
        &[
            "off: created, paused\n",
            "bad: refused: ",
            "kafka: created\n",
            "mars: left out",
            "(2 created, 1 refused)",
        ],
    );
    for said in [&dry, &first] {
        let told = "not everything is as wanted: ";
        let counted = "3 jobs (2 created, 1 refused), 1 left out";
        assert!(said.err.contains(told) && said.err.contains(counted), "both places count alike: {said:?}");
    }
    let off = jobs.of("off");
    assert!(off.2 && off.1["triggers"].as_array().unwrap().len() == 1, "{off:?}");
    assert_eq!(jobs.ids(), ["kafka", "off"], "nothing is left of the refused one");
    import(&[]).is(4, &["off: unchanged", "kafka: unchanged", "(2 unchanged, 1 refused)"]);
    let edited = dkron(&[("kafka", json!({})), ("off", json!({"disabled": true}))]);
    fs::write(&file, edited).unwrap();
    let before = jobs.of("kafka");
    import(&["--dry-run", "--update"]).is(0, &["kafka: would be updated\n", "off: unchanged"]);
    import(&[]).is(
        0,
        &["kafka: is there already and differs at ", "--update would replace it", "1 left as they are"],
    );
    assert_eq!(jobs.of("kafka"), before);
    import(&["--update"]).is(0, &["kafka: updated\n", "(1 updated, 1 unchanged), 0 left out"]);
    assert_eq!(jobs.of("kafka").1["handler"], "shell");
    let json = import(&["--json"]);
    let report: Value = serde_json::from_str(&json.is(0, &[]).out).unwrap();
    assert_eq!(
        (&report["jobs"][0]["jobId"], &report["jobs"][0]["result"]),
        (&json!("kafka"), &json!("unchanged"))
    );
}

#[test]
fn an_import_with_a_zone_that_there_is_not_is_refused_and_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "dkron.json", &dkron(&[("a", json!({}))]));
    let line = ["job", "import", "--from", "dkron", &file, "--dry-run"];
    let said = orloj(&[], &[&line[..], &["--time-zone", "Europe/Berln"]].concat());
    assert!(said.code == Some(2) && said.err.contains("--time-zone \"Europe/Berln\""), "{said:?}");
    orloj(&[], &line).is(0, &["a: would be created", "No cluster was asked (ORLOJ_URL is not set)"]);
}

#[test]
fn an_import_without_a_cluster_that_answers_says_what_was_not_tried() {
    let dir = tempfile::tempdir().unwrap();
    let text = dkron(&[("a", json!({})), ("broken", json!({})), ("z", json!({}))]);
    let file = write(dir.path(), "dkron.json", &text);
    let jobs = Jobs::default();
    let said = orloj(&[&jobs.serve()], &["job", "import", "--from", "dkron", &file]);
    said.is(3, &["a: created\n", "broken: not known whether it was made: ", "z: not tried\n"]);
}

#[test]
fn a_list_that_goes_on_behind_its_limit_says_so() {
    let at = "2027-01-15T08:00:00.000Z";
    let page = |more: bool| {
        let job = shown("a", &(1, json!({"handler": "shell"}), false));
        let mut page = json!({"jobs": [job], "jobId": "a", "counts": {"fired": 1, "missed": 0, "skipped": {}},
            "entries": [{"number": 7, "at": at, "kind": "fired", "scheduledAt": at, "cause": "trigger"}],
            "appliedIndex": 9});
        if more {
            page["nextPageToken"] = json!("t");
        }
        page
    };
    for (more, command) in [
        (true, &["job", "list", "--limit", "1"][..]),
        (false, &["job", "list", "--limit", "1"]),
        (true, &["job", "history", "a", "--limit", "1"]),
        (false, &["job", "history", "a", "--limit", "1"]),
    ] {
        let answer = page(more);
        let url = replica(move |_| Some((200, answer.clone())));
        let said = orloj(&[&url], command);
        said.is(0, &["a"]);
        assert_eq!(said.err.contains("there are more than these 1; --limit"), more, "{command:?}: {said:?}");
    }
}

#[test]
fn what_is_wrong_with_an_expression_is_said_once_with_a_mark_under_its_place() {
    let message = "\"*/90 * * * *\": at character 2: step 90 is larger than the range of minutes: at most 59";
    let url = replica(move |_| {
        let fault = FieldError { position: Some(2), ..FieldError::new("/triggers/0/expression", message) };
        let detail = format!("/triggers/0/expression: {message}");
        refusal(Code::ValidationFailed, &detail, vec![fault])
    });
    let said = orloj(&[&url], &["job", "preview", "--cron", "*/90 * * * *"]);
    said.is(4, &[]);
    assert_eq!(said.err.matches("larger than the range").count(), 1, "{said:?}");
    assert!(said.err.contains("\n    */90 * * * *\n      ^"), "{said:?}");
}

#[test]
fn a_pause_without_a_note_asks_for_none() {
    let nothing: &[&str] = &[];
    for (more, body) in [
        (nothing, json!({})),
        (&["--note", "moved"], json!({"note": "moved"})),
        (&["--note", ""], json!({"note": ""})),
    ] {
        let url = replica(move |request| {
            assert_eq!((request.path.as_str(), &request.body), ("/openapi/v1/jobs/a/pause", &body));
            Some((200, shown("a", &(1, json!({"handler": "shell"}), true))))
        });
        orloj(&[&url], &[&["job", "pause", "a"], more].concat()).is(0, &["paused"]);
    }
}
