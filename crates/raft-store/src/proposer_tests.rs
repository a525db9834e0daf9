//! What is packed with what.

use orloj_model::time::ManualClock;

use super::*;

const OPTIONS: ProposalOptions = ProposalOptions {
    queue_bytes: 1 << 20,
    deadline_ms: 200,
    entry_changes: 4,
    entry_bytes: 1_000,
    in_flight: 1,
};

fn both() -> (Proposer, Packer) {
    queue(OPTIONS, Arc::new(ManualClock::at(1_234)))
}

/// A command whose text has this many bytes.
fn command(bytes: usize) -> Command {
    let name = orloj_model::id::ExecutorId::new("x".repeat(bytes)).unwrap();
    Command::Drain { executor: name, on: true }
}

fn packed(packer: &mut Packer) -> Option<(Round, usize)> {
    let first = packer.take()?;
    let (batch, waiters) = packer.pack(first);
    assert_eq!(batch.now_ms, 1_234);
    assert_eq!(waiters.iter().map(|waiter| waiter.commands).sum::<usize>(), batch.changes.len());
    Some((batch.round, batch.changes.len()))
}

#[test]
fn an_entry_says_what_the_wall_clock_shows_where_the_clusters_time_is_ahead() {
    let manual = Arc::new(ManualClock::at(1_000_000));
    let cluster = orloj_model::ClusterClock::new(manual.clone());
    let (proposer, mut packer) = queue(OPTIONS, Arc::new(cluster.clone()));
    let mut pack = || {
        let _answer = proposer.enqueue(Haste::ByKind, 0, vec![command(1), command(1)]).unwrap();
        let first = packer.take().unwrap();
        packer.pack(first).0
    };
    let batch = pack();
    assert_eq!((batch.now_ms, batch.wall_ms(), batch.changes.len()), (1_000_000, 1_000_000, 2));
    manual.step_wall_ms(-3_600_000);
    let batch = pack();
    assert_eq!((batch.now_ms, batch.wall_ms(), batch.changes.len()), (1_000_000, -2_600_000, 3));
    manual.step_wall_ms(3_600_000 - AHEAD_UNTOLD_MS);
    assert_eq!(pack().changes.len(), 2, "rounding is not worth a word");
}

#[test]
fn an_entry_takes_what_waits_up_to_its_limits() {
    let (proposer, mut packer) = both();
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.extend(proposer.enqueue(Haste::ByKind, 0, vec![command(1)]).unwrap());
    }
    assert_eq!(packed(&mut packer), Some((0, 4)), "by number");
    assert_eq!(packed(&mut packer), Some((0, 2)));
    for _ in 0..12 {
        answers.extend(
            proposer.enqueue(Haste::ByKind, 0, vec![command(128), command(128), command(128)]).unwrap(),
        );
    }
    assert_eq!(packed(&mut packer), Some((0, 3)), "a call's commands stay together");
    assert_eq!(packed(&mut packer), Some((0, 3)));
}

#[test]
fn a_large_call_is_cut_into_entries_in_order() {
    let (proposer, mut packer) = both();
    let answers = proposer.enqueue(Haste::ByKind, 7, (0..10).map(|_| command(1)).collect()).unwrap();
    assert_eq!(answers.len(), 3);
    let sizes: Vec<_> = std::iter::from_fn(|| packed(&mut packer)).collect();
    assert_eq!(sizes, [(7, 4), (7, 4), (7, 2)]);
}

#[test]
fn rounds_do_not_mix_and_commands_without_one_go_with_any() {
    let (proposer, mut packer) = both();
    let mut answers = Vec::new();
    for round in [0, 5, 0, 6, 6] {
        answers.extend(proposer.enqueue(Haste::ByKind, round, vec![command(1)]).unwrap());
    }
    assert_eq!(packed(&mut packer), Some((5, 3)));
    assert_eq!(packed(&mut packer), Some((6, 2)));
    assert_eq!(packed(&mut packer), None);
}

#[tokio::test]
async fn who_waits_too_long_is_told_that_nobody_knows_and_is_not_proposed() {
    let (proposer, mut packer) = both();
    assert_eq!(proposer.propose(Haste::ByKind, 0, vec![command(1)]).await, Err(ProposeError::Unknown));
    let mut answers = proposer.enqueue(Haste::ByKind, 0, vec![command(1), command(1)]).unwrap();
    let next = packer.next().await.unwrap();
    assert_eq!(next.commands.len(), 2, "the one that was given up is skipped");
    drop(next);
    assert!(answers.pop().unwrap().await.is_err());
}

