//! Calendars and the jobs that heed them, one behaviour a test.

mod common;

use common::jobs::*;
use common::*;
use orloj_model::command::{Command, JobCommand};
use orloj_model::job::{Definition, SPREAD_PER_COMMAND};
use orloj_model::query;
use orloj_model::trigger::overlap::OverlapPolicy::Skip;
use orloj_model::trigger::{Kind, SkipReason};
use orloj_model::{Event, Refusal, Reply};

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

const DAY: i64 = 24 * 60 * MINUTE;

fn put_calendar(name: &str, expected: Option<u64>, dates: &[&str]) -> Command {
    command(JobCommand::PutCalendar {
        calendar: calendar_key(name),
        expected,
        parts: calendar(dates),
        claim: None,
    })
}

fn delete_calendar(name: &str) -> Command {
    command(JobCommand::DeleteCalendar { calendar: calendar_key(name), expected: None, claim: None })
}

/// Fires every day but those of the calendar `free`.
fn daily() -> Definition {
    let mut daily = definition(Skip);
    daily.triggers = vec![trigger(Kind::FixedRate { every_ms: DAY as u64, anchor: 0 })];
    daily.calendars = vec![calendar_name("free")];
    daily
}

fn with_daily() -> World {
    let mut world = World::ready();
    assert_eq!(world.run(put_calendar("free", Some(0), &["2000-01-01"])), Reply::Calendar { version: 1 });
    let put = world.put("j", Some(0), daily());
    assert!(matches!(world.run(put), Reply::Job { .. }));
    world
}

#[test]
fn a_calendar_that_is_used_stays() {
    let mut world = with_daily();
    assert_eq!(world.run(delete_calendar("free")), refused(Refusal::CalendarInUse));
    let users = query::users_of(&world.tables, &calendar_key("free"), None, 9).expect("maps do not fail");
    assert_eq!(users, [key("j")]);
    let mut other = daily();
    other.calendars.clear();
    let put = world.put("j", Some(1), other);
    world.run(put);
    assert_eq!(world.run(delete_calendar("free")), Reply::Done);
    let gone = Refusal::CalendarNotFound { calendar: calendar_name("free") };
    assert_eq!(world.run(delete_calendar("free")), refused(gone));
    // One that comes under its name has no version that the old one had.
    assert_eq!(world.run(put_calendar("free", Some(0), &["2000-01-01"])), Reply::Calendar { version: 2 });
}

#[test]
fn a_calendar_is_guarded_by_its_version() {
    let mut world = with_daily();
    let stale = refused(Refusal::VersionMismatch { current: 1 });
    assert_eq!(world.run(put_calendar("free", Some(0), &["2001-01-01"])), stale);
    assert_eq!(world.run(put_calendar("free", Some(1), &["2000-01-01"])), Reply::Calendar { version: 1 });
    assert_eq!(world.run(put_calendar("free", Some(1), &["2001-01-01"])), Reply::Calendar { version: 2 });
    let rows = query::calendars_of(&world.tables, &caller(), None, 9).expect("maps do not fail");
    assert_eq!(
        rows.iter().map(|(key, row)| (key, row.version)).collect::<Vec<_>>(),
        [(&calendar_key("free"), 2)]
    );
}

#[test]
fn a_changed_calendar_changes_the_next_fire() {
    let mut world = with_daily();
    assert_eq!(world.next_at("j"), Some(DAY));
    let fire = command(JobCommand::Fire(world.fire("j", task_id(1)).expect("it has a next fire")));
    world.run(put_calendar("free", None, &["1970-01-02"]));
    assert!(world.needs_next("j"), "{:?}", world.events);
    let state = world.job("j").state;
    assert_eq!((state.wanted, state.next), (true, None));
    world.now = DAY;
    let stale = refused(Refusal::StaleJob { revision: state.revision });
    assert_eq!(world.run(fire), stale, "a leader that has not heard of it");
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    assert_eq!(world.next_at("j"), Some(2 * DAY));
}

#[test]
fn a_day_that_is_no_longer_excluded_is_not_made_up_for() {
    let mut world = with_daily();
    world.run(put_calendar("free", None, &["1970-01-02"]));
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    assert_eq!(world.next_at("j"), Some(2 * DAY));
    world.now = DAY + DAY / 2;
    world.run(put_calendar("free", None, &["2000-01-01"]));
    let answer = world.answer("j").expect("the job is there");
    world.run(answer);
    assert_eq!(world.next_at("j"), Some(2 * DAY), "the second of January has passed");
}

