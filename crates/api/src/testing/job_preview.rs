//! Previews and calendars.

use serde_json::{Value, json};

use super::Universe;
use super::jobs::{call, minutely};

#[tokio::test]
async fn triggers_are_previewed_without_a_job() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let preview = |body: Value| call("POST", "jobs/preview", body);
    let cron = json!({"kind": "cron", "expression": "0 30 2 * * *", "timeZone": "America/New_York",
                      "dst": {"gap": "shift", "overlap": "first"}, "dayRule": "or"});
    let reply = node
        .call(&preview(json!({"triggers": [cron], "calendars": [{"dates": ["2027-03-15"],
            "timeZone": "America/New_York"}], "from": "2027-03-14T00:00:00Z", "count": 2})))
        .await;
    assert_eq!(
        reply.body,
        json!({"fires": [
            {"scheduledAt": "2027-03-14T07:00:00.000Z", "local": "2027-03-14T03:00:00-04:00", "dst": "gapShifted"},
            {"scheduledAt": "2027-03-16T06:30:00.000Z", "local": "2027-03-16T02:30:00-04:00", "dst": null},
        ], "skipped": [{"local": "2027-03-15T02:30:00-04:00", "reason": "calendar"}]}),
        "{}",
        reply.text
    );
    assert_eq!(universe.proposals(), 0, "it leaves nothing behind");
    let now = node.call(&preview(json!({"triggers": [{"kind": "cron", "expression": "* * * * *"}]}))).await;
    assert_eq!(now.body["fires"].as_array().unwrap().len(), 10);
    let first = &now.body["fires"][0]["scheduledAt"];
    assert_eq!(first, "2027-01-15T08:01:00.000Z", "a job that is created now fires later");
    for (body, status, pointer) in [
        (json!({"triggers": [{"kind": "cron", "expression": "* * *"}]}), 422, "/triggers/0/expression"),
        (json!({"triggers": [], "calendars": ["none"]}), 422, "/calendars/0"),
        (json!({"triggers": [], "calendars": [{"dates": ["2027-02-30"]}]}), 422, "/calendars/0/dates/0"),
        (json!({"triggers": [], "calendars": [{"days": []}]}), 400, "/calendars/0/days"),
        (json!({"triggers": [], "count": 0}), 400, "/count"),
        (json!({"triggers": [], "count": 1001}), 400, "/count"),
        (json!({"triggers": [], "from": "now"}), 400, "/from"),
        (json!({"triggers": {}}), 400, "/triggers"),
    ] {
        let reply = node.call(&preview(body.clone())).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text);
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{body}: {}", reply.text);
    }
}

#[tokio::test]
async fn b45_odd_expressions_are_refused_one_by_one() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let long = "*,".repeat(50_000);
    for expression in [
        "",
        " ",
        "\t",
        "0 0\r\n* * *",
        "\0",
        &long,
        "０ 0 * * *",
        "TZ=",
        "CRON_TZ=UTC",
        "TZ=TZ=TZ=",
        "@every",
        "@every 0s",
        "@every -5s",
        "@every 1ns",
        "@every 99999999999h",
        "@at 2027-01-01T00:00:00",
        "* * * *",
        "* * * * * * * *",
        "1,,2 * * * *",
        "5- * * * *",
        "/5 * * * *",
        "? * * * *",
    ] {
        let body = json!({"triggers": [{"kind": "cron", "expression": expression}]});
        let reply = node.call(&call("POST", "jobs/preview", body)).await;
        reply.is(422, "validation_failed");
        assert_eq!(reply.body["errors"][0]["pointer"], "/triggers/0/expression", "{}", reply.text);
    }
}

#[tokio::test]
async fn b47_a_stored_job_is_previewed_by_what_fires_it() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let body =
        json!({"handler": "echo", "triggers": [{"kind": "fixedRate", "everyMs": 60_000, "maxFires": 3}]});
    let job = node.call(&call("PUT", "jobs/j", body)).await;
    let preview = |body: Value| call("POST", "jobs/j/preview", body);
    let shown = node.call(&preview(json!({"from": "2027-01-15T08:00:01Z"}))).await;
    let fires = shown.body["fires"].as_array().unwrap();
    assert_eq!(fires.len(), 3, "as many as it may fire");
    assert_eq!(fires[0]["scheduledAt"], job.body["state"]["nextFire"]["scheduledAt"]);
    assert_eq!(node.call(&preview(json!({"count": 1}))).await.body["fires"].as_array().unwrap().len(), 1);
    assert_eq!(node.call(&preview(Value::Null)).await.status, 200);
    node.call(&preview(json!({"until": 1}))).await.is(400, "invalid_request");
    node.call(&call("POST", "jobs/none/preview", Value::Null)).await.is(404, "job_not_found");
}

