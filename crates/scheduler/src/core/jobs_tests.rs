//! Jobs in hand: when they are looked at, how many at a time, and that nothing heard of them is lost.

use orloj_model::id::{CallerId, JobId, Millis};
use orloj_model::job::{CalendarKey, JobKey};
use orloj_model::key::NextKey;
use orloj_model::{Event, id::CalendarName};

use super::*;
use crate::options::Options;

const START: Now = Now { mono_ms: 1_000, wall_ms: 1_000_000, cluster_ms: 1_000_000 };

fn at(ms: u64) -> Now {
    let ahead = ms as i64;
    Now { mono_ms: START.mono_ms + ms, wall_ms: START.wall_ms + ahead, cluster_ms: START.cluster_ms + ahead }
}

fn key(number: usize) -> JobKey {
    let job = JobId::new(format!("j{number}")).expect("a valid id");
    JobKey { caller: CallerId::new("c").expect("a valid name"), job }
}

fn look(number: usize) -> Duty {
    Duty::Look(Arc::new(key(number)))
}

fn leader() -> Core {
    let mut core = Core::new(Options::default(), 7, START);
    let (_, until) = core.window(START).expect("nothing is loaded yet");
    core.load_window(until, &[], &[], START);
    core
}

fn next(core: &mut Core, number: usize, due_at: Millis, now: Now) {
    core.event(&Event::JobNext { job: key(number), revision: 1, due_at }, now);
}

fn wanted(core: &mut Core, number: usize, now: Now) {
    core.event(&Event::JobNeedsNext { job: key(number), revision: 1 }, now);
}

/// The duties of the next batch; none while one is being looked at.
fn batch(core: &mut Core, now: Now) -> Vec<Duty> {
    core.advance(now);
    core.plan_jobs();
    let steps = core.take_steps().into_iter();
    steps.flat_map(|step| if let Step::Jobs(duties) = step { duties } else { Vec::new() }).collect()
}

/// A batch was looked at, and each of its duties proposed something, or none did.
fn looked(core: &mut Core, proposes: bool, now: Now) {
    core.looked(Vec::new(), proposes, now);
}

fn done(core: &mut Core, duties: Vec<Duty>, after: After, now: Now) {
    if duties.is_empty() {
        return;
    }
    looked(core, true, now);
    core.jobs_done(duties.into_iter().map(|duty| (duty, after)).collect(), now);
}

#[test]
fn a_job_is_looked_at_when_the_wall_clock_shows_its_instant() {
    let mut core = leader();
    next(&mut core, 1, START.wall_ms + 100, START);
    assert_eq!(batch(&mut core, at(99)), []);
    let back = Now { wall_ms: at(100).wall_ms - 50_000, ..at(100) };
    assert_eq!(batch(&mut core, back), [], "the wall clock was set back");
    let forward = Now { wall_ms: START.wall_ms + 100, ..at(200) };
    assert_eq!(batch(&mut core, forward), [look(1)]);
}

#[test]
fn the_latest_word_counts_whichever_way_it_moves_the_instant() {
    let mut core = leader();
    next(&mut core, 1, START.wall_ms + 100, START);
    next(&mut core, 1, START.wall_ms + 500, START);
    next(&mut core, 2, START.wall_ms + 500, START);
    next(&mut core, 2, START.wall_ms + 100, START);
    next(&mut core, 3, START.wall_ms + 100, START);
    next(&mut core, 3, START.wall_ms + 3_600_000, START);
    assert_eq!(batch(&mut core, at(200)), [look(2)]);
    done(&mut core, vec![look(2)], After::Rest, at(200));
    assert_eq!(batch(&mut core, at(600)), [look(1)]);
    assert_eq!(core.counts().job_timers, 0, "what is beyond the window sits in no wheel");
    let late = vec![NextKey { due_at: START.wall_ms, job: key(4) }];
    core.load_jobs(late, at(600));
    done(&mut core, vec![look(1)], After::Rest, at(600));
    assert_eq!(batch(&mut core, at(601)), [look(4)], "what an earlier leader left is due at once");
}

#[test]
fn b100_a_thousand_jobs_of_one_instant_go_out_in_order_in_bounded_batches() {
    let mut core = leader();
    let window = |number: usize| NextKey { due_at: START.wall_ms + 50, job: key(number) };
    core.load_jobs((0..1_000).map(window).collect(), START);
    let mut seen = Vec::new();
    // The wheel hands out no more in one tick than it does of tasks.
    for tick in 6.. {
        let duties = batch(&mut core, at(10 * tick));
        assert!(duties.len() <= 128, "{}", duties.len());
        assert_eq!(batch(&mut core, at(10 * tick)), [], "one is looked at at a time");
        done(&mut core, duties.clone(), After::Rest, at(10 * tick));
        seen.extend(duties);
        if seen.len() == 1_000 {
            break;
        }
    }
    assert_eq!(seen, (0..1_000).map(look).collect::<Vec<_>>());
}

