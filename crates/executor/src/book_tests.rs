//! Tests of the book.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

const NOW: Duration = Duration::from_secs(100);

fn dispatch(task: &str, fence: u64) -> Arc<Dispatch> {
    Arc::new(Dispatch {
        attempt: AttemptRef { task_id: task.to_owned(), shard_index: 0, attempt: 1, fence },
        shard_total: 1,
        handler: "echo".to_owned(),
        params: serde_json::Value::Null,
        caller_id: "c".to_owned(),
        business_key: None,
        dedupe_key: task.to_owned(),
        timeout_ms: None,
        due_at: 0,
        scheduled_at: None,
        job_id: None,
        checkpoint: None,
    })
}

fn take(book: &mut Book, task: &str, fence: u64) -> Offer {
    book.offer(&dispatch(task, fence), true, false)
}

const FRESH: Offer = Offer::Accepted { superseded: None };

#[test]
fn places_are_bounded_and_freed() {
    let mut book = Book::new(1, 1, 0);
    assert_eq!(take(&mut book, "a", 1), FRESH);
    assert_eq!(take(&mut book, "b", 2), FRESH);
    assert_eq!(take(&mut book, "c", 3), Offer::Refused(Refusal::QueueFull));
    let a = book.start_next(NOW).unwrap();
    assert_eq!(a.attempt.task_id, "a");
    assert!(book.start_next(NOW).is_none(), "one slot");
    assert_eq!((book.free_slots(), book.free_places()), (0, 0));
    book.finish(&a.attempt, Leave::Report);
    assert_eq!((book.free_slots(), book.free_places()), (0, 1), "the queue will take the slot");
    assert!(book.room_since((0, 0)) && !book.room_since((0, 1)));
    let late_copy = take(&mut book, "c", 3);
    assert_eq!(late_copy, Offer::Refused(Refusal::StaleFence), "it is somebody else's since it was refused");
    assert_eq!(take(&mut book, "c", 4), FRESH, "a new grant of it is another matter");
}

#[test]
fn a_known_attempt_is_a_duplicate_at_every_stage() {
    let mut book = Book::new(1, 1, 0);
    take(&mut book, "a", 1);
    assert_eq!(take(&mut book, "a", 1), Offer::Duplicate, "queued");
    let a = book.start_next(NOW).unwrap();
    assert_eq!(take(&mut book, "a", 1), Offer::Duplicate, "running");
    book.finish(&a.attempt, Leave::Report);
    assert_eq!(take(&mut book, "a", 1), Offer::Duplicate, "reporting");
    book.reported(&a.attempt);
    assert_eq!(take(&mut book, "a", 1), Offer::Duplicate, "over");
    assert!(book.holding(NOW).is_empty() && book.start_next(NOW).is_none());
}

#[test]
fn a_duplicate_is_answered_even_when_full_or_draining() {
    let mut book = Book::new(1, 0, 0);
    take(&mut book, "a", 1);
    book.start_next(NOW).unwrap();
    book.drain();
    assert_eq!(take(&mut book, "a", 1), Offer::Duplicate);
    assert_eq!(take(&mut book, "b", 2), Offer::Refused(Refusal::Draining));
    assert_eq!(book.free_places(), 0);
}

#[test]
fn a_newer_grant_of_a_shard_ends_the_older_and_waits_for_it() {
    let mut book = Book::new(2, 2, 0);
    take(&mut book, "a", 5);
    let old = book.start_next(NOW).unwrap();
    assert_eq!(take(&mut book, "a", 9), Offer::Accepted { superseded: Some(old.attempt.clone()) });
    assert_eq!(take(&mut book, "a", 7), Offer::Refused(Refusal::StaleFence));
    assert!(book.start_next(NOW).is_none(), "two handlers of one shard at once");
    book.finish(&old.attempt, Leave::Forget);
    assert_eq!(book.start_next(NOW).unwrap().attempt.fence, 9);
    assert_eq!(
        take(&mut book, "a", 5),
        Offer::Refused(Refusal::StaleFence),
        "neither started again nor taken for one whose report is on its way"
    );
}

#[test]
fn an_older_grant_of_an_ended_shard_is_refused() {
    let mut book = Book::new(1, 1, 0);
    take(&mut book, "a", 9);
    let a = book.start_next(NOW).unwrap();
    book.finish(&a.attempt, Leave::Report);
    book.reported(&a.attempt);
    assert_eq!(take(&mut book, "a", 5), Offer::Refused(Refusal::StaleFence));
}

