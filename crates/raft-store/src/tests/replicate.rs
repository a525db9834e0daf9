//! Proposals, reads and the death of a leader.

use std::time::Duration;

use orloj_model::{Command, Refusal, Reply};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_boot_and_apply_what_is_proposed() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let (task, command) = cluster.submit();
    let applied = cluster.store(leader).propose(command.clone()).await.unwrap();
    assert!(matches!(applied.reply, Reply::Submitted { task: made, .. } if made == task));
    // A view taken after the reply shows the effect.
    assert!(has(&cluster.store(leader), task));
    assert!(cluster.store(leader).view().applied() >= applied.index);
    cluster.level().await;
    for slot in 1..=3 {
        assert!(has(&cluster.store(slot), task), "node {slot}");
        assert_eq!(ids(&cluster.store(slot)), [1, 2, 3]);
        let peer = cluster.store(slot).peer_status(leader).await.unwrap();
        assert_eq!((peer.id, peer.applied), (Some(leader), status(&cluster.store(leader)).applied));
    }
    let again = cluster.store(leader).propose(command).await.unwrap();
    assert_eq!(again.reply, Reply::Refused(Refusal::TaskExists));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_proposes_nothing_and_names_the_leader() {
    let cluster = Cluster::three().await;
    let mut refused = Vec::new();
    // Again when an election comes in between.
    eventually("a follower that names the leader", async || {
        let leader = cluster.leader().await;
        let follower = cluster.store(leader % 3 + 1);
        let (task, command) = cluster.submit();
        let proposed = follower.propose(command).await;
        if matches!(proposed, Err(ProposeError::NotLeader { .. } | ProposeError::NoLeader)) {
            refused.push(task);
        }
        let read = follower.barrier().await;
        proposed == Err(ProposeError::NotLeader { leader })
            && read == Err(crate::ReadError::NotLeader { leader })
    })
    .await;
    cluster.level().await;
    assert!(cluster.stores.values().all(|store| refused.iter().all(|task| !has(store, *task))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_one_call_keep_their_order_and_share_entries() {
    let cluster = Cluster::three().await;
    let leader = cluster.store(cluster.leader().await);
    let mut tasks = Vec::new();
    let mut commands = Vec::new();
    for _ in 0..1_300 {
        let (task, command) = cluster.submit();
        tasks.push(task);
        commands.push(command);
    }
    let mut events = leader.events();
    let applied = leader.propose_all(commands).await.unwrap();
    assert_eq!(applied.len(), tasks.len());
    for (applied, task) in applied.iter().zip(&tasks) {
        assert!(matches!(applied.reply, Reply::Submitted { task: made, .. } if made == *task));
    }
    let entries: BTreeSet<u64> = applied.iter().map(|applied| applied.index).collect();
    assert!(entries.len() <= 4, "{} entries for 1300 small changes", entries.len());
    assert!(applied.is_sorted_by_key(|applied| applied.index));
    // The events name the entries, in order, and come in parts.
    let mut told = 0;
    while told < 512 {
        let part = events.recv().await.unwrap();
        assert_eq!(part.index, applied[0].index);
        told += part.events.len();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_is_checked_and_never_mixed() {
    let cluster = Cluster::three().await;
    let node = cluster.leader().await;
    let leader = cluster.store(node);
    let began = leader.propose(Command::BeginRound { leader: node }).await.unwrap();
    let Reply::Round(round) = began.reply else { panic!("{began:?}") };
    let (task, command) = cluster.submit();
    leader.propose(command).await.unwrap();
    let expire = |_| Command::Expire { task };
    let (now, old) = tokio::join!(
        leader.propose_in_round(round, (0..3).map(expire).collect()),
        leader.propose_in_round(round + 1, (0..3).map(expire).collect()),
    );
    let stale = Reply::Refused(Refusal::StaleRound { current: round });
    assert!(now.unwrap().iter().all(|applied| applied.reply != stale));
    assert!(old.unwrap().iter().all(|applied| applied.reply == stale));
    assert_eq!(status(&leader).round, round);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_the_leader() {
    let mut cluster = Cluster::three().await;
    let mut tasks = cluster.put_many(20).await;
    let first = cluster.leader().await;
    cluster.stop(first).await;
    tasks.extend(cluster.put_many(20).await);
    let second = cluster.leader().await;
    assert_ne!(first, second);
    cluster.open(first).await.unwrap();
    cluster.level().await;
    for slot in 1..=3 {
        assert!(tasks.iter().all(|task| has(&cluster.store(slot), *task)), "node {slot}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_commits_nothing() {
    let cluster = Cluster::three().await;
    let first = cluster.leader().await;
    cluster.cut(first);
    let old = cluster.store(first);
    let (lost, command) = cluster.submit();
    let outcome = tokio::time::timeout(PATIENCE, old.propose(command)).await.unwrap();
    assert!(outcome.is_err(), "{outcome:?}");
    assert!(old.barrier().await.is_err(), "it cannot confirm that it leads");
    let kept = cluster.put().await;
    cluster.heal(first);
    cluster.level().await;
    for slot in 1..=3 {
        assert!(has(&cluster.store(slot), kept));
    }
    let same: BTreeSet<bool> = (1..=3).map(|slot| has(&cluster.store(slot), lost)).collect();
    assert_eq!(same.len(), 1, "the nodes disagree on the outcome");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_at_once_come_back_with_everything() {
    let mut cluster = Cluster::three().await;
    let tasks = cluster.put_many(30).await;
    for slot in 1..=3 {
        cluster.stop(slot).await;
    }
    for slot in 1..=3 {
        cluster.open(slot).await.unwrap();
    }
    cluster.level().await;
    for slot in 1..=3 {
        assert!(tasks.iter().all(|task| has(&cluster.store(slot), *task)), "node {slot}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_the_queue_holds_is_refused_at_once() {
    let cluster = Cluster::three().await;
    let leader = cluster.store(cluster.leader().await);
    let mut commands = Vec::new();
    for _ in 0..34 {
        let (_, command) = cluster.submit();
        let Command::Submit(mut submit) = command else { unreachable!("submit makes submissions") };
        submit.spec.params = vec![b'x'; 1 << 20];
        commands.push(Command::Submit(submit));
    }
    assert_eq!(leader.propose_all(commands).await, Err(ProposeError::Overloaded));
    // The refusal took nothing of the queue with it.
    let task = cluster.put().await;
    assert!(has(&leader, task));
    let (_, command) = cluster.submit();
    let Command::Submit(mut submit) = command else { unreachable!("submit makes submissions") };
    submit.spec.params = vec![b'x'; 9 << 20];
    let refused = leader.propose(Command::Submit(submit)).await;
    assert!(matches!(refused, Err(ProposeError::TooLarge { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_majority_answers_within_its_deadline() {
    let mut cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let store = cluster.store(leader);
    for slot in (1..=3).filter(|slot| *slot != leader) {
        cluster.stop(slot).await;
    }
    let (_, command) = cluster.submit();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let (store, (_, command)) = (store.clone(), cluster.submit());
            tokio::spawn(async move { store.propose(command).await })
        })
        .collect();
    let answered = tokio::time::timeout(Duration::from_secs(30), store.propose(command)).await;
    assert!(matches!(answered, Ok(Err(_))), "{answered:?}");
    // What is on its way holds up nobody: a majority that is not heard is said at once.
    eventually("an answer at once", async || {
        let (_, command) = cluster.submit();
        let answer = tokio::time::timeout(Duration::from_millis(500), store.propose(command)).await;
        answer == Ok(Err(ProposeError::NoLeader))
    })
    .await;
    for waiting in waiting {
        assert!(waiting.await.unwrap().is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_gone_is_not_named_for_long() {
    let mut cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let followers: Vec<u64> = (1..=3).filter(|slot| *slot != leader).collect();
    let (last, other) = (followers[0], followers[1]);
    let id = status(&cluster.store(leader)).id;
    for slot in [leader, last] {
        let store = cluster.store(slot);
        eventually("everybody names the leader", async || status(&store).leader == id).await;
    }
    // A leader without a majority: it keeps the lead in its own eyes, and in those of Raft.
    for slot in [last, other] {
        cluster.stop(slot).await;
    }
    let store = cluster.store(leader);
    eventually("the leader knows that nobody hears it", async || status(&store).leader.is_none()).await;
    // A follower without a majority: nobody can be elected in place of the dead leader.
    cluster.open(last).await.unwrap();
    cluster.put().await;
    let (first, leader) = (leader, cluster.leader().await);
    let store = cluster.store(if leader == last { first } else { last });
    eventually("the new leader is named", async || status(&store).leader.is_some()).await;
    cluster.stop(leader).await;
    eventually("the dead leader is not", async || status(&store).leader.is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clusters_time_passes_while_nobody_leads() {
    let mut cluster = Cluster::three().await;
    let first = cluster.leader().await;
    cluster.clocks[&first].step_wall_ms(3_600_000);
    cluster.put().await;
    cluster.level().await;
    let committed = now_ms(&cluster.store(first));
    assert!(committed >= STARTED_AT + 3_600_000, "the step is followed");
    cluster.stop(first).await;
    // Until the next leader has stamped its first entry, and nobody's wall clock is there yet.
    for clock in cluster.clocks.values() {
        clock.advance_ms(2_000);
    }
    cluster.put().await;
    let second = cluster.store(cluster.leader().await);
    assert!(now_ms(&second) >= committed + 2_000, "{} after {committed}", now_ms(&second));
}

fn now_ms(store: &Store) -> i64 {
    let view = store.view();
    let row = orloj_model::query::meta(&view).unwrap().now_ms;
    assert_eq!(view.stamp().now_ms, row);
    row
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stopped_in_good_order_has_nothing_to_apply_again() {
    let mut cluster = Cluster::new().boot().await;
    cluster.put_many(5).await;
    cluster.level().await;
    let slot = cluster.leader().await % 3 + 1;
    let applied = status(&cluster.store(slot)).applied;
    cluster.stop(slot).await;
    let found = state_of(&cluster, slot).await.position().unwrap().index();
    assert!(found >= applied, "it was at {applied}, and starts at {found}");
}
