//! Random sequences of commands: after each one every invariant holds ([`World`] checks), two replicas
//! agree, a snapshot continues as the original does, a repeated command changes nothing, and what is
//! terminal stays as it is.

mod common;

use std::collections::BTreeMap;

use common::*;
use orloj_model::command::{Claim, Command, DueTime, Idempotency, Report, ShardRef, Submit};
use orloj_model::id::TaskId;
use orloj_model::tables::TableId;
use orloj_model::task::{Outcome, Progress, Status, TaskSpec, TaskState};
use orloj_model::{Refusal, Reply};
use proptest::prelude::*;

/// A command with small random numbers in place of what only the state knows: resolved against the state,
/// half of the time rightly and half of the time wrongly.
#[derive(Debug, Clone)]
enum Step {
    Submit {
        task: u8,
        shards: u16,
        delay: u64,
        priority: u8,
        expires: Option<u64>,
        nonce: u8,
        key: Option<u8>,
    },
    MakeReady {
        task: u8,
        shard: u16,
    },
    Grant {
        task: u8,
        shard: u16,
        skew: u32,
        executor: bool,
        life_skew: u64,
    },
    Report {
        task: u8,
        shard: u16,
        skew: u64,
        executor: Option<bool>,
        outcome: Outcome,
    },
    Requeue {
        task: u8,
        shard: u16,
        skew: u64,
    },
    Lose {
        task: u8,
        shard: u16,
        skew: u64,
    },
    TimeOut {
        task: u8,
        shard: u16,
        skew: u64,
    },
    Expire {
        task: u8,
    },
    Cancel {
        task: u8,
        nonce: u8,
    },
    Save {
        task: u8,
        shard: u16,
        skew: u64,
        byte: u8,
    },
    Register {
        executor: bool,
        grow: u64,
    },
    Gone {
        executor: bool,
    },
    Left {
        executor: bool,
    },
    Drain {
        executor: bool,
        on: bool,
    },
    BeginRound {
        follow: bool,
    },
    Advance {
        ms: u64,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => Just(Outcome::Succeeded),
        2 => Just(FAILED),
        1 => Just(Outcome::Failed { retryable: false, retry_after_ms: None }),
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::Cancelled),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let task = 0..6u8;
    let shard = 0..2u16;
    let skew = prop_oneof![5 => Just(0u64), 1 => Just(1u64)];
    prop_oneof![
        4 => (task.clone(), 1..3u16, 0..40u64, 0..10u8, prop::option::of(0..60u64), 0..20u8, prop::option::of(0..4u8))
            .prop_map(|(task, shards, delay, priority, expires, nonce, key)| Step::Submit {
                task, shards, delay, priority, expires, nonce, key
            }),
        2 => (task.clone(), shard.clone()).prop_map(|(task, shard)| Step::MakeReady { task, shard }),
        8 => (task.clone(), shard.clone(), skew.clone(), any::<bool>(), skew.clone()).prop_map(
            |(task, shard, skew, executor, life_skew)| Step::Grant {
                task, shard, skew: skew as u32, executor, life_skew
            }
        ),
        8 => (task.clone(), shard.clone(), skew.clone(), prop::option::weighted(0.1, any::<bool>()), outcome())
            .prop_map(|(task, shard, skew, executor, outcome)| Step::Report { task, shard, skew, executor, outcome }),
        1 => (task.clone(), shard.clone(), skew.clone())
            .prop_map(|(task, shard, skew)| Step::Requeue { task, shard, skew }),
        2 => (task.clone(), shard.clone(), skew.clone())
            .prop_map(|(task, shard, skew)| Step::Lose { task, shard, skew }),
        1 => (task.clone(), shard.clone(), skew.clone())
            .prop_map(|(task, shard, skew)| Step::TimeOut { task, shard, skew }),
        1 => task.clone().prop_map(|task| Step::Expire { task }),
        1 => (task.clone(), 0..20u8).prop_map(|(task, nonce)| Step::Cancel { task, nonce }),
        1 => (task, shard, skew, any::<u8>())
            .prop_map(|(task, shard, skew, byte)| Step::Save { task, shard, skew, byte }),
        2 => (any::<bool>(), 0..2u64).prop_map(|(executor, grow)| Step::Register { executor, grow }),
        1 => any::<bool>().prop_map(|executor| Step::Gone { executor }),
        1 => any::<bool>().prop_map(|executor| Step::Left { executor }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(executor, on)| Step::Drain { executor, on }),
        1 => prop::bool::weighted(0.7).prop_map(|follow| Step::BeginRound { follow }),
        4 => (0..30_000u64).prop_map(|ms| Step::Advance { ms }),
    ]
}

