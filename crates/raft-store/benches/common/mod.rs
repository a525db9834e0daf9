//! Commands as callers, leaders and executors send them, and one replica that applies them: the model's tables in
//! memory under the product's codec, so that what is measured is apply with its encoding and not a disk.
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::collections::BTreeMap;

use orloj_model::command::{
    Claim, Command, Computed, DueTime, Idempotency, JobCommand, PutJob, Report, ShardRef, Submit,
};
use orloj_model::executor::Registration;
use orloj_model::id::{CallerId, ExecutorId, Fence, JobId, Millis, TaskId};
use orloj_model::job::{Definition, JobKey, Plan, Template, plan};
use orloj_model::query::{self, JobView};
use orloj_model::tables::MapTables;
use orloj_model::task::{Dependency, DependsOn, Origin, Outcome, RetryPolicy, Strategy, TaskSpec};
use orloj_model::trigger::overlap::OverlapPolicy;
use orloj_model::trigger::{CatchUp, Kind, Limits, Progress, Schedule, Trigger};
use orloj_model::{Batch, Reply, apply};
use orloj_raft_store::codec::Bincode;

/// Executors that are registered.
const EXECUTORS: u64 = 10;
/// From one fire of a job to the next, in ms.
const PERIOD_MS: u64 = 100_000;

/// One replica.
pub struct World {
    pub tables: MapTables<Bincode>,
    pub index: u64,
    pub now: Millis,
    round: u64,
    number: u64,
}

impl World {
    /// In round 1, with executors.
    pub fn ready() -> World {
        let tables = MapTables::default();
        let mut world = World { tables, index: 0, now: 1_000_000, round: 0, number: 0 };
        world.run(vec![Command::BeginRound { leader: 1 }]);
        world.round = 1;
        let register = |number| Command::RegisterExecutor(registration(number));
        world.run((0..EXECUTORS).map(register).collect());
        world
    }

    /// The entry that carries these changes.
    pub fn batch(&self, changes: Vec<Command>) -> Batch {
        Batch { now_ms: self.now, round: self.round, changes }
    }

    /// Applies an entry, none of whose changes may be refused.
    pub fn apply(&mut self, batch: &Batch) -> Vec<Reply> {
        self.index += 1;
        let mut events = Vec::new();
        let replies = apply(&mut self.tables, self.index, batch, &mut events).expect("maps do not fail");
        let refused = replies.iter().find(|reply| matches!(reply, Reply::Refused(_)));
        assert_eq!(refused, None, "of entry {}", self.index);
        replies
    }

    pub fn run(&mut self, changes: Vec<Command>) -> Vec<Reply> {
        let batch = self.batch(changes);
        self.apply(&batch)
    }

