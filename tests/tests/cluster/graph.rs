//! A graph of tasks is worked off while leaders die.

use std::collections::BTreeMap;
use std::time::Duration;

use orloj_client::Client;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::{History, faults};
use orloj_tests::load::outcomes;
use orloj_tests::process::until;
use orloj_tests::setup::pick;
use orloj_wire::rest::job::{JobSpec, RunJob};
use orloj_wire::rest::{DependsOn, DependsOnEnd, Retry, StepNeed, StepSpec, Submit, Task};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(180);

/// Tasks of a batch, each with the places of its parents and how it must end.
#[derive(Default)]
struct Plan {
    tasks: Vec<Submit>,
    ends: Vec<&'static str>,
}

impl Plan {
    /// Adds a task that runs when its parents have ended so; answers with its place.
    fn add(&mut self, mut task: Submit, parents: &[(usize, DependsOnEnd)]) -> usize {
        let met = |(parent, on): &(usize, DependsOnEnd)| match on {
            DependsOnEnd::Success => self.ends[*parent] == "SUCCESS",
            DependsOnEnd::Failure => self.ends[*parent] == "FAILED",
            DependsOnEnd::Completed => true,
        };
        self.ends.push(match (parents.iter().all(met), task.handler.as_str()) {
            (false, _) => "SKIPPED",
            (true, "fail") => "FAILED",
            (true, _) => "SUCCESS",
        });
        let named = |(place, on): &(usize, DependsOnEnd)| DependsOn { task_id: format!("#{place}"), on: *on };
        task.depends_on = parents.iter().map(named).collect();
        self.tasks.push(task);
        self.tasks.len() - 1
    }

    /// Adds one that takes its time, so that leaders die in the middle of it all.
    fn short(&mut self, parents: &[(usize, DependsOnEnd)]) -> usize {
        self.add(Submit::new("sleep", json!({ "durationMs": 200 })), parents)
    }
}

/// The most steps that a workflow may have.
const MOST: usize = 1_000;

/// Layers of diamonds. In the second one a task fails: what follows from it is skipped, a task makes up for it, and
/// the last one of all runs whatever happened.
fn plan(layers: usize, width: usize) -> Plan {
    use DependsOnEnd::{Completed, Failure, Success};
    let mut plan = Plan::default();
    let mut above: Vec<usize> = (0..width).map(|_| plan.short(&[])).collect();
    let mut failing = None;
    for layer in 1..layers {
        let mut below = Vec::new();
        for place in 0..width {
            let parents = [(above[place], Success), (above[(place + 1) % width], Success)];
            if layer == 1 && place == 0 {
                let mut task = Submit::new("fail", json!({ "retryable": false }));
                task.retry = Some(Retry { max_retries: 0, ..Retry::default() });
                failing = Some(plan.add(task, &parents));
                below.extend(failing);
            } else {
                below.push(plan.short(&parents));
            }
        }
        above = below;
    }
    plan.short(&[(failing.expect("more than one layer"), Failure)]);
    let all: Vec<_> = above.into_iter().map(|place| (place, Completed)).collect();
    plan.short(&all);
    plan
}

impl Plan {
    /// The same with so many tasks: further ones wait for the first.
    fn filled_up_to(mut self, count: usize) -> Plan {
        while self.tasks.len() < count {
            self.short(&[(0, DependsOnEnd::Success)]);
        }
        self
    }

    /// The same as the steps of a job.
    fn steps(&self) -> Vec<StepSpec> {
        let name = |place: &str| format!("s{}", place.trim_start_matches('#'));
        let need = |parent: &DependsOn| StepNeed { step: name(&parent.task_id), on: parent.on };
        let step = |(place, task): (usize, &Submit)| StepSpec {
            depends_on: task.depends_on.iter().map(need).collect(),
            retry: task.retry.clone(),
            ..StepSpec::new(format!("s{place}"), task.handler.clone(), task.params.0.clone())
        };
        self.tasks.iter().enumerate().map(step).collect()
    }
}

/// Submits the whole in one batch, and once more, as a caller does that lost the answer.
async fn submit(client: &Client, plan: &Plan) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let batch = client.submit_batch(plan.tasks.clone(), Some("graph")).await.unwrap();
        let made = batch.results.into_iter().map(|result| match result.task {
            Some(task) => task.task_id,
            None => panic!("refused: {:?}", result.problem),
        });
        let made: Vec<String> = made.collect();
        assert!(ids.is_empty() || ids == made, "the same batch again makes nothing");
        ids = made;
    }
    ids
}

async fn ended(client: &Client, task: &str) -> usize {
    let Ok(graph) = client.graph(task).await else { return 0 };
    assert!(graph.nodes.len() <= 1_001);
    graph.nodes.iter().filter(|node| node.finished_at.is_some()).count()
}