#[tokio::test]
async fn b47_a_job_fires_what_was_previewed_before_it_was_created() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for (place, trigger) in [
        json!({"kind": "cron", "expression": "* * * * *"}),
        json!({"kind": "cron", "expression": "@every 1m"}),
        json!({"kind": "fixedRate", "everyMs": 60_000}),
        json!({"kind": "fixedRate", "everyMs": 60_000, "anchor": "2027-01-15T08:00:00Z"}),
        json!({"kind": "fixedRate", "everyMs": 60_000, "startAt": "2027-01-15T08:00:00Z"}),
        json!({"kind": "fixedDelay", "delayMs": 60_000}),
        json!({"kind": "once", "delayMs": 1}),
        json!({"kind": "dailyWindow", "from": "08:00", "to": "18:00", "everyMs": 1_800_000}),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({"triggers": [trigger], "count": 20});
        let shown = node.call(&call("POST", "jobs/preview", body)).await;
        let (id, body) = (format!("j{place}"), json!({"handler": "echo", "triggers": [trigger]}));
        let job = node.call(&call("PUT", &format!("jobs/{id}"), body)).await;
        assert_eq!(job.status, 201, "{trigger}: {}", job.text);
        let next = &job.body["state"]["nextFire"]["scheduledAt"];
        assert_eq!(&shown.body["fires"][0]["scheduledAt"], next, "{trigger}: {}", shown.text);
        let stored = node.call(&call("POST", &format!("jobs/{id}/preview"), json!({"count": 20}))).await;
        assert_eq!(shown.body, stored.body, "{trigger}");
    }
    let at_once = json!({"triggers": [{"kind": "once", "delayMs": 0}]});
    let refused = node.call(&call("POST", "jobs/preview", at_once)).await;
    refused.is(422, "validation_failed");
    assert_eq!(refused.body["errors"][0]["pointer"], "/triggers/0/delayMs", "{}", refused.text);
}

#[tokio::test]
async fn b17_reading_a_job_moves_nothing() {
    let universe = Universe::of(3).await;
    let job = universe.leader().call(&call("PUT", "jobs/j", minutely())).await;
    for node in &universe.nodes {
        universe.clock.advance_ms(10_000);
        node.call(&call("GET", "jobs", Value::Null)).await;
        node.call(&call("POST", "jobs/j/preview", Value::Null)).await;
        node.call(&call("GET", "jobs/j/history", Value::Null)).await;
        let now = node.call(&call("GET", "jobs/j", Value::Null)).await;
        assert_eq!(now.body["state"], job.body["state"]);
    }
    assert_eq!(universe.proposals(), 1);
}

#[tokio::test]
async fn calendars_are_stored_shared_and_kept_while_they_are_used() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let calendar = |method: &str, body: Value| call(method, "calendars/holidays.de", body);
    calendar_is_absent(&universe).await;
    let body = json!({"timeZone": "Europe/Berlin", "dates": ["2027-01-16"], "yearly": ["12-25"]});
    let created = node.call(&calendar("PUT", body.clone())).await;
    assert_eq!((created.status, &created.body["version"]), (201, &1.into()), "{}", created.text);
    assert_eq!(created.body["calendar"], body);
    assert_eq!(node.call(&calendar("GET", Value::Null)).await.body, created.body);
    let job = json!({"handler": "echo", "calendars": ["holidays.de"], "triggers": [
        {"kind": "cron", "expression": "0 9 * * *", "timeZone": "Europe/Berlin"}]});
    let put = node.call(&call("PUT", "jobs/j", job)).await;
    assert_eq!(put.body["state"]["nextFire"]["scheduledAt"], "2027-01-17T08:00:00.000Z", "{}", put.text);
    let skipped = node.call(&call("POST", "jobs/j/preview", json!({"count": 2}))).await;
    assert_eq!(
        skipped.body["skipped"][0],
        json!({"local": "2027-01-16T09:00:00+01:00", "reason": "calendar"})
    );
    node.call(&calendar("DELETE", Value::Null)).await.is(409, "calendar_in_use");
    let versioned = |body: Value, version: &str| calendar("PUT", body).query(&format!("version={version}"));
    let sundays = json!({"timeZone": "Europe/Berlin", "weekdays": ["SUN"]});
    node.call(&versioned(sundays.clone(), "7")).await.is(409, "version_conflict");
    for _ in 0..2 {
        // The second is the first one, whose answer was lost.
        let edited = node.call(&versioned(sundays.clone(), "1")).await;
        assert_eq!((edited.status, &edited.body["version"]), (200, &2.into()), "{}", edited.text);
    }
    let list = node.call(&call("GET", "calendars", Value::Null)).await;
    assert_eq!(list.body["calendars"][0]["calendar"], sundays);
    assert_eq!(node.call(&call("DELETE", "jobs/j", Value::Null)).await.status, 200);
    assert_eq!(node.call(&calendar("DELETE", Value::Null)).await.body["name"], "holidays.de");
    calendar_is_absent(&universe).await;
    for bad in [json!({"days": []}), json!([]), json!({"dates": "x"})] {
        node.call(&calendar("PUT", bad)).await.is(400, "invalid_request");
    }
    let all = json!({"weekdays": [0, 1, 2, 3, 4, 5, 6]});
    node.call(&calendar("PUT", all)).await.is(422, "validation_failed");
    node.call(&calendar("PUT", json!({"dates": ["2027-02-29"]}))).await.is(422, "validation_failed");
}

async fn calendar_is_absent(universe: &Universe) {
    let node = universe.leader();
    for method in ["GET", "DELETE"] {
        let absent = call(method, "calendars/holidays.de", Value::Null);
        node.call(&absent).await.is(404, "calendar_not_found");
    }
}

#[tokio::test]
async fn calendars_are_listed_page_by_page() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for name in ["c", "a", "b"] {
        let put = call("PUT", &format!("calendars/{name}"), json!({"weekdays": ["SUN"]}));
        assert_eq!(node.call(&put).await.status, 201);
    }
    let list = |query: &str| call("GET", "calendars", Value::Null).query(query);
    let first = node.call(&list("page_size=2")).await;
    let token = first.body["nextPageToken"].as_str().unwrap();
    let second = node.call(&list(&format!("page_size=2&page_token={token}"))).await;
    let names: Vec<_> = [&first, &second]
        .iter()
        .flat_map(|page| page.body["calendars"].as_array().unwrap())
        .map(|calendar| calendar["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(second.body["nextPageToken"].is_null());
}