    /// A number that was never used.
    pub fn fresh(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// The id of a task that there is not, in blocks as [`orloj_model::id::TaskIds`] draws them and in no order within.
    pub fn fresh_task(&mut self) -> TaskId {
        let number = self.fresh();
        let mut id = [7; 16];
        id[1..3].copy_from_slice(&((number >> 15) as u16).to_be_bytes());
        id[3..11].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        TaskId(id)
    }

    /// Submits so many tasks that are due at once.
    pub fn submitted(&mut self, count: u64) -> Vec<TaskId> {
        let tasks: Vec<TaskId> = (0..count).map(|_| self.fresh_task()).collect();
        self.run(tasks.iter().map(|task| submit(*task)).collect());
        tasks
    }

    /// Submits and grants so many tasks; their leases have the index of the grant.
    pub fn granted(&mut self, count: u64) -> (Vec<TaskId>, Fence) {
        let tasks = self.submitted(count);
        self.run(tasks.iter().map(|task| grant(*task)).collect());
        (tasks, self.index)
    }

    /// Creates a job; returns how it stands.
    pub fn job(&mut self) -> JobView {
        let number = self.fresh();
        let put = put(number, self.now);
        let key = put.job.clone();
        self.run(vec![job(JobCommand::Put(Box::new(put)))]);
        query::job(&self.tables, &key).expect("maps do not fail").expect("it was just created")
    }

    /// What a leader proposes for a job whose time has come.
    pub fn fires(&mut self, view: &JobView) -> Vec<Command> {
        let now = self.now;
        match plan(view, &[], now, &mut || self.fresh_task()) {
            Ok(Plan::Propose(commands)) => commands.into_iter().map(job).collect(),
            other => panic!("no fire of {:?} at {now}: {other:?}", view.key),
        }
    }
}

fn registration(number: u64) -> Registration {
    Registration {
        id: executor(number),
        incarnation: 1,
        address: "127.0.0.1:1".into(),
        handlers: vec!["report".into()],
        slots: 30,
        queue: 30,
        weight: 100,
        zone: None,
        labels: BTreeMap::new(),
        version: "0".into(),
    }
}

fn executor(number: u64) -> ExecutorId {
    ExecutorId::new(format!("executor-{number}")).expect("a valid name")
}

pub fn caller() -> CallerId {
    CallerId::new("caller").expect("a valid name")
}

pub fn job(command: JobCommand) -> Command {
    Command::Job(Box::new(command))
}

/// What a caller asks for as a rule: small parameters, every default.
pub fn spec(params: usize) -> TaskSpec {
    let padding = "x".repeat(params);
    TaskSpec {
        caller: caller(),
        access_key: "ak_TESTAAAAAAAAAAAAAAAA".into(),
        handler: "report".into(),
        params: format!(r#"{{"order":4711,"text":"{padding}"}}"#).into_bytes(),
        origin: Origin::Submission,
        priority: 5,
        labels: BTreeMap::new(),
        routing_key: None,
        zone: None,
        strategy: Strategy::Ring,
        business_key: None,
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

/// A signed submission with its nonce, due at once.
pub fn submit(task: TaskId) -> Command {
    submission(task, spec(0))
}

/// The same of anything.
pub fn submission(task: TaskId, spec: TaskSpec) -> Command {
    Command::Submit(Box::new(bare(task, spec)))
}

/// The same as a part of another command.
pub fn bare(task: TaskId, spec: TaskSpec) -> Submit {
    let claim = Some(Claim { nonce: task.0, expires_at: 1_360_000 });
    Submit { task, spec, due: DueTime::After(0), claim, idempotency: None }
}

/// A submission with an Idempotency-Key, as a careful caller's.
pub fn careful(task: TaskId) -> Command {
    let idempotency = Some(Idempotency { key: format!("order-{task}"), fingerprint: [3; 32] });
    Command::Submit(Box::new(Submit { idempotency, ..bare(task, spec(0)) }))
}

pub fn grant(task: TaskId) -> Command {
    let number = u64::from(task.0[0]) % EXECUTORS;
    let shard = ShardRef { task, shard: 0 };
    Command::Grant { shard, attempt: 1, executor: executor(number), incarnation: 1 }
}

/// A success with a small result.
pub fn report(task: TaskId, fence: Fence) -> Command {
    Command::Report(Box::new(Report {
        shard: ShardRef { task, shard: 0 },
        attempt: 1,
        fence,
        executor: executor(u64::from(task.0[0]) % EXECUTORS),
        incarnation: 1,
        outcome: Outcome::Succeeded,
        message: None,
        result: Some(b"true".to_vec()),
        log_tail: None,
        started_at: Some(1_000_000),
        ended_at: Some(1_000_000),
        chance: 0,
    }))
}

/// What waits for the success of another task.
pub fn child_of(parent: TaskId) -> TaskSpec {
    let depends_on = vec![Dependency { task: parent, on: DependsOn::Success }];
    TaskSpec { depends_on, ..spec(0) }
}

/// What the tasks of a job are made of.
pub fn template() -> Template {
    Template {
        handler: "report".into(),
        params: r#"{"day":"${date:%Y-%m-%d}"}"#.into(),
        priority: 5,
        labels: BTreeMap::new(),
        routing_key: None,
        zone: None,
        strategy: Strategy::Ring,
        business_key: None,
        retry: RetryPolicy::default(),
        timeout_ms: None,
        expire_after_ms: None,
        shard_total: 1,
        callback_url: None,
        estimated_duration_ms: None,
    }
}

/// A job that fires every 100 s, for the first time at once, as the API puts it.
pub fn put(number: u64, now: Millis) -> PutJob {
    let kind = Kind::FixedRate { every_ms: PERIOD_MS, anchor: now };
    let trigger = Trigger::new(kind, Limits::default()).expect("a valid trigger");
    let id = JobId::new(format!("job-{number}")).expect("a valid id");
    let definition = Definition {
        title: "Report of the day".into(),
        description: String::new(),
        template: template(),
        triggers: vec![trigger],
        calendars: Vec::new(),
        misfire: CatchUp::default(),
        overlap: OverlapPolicy::default(),
        max_running: None,
    };
    let schedule = Schedule::new(id.as_str(), &definition.triggers, &[]).expect("a checked definition");
    let next = schedule.next(&Progress::default(), now - 1);
    let computed = Computed { revision: 0, calendars: Vec::new(), after: now - 1, next };
    let job = JobKey { caller: caller(), job: id };
    PutJob { job, expected: Some(0), definition, computed, claim: None }
}
