//! What is in hand says the same as the tables.

use orloj_model::command::{Computed, DueTime, Fire, PutJob, Report, Submit};
use orloj_model::executor::Registration;
use orloj_model::graph::{OnShardFailure, Step};
use orloj_model::id::{CallerId, ExecutorId, TaskId};
use orloj_model::job::{Definition, Plan, Template, plan};
use orloj_model::tables::{Codec, MapTables};
use orloj_model::task::{Origin, Outcome, RetryPolicy, Strategy};
use orloj_model::trigger::{CatchUp, Kind, Limits, Progress, Schedule, Trigger};
use orloj_model::{Batch, Command, Event, Refusal, Reply, apply};
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
/// The task of a job's fire.
const FIRED: ShardKey = ShardKey { task: TaskId([8; 16]), shard: 0 };

#[derive(Default)]
struct World {
    tables: MapTables<Json>,
    index: u64,
    fresh: FreshTasks,
}

impl World {
    /// What the next entry is stamped with.
    fn now(&self) -> Millis {
        1_001 + self.index as i64
    }

    fn run(&mut self, command: Command) -> Reply {
        self.entry(vec![command]).remove(0)
    }

    fn entry(&mut self, changes: Vec<Command>) -> Vec<Reply> {
        let now_ms = self.now();
        self.index += 1;
        let mut events = Vec::new();
        let batch = Batch { now_ms, round: 1, changes };
        let replies = apply(&mut self.tables, self.index, &batch, &mut events).unwrap();
        for event in events {
            if let Event::Submitted { task, due_at, spec } = event {
                self.fresh.add(task, due_at, &spec);
            }
        }
        replies
    }

    /// A job that fires once a minute, and is due now.
    fn job(&mut self, overlap: OverlapPolicy) -> JobView {
        let (now, job) = (self.now(), JobKey { caller: CallerId::new("alice").unwrap(), job: job_id() });
        let kind = Kind::FixedRate { every_ms: 60_000, anchor: now };
        let definition = Definition {
            title: String::new(),
            description: String::new(),
            template: template(),
            triggers: vec![Trigger::new(kind, Limits::default()).unwrap()],
            calendars: Vec::new(),
            misfire: CatchUp::default(),
            overlap,
            max_running: None,
        };
        let schedule = Schedule::new(job.job.as_str(), &definition.triggers, &[]).unwrap();
        let next = schedule.next(&Progress::default(), now - 1);
        let computed = Computed { revision: 0, calendars: Vec::new(), after: now - 1, next };
        let put = PutJob { job: job.clone(), expected: Some(0), definition, computed, claim: None };
        let put = self.run(Command::Job(Box::new(JobCommand::Put(Box::new(put)))));
        assert!(matches!(put, Reply::Job { .. }), "{put:?}");
        query::job(&self.tables, &job).unwrap().unwrap()
    }

