#![allow(clippy::unwrap_used, reason = "a failed test")]

use orloj_model::trigger::{Progress, Schedule};
use serde_json::{Value, json};

use super::super::preview::PreviewAnswer;
use super::*;

/// 2027-01-15T08:00:00Z.
const CREATED: Millis = 1_800_000_000_000;

fn check(body: Value) -> Result<Trigger, TriggerError> {
    serde_json::from_value::<TriggerSpec>(body).unwrap().check(CREATED)
}

fn refused(body: Value) -> (String, Option<usize>) {
    let error = check(body).unwrap_err();
    (error.field, error.position)
}

/// Every kind in its shape, as documented.
fn shapes() -> Vec<Value> {
    vec![
        json!({"kind": "cron", "expression": "0 30 2 * * *", "timeZone": "America/New_York",
               "dst": {"gap": "shift", "overlap": "first"}, "dayRule": "or"}),
        json!({"kind": "fixedRate", "everyMs": 5000, "anchor": "2027-01-15T08:00:02.000Z"}),
        json!({"kind": "fixedDelay", "delayMs": 60_000}),
        json!({"kind": "once", "at": "2027-02-01T00:00:00.000Z"}),
        json!({"kind": "dailyWindow", "from": "09:00:00", "to": "18:00:00", "everyMs": 1_800_000,
               "daysOfWeek": ["MON", "FRI"], "timeZone": "Europe/Berlin",
               "dst": {"gap": "skip", "overlap": "both"}}),
    ]
}

#[test]
fn every_kind_comes_back_in_its_shape() {
    for mut body in shapes() {
        assert_eq!(serde_json::to_value(TriggerSpec::from(&check(body.clone()).unwrap())).unwrap(), body);
        let limits = json!({"startAt": "2027-01-20T00:00:00.000Z", "endAt": "2028-01-01T00:00:00.000Z",
                            "maxFires": 3, "jitterMs": 500});
        body.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        assert_eq!(serde_json::to_value(TriggerSpec::from(&check(body.clone()).unwrap())).unwrap(), body);
    }
}

#[test]
fn the_same_body_gives_the_same_trigger_also_with_defaults() {
    for body in [
        json!({"kind": "cron", "expression": "@every 10m"}),
        json!({"kind": "fixedRate", "everyMs": 5000}),
        json!({"kind": "once", "delayMs": 5000}),
        json!({"kind": "dailyWindow", "from": "22:00", "to": "24:00", "everyMs": 60_000}),
    ] {
        let first = check(body.clone()).unwrap();
        assert_eq!(check(body).unwrap(), first);
        assert_eq!(TriggerSpec::from(&first).check(CREATED).unwrap(), first, "as it is shown");
    }
}

#[test]
fn an_error_names_the_field_and_the_character() {
    let cron = |expression: &str| refused(json!({"kind": "cron", "expression": expression}));
    assert_eq!(cron("*/90 * * * *"), ("expression".into(), Some(2)));
    assert_eq!(cron("0 0 30 2 *"), ("expression".into(), Some(4)));
    assert_eq!(refused(json!({"kind": "cron"})), ("expression".into(), None));
    let zone = json!({"kind": "cron", "expression": "* * * * *", "timeZone": "Mars/Phobos"});
    assert_eq!(refused(zone), ("timeZone".into(), None));
    let foreign = json!({"kind": "cron", "expression": "* * * * *", "everyMs": 5});
    assert_eq!(refused(foreign), ("everyMs".into(), None));
    assert_eq!(refused(json!({"kind": "fixedRate", "everyMs": 0})), ("everyMs".into(), None));
    assert_eq!(refused(json!({"kind": "fixedDelay", "delayMs": u64::MAX})), ("delayMs".into(), None));
    assert_eq!(refused(json!({"kind": "once"})), ("at".into(), None));
    let window = |from, to, days: Value| {
        refused(json!({"kind": "dailyWindow", "from": from, "to": to, "everyMs": 1000, "daysOfWeek": days})).0
    };
    assert_eq!(window("9:00", "18:00", json!([1])), "from");
    assert_eq!(window("09:00", "24:01", json!([1])), "to");
    assert_eq!(window("09:00", "09:00", json!([1])), "to");
    assert_eq!(window("09:00", "18:00", json!([])), "daysOfWeek");
    assert_eq!(window("09:00", "18:00", json!(["MON", "FUNDAY"])), "daysOfWeek[1]");
    let specs = [TriggerSpec::of(KindName::Once), TriggerSpec::of(KindName::Cron)];
    assert_eq!(check_triggers(&specs[..1], CREATED).unwrap_err().field, "triggers[0].at");
}

#[test]
fn what_the_shape_does_not_know_is_refused() {
    for body in [
        json!({"kind": "hourly"}),
        json!({"kind": "cron", "expression": "* * * * *", "zone": "UTC"}),
        json!({"kind": "cron", "expression": "* * * * *", "dst": {"gap": "jump"}}),
        json!({"kind": "fixedRate", "everyMs": -5}),
        json!({"kind": "fixedRate", "everyMs": 1.5}),
        json!({"kind": "once", "at": "2027-02-01T00:00:60Z"}),
        json!({"kind": "once", "at": "2027-02-01T00:00:00"}),
    ] {
        assert!(serde_json::from_value::<TriggerSpec>(body.clone()).is_err(), "{body}");
    }
}

#[test]
fn a_calendar_comes_back_in_its_shape() {
    let body = json!({"timeZone": "Europe/Berlin", "dates": ["2027-05-06"],
        "ranges": [{"from": "2027-12-24", "to": "2028-01-02"}], "weekdays": ["SUN", "SAT"],
        "yearly": ["02-29", "12-25"]});
    let calendar = serde_json::from_value::<CalendarSpec>(body.clone()).unwrap().check().unwrap();
    assert_eq!(serde_json::to_value(CalendarSpec::from(&calendar)).unwrap(), body);
    for (field, value) in [
        ("timeZone", json!("Moon")),
        ("dates", json!(["2027-02-29"])),
        ("ranges", json!([{"from": "2027-02-02", "to": "2027-02-01"}])),
        ("yearly", json!(["13-01"])),
        ("weekdays", json!([0, 1, 2, 3, 4, 5, 6])),
    ] {
        let spec: CalendarSpec = serde_json::from_value(json!({ field: value })).unwrap();
        assert!(spec.check().unwrap_err().field.starts_with(field), "{field}");
    }
}

#[test]
fn a_preview_has_its_shape() {
    let triggers =
        [check(json!({"kind": "cron", "expression": "0 30 2 * * *", "timeZone": "America/New_York"}))
            .unwrap()];
    let schedule = Schedule::new("preview", &triggers, &[]).unwrap();
    let from = Time::parse("2027-03-14T00:00:00Z").unwrap();
    let answer = PreviewAnswer::from(schedule.preview(&Progress::default(), from.0, 2));
    assert_eq!(
        serde_json::to_value(answer).unwrap(),
        json!({"fires": [
            {"scheduledAt": "2027-03-14T07:00:00.000Z", "local": "2027-03-14T03:00:00-04:00", "dst": "gapShifted"},
            {"scheduledAt": "2027-03-15T06:30:00.000Z", "local": "2027-03-15T02:30:00-04:00", "dst": null},
        ], "skipped": []})
    );
}
