//! The bytes of everything that the model persists: each command in its log entry, each row, each key.
//!
//! A difference means that nodes of two releases would not understand each other's logs and tables. Never
//! change a line of `golden/model.txt`: a changed type is a new variant or a new schema version, with lines of
//! its own. `ORLOJ_BLESS=1 cargo test -p orloj-raft-store --test golden` writes lines for what is new, and
//! fails as long as a line that was there before would change.

#[path = "golden/access.rs"]
mod access;
#[path = "golden/callback.rs"]
mod callback;
#[path = "golden/graph.rs"]
mod graph;
#[path = "golden/job.rs"]
mod job;

use std::collections::BTreeMap;
use std::path::PathBuf;

use orloj_model::Batch;
use orloj_model::apply::Meta;
use orloj_model::command::{Claim, Command, DueTime, Idempotency, Report, ShardRef, Submit};
use orloj_model::executor::{Executor, ExecutorState, Registration};
use orloj_model::id::{CallerId, ExecutorId, TaskId};
use orloj_model::key::{
    BusinessTaskKey, CallerTaskKey, CallerTextKey, DepKey, DueKey, NonceKey, ReadyKey, RunningKey, ShardKey,
    Single, StatusTaskKey, TableKey, TimeKey, TimedCallerTextKey,
};
use orloj_model::schema::{DependsOnRow, IdempotencyRow, NonceRow, RunningRow};
use orloj_model::task::{
    Attempt, Dependency, DependsOn, DueClock, Origin, Outcome, Phase, Progress, Reason, RetryPolicy, Shard,
    Status, Strategy, TaskSpec, TaskState,
};
use orloj_raft_store::codec::{Schema, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[derive(Default)]
struct Golden(BTreeMap<String, String>);

impl Golden {
    fn value<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
        &mut self,
        name: &str,
        schema: Schema,
        value: &T,
    ) {
        let bytes = encode(schema, value).expect("a small value");
        let back: T = decode(schema, &bytes).expect("what was encoded");
        assert_eq!(&back, value, "{name}");
        self.line(name, &bytes);
    }

    fn row<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(&mut self, name: &str, value: &T) {
        self.value(&format!("row {name}"), Schema::Row, value);
    }

    fn command(&mut self, name: &str, command: Command) {
        let batch = Batch { now_ms: 1_800_000_000_000, round: 7, changes: vec![command] };
        self.value(&format!("batch {name}"), Schema::Batch, &batch);
    }

    fn key<K: TableKey + PartialEq + std::fmt::Debug>(&mut self, name: &str, key: &K) {
        let bytes = key.encode();
        assert_eq!(K::decode(&bytes).as_ref(), Some(key), "{name}");
        self.line(&format!("key {name}"), &bytes);
    }

    fn line(&mut self, name: &str, bytes: &[u8]) {
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(self.0.insert(name.to_owned(), hex), None, "{name} is there twice");
    }

    fn compare(&self) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/model.txt");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let known: BTreeMap<_, _> = text.lines().filter_map(|line| line.rsplit_once(": ")).collect();
        for (name, hex) in &known {
            assert_eq!(self.0.get(*name).map(String::as_str), Some(*hex), "the bytes of {name} changed");
        }
        if std::env::var_os("ORLOJ_BLESS").is_some() {
            let lines: String = self.0.iter().map(|(name, hex)| format!("{name}: {hex}\n")).collect();
            std::fs::write(&path, lines).expect("the golden file can be written");
            return;
        }
        let new: Vec<_> = self.0.keys().filter(|name| !known.contains_key(name.as_str())).collect();
        assert!(new.is_empty(), "no golden bytes for {new:?}; run with ORLOJ_BLESS=1");
    }
}

fn task() -> TaskId {
    TaskId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
}

fn caller() -> CallerId {
    CallerId::new("caller").expect("a valid name")
}

fn executor() -> ExecutorId {
    ExecutorId::new("e1").expect("a valid name")
}

fn shard() -> ShardRef {
    ShardRef { task: task(), shard: 1 }
}

fn registration() -> Registration {
    Registration {
        id: executor(),
        incarnation: 9,
        address: "127.0.0.1:7".into(),
        handlers: vec!["echo".into()],
        slots: 4,
        queue: 8,
        weight: 100,
        zone: Some("z".into()),
        labels: BTreeMap::from([("k".into(), "v".into())]),
        version: "1".into(),
    }
}