    /// The fire that a leader plans now.
    fn fire(&self, view: &JobView, task: TaskId) -> JobCommand {
        match plan(view, &[], self.now(), &mut || task) {
            Ok(Plan::Propose(mut commands)) if commands.len() == 1 => commands.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// The fire, and the grant of its task behind it.
    fn fire_and_grant(&mut self, fire: JobCommand, shard: ShardKey) -> Vec<Reply> {
        let grant = Command::Grant { shard: shard.into(), attempt: 1, executor: executor(), incarnation: 1 };
        self.entry(vec![Command::Job(Box::new(fire)), grant])
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

fn job_id() -> JobId {
    JobId::new("nightly").unwrap()
}

fn template() -> Template {
    Template {
        handler: "echo".into(),
        params: r#"{"at":"${scheduledAt}","try":"${attempt}"}"#.into(),
        priority: 3,
        labels: Default::default(),
        routing_key: None,
        zone: None,
        strategy: Strategy::Ring,
        business_key: Some("run-${taskId}".into()),
        retry: RetryPolicy::default(),
        timeout_ms: Some(500),
        expire_after_ms: Some(60_000),
        shard_total: 1,
        callback_url: None,
        estimated_duration_ms: None,
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

#[test]
fn the_task_of_a_fire_is_known_before_it_is_made_and_is_granted_in_its_entry() {
    let mut world = World::submitted();
    let view = world.job(OverlapPolicy::Skip);
    let fire = world.fire(&view, FIRED.task);
    let known = fired(&view, &fire).unwrap();
    assert_eq!((known.shard, known.attempt, known.last.as_ref()), (FIRED, 1, None));
    let replies = world.fire_and_grant(fire, known.shard);
    assert!(
        matches!(replies[..], [Reply::Fired { queued: false, .. }, Reply::Granted { .. }]),
        "{replies:?}"
    );
    assert_eq!(world.tables.get::<SpecTable>(&FIRED.task).unwrap().as_ref(), Some(&*known.spec));
    let lease = Lease { shard: FIRED, attempt: 1, fence: world.index };
    let mut in_hand = FreshTasks::default();
    in_hand.add(FIRED.task, known.since, &known.spec);
    let fresh = in_hand.take_for(&lease).unwrap();
    assert_eq!(first_dispatch(&lease, &fresh), dispatch(&world.tables, &lease).unwrap().unwrap());
}

#[test]
fn where_a_fire_makes_nothing_that_can_run_its_grant_is_refused() {
    let mut world = World::submitted();
    let view = world.job(OverlapPolicy::Queue);
    let JobCommand::Fire(fire) = world.fire(&view, FIRED.task) else { panic!("no fire") };
    let late = JobCommand::Fire(Fire { revision: fire.revision + 1, ..fire.clone() });
    let replies = world.fire_and_grant(late, FIRED);
    let gone = Reply::Refused(Refusal::TaskNotFound);
    assert!(matches!(&replies[..], [Reply::Refused(Refusal::StaleJob { .. }), other] if *other == gone));
    world.run(Command::Job(Box::new(JobCommand::Fire(fire))));
    // A minute later, while the first one is open, one waits for it.
    world.index += 70_000;
    let view = query::job(&world.tables, &view.key).unwrap().unwrap();
    let (next, shard) = (TaskId([9; 16]), ShardKey { task: TaskId([9; 16]), shard: 0 });
    let fire = world.fire(&view, next);
    assert!(fired(&view, &fire).is_none(), "so much is known beforehand");
    let replies = world.fire_and_grant(fire, shard);
    let blocked = Reply::Refused(Refusal::NotWaiting);
    assert!(
        matches!(&replies[..], [Reply::Fired { queued: true, .. }, other] if *other == blocked),
        "{replies:?}"
    );
    assert!(candidate(&world.tables, shard, &mut Specs::default()).unwrap().is_none());
}

#[test]
fn only_the_first_task_that_is_whole_and_held_up_by_nothing_is_known_before_it_is_made() {
    let mut world = World::submitted();
    let view = world.job(OverlapPolicy::Skip);
    let fire = world.fire(&view, FIRED.task);
    let known = |change: &dyn Fn(&mut JobView)| {
        let mut changed = view.clone();
        change(&mut changed);
        fired(&changed, &fire).is_some()
    };
    assert!(known(&|_| {}));
    assert!(!known(&|view| view.state.open = 1));
    assert!(known(&|view| {
        view.state.open = 1;
        view.job.definition.overlap = OverlapPolicy::Allow;
    }));
    assert!(!known(&|view| {
        view.state.open = OPEN_LIMIT;
        view.job.definition.overlap = OverlapPolicy::Allow;
    }));
    assert!(!known(&|view| view.job.definition.template.shard_total = 2));
    assert!(!known(&|view| view.job.definition.template.strategy = Strategy::Broadcast));
    let step = Step {
        name: "one".into(),
        template: template(),
        on_shard_failure: OnShardFailure::Wait,
        needs: Vec::new(),
    };
    assert!(!known(&|view| view.flow.steps = vec![step.clone()]));
    assert!(fired(&view, &JobCommand::SetNext { job: view.key.clone(), revision: 1, next: None }).is_none());
}
