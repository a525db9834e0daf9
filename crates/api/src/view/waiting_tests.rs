//! What a task waits for, one demand a case.

use std::collections::BTreeMap;

use orloj_model::executor::Registration;
use orloj_model::id::{CallerId, ExecutorId, JobId, TaskId};
use orloj_model::task::{Origin, Phase, RetryPolicy, Shard, TaskState};

use super::*;

fn row(id: &str, handler: &str, labels: &[(&str, &str)]) -> Executor {
    let labels = labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned()));
    Executor {
        registration: Registration {
            id: ExecutorId::new(id).unwrap(),
            incarnation: 1,
            address: "h:1".into(),
            handlers: vec![handler.into()],
            slots: 2,
            queue: 2,
            weight: 100,
            zone: None,
            labels: labels.collect(),
            version: "1".into(),
        },
        state: ExecutorState::Online,
        registered_at: 0,
        changed_at: 0,
    }
}

fn in_state(state: ExecutorState, row: Executor) -> Executor {
    Executor { state, ..row }
}

fn heard(id: &str, state: &'static str, running: usize) -> LiveExecutor {
    LiveExecutor {
        id: id.into(),
        incarnation: 1,
        address: "h:1".into(),
        state,
        handlers: Vec::new(),
        slots: 2,
        running,
        free_slots: None,
        queued: None,
        cpu_pct: None,
        last_heard_ms: 0,
        zone: None,
        version: "1".into(),
    }
}

fn task(labels: &[(&str, &str)], strategy: Strategy) -> TaskView {
    let labels: BTreeMap<_, _> =
        labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
    let caller = CallerId::new("shop").unwrap();
    TaskView {
        id: TaskId([1; 16]),
        spec: TaskSpec {
            caller: caller.clone(),
            access_key: "ak".into(),
            handler: "report".into(),
            params: b"{}".to_vec(),
            origin: Origin::Submission,
            priority: 5,
            labels,
            routing_key: None,
            zone: Some("b".into()),
            strategy,
            business_key: None,
            dedupe_key: None,
            retry: RetryPolicy::default(),
            timeout_ms: None,
            expire_at: None,
            shard_total: 1,
            depends_on: Vec::new(),
            callback_url: None,
            estimated_duration_ms: None,
        },
        state: TaskState {
            caller,
            status: Status::Pending,
            reason: Reason::Ready,
            version: 1,
            created_at: 0,
            updated_at: 0,
            due_at: 0,
            started_at: None,
            finished_at: None,
            cancel_requested: false,
            priority: 5,
            expire_at: None,
            unmet: 0,
            shards: 1,
            running: 0,
            succeeded: 0,
            failed: 0,
        },
        shards: vec![Shard {
            phase: Phase::Ready { since: 0 },
            next_attempt: 1,
            attempts: Vec::new(),
            failures: 0,
            losses: 0,
            progress: None,
            checkpoint: None,
            result: None,
            log_tail: None,
        }],
    }
}

fn says(task: &TaskView, rows: &[Executor], live: &[LiveExecutor], part: &str) {
    let said = waiting_for(task, rows, live, None).unwrap_or_default();
    assert!(said.contains(part), "{part:?} is not in {said:?}");
}

#[test]
fn the_first_demand_that_nobody_meets_is_said() {
    let free = task(&[], Strategy::Ring);
    says(&free, &[], &[], r#"the handler "report": none of the 0 that are there"#);
    let gone = in_state(ExecutorState::Offline, row("a", "report", &[]));
    let other = row("b", "echo", &[("disk", "ssd")]);
    says(&free, &[gone.clone(), other.clone()], &[], r#"the handler "report": none of the 1 that are there"#);
    let picky = task(&[("disk", "ssd")], Strategy::Ring);
    let plain = row("c", "report", &[("disk", "hdd"), ("gpu", "no")]);
    let rows = [gone.clone(), other, plain.clone()];
    says(
        &picky,
        &rows,
        &[],
        r#"the label disk=ssd: none of the 1 that have the handler "report" carries it"#,
    );
    let pickier = task(&[("disk", "ssd"), ("gpu", "yes")], Strategy::Ring);
    let (one, two) = (row("d", "report", &[("disk", "ssd")]), row("e", "report", &[("gpu", "yes")]));
    says(&pickier, &[one, two], &[], "the labels disk=ssd, gpu=yes: none of the 2");
    let mut weightless = plain.clone();
    weightless.registration.weight = 0;
    says(&free, std::slice::from_ref(&weightless), &[], "all 1 that fit have weight 0");
    let draining = in_state(ExecutorState::Draining, row("f", "report", &[]));
    let both = [draining, plain.clone()];
    says(&free, &both, &[heard("c", "suspect", 0)], "all 2 that fit are draining or have fallen silent");
    says(
        &free,
        std::slice::from_ref(&plain),
        &[heard("c", "online", 2)],
        "all 1 executors that fit are full",
    );
    for id in ["a", "c", "nobody"] {
        let pinned = task(&[], Strategy::Pinned(ExecutorId::new(id).unwrap()));
        let said = waiting_for(&pinned, &[gone.clone(), plain.clone()], &[], None);
        assert_eq!(said.is_none(), id == "c", "{said:?}");
    }
    let broadcast = task(&[], Strategy::Broadcast);
    assert_eq!(waiting_for(&broadcast, &[weightless], &[], None), None, "a broadcast goes to them, too");
}

#[test]
fn a_task_that_goes_out_in_a_moment_or_waits_for_something_else_says_nothing() {
    let (mut task, rows) = (task(&[], Strategy::Ring), [row("a", "report", &[])]);
    assert_eq!(waiting_for(&task, &rows, &[], None), None, "the leader has not heard it yet");
    assert_eq!(waiting_for(&task, &rows, &[heard("a", "online", 1)], None), None);
    for (status, reason) in [
        (Status::Pending, Reason::Scheduled),
        (Status::Pending, Reason::Paused),
        (Status::Running, Reason::None),
        (Status::Success, Reason::None),
    ] {
        (task.state.status, task.state.reason) = (status, reason);
        assert_eq!(waiting_for(&task, &[], &[], None), None, "{status:?}");
    }
    (task.state.status, task.state.reason) = (Status::Pending, Reason::Ready);
    task.shards.clear();
    assert_eq!(waiting_for(&task, &[], &[], None), None, "it stands for a run of steps");
}

#[test]
fn a_limit_that_is_reached_is_said_where_an_executor_could_take_the_task() {
    let rows = [row("a", "report", &[])];
    let said = |strategy, rows: &[Executor], reached: &Reached| {
        waiting_for(&task(&[], strategy), rows, &[], Some(reached)).unwrap_or_default()
    };
    let of_job = Reached { job: Some(JobId::new("nightly").unwrap()), most: 3 };
    assert!(said(Strategy::Ring, &rows, &of_job).contains(r#"job "nightly" has maxRunning 3"#));
    let of_caller = Reached { job: None, most: 7 };
    assert!(said(Strategy::Ring, &rows, &of_caller).contains("its caller has maxRunning 7"));
    assert!(said(Strategy::Ring, &[], &of_job).contains("the handler"), "who is missing comes first");
    assert_eq!(said(Strategy::Broadcast, &rows, &of_job), "", "it has no shards yet");
}
