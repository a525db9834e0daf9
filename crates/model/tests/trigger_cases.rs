//! What people have stumbled over with other schedulers, each with the answer that is right here.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use jiff::Timestamp;
use orloj_model::id::{Millis, TaskId};
use orloj_model::trigger::overlap::{Decision, OpenTask, OverlapPolicy, decide};
use orloj_model::trigger::{
    BURST_LIMIT, Calendar, CalendarParts, CatchUp, Cron, DailyWindow, DayRule, Dst, DstEffect, Gap, Kind,
    Limits, MISSED_COUNTED, Misfire, Overlap, Preview, Progress, Schedule, SkipReason, Trigger, TriggerError,
};

const NEW_YORK: &str = "America/New_York";

fn at(text: &str) -> Millis {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn show(at: Millis) -> String {
    Timestamp::from_millisecond(at).unwrap().to_string()
}

fn cron_with(expression: &str, zone: &str, dst: Dst, rule: DayRule) -> Result<Trigger, TriggerError> {
    let cron = Cron::new(expression, zone, dst, rule, at("2027-01-01T00:00:00Z"))?;
    Trigger::new(Kind::Cron(cron), Limits::default())
}

fn cron(expression: &str, zone: &str) -> Trigger {
    cron_with(expression, zone, Dst::default(), DayRule::Or).unwrap()
}

fn every(every_ms: u64, anchor: Millis) -> Trigger {
    Trigger::new(Kind::FixedRate { every_ms, anchor }, Limits::default()).unwrap()
}

fn schedule(triggers: &[Trigger]) -> Schedule {
    Schedule::new("job", triggers, &[]).unwrap()
}

fn preview(trigger: &Trigger, from: &str, count: usize) -> Preview {
    schedule(std::slice::from_ref(trigger)).preview(&Progress::default(), at(from), count)
}

fn fires_of(trigger: &Trigger, from: &str, count: usize) -> Vec<String> {
    preview(trigger, from, count).fires.into_iter().map(|fire| show(fire.scheduled_at)).collect()
}

/// The first fires at or after `from`.
fn fires(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    fires_of(&cron(expression, zone), from, count)
}

/// The dates of the first fires, in UTC.
fn dates(expression: &str, from: &str, count: usize) -> Vec<String> {
    fires(expression, "UTC", from, count).into_iter().map(|fire| fire[..10].to_string()).collect()
}

fn refused(expression: &str) -> TriggerError {
    match cron_with(expression, "UTC", Dst::default(), DayRule::Or) {
        Err(error) => error,
        Ok(_) => panic!("{expression:?} passed"),
    }
}

fn next(schedule: &Schedule, after: Millis) -> Option<Millis> {
    schedule.next(&Progress::default(), after).map(|next| next.scheduled_at)
}

// ---- what an expression means ----

#[test]
fn b34_both_day_fields_given_means_either_or_both_as_the_day_rule_says() {
    let from = "2027-01-01T00:00:00Z";
    let of = |expression: &str, rule, count| {
        let trigger = cron_with(expression, "UTC", Dst::default(), rule).unwrap();
        let fires = fires_of(&trigger, from, count);
        fires.into_iter().map(|fire| fire[..10].to_string()).collect::<Vec<_>>()
    };
    let either = ["01-01", "01-08", "01-13", "01-15", "01-22", "01-29", "02-05", "02-12"];
    assert_eq!(of("0 0 13 * 5", DayRule::Or, 8), either.map(|day| format!("2027-{day}")));
    assert_eq!(of("0 0 13 * 5", DayRule::And, 3), ["2027-08-13", "2028-10-13", "2029-04-13"]);
    let either = ["2027-02-01", "2027-02-08", "2027-02-15", "2027-02-22", "2028-02-07"];
    assert_eq!(of("0 0 29 2 1", DayRule::Or, 5), either);
    assert_eq!(of("0 0 29 2 1", DayRule::And, 2), ["2044-02-29", "2072-02-29"]);
    // As in Vixie's cron a day field that begins with a star does not open the other one.
    assert_eq!(of("0 0 */2 * 5", DayRule::Or, 3), ["2027-01-01", "2027-01-15", "2027-01-29"]);
}

#[test]
fn b36_the_last_day_comes_in_every_month() {
    let days = ["01-31", "02-28", "03-31", "04-30", "05-31", "06-30"].map(|day| format!("2027-{day}"));
    assert_eq!(dates("0 0 L * *", "2027-01-01T00:00:00Z", 6), days);
    assert_eq!(dates("0 0 L 2 *", "2028-01-01T00:00:00Z", 1), ["2028-02-29"]);
    assert_eq!(dates("0 0 L * *", "2027-01-31T12:00:00Z", 1), ["2027-02-28"]);
    let last = schedule(&[cron("0 0 L * *", "UTC")]);
    assert_eq!(next(&last, at("2027-02-28T00:00:00Z")).map(show).unwrap(), "2027-03-31T00:00:00Z");
}

#[test]
fn b38_the_last_weekday_of_the_month_by_every_name_of_sunday() {
    let sundays = ["01-31", "02-28", "03-28", "04-25", "05-30", "06-27"].map(|day| format!("2027-{day}"));
    for expression in ["0 0 * * 7L", "0 0 * * 0L", "0 0 * * SUNL"] {
        assert_eq!(dates(expression, "2027-01-01T00:00:00Z", 6), sundays, "{expression}");
    }
    assert_eq!(dates("0 0 * * 5L", "2027-01-01T00:00:00Z", 3), ["2027-01-29", "2027-02-26", "2027-03-26"]);
    for (expression, position) in [("L", 8), ("L-3", 8), ("L,1", 8), ("1-3L", 8)] {
        assert_eq!(refused(&format!("0 0 * * {expression}")).position, Some(position), "{expression}");
    }
}

#[test]
fn b39_the_nth_weekday_of_the_month() {
    let fifth = ["03-29", "05-31", "08-30", "11-29"].map(|day| format!("2027-{day}"));
    assert_eq!(dates("0 0 * * MON#5", "2027-01-01T00:00:00Z", 5)[..4], fifth);
    assert!(dates("0 0 * * MON#5", "2027-01-01T00:00:00Z", 5)[4].starts_with("2028"));
    assert_eq!(dates("0 0 * * FRI#2", "2027-01-01T00:00:00Z", 3), ["2027-01-08", "2027-02-12", "2027-03-12"]);
    for (weekday, position) in [("MON#0", 12), ("MON#6", 12), ("6#2?", 11), ("#2", 8), ("MON#", 12)] {
        assert_eq!(refused(&format!("0 0 * * {weekday}")).position, Some(position), "{weekday}");
    }
}

#[test]
fn b40_zero_and_seven_are_sunday() {
    let from = "2027-01-02T00:00:00Z";
    let days = |days: &[u8]| days.iter().map(|day| format!("2027-01-{day:02}")).collect::<Vec<_>>();
    for prefix in ["", "0 "] {
        let of = |weekday: &str, count| dates(&format!("{prefix}0 0 * * {weekday}"), from, count);
        assert_eq!(of("1-5", 6), days(&[4, 5, 6, 7, 8, 11]));
        for sunday in ["0", "7", "SUN"] {
            assert_eq!(of(sunday, 3), days(&[3, 10, 17]), "{sunday}");
        }
        assert_eq!(of("5-7", 6), days(&[2, 3, 8, 9, 10, 15]));
    }
    assert_eq!(dates("@weekly", from, 3), days(&[3, 10, 17]));
}

#[test]
fn b41_a_step_above_the_range_is_refused_with_field_and_bound() {
    for (expression, position, field, bound) in [
        ("*/90 * * * *", 2, "minutes", "59"),
        ("*/60 * * * *", 2, "minutes", "59"),
        ("0 */25 * * *", 4, "hours", "23"),
        ("0 1/120 * * * *", 4, "minutes", "59"),
        ("0 0 */32 * *", 6, "day of month", "30"),
        ("0 0 1-5/9 * *", 8, "day of month", "4"),
    ] {
        let error = refused(expression);
        assert_eq!(error.position, Some(position), "{error}");
        assert!(error.message.contains(field) && error.message.contains(bound), "{error}");
    }
    assert_eq!(refused("*/0 * * * *").position, Some(2));
    let both = ["2027-01-01T00:00:00Z", "2027-01-01T00:45:00Z", "2027-01-01T01:00:00Z"];
    assert_eq!(fires("*/45 * * * *", "UTC", "2027-01-01T00:00:00Z", 3), both);
}

#[test]
fn b42_a_range_that_runs_over_the_end_wraps() {
    let hours: Vec<String> = fires("0 22-2 * * *", "UTC", "2027-01-04T00:00:00Z", 5);
    assert_eq!(hours.iter().map(|fire| &fire[11..13]).collect::<Vec<_>>(), ["00", "01", "02", "22", "23"]);
    let days = |days: &[u8]| days.iter().map(|day| format!("2027-01-{day:02}")).collect::<Vec<_>>();
    let from = "2027-01-04T00:00:00Z";
    assert_eq!(dates("0 0 * * FRI-MON", from, 6), days(&[4, 8, 9, 10, 11, 15]));
    assert_eq!(dates("0 0 * * 5-1/2", from, 4), days(&[8, 10, 15, 17]));
    assert_eq!(dates("0 0 * * 7-1/1", from, 3), days(&[4, 10, 11]));
    assert_eq!(
        dates("0 0 28-3 * *", from, 5),
        days(&[28, 29, 30, 31]).into_iter().chain(["2027-02-01".into()]).collect::<Vec<_>>()
    );
    assert_eq!(dates("0 0 1 NOV-FEB *", from, 3), ["2027-02-01", "2027-11-01", "2027-12-01"]);
    // A step that takes only the first of a range is larger than the range.
    refused("0 0 * * 7-1/2");
}

#[test]
fn b43_a_date_that_does_not_exist_is_refused() {
    for expression in ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6 *", "0 0 0 30 2 ? 2027", "0 0 0 29 2 ? 2027"]
    {
        let error = refused(expression);
        assert!(error.message.contains("no date"), "{error}");
    }
    // A year that is over is a matter of when it is asked.
    let over = schedule(&[cron("0 0 0 1 1 ? 2020", "UTC")]);
    assert_eq!(over.check_each_fires(at("2027-01-01T00:00:00Z")).unwrap_err().field, "triggers[0]");
    assert_eq!(over.check_each_fires(at("2019-01-01T00:00:00Z")), Ok(()));
}

/// What only the zone, a calendar or a limit shows to be never.
#[test]
fn b43_what_never_fires_again_is_found_out_and_refused() {
    let skip = Dst { gap: Gap::Skip, overlap: Overlap::First };
    let in_the_gap = cron_with("30 2 * 3 SUN#2", NEW_YORK, skip, DayRule::Or).unwrap();
    let ended = Limits { end_at: Some(at("2026-12-31T00:00:00Z")), ..Limits::default() };
    let ended = Trigger::new(Kind::Once { at: at("2026-12-31T00:00:00Z") }, ended).unwrap();
    let christmas = CalendarParts { yearly: vec!["12-25".into()], ..CalendarParts::default() };
    let christmas = Calendar::new(&christmas).unwrap();
    for (trigger, calendars) in
        [(in_the_gap, Vec::new()), (ended, Vec::new()), (cron("0 9 25 12 *", NEW_YORK), vec![christmas])]
    {
        let schedule = Schedule::new("job", std::slice::from_ref(&trigger), &calendars).unwrap();
        let from = at("2027-01-01T00:00:00Z");
        assert_eq!(next(&schedule, from), None, "{trigger:?}");
        assert!(schedule.check_each_fires(from).is_err(), "{trigger:?}");
        let due = schedule.catch_up(CatchUp::default(), &Progress::default(), from, from + 86_400_000);
        assert!(due.fires.is_empty() && due.next.is_none(), "{due:?}");
    }
}

#[test]
fn b44_leap_days_are_found_across_a_century_without_one() {
    let days = ["2028", "2032", "2036", "2040", "2044"].map(|year| format!("{year}-02-29"));
    assert_eq!(dates("0 0 29 2 *", "2026-11-29T00:00:00Z", 5), days);
    assert_eq!(dates("0 0 29 2 *", "2096-03-01T00:00:00Z", 1), ["2104-02-29"]);
    // The last one that there is; behind it there is none, and nothing is made up.
    assert_eq!(dates("0 0 29 2 *", "9990-01-01T00:00:00Z", 5), ["9992-02-29", "9996-02-29"]);
}

#[test]
fn b45_odd_input_is_refused_and_nothing_panics() {
    let million = "*,".repeat(500_000);
    for expression in [
        "",
        "   ",
        "\t",
        "* * *\r\n* *",
        "* * * *\0 *",
        &million,
        "０ * * * *",
        "TZ=",
        "CRON_TZ=UTC",
        "TZ=TZ=TZ=",
        "TZ=UTC * * * * *",
        "@every",
        "@every 0s",
        "@every -5s",
        "@every 1ns",
        "@every 1ms",
        "@every 99999999999h",
        "@every 5s 5s",
        "@every x",
        "@at 2027-01-01",
        "@reboot",
        "@daily *",
        "* * * *",
        "* * * * * * * *",
        "1,,2 * * * *",
        "5- * * * *",
        "/5 * * * *",
        "? * * * *",
        "* ? * * *",
        "* * * ? *",
        "*/ * * * *",
        "-1 * * * *",
        "1--2 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "** * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * FOO *",
        "* * * * MOND",
        "0 0 0 1 1 ? 1969",
        "0 0 0 1 1 ? 2030-2029",
        "99999999999999999999 * * * *",
        "+1 * * * *",
        "1.5 * * * *",
        "é * * * *",
    ] {
        let error = refused(expression);
        assert_eq!(error.field, "expression");
        let length = expression.chars().count();
        assert!(error.position.is_some_and(|position| position <= length), "{error}");
        assert!(error.value.chars().count() <= 120 && !error.to_string().is_empty());
    }
    // The position counts characters, not bytes.
    assert_eq!(refused("0 0 1 é *").position, Some(6));
    assert_eq!(refused("0  0\t40 * *").position, Some(5));
}

#[test]
fn b47_preview_and_next_are_the_same_search() {
    for (expression, zone) in [
        ("0 48 10 * * *", "America/Phoenix"),
        ("*/20 * * * *", "Australia/Lord_Howe"),
        ("30 1,2 * * *", "Europe/London"),
        ("0 12 15W * ?", "Asia/Kolkata"),
        ("@hourly", "UTC"),
    ] {
        let schedule = schedule(&[cron(expression, zone)]);
        let preview = schedule.preview(&Progress::default(), at("2027-03-01T00:00:00Z"), 2_000);
        let mut after = at("2027-03-01T00:00:00Z") - 1;
        for fire in preview.fires {
            after = next(&schedule, after).unwrap();
            assert_eq!(fire.scheduled_at, after, "{expression} {zone}");
        }
    }
}

#[test]
fn every_macro_fires_as_the_plain_expression_that_it_stands_for() {
    let from = "2027-02-10T12:34:56Z";
    for (short, plain, first) in [
        ("@yearly", "0 0 1 1 *", ["2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"]),
        ("@annually", "0 0 1 1 *", ["2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"]),
        ("@monthly", "0 0 1 * *", ["2027-03-01T00:00:00Z", "2027-04-01T00:00:00Z"]),
        // Sundays.
        ("@weekly", "0 0 * * 0", ["2027-02-14T00:00:00Z", "2027-02-21T00:00:00Z"]),
        ("@daily", "0 0 * * *", ["2027-02-11T00:00:00Z", "2027-02-12T00:00:00Z"]),
        ("@midnight", "0 0 * * *", ["2027-02-11T00:00:00Z", "2027-02-12T00:00:00Z"]),
        ("@hourly", "0 * * * *", ["2027-02-10T13:00:00Z", "2027-02-10T14:00:00Z"]),
    ] {
        assert_eq!(fires(short, "UTC", from, 2), first, "{short}");
        // Also through the clock changes of zones that change at midnight, and by half an hour.
        for zone in ["UTC", NEW_YORK, "Africa/Cairo", "Australia/Lord_Howe", "Asia/Kolkata"] {
            let found = fires(short, zone, from, 400);
            assert_eq!(found, fires(plain, zone, from, 400), "{short} in {zone}");
            assert_eq!(found.len(), 400, "{short} in {zone}");
        }
    }
}

// ---- clock changes and zones ----

fn in_new_york(expression: &str, gap: Gap, overlap: Overlap, from: &str, count: usize) -> Preview {
    let trigger = cron_with(expression, NEW_YORK, Dst { gap, overlap }, DayRule::Or).unwrap();
    preview(&trigger, from, count)
}

fn instants(preview: &Preview) -> Vec<String> {
    preview.fires.iter().map(|fire| show(fire.scheduled_at)).collect()
}

#[test]
fn b48_a_time_in_the_gap_is_shifted_or_skipped_with_a_reason() {
    let from = "2027-03-13T00:00:00Z";
    let shifted = in_new_york("30 2 * * *", Gap::Shift, Overlap::First, from, 3);
    assert_eq!(instants(&shifted), ["2027-03-13T07:30:00Z", "2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"]);
    assert_eq!(shifted.fires[1].dst, Some(DstEffect::GapShifted));
    assert_eq!(shifted.fires[1].local, "2027-03-14T03:00:00-04:00");
    assert!(shifted.skipped.is_empty());
    let skipped = in_new_york("30 2 * * *", Gap::Skip, Overlap::First, from, 2);
    assert_eq!(instants(&skipped), ["2027-03-13T07:30:00Z", "2027-03-15T06:30:00Z"]);
    assert_eq!(skipped.skipped.len(), 1);
    assert_eq!(skipped.skipped[0].local, "2027-03-14T02:30:00");
    assert_eq!(skipped.skipped[0].reason, SkipReason::DstGap);
    // The reason also comes with the fire behind it, so that it can be recorded.
    let schedule = schedule(&[cron_with(
        "30 2 * * *",
        NEW_YORK,
        Dst { gap: Gap::Skip, overlap: Overlap::First },
        DayRule::Or,
    )
    .unwrap()]);
    let next = schedule.next(&Progress::default(), at("2027-03-13T07:30:00Z")).unwrap();
    assert_eq!(next.passed, skipped.skipped);
}

#[test]
fn several_times_in_one_gap_fire_once() {
    let list = in_new_york("0,30 2,3 * * *", Gap::Shift, Overlap::First, "2027-03-14T00:00:00Z", 2);
    assert_eq!(instants(&list), ["2027-03-14T07:00:00Z", "2027-03-14T07:30:00Z"]);
    let list = in_new_york("30 2,14 * * *", Gap::Shift, Overlap::First, "2027-03-14T00:00:00Z", 2);
    assert_eq!(instants(&list), ["2027-03-14T07:00:00Z", "2027-03-14T18:30:00Z"]);
}

#[test]
fn b48_a_time_that_comes_twice_fires_as_the_policy_says() {
    let from = "2027-11-06T00:00:00Z";
    let of = |overlap, count| in_new_york("30 1 * * *", Gap::Shift, overlap, from, count);
    let first = of(Overlap::First, 3);
    assert_eq!(instants(&first), ["2027-11-06T05:30:00Z", "2027-11-07T05:30:00Z", "2027-11-08T06:30:00Z"]);
    assert_eq!(first.fires[1].dst, Some(DstEffect::OverlapFirst));
    assert_eq!(first.skipped[0].local, "2027-11-07T01:30:00-05:00");
    assert_eq!(first.skipped[0].reason, SkipReason::DstOverlap);
    let second = of(Overlap::Second, 3);
    assert_eq!(instants(&second), ["2027-11-06T05:30:00Z", "2027-11-07T06:30:00Z", "2027-11-08T06:30:00Z"]);
    assert_eq!(second.fires[1].dst, Some(DstEffect::OverlapSecond));
    let both = of(Overlap::Both, 3);
    assert_eq!(instants(&both), ["2027-11-06T05:30:00Z", "2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z"]);
    assert!(both.skipped.is_empty());
}

#[test]
fn a_rare_time_that_comes_twice_is_found_from_within_the_repeated_hour() {
    // Once a year: the next local match lies a year ahead, the second showing of this one half an hour.
    let yearly = in_new_york("30 1 7 11 *", Gap::Shift, Overlap::Second, "2027-11-07T05:45:00Z", 1);
    assert_eq!(instants(&yearly), ["2027-11-07T06:30:00Z"]);
}

#[test]
fn b49_frequent_jobs_keep_their_cadence_through_both_changes() {
    let times =
        |times: &[&str], day: &str| times.iter().map(|t| format!("{day}T{t}:00Z")).collect::<Vec<_>>();
    let autumn = ["04:00", "04:30", "05:00", "05:30", "06:00", "06:30", "07:00", "07:30"];
    let found = fires("*/30 * * * *", NEW_YORK, "2027-11-07T04:00:00Z", 8);
    assert_eq!(found, times(&autumn, "2027-11-07"));
    let spring = ["05:00", "05:30", "06:00", "06:30", "07:00", "07:30", "08:00"];
    let found = fires("*/30 * * * *", NEW_YORK, "2027-03-14T05:00:00Z", 7);
    assert_eq!(found, times(&spring, "2027-03-14"));
    let berlin = fires("*/10 * * * *", "Europe/Berlin", "2027-10-31T00:30:00Z", 10);
    let right: Vec<Millis> = (0..10).map(|step| at("2027-10-31T00:30:00Z") + step * 600_000).collect();
    assert_eq!(berlin, right.into_iter().map(show).collect::<Vec<_>>());
    // Whatever the policy: a cadence has no time of day that could be shifted or doubled.
    for overlap in [Overlap::First, Overlap::Second, Overlap::Both] {
        let found = in_new_york("*/30 * * * *", Gap::Skip, overlap, "2027-11-07T04:00:00Z", 8);
        assert_eq!(instants(&found), times(&autumn, "2027-11-07"));
        assert!(found.skipped.is_empty());
    }
}

#[test]
fn b50_b54_the_gap_never_makes_a_burst_or_a_panic() {
    for (expression, right) in [("0 2 * * *", "2027-03-14T07:00:00Z"), ("30 2 * * *", "2027-03-14T07:00:00Z")]
    {
        let schedule = schedule(&[cron(expression, NEW_YORK)]);
        for minute in 0..120 {
            let after = at("2027-03-14T06:00:00Z") + minute * 60_000;
            let found = next(&schedule, after).unwrap();
            assert!(found > after);
            let expected = if after < at(right) { at(right) } else { found };
            assert_eq!(found, expected, "{expression} after {}", show(after));
        }
        let day = schedule.preview(&Progress::default(), at("2027-03-14T05:00:00Z"), 2).fires;
        assert_eq!(
            (show(day[0].scheduled_at), day[1].scheduled_at > at("2027-03-15T00:00:00Z")),
            (right.into(), true)
        );
    }
}

#[test]
fn b52_the_offset_is_looked_up_anew_for_every_fire() {
    let spring = fires("5 2 * * *", "Europe/Dublin", "2027-03-26T00:00:00Z", 4);
    assert_eq!(
        spring,
        ["2027-03-26T02:05:00Z", "2027-03-27T02:05:00Z", "2027-03-28T01:05:00Z", "2027-03-29T01:05:00Z"]
    );
    let autumn = fires("5 2 * * *", "Europe/Dublin", "2027-10-30T00:00:00Z", 3);
    assert_eq!(autumn, ["2027-10-30T01:05:00Z", "2027-10-31T02:05:00Z", "2027-11-01T02:05:00Z"]);
}

#[test]
fn b55_a_job_fires_in_its_own_zone_not_in_the_hosts() {
    let preview = preview(&cron("0 48 10 * * *", "America/Phoenix"), "2027-01-01T00:00:00Z", 1);
    assert_eq!(instants(&preview), ["2027-01-01T17:48:00Z"]);
    assert_eq!(preview.fires[0].local, "2027-01-01T10:48:00-07:00");
}

#[test]
fn b56_an_unknown_zone_is_refused_and_never_read_as_utc() {
    for zone in ["Mars/Phobos", "UTC+8", "+08:00", "../../etc/passwd", "", "Local", " UTC", "Etc/Unknown"] {
        let error = cron_with("0 0 * * *", zone, Dst::default(), DayRule::Or).unwrap_err();
        assert_eq!((error.field.as_str(), error.value.as_str()), ("timeZone", zone));
    }
    // Any case is taken and kept as the database spells it; old names stay what they were.
    assert_eq!(cron("0 0 * * *", "america/new_york").time_zone(), NEW_YORK);
    assert_eq!(cron("0 0 * * *", "US/Eastern").time_zone(), "US/Eastern");
    assert_eq!(cron("0 0 * * *", "EST5EDT").time_zone(), "EST5EDT");
}

#[test]
fn a_day_that_does_not_exist_at_all() {
    // Samoa had no 30 December 2011.
    let of = |gap| {
        let dst = Dst { gap, overlap: Overlap::First };
        let trigger = cron_with("0 12 * * *", "Pacific/Apia", dst, DayRule::Or).unwrap();
        preview(&trigger, "2011-12-29T00:00:00Z", 3)
    };
    let shifted = of(Gap::Shift);
    assert_eq!(instants(&shifted), ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
    assert_eq!(shifted.fires[1].local, "2011-12-31T00:00:00+14:00");
    let skipped = of(Gap::Skip);
    assert_eq!(instants(&skipped)[..2], ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]);
    assert_eq!(skipped.skipped[0].local, "2011-12-30T12:00:00");
}

// ---- the other kinds ----

#[test]
fn b16_an_interval_counts_from_its_anchor_whatever_happens_in_between() {
    let anchor = at("2027-01-01T00:00:00Z");
    for trigger in [every(600_000, anchor), cron("@every 10m", "UTC")] {
        let schedule = schedule(&[trigger]);
        let mut after = anchor;
        for step in 1..=6 {
            after = next(&schedule, after).unwrap();
            assert_eq!(after, anchor + step * 600_000);
        }
        // A new leader computes from anywhere in between and finds the same.
        assert_eq!(next(&schedule, anchor + 599_999), Some(anchor + 600_000));
        assert_eq!(next(&schedule, anchor + 25 * 60_000), Some(anchor + 1_800_000));
    }
    // A first instant in the future is one of the fires.
    assert_eq!(next(&schedule(&[every(1_000, anchor)]), anchor - 5_000), Some(anchor));
    // Five hundred that were created over a minute stay spread over it.
    let spread = (0..500).map(|n| every(60_000, anchor + n * 120));
    let phases: Vec<Millis> =
        spread.map(|trigger| next(&schedule(&[trigger]), anchor + 86_400_000).unwrap() % 60_000).collect();
    assert_eq!(
        phases,
        (0..500).map(|n| n * 120 % 60_000).map(|p| if p == 0 { 0 } else { p }).collect::<Vec<_>>()
    );
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_last_task() {
    let anchor = at("2027-01-01T00:00:00Z");
    let trigger = Trigger::new(Kind::FixedDelay { delay_ms: 5_000, anchor }, Limits::default()).unwrap();
    let schedule = schedule(&[trigger]);
    let mut progress = Progress::default();
    let first = schedule.next(&progress, anchor).unwrap();
    assert_eq!(first.scheduled_at, anchor + 5_000);
    progress.fire(&first);
    assert_eq!(schedule.next(&progress, first.scheduled_at), None, "while it runs there is no next");
    progress.end(anchor + 65_000);
    assert_eq!(schedule.next(&progress, first.scheduled_at).unwrap().scheduled_at, anchor + 70_000);
    // Nobody was there for a day: there is one fire, not one for every delay that passed.
    let due = schedule.catch_up(CatchUp::default(), &progress, first.scheduled_at, anchor + 86_400_000);
    assert_eq!(due.fires.iter().map(|fire| fire.scheduled_at).collect::<Vec<_>>(), [anchor + 70_000]);
    assert!(due.skipped.is_empty() && due.next.is_none());
}

#[test]
fn a_fixed_delay_beside_another_trigger_is_accounted_for_after_an_outage() {
    let start = at("2027-01-01T00:00:00Z");
    let delay = Kind::FixedDelay { delay_ms: 90_000, anchor: start };
    let delay = Trigger::new(delay, Limits::default()).unwrap();
    let schedule = schedule(&[every(60_000, start), delay]);
    let progress = Progress { last_ended: Some(start), ..Progress::default() };
    let became = |misfire, grace_ms, away| {
        let due = schedule.catch_up(policy(misfire, grace_ms), &progress, start, start + away);
        let fires: Vec<Millis> = due.fires.iter().map(|fire| fire.scheduled_at - start).collect();
        (fires, due.skipped.iter().map(|missed| missed.count).sum::<u64>())
    };
    // Of ten minutes nobody was there for: ten instants of the rate, and that of the delay at 90 s.
    assert_eq!(became(Misfire::Skip, 0, 610_000), (vec![], 11));
    assert_eq!(became(Misfire::FireOnce, 0, 610_000), (vec![600_000], 10));
    assert_eq!(became(Misfire::FireOnce, 0, 95_000), (vec![90_000], 1), "the newest is the delay's");
    // Once an instant makes a task, the delay counts from its end.
    assert_eq!(became(Misfire::FireAll { cap: 100 }, 0, 125_000), (vec![60_000, 120_000], 0));
    assert_eq!(became(Misfire::Skip, 60_000, 95_000), (vec![60_000], 0));
    let paused = schedule.passed_over(&progress, start, start + 610_000, SkipReason::Paused).unwrap();
    assert_eq!(paused.count, 11, "while the job is paused nothing makes a task");
}

#[test]
fn a_daily_window_opens_and_closes_in_its_zone() {
    let window = |from: &str, to: &str, every_ms, days: &[u8], zone: &str| {
        let window = DailyWindow::new((from, to), every_ms, days, zone, Dst::default()).unwrap();
        Trigger::new(Kind::DailyWindow(window), Limits::default()).unwrap()
    };
    let hours = window("09:00", "11:00", 3_600_000, &[1, 5], "Europe/Berlin");
    // 2027-01-01 is a Friday.
    let right = ["01T08", "01T09", "01T10", "04T08"].map(|hour| format!("2027-01-{hour}:00:00Z"));
    assert_eq!(fires_of(&hours, "2027-01-01T00:00:00Z", 4), right);
    let night = window("23:00", "01:00", 3_600_000, &[5], "UTC");
    let right =
        ["2027-01-01T23:00:00Z", "2027-01-02T00:00:00Z", "2027-01-02T01:00:00Z", "2027-01-08T23:00:00Z"];
    assert_eq!(fires_of(&night, "2027-01-01T00:00:00Z", 4), right);
    // Clocks jump over its beginning: it opens at the end of the gap.
    let gap = window("02:30", "04:00", 1_800_000, &[0], NEW_YORK);
    let right = ["07:00", "07:30", "08:00"].map(|time| format!("2027-03-14T{time}:00Z"));
    assert_eq!(fires_of(&gap, "2027-03-14T00:00:00Z", 3), right);
    // A whole day of 25 hours is one of 25 fires.
    let day = window("00:00", "24:00", 3_600_000, &[0], NEW_YORK);
    assert_eq!(fires_of(&day, "2027-11-07T00:00:00Z", 27)[25], "2027-11-08T05:00:00Z");
    assert!(fires_of(&day, "2027-11-07T00:00:00Z", 27)[26].starts_with("2027-11-14"));
}

#[test]
fn once_means_once_and_limits_are_kept() {
    let instant = at("2027-06-01T00:00:00Z");
    let once = schedule(&[Trigger::new(Kind::Once { at: instant }, Limits::default()).unwrap()]);
    assert_eq!((next(&once, instant - 1), next(&once, instant)), (Some(instant), None));
    assert_eq!(once.check_each_fires(instant).unwrap_err().field, "triggers[0]");
    let limits = Limits {
        start_at: Some(instant),
        end_at: Some(instant + 4_000),
        max_fires: Some(3),
        ..Limits::default()
    };
    let kind = Kind::FixedRate { every_ms: 1_000, anchor: instant - 10_000 };
    let limited = schedule(&[Trigger::new(kind.clone(), limits).unwrap()]);
    let count = limited.preview(&Progress::default(), instant - 5_000, 100).fires;
    let right: Vec<Millis> = (0..3).map(|step| instant + step * 1_000).collect();
    assert_eq!(count.iter().map(|fire| fire.scheduled_at).collect::<Vec<_>>(), right);
    let ended = Limits { max_fires: None, ..limits };
    let limited = schedule(&[Trigger::new(kind, ended).unwrap()]);
    assert_eq!(limited.preview(&Progress::default(), instant - 5_000, 100).fires.len(), 5);
}

#[test]
fn several_triggers_of_one_job_fire_once_where_they_meet() {
    let triggers = [
        cron("0 * * * *", "UTC"),
        cron("*/30 * * * *", "Asia/Kolkata"),
        every(1_800_000, at("2027-01-01T00:15:00Z")),
    ];
    let schedule = schedule(&triggers);
    let preview = schedule.preview(&Progress::default(), at("2027-01-01T00:00:00Z"), 5);
    let right = ["00:00", "00:15", "00:30", "00:45", "01:00"].map(|time| format!("2027-01-01T{time}:00Z"));
    assert_eq!(instants(&preview), right);
    let both = schedule.next(&Progress::default(), at("2027-01-01T00:00:00Z") - 1).unwrap();
    assert_eq!(both.triggers, [0, 1]);
}

#[test]
fn a_calendar_takes_out_days_of_its_own_zone() {
    let calendar = Calendar::new(&CalendarParts {
        time_zone: Some("Europe/Berlin".into()),
        dates: vec!["2027-01-06".into()],
        ranges: vec![("2027-01-11".into(), "2027-01-12".into())],
        weekdays: [0, 6].into(),
        yearly: vec!["01-01".into()],
    })
    .unwrap();
    let schedule =
        Schedule::new("job", &[cron("0 9 * * *", "Europe/Berlin")], std::slice::from_ref(&calendar)).unwrap();
    let preview = schedule.preview(&Progress::default(), at("2027-01-01T00:00:00Z"), 5);
    let days: Vec<&str> = preview.fires.iter().map(|fire| &fire.local[8..10]).collect();
    assert_eq!(days, ["04", "05", "07", "08", "13"]);
    let skipped: Vec<&str> = preview.skipped.iter().map(|skip| &skip.local[8..10]).collect();
    assert_eq!(skipped, ["01", "02", "03", "06", "09", "10", "11", "12"]);
    assert!(preview.skipped.iter().all(|skip| skip.reason == SkipReason::Calendar));
    // Berlin's New Year begins an hour before that of UTC, and ends an hour before.
    let hourly = Schedule::new("job", &[cron("0 * * * *", "UTC")], &[calendar]).unwrap();
    assert_eq!(next(&hourly, at("2026-12-31T21:30:00Z")).map(show).unwrap(), "2026-12-31T22:00:00Z");
    assert_eq!(next(&hourly, at("2026-12-31T22:00:00Z")).map(show).unwrap(), "2027-01-03T23:00:00Z");
}

#[test]
fn a_job_whose_every_day_is_excluded_has_no_next_fire_and_says_so_soon() {
    let calendar =
        Calendar::new(&CalendarParts { yearly: vec!["12-25".into()], ..CalendarParts::default() }).unwrap();
    for expression in ["* * * * * *", "0 0 25 12 *"] {
        let triggers = [cron(expression, "UTC")];
        let schedule = Schedule::new("job", &triggers, std::slice::from_ref(&calendar)).unwrap();
        let preview = schedule.preview(&Progress::default(), at("2027-12-24T23:59:59Z"), 2);
        assert_eq!(preview.fires.len(), if expression.starts_with('*') { 2 } else { 0 });
        assert!(preview.truncated);
    }
    let everything = CalendarParts {
        ranges: vec![("1970-01-01".into(), "9999-12-31".into())],
        ..CalendarParts::default()
    };
    let everything = Calendar::new(&everything).unwrap();
    let never = Schedule::new("job", &[cron("* * * * * *", "UTC")], &[everything]).unwrap();
    assert_eq!(next(&never, at("2027-01-01T00:00:00Z")), None);
    assert!(never.check_each_fires(at("2027-01-01T00:00:00Z")).is_err());
}

// ---- what nobody was there for ----

fn policy(policy: Misfire, grace_ms: u64) -> CatchUp {
    CatchUp { policy, grace_ms }
}

#[test]
fn b62_five_missed_minutes_of_every_second_are_a_count_and_the_job_goes_on() {
    let last = at("2027-01-01T00:00:00Z");
    let now = last + 300_500;
    let schedule = schedule(&[cron("* * * * * *", "UTC")]);
    let due = schedule.catch_up(policy(Misfire::FireOnce, 0), &Progress::default(), last, now);
    assert_eq!(due.fires.iter().map(|fire| fire.scheduled_at).collect::<Vec<_>>(), [last + 300_000]);
    assert_eq!(due.skipped.len(), 1);
    let missed = &due.skipped[0];
    assert_eq!((missed.reason, missed.count, missed.exact), (SkipReason::Misfire, 299, true));
    assert_eq!((missed.first, missed.last), (last + 1_000, last + 299_000));
    assert_eq!(due.next.unwrap().scheduled_at, last + 301_000);
    let none = schedule.catch_up(policy(Misfire::Skip, 0), &Progress::default(), last, now);
    assert_eq!((none.fires.len(), none.skipped[0].count), (0, 300));
    assert_eq!(none.next.unwrap().scheduled_at, last + 301_000);
}

#[test]
fn b63_the_default_makes_one_task_of_whatever_was_missed() {
    let last = at("2027-01-01T00:00:00Z");
    let schedule = schedule(&[every(15_000, last)]);
    for late in [0, 4_000, 6_000, 14_999] {
        let now = last + 600_000 + late;
        let due = schedule.catch_up(CatchUp::default(), &Progress::default(), last, now);
        assert_eq!(due.fires.iter().map(|fire| fire.scheduled_at).collect::<Vec<_>>(), [last + 600_000]);
        assert_eq!(due.skipped[0].count, 39);
        assert_eq!(due.next.unwrap().scheduled_at, last + 615_000);
    }
}

#[test]
fn what_is_late_by_no_more_than_the_grace_time_fires_under_every_policy() {
    let last = at("2027-01-01T00:00:00Z");
    let schedule = schedule(&[every(1_000, last)]);
    for misfire in [Misfire::Skip, Misfire::FireOnce, Misfire::FireAll { cap: 0 }] {
        let due = schedule.catch_up(policy(misfire, 3_000), &Progress::default(), last, last + 3_000);
        assert_eq!(due.fires.len(), 3, "{misfire:?}: a change of leader loses nothing");
        assert!(due.skipped.is_empty());
    }
}

#[test]
fn what_was_held_back_by_a_jitter_is_in_time() {
    let begin = at("2027-01-01T00:00:00Z");
    let kind = Kind::FixedRate { every_ms: 10_000, anchor: begin };
    let jittered = Trigger::new(kind, Limits { jitter_ms: 60_000, ..Limits::default() }).unwrap();
    for triggers in [vec![jittered.clone()], vec![every(5_000, begin), jittered]] {
        let schedule = schedule(&triggers);
        let (mut last, mut fired) = (begin, Vec::new());
        for now in (0..600).map(|second| begin + second * 1_000) {
            let due = schedule.catch_up(CatchUp::default(), &Progress::default(), last, now);
            assert!(due.skipped.is_empty(), "somebody was there all the time: {:?}", due.skipped);
            fired.extend(due.fires.iter().map(|fire| fire.scheduled_at));
            last = due.through;
        }
        let mut right = Vec::new();
        let mut instant = begin;
        while let Some(next) = next(&schedule, instant).filter(|next| *next <= last) {
            right.push(next);
            instant = next;
        }
        assert_eq!(fired, right);
    }
}

#[test]
fn b64_firing_all_is_capped_and_keeps_the_newest() {
    let last = at("2027-01-01T00:00:00Z");
    let schedule = schedule(&[every(1_000, last)]);
    let due = schedule.catch_up(
        policy(Misfire::FireAll { cap: 10 }, 0),
        &Progress::default(),
        last,
        last + 600_500,
    );
    let right: Vec<Millis> = (591..=600).map(|step| last + step * 1_000).collect();
    assert_eq!(due.fires.iter().map(|fire| fire.scheduled_at).collect::<Vec<_>>(), right);
    assert_eq!((due.skipped[0].reason, due.skipped[0].count), (SkipReason::MisfireCap, 590));
    let most = policy(Misfire::FireAll { cap: u32::MAX }, 0);
    let due = schedule.catch_up(most, &Progress::default(), last, last + 2_000_000);
    assert_eq!((due.fires.len(), due.skipped[0].count), (BURST_LIMIT, 1_000));
}

#[test]
fn a_year_away_costs_no_more_than_an_hour_and_says_that_it_did_not_count() {
    let last = at("2026-01-01T00:00:00Z");
    let now = at("2027-01-01T00:00:00Z") + 500;
    for trigger in [cron("* * * * * *", NEW_YORK), cron("* * 3 * * *", NEW_YORK), every(10, last)] {
        let schedule = schedule(std::slice::from_ref(&trigger));
        let due = schedule.catch_up(policy(Misfire::FireOnce, 0), &Progress::default(), last, now);
        assert_eq!(due.fires.len(), 1);
        let newest = due.fires[0].scheduled_at;
        assert!(next(&schedule, newest).unwrap() > now, "the newest one fires");
        let missed = &due.skipped[0];
        assert!(!missed.exact && missed.count >= MISSED_COUNTED - 1, "{missed:?}");
        assert_eq!(Some(missed.first), next(&schedule, last));
        assert!(missed.last < newest && due.next.unwrap().scheduled_at > now);
    }
}

#[test]
fn b18_a_schedule_whose_start_or_last_fire_lies_in_the_past_goes_on_in_the_future() {
    let anchor = at("2020-01-01T00:00:00Z");
    let now = at("2027-01-01T00:00:03Z");
    for trigger in [every(5_000, anchor), cron("*/5 * * * * *", "UTC"), cron("@every 5s", "UTC")] {
        let schedule = schedule(&[trigger]);
        let due = schedule.catch_up(CatchUp::default(), &Progress::default(), now - 12_000, now);
        let next = due.next.unwrap().scheduled_at;
        assert!(next > now && next <= now + 5_000, "within one period");
    }
    // A clock that stepped back below the last fire fires nothing again.
    let schedule = schedule(&[every(5_000, anchor)]);
    let due = schedule.catch_up(CatchUp::default(), &Progress::default(), now, now - 3_600_000);
    assert!(due.fires.is_empty() && due.skipped.is_empty());
    assert_eq!((due.through, due.next.unwrap().scheduled_at), (now, at("2027-01-01T00:00:05Z")));
}

#[test]
fn b65_an_edit_fires_nothing_of_the_past() {
    // Last ran at 03:00; at 15:00 it is moved to 14:00. Whoever edits computes from now.
    let now = at("2027-01-01T15:00:00Z");
    let edited = schedule(&[cron("0 14 * * *", "UTC")]);
    assert_eq!(next(&edited, now).map(show).unwrap(), "2027-01-02T14:00:00Z");
    // The same words are the same trigger, so that there is nothing to recompute.
    assert_eq!(cron("@every 3m", "UTC"), cron("@every 3m", "UTC"));
    assert_ne!(cron("@every 3m", "UTC"), cron("@every 3m", NEW_YORK));
    // A job that is deleted and created again counts from its own creation.
    let again = schedule(&[every(180_000, now + 61_000)]);
    assert_eq!(next(&again, now + 61_000), Some(now + 241_000));
}

#[test]
fn the_most_fires_are_kept_also_when_catching_up() {
    let last = at("2027-01-01T00:00:00Z");
    let limits = Limits { max_fires: Some(5), ..Limits::default() };
    let kind = Kind::FixedRate { every_ms: 1_000, anchor: last };
    let schedule = schedule(&[Trigger::new(kind, limits).unwrap()]);
    let progress = Progress { fired: vec![3], ..Progress::default() };
    let all = policy(Misfire::FireAll { cap: 100 }, 0);
    let due = schedule.catch_up(all, &progress, last + 3_000, last + 60_500);
    assert_eq!(due.fires.len(), 2);
    assert_eq!(due.next, None);
}

#[test]
fn a_backfill_names_every_instant_of_its_range_in_pieces() {
    let delay = Kind::FixedDelay { delay_ms: 1_000, anchor: at("2027-01-01T00:00:00Z") };
    let triggers = [cron("0 9 * * *", NEW_YORK), Trigger::new(delay, Limits::default()).unwrap()];
    let schedule = schedule(&triggers);
    let (from, to) = (at("2027-03-13T14:00:00Z"), at("2027-03-16T13:00:00Z"));
    let all: Vec<String> = schedule.range(from, to, 10).iter().map(|next| show(next.scheduled_at)).collect();
    let right = ["13T14", "14T13", "15T13", "16T13"].map(|hour| format!("2027-03-{hour}:00:00Z"));
    assert_eq!(all, right);
    let first = schedule.range(from, to, 3);
    let rest = schedule.range(first[2].scheduled_at + 1, to, 3);
    assert_eq!((first.len(), rest.len()), (3, 1));
}

// ---- several fires of one job at once ----

#[test]
fn b05_five_triggers_at_one_instant_leave_one_task_under_skip_and_two_under_queue() {
    let mut open = Vec::new();
    let mut answers = Vec::new();
    for n in 0..5 {
        let answer = decide(OverlapPolicy::Skip, &open);
        if answer == Decision::Start {
            open.push(OpenTask { task: TaskId([n; 16]), queued: false });
        }
        answers.push(answer);
    }
    assert_eq!(open.len(), 1);
    assert!(answers[1..].iter().all(|answer| *answer == Decision::Skip(SkipReason::Overlap)));
    for n in 5..10 {
        if decide(OverlapPolicy::Queue, &open) == Decision::Queue {
            open.push(OpenTask { task: TaskId([n; 16]), queued: true });
        }
    }
    assert_eq!(open.len(), 2, "one runs and one waits, however long there is no executor");
}

#[test]
fn a_preview_over_centuries_of_excluded_days_ends() {
    // Every year but each ninth is excluded: some 3,000 days are passed over for each day that fires.
    let ranges = (2_027..9_000)
        .filter(|year| year % 9 != 0)
        .map(|year| (format!("{year}-01-02"), format!("{year}-12-31")));
    let parts = CalendarParts { ranges: ranges.collect(), ..CalendarParts::default() };
    let calendar = Calendar::new(&parts).unwrap();
    let cron = Cron::new("0 0 2 1 *", "UTC", Dst::default(), DayRule::Or, 0).unwrap();
    let rare = Trigger::new(Kind::Cron(cron), Limits::default()).unwrap();
    let cron = Cron::new("0 0 2-31 * *", "UTC", Dst::default(), DayRule::Or, 0).unwrap();
    let daily = Trigger::new(Kind::Cron(cron), Limits::default()).unwrap();
    let schedule = Schedule::new("j", &[rare, daily], &[calendar]).unwrap();
    let preview = schedule.preview(&Progress::default(), at("2027-01-02T00:00:00Z"), 100_000);
    assert!(preview.truncated && !preview.fires.is_empty());
    assert!(preview.fires.len() < 30_000, "{} fires", preview.fires.len());
}