fn name(executor: bool) -> &'static str {
    if executor { "a" } else { "b" }
}

fn life(world: &World, id: &str) -> u64 {
    orloj_model::query::executor(&world.tables, &executor(id))
        .expect("maps do not fail")
        .map_or(0, |row| row.registration.incarnation)
}

/// The fence, number and holder of the shard's last attempt.
fn last_attempt(world: &World, task: u8, shard: u16) -> (u64, u32, String, u32) {
    let view = orloj_model::query::task(&world.tables, task_id(task)).expect("maps do not fail");
    let Some(view) = view else { return (0, 0, "a".into(), 1) };
    let Some(shard) = view.shards.get(usize::from(shard)) else { return (0, 0, "a".into(), 1) };
    match shard.attempts.last() {
        Some(last) => (last.fence, last.number, last.executor.to_string(), shard.next_attempt),
        None => (0, 0, "a".into(), shard.next_attempt),
    }
}

fn claim(world: &World, nonce: u8) -> Option<Claim> {
    Some(Claim { nonce: [nonce; 16], expires_at: world.now + 20_000 })
}

fn resolve(world: &World, step: &Step) -> Option<Command> {
    let of = |task: u8, shard: u16| ShardRef { task: task_id(task), shard };
    Some(match step.clone() {
        Step::Submit { task, shards, delay, priority, expires, nonce, key } => {
            let expire_at = expires.map(|ms| world.now + ms as i64);
            Command::Submit(Box::new(Submit {
                task: task_id(task),
                spec: TaskSpec { shard_total: shards, priority, expire_at, ..spec() },
                due: DueTime::After(delay),
                claim: claim(world, nonce),
                idempotency: key.map(|key| Idempotency { key: key.to_string(), fingerprint: [task; 32] }),
            }))
        }
        Step::MakeReady { task, shard } => Command::MakeReady { shard: of(task, shard) },
        Step::Grant { task, shard, skew, executor: which, life_skew } => Command::Grant {
            shard: of(task, shard),
            attempt: last_attempt(world, task, shard).3 + skew,
            executor: executor(name(which)),
            incarnation: life(world, name(which)) + life_skew,
        },
        Step::Report { task, shard, skew, executor: wrong, outcome } => {
            let (fence, attempt, holder, _) = last_attempt(world, task, shard);
            let id = wrong.map_or(holder, |which| name(which).to_owned());
            Command::Report(Box::new(Report {
                shard: of(task, shard),
                attempt,
                fence: fence + skew,
                executor: executor(&id),
                incarnation: 1,
                result: Some(vec![task]),
                outcome,
                message: Some("said".into()),
                log_tail: Some(vec![1, 2]),
                started_at: Some(1),
                ended_at: Some(2),
                chance: 500,
            }))
        }
        Step::Requeue { task, shard, skew } => Command::Requeue {
            shard: of(task, shard),
            fence: last_attempt(world, task, shard).0 + skew,
            message: "full".into(),
        },
        Step::Lose { task, shard, skew } => Command::Lose {
            shard: of(task, shard),
            fence: last_attempt(world, task, shard).0 + skew,
            chance: 0,
        },
        Step::TimeOut { task, shard, skew } => Command::TimeOut {
            shard: of(task, shard),
            fence: last_attempt(world, task, shard).0 + skew,
            chance: 0,
        },
        Step::Expire { task } => Command::Expire { task: task_id(task) },
        Step::Cancel { task, nonce } => {
            Command::Cancel { task: task_id(task), caller: Some(caller()), claim: claim(world, nonce) }
        }
        Step::Save { task, shard, skew, byte } => Command::Save {
            shard: of(task, shard),
            fence: last_attempt(world, task, shard).0 + skew,
            progress: Some(Progress { percent: byte % 101, note: "n".into() }),
            checkpoint: Some(vec![byte]),
        },
        Step::Register { executor, grow } => {
            Command::RegisterExecutor(registration(name(executor), life(world, name(executor)) + grow))
        }
        Step::Gone { executor: which } => {
            Command::ExecutorGone { executor: executor(name(which)), incarnation: life(world, name(which)) }
        }
        Step::Left { executor: which } => {
            Command::ExecutorLeft { executor: executor(name(which)), incarnation: life(world, name(which)) }
        }
        Step::Drain { executor: which, on } => Command::Drain { executor: executor(name(which)), on },
        Step::BeginRound { .. } => Command::BeginRound { leader: 1 },
        Step::Advance { .. } => return None,
    })
}