#[test]
fn unknown_handlers_are_refused_and_remembered_work_is_not_run() {
    let mut book = Book::new(1, 0, 0);
    assert_eq!(book.offer(&dispatch("a", 1), false, false), Offer::Refused(Refusal::UnknownHandler));
    take(&mut book, "b", 2);
    assert_eq!(book.offer(&dispatch("c", 3), true, true), Offer::Remembered, "needs no place");
    let states: Vec<_> = book.holding(NOW).into_iter().map(|h| (h.attempt.fence, h.state)).collect();
    assert!(states.contains(&(3, HeldState::Reporting)) && states.contains(&(2, HeldState::Queued)));
}

#[test]
fn rounds_only_rise() {
    let mut book = Book::new(1, 0, 7);
    assert_eq!(book.see_round(6), Err(7));
    assert_eq!(book.see_round(7), Ok(false));
    assert_eq!(book.see_round(9), Ok(true));
    assert_eq!(book.see_round(8), Err(9));
}

#[test]
fn stopping_depends_on_where_it_stands() {
    let mut book = Book::new(1, 2, 0);
    take(&mut book, "a", 1);
    take(&mut book, "b", 2);
    take(&mut book, "c", 3);
    let a = book.start_next(NOW).unwrap();
    let (b, c) = (dispatch("b", 2), dispatch("c", 3));
    assert_eq!(book.stop(&dispatch("z", 9).attempt, CancelReason::Cancelled), Stop::NotHeld);
    assert_eq!(take(&mut book, "z", 9), Offer::Refused(Refusal::StaleFence), "its push comes too late");
    assert_eq!(book.stop(&a.attempt, CancelReason::Cancelled), Stop::Running);
    assert_eq!(book.stop(&b.attempt, CancelReason::Cancelled), Stop::Unstarted(Arc::clone(&b)));
    assert_eq!(book.stop(&b.attempt, CancelReason::Cancelled), Stop::Over);
    assert_eq!(book.stop(&c.attempt, CancelReason::LeaseLost), Stop::Unstarted(Arc::clone(&c)));
    assert_eq!(book.stop(&c.attempt, CancelReason::Cancelled), Stop::NotHeld, "forgotten");
    assert_eq!(book.queued(), 0);
    assert_eq!(take(&mut book, "c", 3), Offer::Refused(Refusal::StaleFence), "but not started again");
}

#[test]
fn drain_hands_back_exactly_what_has_not_started() {
    let mut book = Book::new(1, 3, 0);
    for (fence, task) in [(1, "a"), (2, "b"), (3, "c")] {
        take(&mut book, task, fence);
    }
    book.start_next(NOW).unwrap();
    let back: Vec<_> = book.drain().iter().map(|d| d.attempt.fence).collect();
    assert_eq!(back, [2, 3]);
    assert_eq!((book.running(), book.queued()), (1, 0));
    assert_eq!(book.holding(NOW).len(), 3, "the handed back are held until acknowledged");
    assert_eq!(book.active(NOW).len(), 1);
}

#[test]
fn running_time_is_told() {
    let mut book = Book::new(1, 0, 0);
    take(&mut book, "a", 1);
    book.start_next(NOW).unwrap();
    let held = book.holding(NOW + Duration::from_millis(1_500));
    assert_eq!((held[0].state, held[0].running_ms), (HeldState::Running, Some(1_500)));
}

/// Random operations: no attempt starts twice, no shard runs twice at once, places stay bounded.
#[test]
fn random_operations_keep_the_invariants() {
    use rand::{RngExt as _, SeedableRng as _};
    for seed in 0..200 {
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        let mut book = Book::new(3, 4, 0);
        let mut started = HashSet::new();
        let mut running: Vec<AttemptRef> = Vec::new();
        for _ in 0..400 {
            let (task, fence) = (format!("t{}", rng.random_range(0..6)), rng.random_range(1..60));
            let wanted = dispatch(&task, fence);
            match rng.random_range(0..5) {
                0 | 1 => drop(book.offer(&wanted, true, rng.random_range(0..10) == 0)),
                2 => {
                    if let Some(next) = book.start_next(NOW) {
                        assert!(started.insert(next.attempt.clone()), "seed {seed}: started twice");
                        let twice = running.iter().any(|r| r.task_id == next.attempt.task_id);
                        assert!(!twice, "seed {seed}: two handlers of one shard");
                        running.push(next.attempt.clone());
                    }
                }
                3 if !running.is_empty() => {
                    let over = running.swap_remove(rng.random_range(0..running.len()));
                    let leave = if rng.random_range(0..2) == 0 { Leave::Report } else { Leave::Forget };
                    book.finish(&over, leave);
                    book.reported(&over);
                }
                _ => drop(book.stop(&wanted.attempt, CancelReason::Cancelled)),
            }
            assert_eq!(book.running(), running.len(), "seed {seed}");
            assert!(book.running() <= 3 && book.running() + book.queued() <= 7, "seed {seed}");
        }
    }
}
