//! What executors do to the tasks of a [`Universe`].

use orloj_model::command::ShardRef;
use orloj_model::executor::Registration;
use orloj_model::id::ExecutorId;
use orloj_model::task::Outcome;
use orloj_model::{Command, Reply};

use super::fake::{T, Universe};

impl Universe {
    pub(crate) fn register(&self, id: &str, handlers: &[&str]) {
        self.register_life(id, 1, handlers);
    }

    fn register_life(&self, id: &str, incarnation: u64, handlers: &[&str]) {
        let registration = Registration {
            id: ExecutorId::new(id).unwrap(),
            incarnation,
            address: "127.0.0.1:1".into(),
            handlers: handlers.iter().map(|handler| (*handler).to_owned()).collect(),
            slots: 4,
            queue: 4,
            weight: 100,
            zone: None,
            labels: Default::default(),
            version: "0".into(),
        };
        assert_eq!(self.run(Command::RegisterExecutor(registration)), Reply::Done);
    }

    /// Grants the next attempt of a task to `e1`; answers with the fence.
    pub(crate) fn grant(&self, task_id: &str, attempt: u32) -> u64 {
        let shard = ShardRef { task: task_id.parse().unwrap(), shard: 0 };
        let executor = ExecutorId::new("e1").unwrap();
        match self.run(Command::Grant { shard, attempt, executor, incarnation: 1 }) {
            Reply::Granted { fence } => fence,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Grants the next attempt of a task to another life of `e1`, which then dies with it.
    pub(crate) fn lose(&self, task_id: &str, attempt: u32, incarnation: u64) {
        self.register_life("e1", incarnation, &["echo", "sleep"]);
        let shard = ShardRef { task: task_id.parse().unwrap(), shard: 0 };
        let executor = ExecutorId::new("e1").unwrap();
        let grant = Command::Grant { shard, attempt, executor: executor.clone(), incarnation };
        let Reply::Granted { fence } = self.run(grant) else { panic!("not granted") };
        assert_eq!(self.run(Command::ExecutorGone { executor, incarnation }), Reply::Done);
        let lost = self.run(Command::Lose { shard, fence, chance: 0 });
        assert!(matches!(lost, Reply::Task { .. }), "{lost:?}");
    }

    /// Lets an attempt succeed.
    pub(crate) fn succeed(&self, task_id: &str, attempt: u32, fence: u64) {
        self.report(task_id, attempt, fence, Outcome::Succeeded);
    }

    /// Reports how an attempt ended.
    pub(crate) fn report(&self, task_id: &str, attempt: u32, fence: u64, outcome: Outcome) {
        let report = orloj_model::command::Report {
            shard: ShardRef { task: task_id.parse().unwrap(), shard: 0 },
            attempt,
            fence,
            executor: ExecutorId::new("e1").unwrap(),
            incarnation: 1,
            outcome,
            message: None,
            result: Some(b"{\"n\":1}".to_vec()),
            log_tail: Some("done €\n".as_bytes().to_vec()),
            started_at: Some(T * 1000),
            ended_at: Some(T * 1000 + 5),
            chance: 0,
        };
        self.run(Command::Report(Box::new(report)));
    }
}