#[test]
fn the_queue_is_bounded_by_bytes_and_given_back() {
    let (proposer, mut packer) = both();
    let full = (0..OPTIONS.queue_bytes / 100).map(|_| command(100));
    assert!(matches!(proposer.enqueue(Haste::ByKind, 0, full.collect()), Err(ProposeError::Overloaded)));
    assert_eq!(proposer.used.load(Ordering::Relaxed), 0);
    let answers = proposer.enqueue(Haste::ByKind, 0, vec![command(100)]).unwrap();
    assert!(proposer.used.load(Ordering::Relaxed) > 100);
    packed(&mut packer).unwrap();
    assert_eq!(proposer.used.load(Ordering::Relaxed), 0);
    drop(answers);
}

fn patient() -> Command {
    let shard = orloj_model::command::ShardRef { task: orloj_model::id::TaskId([1; 16]), shard: 0 };
    Command::MakeReady { shard }
}

/// In whole milliseconds, as a paused clock counts.
const HALF: std::time::Duration = std::time::Duration::from_millis(2);

/// The packer takes an item and packs it, as in its loop.
async fn next_entry(packer: &mut Packer) -> usize {
    let first = packer.next().await.unwrap();
    packer.pack(first).0.changes.len()
}

#[tokio::test(start_paused = true)]
async fn what_no_caller_waits_for_keeps_its_distance() {
    let (proposer, mut packer) = both();
    let _first = proposer.enqueue(Haste::ByKind, 0, vec![patient()]).unwrap();
    let began = Instant::now();
    assert_eq!(next_entry(&mut packer).await, 1);
    assert!(began.elapsed().is_zero(), "nothing went before it");

    let _alone = proposer.enqueue(Haste::ByKind, 0, vec![patient()]).unwrap();
    assert_eq!(next_entry(&mut packer).await, 1);
    assert_eq!(began.elapsed(), PACE, "nobody came");

    let _patient = proposer.enqueue(Haste::ByKind, 0, vec![patient()]).unwrap();
    let began = Instant::now();
    let asked_again = tokio::time::timeout(HALF, packer.next()).await;
    assert!(asked_again.is_err(), "it stays");
    let _caller = proposer.enqueue(Haste::ByKind, 0, vec![command(1)]).unwrap();
    assert_eq!(next_entry(&mut packer).await, 2, "nothing was lost when the wait was dropped");
    assert_eq!(began.elapsed(), HALF, "a caller's command takes it along at once");

    let _caller = proposer.enqueue(Haste::ByKind, 0, vec![command(1)]).unwrap();
    assert_eq!(next_entry(&mut packer).await, 1);
    assert_eq!(began.elapsed(), HALF, "a caller never waits");

    let _late = proposer.enqueue(Haste::AtOnce, 0, vec![patient()]).unwrap();
    assert_eq!(next_entry(&mut packer).await, 1);
    assert_eq!(began.elapsed(), HALF, "nor does what is late already");
}

#[tokio::test(start_paused = true)]
async fn enough_changes_wait_for_nobody() {
    let roomy = ProposalOptions { entry_changes: 2 * COMPANY, ..OPTIONS };
    for (options, enough) in [(OPTIONS, OPTIONS.entry_changes), (roomy, COMPANY)] {
        let (proposer, mut packer) = queue(options, Arc::new(ManualClock::at(1_234)));
        let _first = proposer.enqueue(Haste::ByKind, 0, vec![patient()]).unwrap();
        next_entry(&mut packer).await;
        let began = Instant::now();
        let answers: Vec<_> =
            (0..enough).map(|_| proposer.enqueue(Haste::ByKind, 0, vec![patient()]).unwrap()).collect();
        assert_eq!(next_entry(&mut packer).await, answers.len());
        let _whole = proposer.enqueue(Haste::ByKind, 0, vec![patient(); enough]).unwrap();
        assert_eq!(next_entry(&mut packer).await, enough, "nor does one call that is enough");
        assert!(began.elapsed().is_zero());
    }
}