#[test]
fn a_day_that_a_calendar_takes_away_is_recorded_whatever_the_job_does_next() {
    let excluded = |now| {
        let mut world = with_daily();
        world.run(put_calendar("free", None, &["1970-01-02"]));
        let answer = world.answer("j").expect("the job is there");
        world.run(answer);
        assert_eq!(world.next_at("j"), Some(2 * DAY));
        world.now = now;
        world
    };
    let taken_away = (SkipReason::Calendar, 1, DAY, DAY);
    let mut skips = excluded(2 * DAY);
    let skip = skips.skip("j", SkipReason::Misfire, 1).expect("it has a next fire");
    skips.run(command(JobCommand::Skip(skip)));
    assert_eq!(skips.skips("j"), [taken_away, (SkipReason::Misfire, 1, 2 * DAY, 2 * DAY)]);
    for (now, recorded) in [(DAY / 2, &[][..]), (DAY + DAY / 2, &[taken_away][..])] {
        let mut hourly = daily();
        hourly.triggers = vec![trigger(Kind::FixedRate { every_ms: DAY as u64 / 24, anchor: 0 })];
        let mut edited = excluded(now);
        let put = edited.put("j", Some(1), hourly);
        edited.run(put);
        assert_eq!(edited.skips("j"), recorded, "an edit at {now}");
        let mut paused = excluded(now);
        paused.run(command(JobCommand::Pause { job: key("j"), note: String::new(), claim: None }));
        assert_eq!(paused.skips("j"), recorded, "a pause at {now}");
        let mut told = excluded(now);
        told.run(put_calendar("free", None, &["2000-01-01"]));
        assert_eq!(told.skips("j"), recorded, "a calendar that changes at {now}");
    }
}

#[test]
fn a_calendar_with_many_jobs_is_spread_in_bounded_commands() {
    let mut world = with_daily();
    let count = 2 * SPREAD_PER_COMMAND + 50;
    let puts: Vec<_> = (0..count - 1).map(|job| world.put(&format!("k{job:03}"), Some(0), daily())).collect();
    world.run_all(puts);
    let wanted =
        |world: &World| query::wanted_jobs(&world.tables, None, usize::MAX).expect("maps do not fail").len();
    let last = format!("k{:03}", count - 2);
    let untold = command(JobCommand::Fire(world.fire(&last, task_id(1)).expect("it has a next fire")));
    world.run(put_calendar("free", None, &["1970-01-02"]));
    let changed = |spreading| Event::CalendarChanged { calendar: calendar_key("free"), spreading };
    assert!(world.events.contains(&changed(true)), "{:?}", world.events);
    assert_eq!(wanted(&world), SPREAD_PER_COMMAND);
    // A job that has not been told does not fire on a day that may be excluded by now.
    world.now = DAY;
    let spreading = Refusal::CalendarSpreading { calendar: calendar_name("free") };
    assert_eq!(world.run(untold), refused(spreading));
    for told in [2 * SPREAD_PER_COMMAND, count] {
        // What is left stands in the table, for any leader.
        let rows = query::spreading(&world.tables, 9).expect("maps do not fail");
        let [(calendar, row)] = &rows[..] else { panic!("{rows:?}") };
        let spread = JobCommand::SpreadCalendar { calendar: calendar.clone(), after: row.after.clone() };
        assert_eq!(world.run(command(spread.clone())), Reply::Done);
        assert_eq!(wanted(&world), told);
        assert_eq!(world.run(command(spread)), refused(Refusal::NotNext), "once");
    }
    assert!(query::spreading(&world.tables, 9).expect("maps do not fail").is_empty());
}

#[test]
fn what_was_computed_from_an_older_calendar_is_not_taken() {
    let mut world = with_daily();
    // Of a new job.
    let put = world.put("k", Some(0), daily());
    world.run(put_calendar("free", None, &["1970-01-02"]));
    world.run(put);
    assert!(world.job("k").state.wanted);
    // Of one that is resumed.
    world.run(command(JobCommand::Pause { job: key("k"), note: String::new(), claim: None }));
    let computed = world.computed("k", &daily());
    world.run(put_calendar("free", None, &["1970-01-03"]));
    let resume = JobCommand::Resume { job: key("k"), computed, missed: None, claim: None };
    let revision = world.job("k").state.revision;
    assert_eq!(world.run(command(resume)), refused(Refusal::StaleJob { revision }));
}