/// Applies a step; answers with the command that it became.
fn take(world: &mut World, step: &Step) -> Option<(Command, Reply)> {
    if let Step::Advance { ms } = step {
        world.now += *ms as i64;
    }
    let command = resolve(world, step)?;
    let reply = world.run(command.clone());
    if let (Step::BeginRound { follow: true }, Reply::Round(round)) = (step, &reply) {
        world.round = *round;
    }
    Some((command, reply))
}

fn states(world: &World) -> BTreeMap<TaskId, TaskState> {
    (0..6)
        .filter_map(|task| orloj_model::query::task(&world.tables, task_id(task)).expect("maps do not fail"))
        .map(|view| (view.id, view.state))
        .collect()
}

fn assert_history_is_kept(before: &BTreeMap<TaskId, TaskState>, after: &BTreeMap<TaskId, TaskState>) {
    for (id, old) in before {
        let new = &after[id];
        if old.status.is_terminal() {
            assert_eq!(old, new, "a terminal task changed");
        }
        assert!(new.version >= old.version && new.version <= old.version + 1, "{old:?} {new:?}");
        assert_eq!(new.version == old.version, new == old, "a change without a version");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_replicas_agree(steps in prop::collection::vec(step(), 1..120)) {
        let (mut one, mut two) = (World::ready(), World::ready());
        for step in &steps {
            let before = states(&one);
            let first = take(&mut one, step);
            let second = take(&mut two, step);
            prop_assert_eq!(first, second);
            prop_assert_eq!(one.digest(), two.digest());
            assert_history_is_kept(&before, &states(&one));
        }
    }

    #[test]
    fn a_snapshot_continues_as_the_original(
        before in prop::collection::vec(step(), 1..60),
        after in prop::collection::vec(step(), 1..60),
    ) {
        let mut original = World::ready();
        for step in &before {
            take(&mut original, step);
        }
        let mut copy = original.clone();
        for step in &after {
            prop_assert_eq!(take(&mut original, step), take(&mut copy, step));
        }
        prop_assert_eq!(original.digest(), copy.digest());
        prop_assert!(original.tables.rows().eq(copy.tables.rows()));
    }

    #[test]
    fn a_repeated_command_changes_nothing(steps in prop::collection::vec(step(), 1..100)) {
        let mut world = World::ready();
        for step in &steps {
            let Some((command, _)) = take(&mut world, step) else { continue };
            if matches!(command, Command::BeginRound { .. }) {
                continue;
            }
            let before: Vec<_> = world.tables.rows().map(|(k, v)| (k.clone(), v.clone())).collect();
            let reply = world.run(command.clone());
            let after: Vec<_> = world.tables.rows().map(|(k, v)| (k.clone(), v.clone())).collect();
            prop_assert_eq!(before, after, "{:?} repeated: {:?}", command, reply);
        }
    }

    #[test]
    fn one_success_at_most_and_only_under_the_current_fence(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::ready();
        let mut successes: BTreeMap<(TaskId, u16), u32> = BTreeMap::new();
        for step in &steps {
            let Some((command, reply)) = take(&mut world, step) else { continue };
            if let Command::Report(report) = command
                && report.outcome == Outcome::Succeeded
                && matches!(reply, Reply::Task { .. })
            {
                let count = successes.entry((report.shard.task, report.shard.shard)).or_default();
                *count += 1;
                prop_assert_eq!(*count, 1);
            }
        }
    }

    #[test]
    fn the_leaders_commands_of_another_round_change_nothing(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::ready();
        for step in &steps {
            take(&mut world, step);
            let mut old = world.clone();
            old.round = u64::MAX;
            if let Some(command) = resolve(&old, step) {
                let leaders_own = matches!(
                    command,
                    Command::Grant { .. } | Command::MakeReady { .. } | Command::Lose { .. }
                        | Command::Requeue { .. } | Command::TimeOut { .. } | Command::Expire { .. }
                        | Command::RegisterExecutor(_) | Command::ExecutorGone { .. }
                        | Command::ExecutorLeft { .. }
                );
                if leaders_own {
                    let rows = |world: &World| -> Vec<_> {
                        let tables = world.tables.rows().filter(|((table, _), _)| *table != TableId::Meta);
                        tables.map(|(key, value)| (key.clone(), value.clone())).collect()
                    };
                    let before = rows(&old);
                    let reply = old.run(command);
                    let stale = matches!(reply, Reply::Refused(Refusal::StaleRound { .. }));
                    prop_assert!(stale, "{:?}", reply);
                    prop_assert_eq!(before, rows(&old));
                }
            }
        }
    }
}

#[test]
fn statuses_round_trip_through_their_names_and_numbers() {
    for status in Status::ALL {
        assert_eq!(Status::from_name(status.name()), Some(status));
        assert_eq!(Status::from_number(status as u8), Some(status));
    }
}
