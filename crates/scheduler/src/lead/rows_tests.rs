//! What is in hand says the same as the tables.

use orloj_model::command::{DueTime, Report, Submit};
use orloj_model::executor::Registration;
use orloj_model::id::{CallerId, ExecutorId, TaskId};
use orloj_model::tables::{Codec, MapTables};
use orloj_model::task::{Origin, Outcome, RetryPolicy, Strategy};
use orloj_model::{Batch, Command, Event, Reply, apply};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::fresh::FreshTasks;
use super::*;

struct Json;

impl Codec for Json {
    type Error = serde_json::Error;

    fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, Self::Error> {
        serde_json::to_vec(value)
    }

    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Self::Error> {
        serde_json::from_slice(if bytes.is_empty() { b"null" } else { bytes })
    }
}

const TASK: TaskId = TaskId([7; 16]);
const SHARD: ShardKey = ShardKey { task: TASK, shard: 0 };

#[derive(Default)]
struct World {
    tables: MapTables<Json>,
    index: u64,
    fresh: FreshTasks,
}

impl World {
    fn run(&mut self, command: Command) -> Reply {
        self.index += 1;
        let mut events = Vec::new();
        let batch = Batch { now_ms: 1_000 + self.index as i64, round: 1, changes: vec![command] };
        let mut replies = apply(&mut self.tables, self.index, &batch, &mut events).unwrap();
        for event in events {
            if let Event::Submitted { task, due_at, spec } = event {
                self.fresh.add(task, due_at, &spec);
            }
        }
        replies.remove(0)
    }

    fn submitted() -> World {
        let mut world = World::default();
        world.run(Command::BeginRound { leader: 1 });
        world.run(Command::RegisterExecutor(Registration {
            id: executor(),
            incarnation: 1,
            address: "127.0.0.1:1".into(),
            handlers: vec!["echo".into()],
            slots: 1,
            queue: 1,
            weight: 100,
            zone: None,
            labels: Default::default(),
            version: String::new(),
        }));
        let spec = TaskSpec {
            caller: CallerId::new("alice").unwrap(),
            access_key: "ak".into(),
            handler: "echo".into(),
            params: br#"{"n":1}"#.to_vec(),
            origin: Origin::Submission,
            priority: 3,
            labels: Default::default(),
            routing_key: Some("r".into()),
            zone: None,
            strategy: Strategy::Ring,
            business_key: Some("2027-01-15/orders".into()),
            dedupe_key: None,
            retry: RetryPolicy { backoff_ms: vec![0], ..RetryPolicy::default() },
            timeout_ms: Some(500),
            expire_at: None,
            shard_total: 1,
            depends_on: Vec::new(),
            callback_url: None,
            estimated_duration_ms: None,
        };
        let submit = Submit { task: TASK, spec, due: DueTime::At(900), claim: None, idempotency: None };
        world.run(Command::Submit(Box::new(submit)));
        world
    }

    fn grant(&mut self, attempt: u32) -> Lease {
        let (executor, incarnation) = (executor(), 1);
        let grant = Command::Grant { shard: SHARD.into(), attempt, executor, incarnation };
        let Reply::Granted { fence } = self.run(grant) else { panic!("attempt {attempt} was not granted") };
        Lease { shard: SHARD, attempt, fence }
    }
}

fn executor() -> ExecutorId {
    ExecutorId::new("e1").unwrap()
}

#[test]
fn a_first_attempt_is_the_same_from_hand_and_from_the_tables() {
    let mut world = World::submitted();
    let read = candidate(&world.tables, SHARD, &mut Specs::default()).unwrap().unwrap();
    let known = world.fresh.candidate(SHARD).unwrap();
    assert_eq!((known.attempt, known.since, known.ready), (read.attempt, read.since, read.ready));
    assert_eq!(known.spec, read.spec);
    let lease = world.grant(known.attempt);
    let fresh = world.fresh.remove(TASK).unwrap();
    assert_eq!(first_dispatch(&lease, &fresh), dispatch(&world.tables, &lease).unwrap().unwrap());
}

#[test]
fn a_second_attempt_is_read_with_its_checkpoint_also_when_the_first_was_never_pushed() {
    let mut world = World::submitted();
    assert!(world.fresh.candidate(SHARD).is_some());
    let first = world.grant(1);
    let checkpoint = Some(vec![1, 2]);
    world.run(Command::Save { shard: SHARD.into(), fence: first.fence, progress: None, checkpoint });
    world.run(Command::Report(Box::new(Report {
        shard: SHARD.into(),
        attempt: 1,
        fence: first.fence,
        executor: executor(),
        incarnation: 1,
        outcome: Outcome::Failed { retryable: true, retry_after_ms: None },
        message: None,
        result: None,
        log_tail: None,
        started_at: None,
        ended_at: None,
        chance: 0,
    })));
    assert!(world.fresh.candidate(SHARD).is_none(), "what became of the first stands in the tables alone");
    let next = candidate(&world.tables, SHARD, &mut Specs::default()).unwrap().unwrap();
    let second = world.grant(next.attempt);
    assert_eq!(second.attempt, 2);
    assert!(world.fresh.take_for(&second).is_none());
    let pushed = dispatch(&world.tables, &second).unwrap().unwrap();
    assert_eq!(pushed.checkpoint, Some(vec![1, 2]));
}

#[test]
fn what_a_job_says_of_the_attempt_is_filled_in_for_each_and_a_submission_means_itself() {
    let world = World::submitted();
    let mut spec = world.tables.get::<SpecTable>(&TASK).unwrap().unwrap();
    spec.params = br#"{"x":"${attempt} of ${shardIndex}/${shardTotal}, $${HOME}"}"#.to_vec();
    spec.business_key = Some("k-${attempt}".into());
    let lease = Lease { shard: SHARD, attempt: 3, fence: 9 };
    let as_it_is = body(&lease, &spec, 0, None);
    assert_eq!(as_it_is.params["x"], "${attempt} of ${shardIndex}/${shardTotal}, $${HOME}");
    spec.origin = Origin::Fire { job: "nightly".into(), scheduled_at: 5 };
    let filled = body(&lease, &spec, 0, None);
    assert_eq!(filled.params["x"], "3 of 0/1, ${HOME}");
    assert_eq!(filled.business_key.as_deref(), Some("k-3"));
    assert_eq!((filled.job_id.as_deref(), filled.scheduled_at), (Some("nightly"), Some(5)));
    spec.params = br#"{"x":"${HOME}"}"#.to_vec();
    assert_eq!(body(&lease, &spec, 0, None).params["x"], "${HOME}", "a person's own text");
}
