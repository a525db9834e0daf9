//! Results as they are shown and handed on.

use orloj_model::command::{DueTime, GraphCommand, Report, ShardRef, Submit, SubmitGraph};
use orloj_model::executor::Registration;
use orloj_model::graph::OnShardFailure;
use orloj_model::id::ExecutorId;
use orloj_model::tables::{MapTables, RawRow, TableId};
use orloj_model::task::{Dependency, DependsOn, Outcome, Phase};
use orloj_model::{Batch, Command, Reply, apply};
use serde::de::DeserializeOwned;

use super::*;
use crate::testing::{Json, spec};

#[derive(Default)]
struct World {
    tables: MapTables<Json>,
    index: u64,
}

impl World {
    fn ready() -> World {
        let mut world = World::default();
        world.run(Command::BeginRound { leader: 1 });
        world.run(Command::RegisterExecutor(Registration {
            id: ExecutorId::new("a").unwrap(),
            incarnation: 1,
            address: "127.0.0.1:1".into(),
            handlers: vec!["echo".into()],
            slots: 4,
            queue: 0,
            weight: 100,
            zone: None,
            labels: Default::default(),
            version: "0".into(),
        }));
        world
    }

    fn run(&mut self, command: Command) -> Reply {
        self.index += 1;
        let batch = Batch { now_ms: 1_000 + self.index as i64, round: 1, changes: vec![command] };
        apply(&mut self.tables, self.index, &batch, &mut Vec::new()).unwrap().remove(0)
    }

    /// A task of which each shard has returned this; `None` fails.
    fn ended(&mut self, number: u8, results: &[Option<&[u8]>]) -> TaskId {
        let task = TaskId([number; 16]);
        let shard_total = results.len() as u16;
        let submit = Submit {
            task,
            spec: TaskSpec { shard_total, ..spec() },
            due: DueTime::After(0),
            claim: None,
            idempotency: None,
        };
        self.run(Command::Submit(Box::new(submit)));
        for (shard, result) in (0..).zip(results) {
            let executor = ExecutorId::new("a").unwrap();
            let shard = ShardRef { task, shard };
            let grant = Command::Grant { shard, attempt: 1, executor: executor.clone(), incarnation: 1 };
            let Reply::Granted { fence } = self.run(grant) else { panic!("not granted") };
            let failed = Outcome::Failed { retryable: false, retry_after_ms: None };
            self.run(Command::Report(Box::new(Report {
                shard,
                attempt: 1,
                fence,
                executor,
                incarnation: 1,
                outcome: if result.is_some() { Outcome::Succeeded } else { failed },
                message: None,
                result: result.map(<[u8]>::to_vec),
                log_tail: None,
                started_at: None,
                ended_at: None,
                chance: 0,
            })));
        }
        task
    }
}

fn filled(world: &World, parents: &[TaskId], params: Value) -> Value {
    let on = DependsOn::Completed;
    let depends_on = parents.iter().map(|task| Dependency { task: *task, on }).collect();
    fill(&world.tables, &TaskSpec { depends_on, ..spec() }, params).unwrap()
}

#[test]
fn references_become_what_the_parents_returned() {
    let mut world = World::ready();
    let one = world.ended(1, &[Some(b"{\"rows\":[1,2]}")]);
    let many = world.ended(2, &[Some(b"\"x\""), None, Some(b"not json")]);
    let params = json!({
        "place": {"$result": 0}, "id": {"$result": one.to_string()}, "part": {"$result": 0, "pointer": "/rows/1"},
        "none": {"$result": 0, "pointer": "/other"}, "list": [{"$result": 1}, {"$status": 1}],
        "other": {"$result": 7}, "text": "$result",
    });
    let right = json!({
        "place": {"rows": [1, 2]}, "id": {"rows": [1, 2]}, "part": 2, "none": null,
        "list": [["x", null, "not json"], "FAILED"], "other": null, "text": "$result",
    });
    assert_eq!(filled(&world, &[one, many], params.clone()), right);
    assert_eq!(filled(&world, &[], params.clone()), params, "without parents nothing is a reference");
}

#[test]
fn a_step_is_found_by_its_name() {
    let mut world = World::ready();
    let task = TaskId([3; 16]);
    let origin = Origin::Step { job: "j".into(), scheduled_at: 0, run: TaskId([4; 16]), step: "load".into() };
    let spec = TaskSpec { origin, ..spec() };
    let submit = Submit { task, spec, due: DueTime::After(0), claim: None, idempotency: None };
    let submit = SubmitGraph { submit, on_shard_failure: OnShardFailure::Wait, siblings: Vec::new() };
    world.run(Command::Graph(Box::new(GraphCommand::Submit(Box::new(submit)))));
    let params = json!([{"$status": "load"}, {"$status": "other"}]);
    assert_eq!(filled(&world, &[task], params), json!(["PENDING", null]));
}

/// Counts what is read.
struct Counting<'a> {
    tables: &'a MapTables<Json>,
    reads: std::cell::Cell<usize>,
}

