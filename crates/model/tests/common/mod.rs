//! What the scenario and property tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod graphs;
pub mod jobs;

use std::collections::BTreeMap;

use orloj_model::command::{Command, DueTime, Report, ShardRef, Submit};
use orloj_model::executor::Registration;
use orloj_model::id::{CallerId, ExecutorId, Fence, Millis, TaskId};
use orloj_model::tables::{Codec, MapTables};
use orloj_model::task::{Origin, Outcome, RetryPolicy, Strategy, TaskSpec};
use orloj_model::{Batch, Event, Reply, apply, check};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Rows as JSON: readable in a failing test.
#[derive(Debug)]
pub struct Json;

impl Codec for Json {
    type Error = serde_json::Error;

    fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, Self::Error> {
        serde_json::to_vec(value)
    }

    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Self::Error> {
        // Index rows store nothing.
        serde_json::from_slice(if bytes.is_empty() { b"null" } else { bytes })
    }
}

pub type Tables = MapTables<Json>;

/// One replica: applies commands one entry each and checks every invariant after each.
#[derive(Clone, Default)]
pub struct World {
    pub tables: Tables,
    pub index: u64,
    pub now: Millis,
    /// By how much that is ahead of the leader's wall clock.
    pub ahead: Millis,
    pub round: u64,
    pub events: Vec<Event>,
}

impl World {
    /// In round 1, with executors `a` and `b` registered in life 1.
    pub fn ready() -> Self {
        let mut world = World { now: 1_000_000, ..World::default() };
        assert_eq!(world.run(Command::BeginRound { leader: 1 }), Reply::Round(1));
        world.round = 1;
        for id in ["a", "b"] {
            assert_eq!(world.run(Command::RegisterExecutor(registration(id, 1))), Reply::Done);
        }
        world
    }

    pub fn run(&mut self, command: Command) -> Reply {
        self.run_all(vec![command]).remove(0)
    }

    pub fn run_all(&mut self, mut changes: Vec<Command>) -> Vec<Reply> {
        self.index += 1;
        if self.ahead > 0 {
            changes.insert(0, Command::WallClock { wall_ms: self.wall() });
        }
        let batch = Batch { now_ms: self.now, round: self.round, changes };
        self.events.clear();
        let replies =
            apply(&mut self.tables, self.index, &batch, &mut self.events).expect("maps do not fail");
        let faults = check::check(&self.tables).expect("maps do not fail");
        assert_eq!(faults, Vec::<String>::new(), "after {batch:?}");
        replies
    }

    /// What the leader's wall clock shows.
    pub fn wall(&self) -> Millis {
        self.now - self.ahead
    }

    pub fn digest(&self) -> u64 {
        orloj_model::tables::Write::digest(&self.tables)
    }

    pub fn task(&self, task: TaskId) -> orloj_model::query::TaskView {
        orloj_model::query::task(&self.tables, task).expect("maps do not fail").expect("the task is there")
    }

    pub fn grant(&mut self, task: TaskId, attempt: u32, executor: &str) -> Fence {
        match self.run(grant(task, attempt, executor, 1)) {
            Reply::Granted { fence } => fence,
            other => panic!("not granted: {other:?}"),
        }
    }
}

pub fn task_id(number: u8) -> TaskId {
    TaskId([number; 16])
}

pub fn executor(id: &str) -> ExecutorId {
    ExecutorId::new(id).expect("a valid name")
}

pub fn caller() -> CallerId {
    CallerId::new("caller").expect("a valid name")
}

pub fn shard(task: TaskId) -> ShardRef {
    ShardRef { task, shard: 0 }
}

pub fn registration(id: &str, incarnation: u64) -> Registration {
    Registration {
        id: executor(id),
        incarnation,
        address: "127.0.0.1:1".into(),
        handlers: vec!["echo".into()],
        slots: 4,
        queue: 4,
        weight: 100,
        zone: None,
        labels: BTreeMap::new(),
        version: "0".into(),
    }
}

pub fn spec() -> TaskSpec {
    TaskSpec {
        caller: caller(),
        access_key: "ak".into(),
        handler: "echo".into(),
        params: b"{}".to_vec(),
        origin: Origin::Submission,
        priority: 5,
        labels: BTreeMap::new(),
        routing_key: None,
        zone: None,
        strategy: Strategy::Ring,
        business_key: Some("order-1".into()),
        dedupe_key: None,
        retry: RetryPolicy::default(),
        timeout_ms: None,
        expire_at: None,
        shard_total: 1,
        depends_on: Vec::new(),
        callback_url: None,
        estimated_duration_ms: None,
    }
}

pub fn submit(task: TaskId, spec: TaskSpec, due: DueTime) -> Command {
    Command::Submit(Box::new(Submit { task, spec, due, claim: None, idempotency: None }))
}

pub fn grant(task: TaskId, attempt: u32, id: &str, incarnation: u64) -> Command {
    Command::Grant { shard: shard(task), attempt, executor: executor(id), incarnation }
}

pub fn report(task: TaskId, attempt: u32, fence: Fence, id: &str, outcome: Outcome) -> Command {
    Command::Report(Box::new(Report {
        shard: shard(task),
        attempt,
        fence,
        executor: executor(id),
        incarnation: 1,
        result: matches!(outcome, Outcome::Succeeded).then(|| b"1".to_vec()),
        outcome,
        message: None,
        log_tail: None,
        started_at: None,
        ended_at: None,
        chance: 0,
    }))
}

pub const FAILED: Outcome = Outcome::Failed { retryable: true, retry_after_ms: None };