fn spec(origin: Origin, strategy: Strategy) -> TaskSpec {
    TaskSpec {
        caller: caller(),
        access_key: "ak".into(),
        handler: "echo".into(),
        params: b"{}".to_vec(),
        origin,
        priority: 5,
        labels: BTreeMap::from([("k".into(), "v".into())]),
        routing_key: Some("r".into()),
        zone: Some("z".into()),
        strategy,
        business_key: Some("b".into()),
        dedupe_key: Some("d".into()),
        retry: RetryPolicy { max_retries: 2, backoff_ms: vec![10, 20], jitter_pct: 3, max_lost: 4 },
        timeout_ms: Some(5),
        expire_at: Some(6),
        shard_total: 2,
        depends_on: [DependsOn::Success, DependsOn::Completed, DependsOn::Failure]
            .map(|on| Dependency { task: task(), on })
            .to_vec(),
        callback_url: Some("https://h/".into()),
        estimated_duration_ms: Some(7),
    }
}

fn attempt(outcome: Option<Outcome>) -> Attempt {
    Attempt {
        number: 3,
        executor: executor(),
        incarnation: 9,
        round: 7,
        fence: 8,
        granted_at: 1,
        started_at: Some(2),
        ended_at: Some(3),
        outcome,
        message: Some("m".into()),
        late_outcome: Some(Outcome::Succeeded),
    }
}

fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Succeeded,
        Outcome::Failed { retryable: true, retry_after_ms: Some(4) },
        Outcome::TimedOut,
        Outcome::Cancelled,
        Outcome::Lost,
        Outcome::Refused,
    ]
}

#[test]
fn the_bytes_of_commands_rows_and_keys_never_change() {
    let mut golden = Golden::default();
    commands(&mut golden);
    rows(&mut golden);
    keys(&mut golden);
    job::add(&mut golden);
    graph::add(&mut golden);
    callback::add(&mut golden);
    access::add(&mut golden);
    golden.compare();
}

fn commands(golden: &mut Golden) {
    let claim = Some(Claim { nonce: [3; 16], expires_at: 4 });
    for (name, due) in [("at", DueTime::At(5)), ("after", DueTime::After(6))] {
        golden.command(
            &format!("submit {name}"),
            Command::Submit(Box::new(Submit {
                task: task(),
                spec: spec(Origin::Submission, Strategy::Ring),
                due,
                claim: claim.clone(),
                idempotency: Some(Idempotency { key: "k".into(), fingerprint: [1; 32] }),
            })),
        );
    }
    golden.command("begin round", Command::BeginRound { leader: 2 });
    golden.command("make ready", Command::MakeReady { shard: shard() });
    golden.command(
        "grant",
        Command::Grant { shard: shard(), attempt: 3, executor: executor(), incarnation: 9 },
    );
    golden.command(
        "report",
        Command::Report(Box::new(Report {
            shard: shard(),
            attempt: 3,
            fence: 8,
            executor: executor(),
            incarnation: 9,
            outcome: Outcome::Succeeded,
            message: Some("m".into()),
            result: Some(b"1".to_vec()),
            log_tail: Some(b"l".to_vec()),
            started_at: Some(1),
            ended_at: Some(2),
            chance: 500,
        })),
    );
    golden.command("requeue", Command::Requeue { shard: shard(), fence: 8, message: "full".into() });
    golden.command("lose", Command::Lose { shard: shard(), fence: 8, chance: 5 });
    golden.command("time out", Command::TimeOut { shard: shard(), fence: 8, chance: 5 });
    golden.command("expire", Command::Expire { task: task() });
    golden.command("cancel", Command::Cancel { task: task(), caller: Some(caller()), claim });
    golden.command(
        "save",
        Command::Save {
            shard: shard(),
            fence: 8,
            progress: Some(Progress { percent: 50, note: "half".into() }),
            checkpoint: Some(vec![1, 2]),
        },
    );
    golden.command("register", Command::RegisterExecutor(registration()));
    golden.command("gone", Command::ExecutorGone { executor: executor(), incarnation: 9 });
    golden.command("drain", Command::Drain { executor: executor(), on: true });
    golden.command("left", Command::ExecutorLeft { executor: executor(), incarnation: 9 });
    golden.command("wall clock", Command::WallClock { wall_ms: 5 });
    golden.command("spend", Command::Spend { claim: Claim { nonce: [3; 16], expires_at: 4 } });
}