impl orloj_model::tables::Read for Counting<'_> {
    type Error = <MapTables<Json> as orloj_model::tables::Read>::Error;

    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
        self.reads.set(self.reads.get() + 1);
        self.tables.get_raw(table, key)
    }

    fn range_raw(
        &self,
        table: TableId,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<RawRow>, Self::Error> {
        self.tables.range_raw(table, from, to, limit)
    }

    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Self::Error> {
        self.tables.decode(bytes)
    }
}

#[test]
fn each_parent_is_read_once_however_often_it_is_referred_to() {
    let mut world = World::ready();
    let one = world.ended(1, &[Some(b"{\"a\":1}")]);
    let many = world.ended(2, &(0..40).map(|_| Some(b"1".as_slice())).collect::<Vec<_>>());
    let depends_on = [one, many].map(|task| Dependency { task, on: DependsOn::Completed }).to_vec();
    let refers =
        |which: usize| json!([{"$result": which, "pointer": "/a"}, {"$status": which}, {"$result": which}]);
    let params: Value = (0..1_000).map(|number| refers(number % 2)).collect();
    let view = Counting { tables: &world.tables, reads: Default::default() };
    let filled = fill(&view, &TaskSpec { depends_on, ..spec() }, params).unwrap();
    assert_eq!((&filled[0], &filled[999][1]), (&json!([1, "SUCCESS", {"a": 1}]), &json!("SUCCESS")));
    assert_eq!(view.reads.get(), 2 + 1 + 40, "a row for each task and each shard");
}

#[test]
fn what_is_read_for_one_task_is_bounded() {
    let mut world = World::ready();
    let big = format!("\"{}\"", "x".repeat((64 << 10) - 2)).into_bytes();
    let parents: Vec<TaskId> =
        (1..=9).map(|number| world.ended(number, &[Some(big.as_slice()); 16])).collect();
    let depends_on: Vec<_> =
        parents.iter().map(|task| Dependency { task: *task, on: DependsOn::Completed }).collect();
    let params: Value = (0..9).map(|which| json!({"$result": which, "pointer": "/0"})).collect();
    let view = Counting { tables: &world.tables, reads: Default::default() };
    let filled = fill(&view, &TaskSpec { depends_on, ..spec() }, params).unwrap();
    let part: Value = serde_json::from_slice(&big).unwrap();
    assert_eq!((&filled[0], &filled[3]), (&part, &part), "a part takes no more room than it has");
    assert_eq!(filled[8], json!({ "$omitted": null }), "so much is not even read");
    assert_eq!(view.reads.get(), 9 + 4 * 16, "4 MiB");
}

#[test]
fn what_is_put_in_is_bounded_and_says_what_is_left_out() {
    let mut world = World::ready();
    let big = format!("\"{}\"", "x".repeat((64 << 10) - 2)).into_bytes();
    let one = world.ended(1, &[Some(&big)]);
    let params: Value = (0..40).map(|_| json!({"$result": 0})).collect();
    let filled = filled(&world, &[one], params);
    let whole = filled.as_array().unwrap().iter().filter(|value| value.is_string()).count();
    assert_eq!((whole, &filled[39]), (16, &json!({ "$omitted": 64 << 10 })));
}

fn shard(result: Option<Vec<u8>>) -> Shard {
    Shard {
        phase: Phase::Done,
        next_attempt: 2,
        attempts: Vec::new(),
        failures: 0,
        losses: 0,
        progress: None,
        checkpoint: None,
        result,
        log_tail: None,
    }
}

#[test]
fn a_list_of_results_is_bounded_and_says_what_it_leaves_out() {
    let big = format!("\"{}\"", "x".repeat((64 << 10) - 2)).into_bytes();
    let mut shards: Vec<Shard> = (0..20).map(|_| shard(Some(big.clone()))).collect();
    shards.push(shard(None));
    let list = of_shards(&shards).unwrap();
    let omitted = json!({ "$omitted": 64 << 10 });
    let left_out = list.as_array().unwrap().iter().filter(|one| **one == omitted).count();
    assert_eq!((left_out, &list[20]), (4, &Value::Null), "sixteen of 64 KiB fill 1 MiB");
    assert_eq!(of_shards(&[shard(None), shard(None)]), None);
    assert_eq!(of_shards(&shards[..1]), Some(serde_json::from_slice(&big).unwrap()));
    assert_eq!(json_or_text(b"plain"), Value::from("plain"));
}

#[test]
fn an_integer_beyond_64_bits_keeps_its_digits() {
    let long = "123456789012345678901234567890";
    let text =
        format!(r#"{{"{long}":[{long},-{long},{},{},"{long}\\",{long}.5],"n":0}}"#, i64::MIN, u64::MAX);
    let shown = json_or_text(text.as_bytes());
    let list = &shown[long];
    assert_eq!((&list[0], &list[1]), (&json!(long), &json!(format!("-{long}"))));
    assert_eq!(
        (&list[2], &list[3], &list[4]),
        (&json!(i64::MIN), &json!(u64::MAX), &json!(format!("{long}\\")))
    );
    assert!(list[5].is_f64(), "only integers are exact");
    assert_eq!(json_or_text(long.as_bytes()), json!(long));
    let plain = format!("no JSON {long}");
    assert_eq!(json_or_text(plain.as_bytes()), json!(plain), "other text stays as it came");
    assert_eq!(of_shards(&[shard(Some(text.into_bytes()))]), Some(shown));
}
