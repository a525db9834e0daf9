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
fn an_entry_takes_what_waits_up_to_its_limits() {
    let (proposer, mut packer) = both();
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.extend(proposer.enqueue(0, vec![command(1)]).unwrap());
    }
    assert_eq!(packed(&mut packer), Some((0, 4)), "by number");
    assert_eq!(packed(&mut packer), Some((0, 2)));
    for _ in 0..12 {
        answers.extend(proposer.enqueue(0, vec![command(128), command(128), command(128)]).unwrap());
    }
    assert_eq!(packed(&mut packer), Some((0, 3)), "a call's commands stay together");
    assert_eq!(packed(&mut packer), Some((0, 3)));
}

#[test]
fn a_large_call_is_cut_into_entries_in_order() {
    let (proposer, mut packer) = both();
    let answers = proposer.enqueue(7, (0..10).map(|_| command(1)).collect()).unwrap();
    assert_eq!(answers.len(), 3);
    let sizes: Vec<_> = std::iter::from_fn(|| packed(&mut packer)).collect();
    assert_eq!(sizes, [(7, 4), (7, 4), (7, 2)]);
}

#[test]
fn rounds_do_not_mix_and_commands_without_one_go_with_any() {
    let (proposer, mut packer) = both();
    let mut answers = Vec::new();
    for round in [0, 5, 0, 6, 6] {
        answers.extend(proposer.enqueue(round, vec![command(1)]).unwrap());
    }
    assert_eq!(packed(&mut packer), Some((5, 3)));
    assert_eq!(packed(&mut packer), Some((6, 2)));
    assert_eq!(packed(&mut packer), None);
}

#[tokio::test]
async fn who_waits_too_long_is_told_that_nobody_knows_and_is_not_proposed() {
    let (proposer, mut packer) = both();
    assert_eq!(proposer.propose(0, vec![command(1)]).await, Err(ProposeError::Unknown));
    let mut answers = proposer.enqueue(0, vec![command(1), command(1)]).unwrap();
    let next = packer.next().await.unwrap();
    assert_eq!(next.commands.len(), 2, "the one that was given up is skipped");
    drop(next);
    assert!(answers.pop().unwrap().await.is_err());
}

#[test]
fn the_queue_is_bounded_by_bytes_and_given_back() {
    let (proposer, mut packer) = both();
    let full = (0..OPTIONS.queue_bytes / 100).map(|_| command(100));
    assert!(matches!(proposer.enqueue(0, full.collect()), Err(ProposeError::Overloaded)));
    assert_eq!(proposer.used.load(Ordering::Relaxed), 0);
    let answers = proposer.enqueue(0, vec![command(100)]).unwrap();
    assert!(proposer.used.load(Ordering::Relaxed) > 100);
    packed(&mut packer).unwrap();
    assert_eq!(proposer.used.load(Ordering::Relaxed), 0);
    drop(answers);
}

fn patient() -> Command {
    let shard = orloj_model::command::ShardRef { task: orloj_model::id::TaskId([1; 16]), shard: 0 };
    Command::MakeReady { shard }
}

#[tokio::test(start_paused = true)]
async fn what_can_wait_stays_for_company_and_not_for_long() {
    let (proposer, mut packer) = both();
    let _alone = proposer.enqueue(0, vec![patient()]).unwrap();
    let began = Instant::now();
    let first = packer.next().await.unwrap();
    assert_eq!(began.elapsed(), PATIENCE, "nobody came");
    assert_eq!(packer.pack(first).0.changes.len(), 1);

    let _patient = proposer.enqueue(0, vec![patient()]).unwrap();
    let began = Instant::now();
    let asked_again = tokio::time::timeout(PATIENCE / 2, packer.next()).await;
    assert!(asked_again.is_err(), "it stays");
    let _urgent = proposer.enqueue(0, vec![command(1)]).unwrap();
    let first = packer.next().await.unwrap();
    assert_eq!(began.elapsed(), PATIENCE / 2, "company that is in a hurry takes it along at once");
    assert_eq!(packer.pack(first).0.changes.len(), 2, "and nothing was lost when the wait was dropped");
}

#[tokio::test(start_paused = true)]
async fn a_full_entry_waits_for_nobody() {
    let (proposer, mut packer) = both();
    let answers: Vec<_> =
        (0..OPTIONS.entry_changes).map(|_| proposer.enqueue(0, vec![patient()]).unwrap()).collect();
    let began = Instant::now();
    let first = packer.next().await.unwrap();
    assert!(began.elapsed().is_zero());
    assert_eq!(packer.pack(first).0.changes.len(), answers.len());

    let _whole = proposer.enqueue(0, vec![patient(); OPTIONS.entry_changes]).unwrap();
    let first = packer.next().await.unwrap();
    assert!(began.elapsed().is_zero(), "nor does one call that fills it");
    assert_eq!(packer.pack(first).0.changes.len(), OPTIONS.entry_changes);
}
