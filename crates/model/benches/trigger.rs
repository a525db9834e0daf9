//! What it takes to find the next fire of a job: triggers of each kind, dates that are far apart, zones whose clocks
//! change, calendars. Making a schedule ready is measured apart: a leader does both for each fire.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use orloj_model::id::Millis;
use orloj_model::trigger::{
    Calendar, CalendarParts, Cron, DailyWindow, DayRule, Dst, Kind, Limits, Progress, Schedule, Trigger,
};

/// 2027-01-15T08:00:00Z.
const ANY_DAY: Millis = 1_800_000_000_000;
/// 2027-03-14T06:00:00Z: clocks in New York jump an hour later.
const CLOCK_CHANGE: Millis = 1_805_004_000_000;
/// 2096-03-01T00:00:00Z: the next 29 February is eight years away.
const NO_LEAP_YEAR: Millis = 3_981_398_400_000;

fn cron(expression: &str, zone: &str) -> Kind {
    Kind::Cron(
        Cron::new(expression, zone, Dst::default(), DayRule::default(), 0).expect("a valid expression"),
    )
}

/// What is measured: name, rule, calendars, and the instant after which the next fire is looked for.
fn cases() -> Vec<(&'static str, Kind, Vec<Calendar>, Millis)> {
    let window =
        DailyWindow::new(("09:00", "18:00"), 1_800_000, &[1, 2, 3, 4, 5], "Europe/Berlin", Dst::default());
    let holidays = CalendarParts {
        time_zone: Some("Europe/Berlin".into()),
        weekdays: [0, 6].into(),
        yearly: vec!["12-25".into(), "12-26".into(), "01-01".into()],
        ..CalendarParts::default()
    };
    let holidays = Calendar::new(&holidays).expect("valid days");
    vec![
        ("fixed_rate", Kind::FixedRate { every_ms: 5_000, anchor: 0 }, Vec::new(), ANY_DAY),
        ("cron/every_5_minutes", cron("*/5 * * * *", "UTC"), Vec::new(), ANY_DAY),
        ("cron/daily_in_berlin", cron("30 2 * * *", "Europe/Berlin"), Vec::new(), ANY_DAY),
        ("cron/at_a_clock_change", cron("30 2 * * *", "America/New_York"), Vec::new(), CLOCK_CHANGE),
        ("cron/last_friday", cron("0 0 * * 5L", "UTC"), Vec::new(), ANY_DAY),
        ("cron/29_february", cron("0 0 29 2 *", "UTC"), Vec::new(), NO_LEAP_YEAR),
        ("cron/beside_a_calendar", cron("0 9 * * *", "Europe/Berlin"), vec![holidays], ANY_DAY),
        ("daily_window", Kind::DailyWindow(window.expect("a valid window")), Vec::new(), ANY_DAY),
    ]
}

fn trigger(c: &mut Criterion) {
    for (name, kind, calendars, after) in cases() {
        let triggers = [Trigger::new(kind, Limits::default()).expect("a valid trigger")];
        let ready =
            || Schedule::new("nightly-report", black_box(&triggers), &calendars).expect("a checked trigger");
        let mut group = c.benchmark_group("trigger");
        group.bench_function(BenchmarkId::new("ready", name), |b| b.iter(ready));
        let (schedule, progress) = (ready(), Progress::default());
        assert!(schedule.next(&progress, after).is_some(), "{name} never fires");
        group.bench_function(BenchmarkId::new("next", name), |b| {
            b.iter(|| schedule.next(&progress, black_box(after)));
        });
        group.finish();
    }
}

criterion_group!(benches, trigger);
criterion_main!(benches);