/// Kills the leader so many times, spread over the first half of the work.
async fn kill_leaders(cluster: &Cluster, client: &Client, task: &str, count: usize, kills: usize) {
    for kill in 1..=kills {
        let enough = count * kill / (2 * (kills + 1));
        until("a part of it has ended", PATIENCE, async || ended(client, task).await >= enough).await;
        let leader = cluster.replica(cluster.leader().await);
        let before = ended(client, task).await;
        cluster.kill(&leader).await;
        assert!(before < count, "it was over before a leader died");
        println!("leader killed after {before} of {count} tasks had ended");
        cluster.start_again(&leader, &[]);
        cluster.all_answer().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_ends_right_although_leaders_die() {
    let (layers, width, count, kills) = pick((8, 16, 0, 1), (24, 41, MOST, 3));
    let cluster = Cluster::start(Setup { slots: Some(16), ..Setup::default() }).await;
    let client = cluster.client();
    let plan = plan(layers, width).filled_up_to(count);
    let job = JobSpec { steps: plan.steps(), ..JobSpec::new("workflow", json!({})) };
    client.put_job("flow", &job, None).await.unwrap();
    let run = client.run_job("flow", &RunJob::default(), Some("run")).await.unwrap().task_id;
    kill_leaders(&cluster, &client, &run, plan.tasks.len(), kills).await;
    let ended = client.wait(&run, PATIENCE).await.unwrap();
    assert_eq!((ended.status.as_str(), ended.shards_failed), ("FAILED", 1), "one step failed: {ended:?}");
    assert_eq!(usize::from(ended.shard_total), plan.tasks.len());
    let graph = client.graph(&run).await.unwrap();
    let ends: BTreeMap<_, _> = graph.nodes[1..]
        .iter()
        .map(|node| (node.step.clone().unwrap_or_default(), node.status.clone()))
        .collect();
    for (right, place) in plan.ends.iter().zip(0..) {
        assert_eq!(ends[&format!("s{place}")], *right, "step {place}");
    }
    assert_eq!(client.run_job("flow", &RunJob::default(), Some("run")).await.unwrap().task_id, run);
    assert_eq!(client.job("flow").await.unwrap().state.open_tasks, 0);
    cluster.agree(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_of_tasks_ends_right_although_leaders_die() {
    let (layers, width, kills) = pick((12, 16, 1), (24, 41, 3));
    let cluster = Cluster::start(Setup { slots: Some(16), ..Setup::default() }).await;
    let client = cluster.client();
    let plan = plan(layers, width);
    let count = plan.tasks.len();
    let ids = submit(&client, &plan).await;
    kill_leaders(&cluster, &client, &ids[0], count, kills).await;
    let mut history = History::default();
    ids.iter().for_each(|id| history.acknowledged(id, id));
    let tasks = outcomes(&client, &history, PATIENCE).await;
    let tasks: BTreeMap<&str, &Task> = tasks.iter().map(|task| (task.task_id.as_str(), task)).collect();
    for ((id, right), place) in ids.iter().zip(&plan.ends).zip(0..) {
        let task = tasks[id.as_str()];
        assert_eq!(task.status, *right, "task {place}: {task:?}");
        match *right {
            "SUCCESS" => assert_eq!(faults(task), Vec::<String>::new()),
            "SKIPPED" => assert_eq!(task.reason.as_deref(), Some("dependency")),
            _ => {}
        }
        started_after_its_parents(task, &tasks);
    }
    cluster.agree(3).await;
}

/// Both are the cluster's time.
fn started_after_its_parents(task: &Task, tasks: &BTreeMap<&str, &Task>) {
    let Some(started) = task.started_at else { return };
    for parent in &task.depends_on {
        let ended =
            tasks[parent.task_id.as_str()].finished_at.expect("a parent ended before its child began");
        assert!(ended <= started, "{} began at {started}, {} ended at {ended}", task.task_id, parent.task_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_given_what_its_parents_returned() {
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    let first = client.submit(&Submit::new("echo", json!({"rows": [1, 2, 3]})), None).await.unwrap().task_id;
    let mut task = Submit::new("echo", json!(null));
    task.depends_on = vec![DependsOn { task_id: first.clone(), on: DependsOnEnd::Success }];
    task.params = orloj_wire::json::Strict(json!({
        "all": {"$result": first}, "last": {"$result": 0, "pointer": "/rows/2"}, "ended": {"$status": 0},
    }));
    let id = client.submit(&task, None).await.unwrap().task_id;
    let task = client.wait(&id, PATIENCE).await.unwrap();
    let right = json!({"all": {"rows": [1, 2, 3]}, "last": 3, "ended": "SUCCESS"});
    assert_eq!((task.status.as_str(), task.result), ("SUCCESS", Some(right)));
}