#[test]
fn the_next_batch_is_looked_at_while_those_before_are_in_the_log() {
    let mut core = leader();
    (0..1_000).for_each(|number| next(&mut core, number, START.wall_ms, START));
    let mut under_way = Vec::new();
    for _ in 0..3 {
        let duties = batch(&mut core, at(0));
        assert_eq!(duties.len(), 128);
        assert_eq!(batch(&mut core, at(0)), [], "this one is being looked at");
        looked(&mut core, true, at(0));
        under_way.push(duties);
    }
    assert_eq!(batch(&mut core, at(0)), [], "others want to get into the log, too");
    let first = under_way.remove(0);
    assert_eq!(first, (0..128).map(look).collect::<Vec<_>>());
    core.jobs_done(first.into_iter().map(|duty| (duty, After::Rest)).collect(), at(1));
    assert_eq!(batch(&mut core, at(1)).first(), Some(&look(384)));
    // What proposes nothing is done when it has been looked at.
    for _ in 0..3 {
        looked(&mut core, false, at(1));
        assert_ne!(batch(&mut core, at(1)), []);
    }
}

#[test]
fn a_job_is_in_one_batch_whatever_is_heard_of_it() {
    let mut core = leader();
    (0..200).for_each(|number| next(&mut core, number, START.wall_ms, START));
    let first = batch(&mut core, at(0));
    looked(&mut core, true, at(0));
    // Its fire is applied, and the next one is due; the answer is on its way to the loop.
    next(&mut core, 0, START.wall_ms, at(1));
    let second = batch(&mut core, at(1));
    assert_eq!(second, (128..200).map(look).collect::<Vec<_>>());
    looked(&mut core, true, at(1));
    assert_eq!(batch(&mut core, at(1)), []);
    core.jobs_done(first.into_iter().map(|duty| (duty, After::Rest)).collect(), at(2));
    assert_eq!(batch(&mut core, at(2)), [look(0)]);
}

#[test]
fn a_backfill_is_in_one_batch_whatever_is_heard_of_it() {
    let mut core = leader();
    let (backfill, waits) = (Duty::Backfill(Arc::new(key(1))), Event::BackfillWaits { job: key(1) });
    core.event(&waits, START);
    assert_eq!(batch(&mut core, at(0)), std::slice::from_ref(&backfill));
    looked(&mut core, true, at(0));
    // Tasks of it end while its step is in the log.
    core.event(&waits, at(1));
    core.event(&waits, at(1));
    assert_eq!(batch(&mut core, at(1)), [], "its rows are those of before");
    core.jobs_done(vec![(backfill.clone(), After::Rest)], at(2));
    assert_eq!(batch(&mut core, at(2)), std::slice::from_ref(&backfill));
    done(&mut core, vec![backfill], After::Rest, at(3));
    assert_eq!(batch(&mut core, at(4)), []);
}

#[test]
fn what_is_heard_while_a_batch_is_under_way_counts_after_it() {
    let mut core = leader();
    for number in 1..=3 {
        next(&mut core, number, START.wall_ms, START);
    }
    let duties = batch(&mut core, at(0));
    next(&mut core, 1, START.wall_ms + 100, at(1));
    wanted(&mut core, 2, at(1));
    done(&mut core, duties, After::Rest, at(2));
    assert_eq!(batch(&mut core, at(3)), [look(2)]);
    done(&mut core, vec![look(2)], After::Rest, at(4));
    assert_eq!(batch(&mut core, at(101)), [look(1)]);
}

#[test]
fn what_was_refused_is_tried_again_and_what_found_no_room_goes_first() {
    let mut core = leader();
    for number in 1..=4 {
        next(&mut core, number, START.wall_ms, START);
    }
    let duties = batch(&mut core, at(0));
    next(&mut core, 5, START.wall_ms, START);
    let afters = [After::Soon, After::Next, After::Next, After::At(START.wall_ms + 70)];
    looked(&mut core, true, at(0));
    core.jobs_done(duties.into_iter().zip(afters).collect(), at(1));
    assert_eq!(core.counts().jobs_waiting, 4);
    assert_eq!(batch(&mut core, at(2)), [look(2), look(3), look(5)]);
    done(&mut core, vec![look(2), look(3), look(5)], After::Rest, at(3));
    core.retry();
    assert_eq!(batch(&mut core, at(4)), [look(1)]);
    done(&mut core, vec![look(1)], After::Rest, at(5));
    assert_eq!(batch(&mut core, at(80)), [look(4)]);
}