fn rows(golden: &mut Golden) {
    golden.row("meta", &Meta { now_ms: 1, round: 2, leader: 3 });
    golden.row("spec submission", &spec(Origin::Submission, Strategy::Ring));
    golden.row("spec fire", &spec(Origin::Fire { job: "j".into(), scheduled_at: 4 }, Strategy::RoundRobin));
    golden.row("spec retry", &spec(Origin::RetryOf(task()), Strategy::LeastLoaded));
    golden.row("spec random", &spec(Origin::Submission, Strategy::Random));
    golden.row("spec pinned", &spec(Origin::Submission, Strategy::Pinned(executor())));
    golden.row("spec broadcast", &spec(Origin::Submission, Strategy::Broadcast));
    let reasons = [
        Reason::None,
        Reason::Scheduled,
        Reason::Dependencies,
        Reason::Ready,
        Reason::Retry,
        Reason::Paused,
        Reason::Expired,
        Reason::Dependency,
        Reason::BackfillStopped,
    ];
    for (number, reason) in reasons.into_iter().enumerate() {
        let status = Status::ALL[number % Status::ALL.len()];
        let state = TaskState {
            caller: caller(),
            status,
            reason,
            version: 4,
            created_at: 1,
            updated_at: 2,
            due_at: 3,
            started_at: Some(4),
            finished_at: Some(5),
            cancel_requested: true,
            priority: 6,
            expire_at: Some(7),
            unmet: 1,
            shards: 2,
            running: 1,
            succeeded: 1,
            failed: 1,
        };
        golden.row(&format!("state {} {reason:?}", status.name()), &state);
    }
    let phases = [
        Phase::Blocked,
        Phase::Due { at: 1, clock: DueClock::Wall },
        Phase::Due { at: 1, clock: DueClock::Cluster },
        Phase::Ready { since: 2 },
        Phase::Running,
        Phase::Done,
    ];
    for phase in phases {
        let mut attempts: Vec<_> = outcomes().into_iter().map(|outcome| attempt(Some(outcome))).collect();
        attempts.push(attempt(None));
        let shard = Shard {
            phase,
            next_attempt: 4,
            attempts,
            failures: 1,
            losses: 2,
            progress: Some(Progress { percent: 50, note: "half".into() }),
            checkpoint: Some(vec![1]),
            result: Some(vec![2]),
            log_tail: Some(vec![3]),
        };
        golden.row(&format!("shard {phase:?}"), &shard);
    }
    for state in [ExecutorState::Online, ExecutorState::Draining, ExecutorState::Offline, ExecutorState::Left]
    {
        let row = Executor { registration: registration(), state, registered_at: 1, changed_at: 2 };
        golden.row(&format!("executor {state:?}"), &row);
    }
    golden.row("running", &RunningRow { fence: 8, attempt: 3, incarnation: 9, granted_at: 1 });
    golden.row("depends on", &DependsOnRow { on: DependsOn::Failure });
    golden.row("idempotency", &IdempotencyRow { fingerprint: [1; 32], task: task(), created_at: 2 });
    golden.row("nonce", &NonceRow { expires_at: 3 });
}

fn keys(golden: &mut Golden) {
    let shard = ShardKey { task: task(), shard: 1 };
    let text = CallerTextKey { caller: caller(), text: "t:1".into() };
    golden.key("single", &Single);
    golden.key("task", &task());
    golden.key("shard", &shard);
    golden.key("due wall", &DueKey { at: 1_800_000_000_000, shard, clock: DueClock::Wall });
    golden.key("due cluster", &DueKey { at: -1, shard, clock: DueClock::Cluster });
    golden.key("ready", &ReadyKey { priority: 5, since: 3, shard });
    golden.key("running", &RunningKey { executor: executor(), shard });
    golden.key("time", &TimeKey { at: 4, task: task() });
    golden.key("dep", &DepKey { parent: task(), child: task() });
    golden.key("caller task", &CallerTaskKey { caller: caller(), created_at: 5, task: task() });
    golden.key(
        "status task",
        &StatusTaskKey { caller: caller(), status: Status::Failed, created_at: 5, task: task() },
    );
    golden.key("business", &BusinessTaskKey { key: text.clone(), task: task() });
    golden.key("timed text", &TimedCallerTextKey { at: 6, key: text.clone() });
    golden.key("text", &text);
    golden.key("nonce", &NonceKey { until: 8, nonce: [7; 16] });
    golden.key("executor", &executor());
}
