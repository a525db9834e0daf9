//! What putting a job would come to, asked before.

use serde_json::{Value, json};

use super::jobs::{call, get, minutely, put};
use super::{Reply, Universe};

async fn check(universe: &Universe, id: &str, body: &Value) -> Reply {
    universe.leader().call(&call("POST", &format!("jobs/{id}/check"), body.clone())).await
}

#[tokio::test]
async fn a_check_says_what_putting_a_job_would_do_and_changes_nothing() {
    let universe = Universe::of(1).await;
    let applied = universe.applied();
    let checked = check(&universe, "j", &minutely()).await;
    let right = |change: &str, version: u64| {
        json!({"jobId": "j", "change": change, "version": version, "unknownHandlers": [],
               "appliedIndex": universe.applied()})
    };
    assert_eq!((checked.status, &checked.body), (200, &right("create", 0)), "{}", checked.text);
    assert_eq!(universe.applied(), applied, "nothing is written");
    get(&universe, "j").await.is(404, "job_not_found");
    let made = put(&universe, "j", minutely()).await;
    universe.clock.advance_ms(10_000);
    assert_eq!(check(&universe, "j", &minutely()).await.body, right("none", 1));
    assert_eq!(check(&universe, "j", &made.body["definition"]).await.body, right("none", 1));
    let other = json!({"handler": "echo", "title": "other", "triggers": minutely()["triggers"]});
    assert_eq!(check(&universe, "j", &other).await.body, right("replace", 1));
    let flow = json!({"handler": "echo", "triggers": minutely()["triggers"], "steps": [{"name": "a", "handler": "echo"}]});
    assert_eq!(check(&universe, "j", &flow).await.body, right("replace", 1), "the steps alone differ");
    assert_eq!(get(&universe, "j").await.body["version"], 1);
}

#[tokio::test]
async fn a_check_is_refused_as_putting_the_job_is() {
    let universe = Universe::of(1).await;
    put(&universe, "there", minutely()).await;
    let with = |fields: Value| {
        let mut body = minutely();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let cron = |expression: &str| json!([{"kind": "cron", "expression": expression}]);
    for (path, body) in [
        ("j", with(json!({"handler": "nobody-has-it"}))),
        ("j", with(json!({"handler": "a b"}))),
        ("j", with(json!({"jobId": "another"}))),
        ("j", with(json!({"calendars": ["none"]}))),
        ("j", with(json!({"priority": 11}))),
        ("j", with(json!({"colour": "red"}))),
        ("j", with(json!({"triggers": cron("*/90 * * * *")}))),
        ("j", with(json!({"triggers": [{"kind": "once", "at": "2020-01-01T00:00:00Z"}]}))),
        (
            "j",
            with(
                json!({"triggers": [{"kind": "cron", "expression": "0 3 * * *", "timeZone": "Mars/Phobos"}]}),
            ),
        ),
        ("j", with(json!({"steps": [{"name": "a", "handler": "nobody-has-it"}]}))),
        ("j", with(json!({"callbackUrl": "https://elsewhere.example.com/"}))),
        ("a.b", minutely()),
    ] {
        let checked = check(&universe, path, &body).await;
        let refused = put(&universe, path, body.clone()).await;
        assert!(refused.status >= 400, "{body}");
        let parts = |reply: &Reply| {
            [&reply.body["code"], &reply.body["errors"], &reply.body["detail"]].map(Clone::clone)
        };
        assert_eq!((checked.status, parts(&checked)), (refused.status, parts(&refused)), "{body}");
    }
    let old = call("POST", "jobs/there/check", minutely()).query("version=0");
    let guarded = universe.leader().call(&old).await;
    guarded.is(409, "version_conflict");
}

#[tokio::test]
async fn a_check_names_the_handlers_that_nobody_has() {
    let universe = Universe::of(1).await;
    let body = json!({"handler": "workflow", "allowUnknownHandler": true, "steps": [
        {"name": "a", "handler": "echo"}, {"name": "b", "handler": "later"}, {"name": "c", "handler": "later"}]});
    let checked = check(&universe, "j", &body).await;
    assert_eq!(checked.body["unknownHandlers"], json!(["later"]), "{}", checked.text);
}