#[test]
fn b18_overdue_jobs_show_until_each_of_them_waits_for_the_future_again() {
    let mut core = leader();
    for number in 0..500 {
        next(&mut core, number, START.wall_ms + 5_000, START);
    }
    assert_eq!(core.counts().jobs_waiting, 0, "none is overdue");
    // The leader stands still for 12 s, over several instants of each.
    let (mut highest, mut looked) = (0, 0);
    for tick in 1_700.. {
        let now = at(10 * tick);
        core.advance(now);
        highest = highest.max(core.counts().jobs_waiting);
        let duties = batch(&mut core, now);
        looked += duties.len();
        done(&mut core, duties, After::At(START.wall_ms + 60_000), now);
        assert!(looked <= 500 && tick < 1_800, "{looked} looks");
        if looked == 500 {
            break;
        }
    }
    assert!(highest > 0);
    assert_eq!((core.counts().jobs_waiting, core.counts().job_timers), (0, 500), "each has its next instant");
    // A clock that is set back, and right again: nothing is overdue, and nothing is forgotten.
    let back = Now { wall_ms: at(55_000).wall_ms - 5_000, ..at(60_000) };
    assert_eq!(batch(&mut core, back), []);
    assert_eq!(core.counts().jobs_waiting, 0);
    assert_ne!(batch(&mut core, at(60_010)), []);
}

#[test]
fn b64_a_job_that_is_in_time_waits_for_one_look_at_each_that_catches_up() {
    let (mut core, behind) = (leader(), 500);
    for number in 0..behind {
        next(&mut core, number, START.wall_ms - 3_600_000, START);
    }
    next(&mut core, behind, START.wall_ms + 10, START);
    let (mut looked, mut now) = (Vec::new(), at(20));
    while !looked.contains(&look(behind)) {
        assert!(looked.len() <= 2 * behind, "it is passed by");
        let duties = batch(&mut core, now);
        looked.extend(duties.clone());
        // Each of them has many more instants behind it.
        done(&mut core, duties, After::At(START.wall_ms - 3_000_000), now);
        now = Now { mono_ms: now.mono_ms + 10, wall_ms: now.wall_ms + 10, cluster_ms: now.cluster_ms + 10 };
    }
    assert_ne!(batch(&mut core, now), [], "and the others go on");
}

#[test]
fn b109_a_job_without_a_next_fire_leaves_the_wheel() {
    let mut core = leader();
    next(&mut core, 1, START.wall_ms + 100, START);
    core.event(&Event::JobChanged { job: key(1), version: Some(2) }, at(1));
    assert_eq!(batch(&mut core, at(2)), [look(1)], "an edit or a pause may have taken it away");
    done(&mut core, vec![look(1)], After::Rest, at(3));
    assert_eq!((core.counts().job_timers, core.counts().timed), (0, 0));
    core.event(&Event::JobChanged { job: key(2), version: Some(2) }, at(4));
    assert_eq!(batch(&mut core, at(5)), [], "one that is not in hand stays where it is");
}

#[test]
fn a_deleted_job_is_not_looked_at() {
    let mut core = leader();
    next(&mut core, 1, START.wall_ms + 100, START);
    core.event(&Event::JobChanged { job: key(1), version: None }, at(1));
    assert_eq!(batch(&mut core, at(200)), []);
    assert!(core.jobs.places.is_empty());
}

#[test]
fn backfills_and_calendars_go_on_beside_fires_and_wait_once_each() {
    let mut core = leader();
    let calendar =
        CalendarKey { caller: key(1).caller, calendar: CalendarName::new("holidays").expect("a valid name") };
    for _ in 0..3 {
        core.event(&Event::BackfillWaits { job: key(1) }, START);
        core.event(&Event::CalendarChanged { calendar: calendar.clone(), spreading: true }, START);
    }
    core.event(&Event::CalendarChanged { calendar: calendar.clone(), spreading: false }, START);
    let count = 200;
    (0..count).for_each(|number| next(&mut core, number, START.wall_ms, START));
    let (backfill, spread) = (Duty::Backfill(Arc::new(key(1))), Duty::Spread(calendar));
    let first = batch(&mut core, at(0));
    assert_eq!(first.len(), 130);
    assert_eq!(first[128..], [backfill.clone(), spread.clone()]);
    // It goes on: heard before the batch is done.
    core.event(&Event::BackfillWaits { job: key(1) }, at(1));
    done(&mut core, first, After::Rest, at(2));
    let second = batch(&mut core, at(3));
    assert_eq!((second.len(), second.last()), (73, Some(&backfill)));
    done(&mut core, vec![backfill.clone(), spread.clone()], After::Soon, at(4));
    assert_eq!(batch(&mut core, at(5)), []);
    core.retry();
    assert_eq!(batch(&mut core, at(6)), [backfill, spread]);
}
