//! What users of other schedulers met with jobs, on real processes: each case is named in its test.

use std::collections::BTreeSet;
use std::time::Duration;

use orloj_client::Client;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::figures::Figures;
use orloj_tests::history::faults;
use orloj_tests::process::{ended, send, until};
use orloj_tests::setup::pick;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::problem::Code;
use orloj_wire::rest::job::{JobCounts, JobSpec};
use orloj_wire::rest::{BackoffMs, Retry, Submit, Task};
use orloj_wire::time::Time;
use rustix::process::Signal;
use serde_json::json;

use super::jobs::{fired, history, job, tasks_of, unaccounted};

const PATIENCE: Duration = Duration::from_secs(120);
/// With these heartbeats an executor is offline after two seconds of silence.
const QUICK_HEARTBEATS: &str = "scheduler.heartbeat-ms=500";

/// A job that forbids overlap, fires twice a second, and whose tasks last so long.
fn held(id: &str, duration_ms: u64) -> JobSpec {
    let mut held = job(id, 500, "fireOnce", "skip", json!({ "durationMs": duration_ms }));
    held.handler = "sleep".to_owned();
    held
}

async fn counts(client: &Client, id: &str) -> Option<JobCounts> {
    client.job(id).await.ok().map(|job| job.state.counts)
}

async fn made(client: &Client, id: &str) -> u64 {
    counts(client, id).await.map_or(0, |counts| counts.fired)
}

async fn skipped(client: &Client, id: &str) -> u64 {
    counts(client, id).await.map_or(0, |counts| counts.skipped.values().sum())
}

/// The instant of a job's next fire, once it is known.
async fn next_fire(client: &Client, id: &str) -> i64 {
    let mut next = None;
    until("its next fire is known", PATIENCE, async || {
        next = client.job(id).await.ok().and_then(|job| job.state.next_fire);
        next.is_some()
    })
    .await;
    next.expect("it is known").scheduled_at.0
}

/// Waits until the wall clock shows this.
async fn wall_shows(at: i64) {
    let left = at - SystemClock::new().wall_ms();
    tokio::time::sleep(Duration::from_millis(u64::try_from(left).unwrap_or_default())).await;
}

/// The newest task of a job, once an executor runs it; and that executor.
async fn running(client: &Client, id: &str) -> (Task, String) {
    let mut found = None;
    until("a task of it runs", PATIENCE, async || {
        let Some((_, task)) = fired(&history(client, id).await).pop() else { return false };
        let Ok(task) = client.get(&task).await else { return false };
        let open = task.attempts.iter().flatten().find(|attempt| attempt.outcome.is_none());
        let executor = open.map(|attempt| attempt.executor_id.clone());
        found = executor.map(|executor| (task, executor));
        found.is_some()
    })
    .await;
    found.expect("it runs")
}

/// Pauses a job, waits until its tasks have ended, and checks that each of its instants came to something and that no
/// two of its tasks were open at a time.
async fn forbade_overlap(client: &Client, id: &str) -> Vec<Task> {
    until("the job is paused", PATIENCE, async || client.pause_job(id, Some("that will do")).await.is_ok())
        .await;
    let ended = async || client.job(id).await.is_ok_and(|job| job.state.open_tasks == 0);
    until("its tasks end", PATIENCE, ended).await;
    let entries = history(client, id).await;
    assert_eq!(unaccounted(id, 500, &entries), Vec::<String>::new());
    let tasks = tasks_of(client, &entries).await;
    for pair in tasks.windows(2) {
        let ended = pair[0].finished_at.expect("it has ended");
        assert!(pair[1].created_at >= ended, "{} and {} overlap", pair[0].task_id, pair[1].task_id);
    }
    tasks
}

/// The leader and an executor that holds nothing die in the same moment: what runs on the other one stays the only run.
#[tokio::test(flavor = "multi_thread")]
async fn b02_an_overlap_ban_is_not_forgotten_when_leader_and_executor_die_together() {
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    client.create_job(&held("held", 6_000)).await.expect("the job is created");
    let (task, holder) = running(&client, "held").await;
    let idle =
        (0..2).map(|place| cluster.executor(place)).find(|name| *name != holder).expect("there are two");
    let leader = cluster.replica(cluster.leader().await);
    for name in [&leader, &idle] {
        send(cluster.pid(name), Signal::KILL);
    }
    for name in [&leader, &idle] {
        cluster.kill(name).await;
        cluster.start_again(name, &[]);
    }
    cluster.all_answer().await;
    let before = skipped(&client, "held").await;
    until("the ban holds", PATIENCE, async || skipped(&client, "held").await > before).await;
    let ended = client.wait(&task.task_id, PATIENCE).await.expect("it ends");
    assert_eq!((ended.status.as_str(), ended.attempts.map(|all| all.len())), ("SUCCESS", Some(1)));
    until("its next task is made", PATIENCE, async || made(&client, "held").await >= 2).await;
    forbade_overlap(&client, "held").await;
}

/// The leader is told to go, or is killed, at offsets around an instant: each instant fires once all the same.
#[tokio::test(flavor = "multi_thread")]
async fn b13_a_leader_that_goes_around_an_instant_swallows_none() {
    const EVERY: i64 = 1_000;
    let both = [Signal::TERM, Signal::KILL];
    let of_short = vec![(-200, both[0]), (-20, both[1]), (0, both[0]), (60, both[1])];
    let of_long = (-10..=10).flat_map(|step| both.map(|signal| (step * 100, signal))).collect();
    let trials: Vec<(i64, Signal)> = pick(of_short, of_long);
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    let mut tick = job("tick", EVERY as u64, "fireAll", "allow", json!({}));
    tick.misfire_grace_ms = Some(0);
    client.create_job(&tick).await.expect("the job is created");
    for (offset, signal) in trials {
        let before = made(&client, "tick").await;
        until("it fires", PATIENCE, async || made(&client, "tick").await > before + 1).await;
        let leader = cluster.replica(cluster.leader().await);
        let next = next_fire(&client, "tick").await;
        wall_shows(next + EVERY + offset).await;
        let pid = cluster.pid(&leader);
        send(pid, signal);
        ended(pid, Duration::from_secs(30)).await;
        cluster.kill(&leader).await;
        cluster.start_again(&leader, &[]);
        cluster.all_answer().await;
    }
    client.pause_job("tick", Some("that will do")).await.expect("the job is paused");
    let entries = history(&client, "tick").await;
    assert_eq!(unaccounted("tick", EVERY, &entries), Vec::<String>::new());
    assert!(entries.iter().all(|entry| entry.count.is_none()), "every one of them fired: {entries:?}");
}

/// Leaders die while single tasks sit in the wheel: each of them runs, and once.
#[tokio::test(flavor = "multi_thread")]
async fn b19_what_sat_in_the_wheel_is_not_lost() {
    let count = pick(300_i64, 1_000);
    let cluster = Cluster::start(Setup { slots: Some(64), ..Setup::default() }).await;
    let client = cluster.client();
    let first = SystemClock::new().wall_ms() + 3_000;
    let one = |number: i64| {
        let mut task = Submit::new("echo", json!({ "number": number }));
        task.run_at = Some(Time(first + number * 4_000 / count));
        task
    };
    let batch = client.submit_batch((0..count).map(one).collect(), None).await.expect("the batch is taken");
    let ids: BTreeSet<String> =
        batch.results.iter().map(|one| one.task.as_ref().expect("it is taken").task_id.clone()).collect();
    assert_eq!(ids.len() as i64, count);
    for at in [first - 500, first + 2_000] {
        wall_shows(at).await;
        let leader = cluster.replica(cluster.leader().await);
        cluster.kill(&leader).await;
        cluster.start_again(&leader, &[]);
        cluster.all_answer().await;
    }
    for id in &ids {
        let task = client.wait(id, PATIENCE).await.expect("it ends");
        let attempts = task.attempts.as_deref().unwrap_or_default();
        assert_eq!((task.status.as_str(), attempts.len()), ("SUCCESS", 1), "{task:?}");
        assert!(attempts[0].granted_at >= task.due_at, "{task:?}");
    }
}

/// Whoever dies while a task of a job that forbids overlap runs, the ban ends with the task, and the job goes on.
#[tokio::test(flavor = "multi_thread")]
async fn b24_a_ban_on_overlap_ends_with_the_task_whoever_was_killed() {
    let cluster = Cluster::start(Setup { set: vec![QUICK_HEARTBEATS], ..Setup::default() }).await;
    let client = cluster.client();
    let mut held = held("held", 600_000);
    let none = Retry { max_retries: 0, backoff_ms: vec![BackoffMs(100)], max_lost: 0, ..Retry::default() };
    held.retry = Some(none);
    client.create_job(&held).await.expect("the job is created");
    let replicas: Vec<String> = (0..3).map(|place| cluster.replica(place)).collect();
    let executors: Vec<String> = (0..2).map(|place| cluster.executor(place)).collect();
    for round in 0..4 {
        let (task, holder) = running(&client, "held").await;
        let leader = cluster.replica(cluster.leader().await);
        let victims = match round {
            0 => vec![holder],
            1 => vec![holder, leader],
            2 => executors.clone(),
            _ => replicas.iter().chain(&executors).cloned().collect(),
        };
        die_together(&cluster, &victims).await;
        let ended = client.wait(&task.task_id, PATIENCE).await.expect("it ends");
        assert_eq!(ended.status, "FAILED", "round {round}: {ended:?}");
        let before = made(&client, "held").await;
        until("the next instant fires", PATIENCE, async || {
            fired(&history(&client, "held").await).last().is_some_and(|(_, last)| *last != task.task_id)
        })
        .await;
        assert!(before > round);
    }
    let (last, _) = running(&client, "held").await;
    client.pause_job("held", Some("that will do")).await.expect("the job is paused");
    client.cancel(&last.task_id).await.expect("it is cancelled");
    forbade_overlap(&client, "held").await;
}

/// Kills processes in the same moment and starts them again.
async fn die_together(cluster: &Cluster, victims: &[String]) {
    victims.iter().for_each(|name| send(cluster.pid(name), Signal::KILL));
    for name in victims {
        cluster.kill(name).await;
        cluster.start_again(name, &[]);
    }
    cluster.all_answer().await;
}

/// While only schedulers die, the leader or all of them, the task that they know of goes on, and the ban ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn b24_a_ban_outlives_every_scheduler_and_ends_with_the_task() {
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    client.create_job(&held("held", 5_000)).await.expect("the job is created");
    for all in [false, true] {
        let (task, _) = running(&client, "held").await;
        let victims = match all {
            true => (0..3).map(|place| cluster.replica(place)).collect(),
            false => vec![cluster.replica(cluster.leader().await)],
        };
        die_together(&cluster, &victims).await;
        let ended = client.wait(&task.task_id, PATIENCE).await.expect("it ends");
        let attempts = ended.attempts.as_ref().map(Vec::len);
        assert_eq!((ended.status.as_str(), attempts), ("SUCCESS", Some(1)), "all: {all}: {ended:?}");
        until("the next instant fires", PATIENCE, async || {
            fired(&history(&client, "held").await).last().is_some_and(|(_, last)| *last != task.task_id)
        })
        .await;
    }
    forbade_overlap(&client, "held").await;
}

/// Jobs are created through every replica while leaders die: each that was acknowledged is there, can be run, and fires.
#[tokio::test(flavor = "multi_thread")]
async fn b21_a_job_that_was_acknowledged_can_be_got_run_and_fires() {
    let count = pick(40, 500);
    let cluster = Cluster::start(Setup::default()).await;
    let clients: Vec<Client> =
        (0..3).map(|place| cluster.client_of(&[place], Duration::from_secs(3))).collect();
    let all = cluster.client();
    let at = Time(SystemClock::new().wall_ms() + 15_000);
    let once = |id: &str| -> JobSpec {
        let triggers = json!([{"kind": "once", "at": at.to_string()}]);
        let job = json!({"jobId": id, "handler": "echo", "overlap": "allow", "triggers": triggers});
        serde_json::from_value(job).expect("a job")
    };
    let (mut created, mut unknown) = (Vec::new(), 0);
    let mut victim = None;
    for number in 0..count {
        if number % 20 == 10 {
            let leader = cluster.replica(cluster.leader().await);
            cluster.kill(&leader).await;
            victim = Some(leader);
        }
        let id = format!("once-{number}");
        match clients[number % 3].put_job(&id, &once(&id), Some(0)).await {
            Ok(_) => created.push(id),
            Err(_) => unknown += 1,
        }
        if number % 20 == 15
            && let Some(name) = victim.take()
        {
            cluster.start_again(&name, &[]);
            cluster.all_answer().await;
        }
    }
    assert!(created.len() >= count / 2, "{unknown} of {count} were not acknowledged");
    for id in &created {
        all.job(id).await.expect("it was acknowledged");
        let run = orloj_wire::rest::job::RunJob { params: None, overlap: None };
        let run = all.run_job(id, &run, None).await.expect("it can be run");
        all.wait(&run.task_id, PATIENCE).await.expect("its run ends");
    }
    for id in &created {
        until("it has fired, and once", PATIENCE, async || made(&all, id).await == 2).await;
        assert!(all.job(id).await.expect("it is there").state.next_fire.is_none());
    }
    // Whether one that was not acknowledged exists, nobody knows; but every replica says the same of it.
    let known = ids(&clients[0]).await;
    assert!(created.iter().all(|id| known.contains(id)), "{created:?} of {known:?}");
    for client in &clients[1..] {
        assert_eq!(ids(client).await, known);
    }
}

/// The ids of all jobs, page by page.
async fn ids(client: &Client) -> Vec<String> {
    let (mut ids, mut token) = (Vec::new(), None);
    loop {
        let page = client.jobs(Some(100), token.as_deref()).await.expect("a page");
        ids.extend(page.jobs.into_iter().map(|job| job.job_id));
        match page.next_page_token {
            Some(next) => token = Some(next),
            None => return ids,
        }
    }
}

/// The only executors die and come back: jobs of every kind of trigger go on.
#[tokio::test(flavor = "multi_thread")]
async fn b31_jobs_of_every_kind_of_trigger_go_on_when_the_executors_come_back() {
    let cluster = Cluster::start(Setup { set: vec![QUICK_HEARTBEATS], ..Setup::default() }).await;
    let client = cluster.client();
    let kinds = [
        ("cron", json!({"kind": "cron", "expression": "* * * * * *"})),
        ("rate", json!({"kind": "fixedRate", "everyMs": 1_000})),
        ("delay", json!({"kind": "fixedDelay", "delayMs": 1_000})),
        ("window", json!({"kind": "dailyWindow", "from": "00:00", "to": "24:00", "everyMs": 1_000})),
    ];
    for (id, trigger) in &kinds {
        let job = json!({"jobId": id, "handler": "sleep", "params": {"durationMs": 300}, "triggers": [trigger],
                         "retry": {"maxRetries": 0, "backoffMs": [100], "maxLost": 0}});
        client.create_job(&serde_json::from_value(job).expect("a job")).await.expect("it is created");
    }
    let succeed = async |more: usize| {
        for (id, _) in &kinds {
            let mut last = String::new();
            for _ in 0..more {
                until(&format!("{id} goes on"), PATIENCE, async || {
                    let Some((_, task)) = fired(&history(&client, id).await).pop() else { return false };
                    let ended = client.get(&task).await.is_ok_and(|task| task.status == "SUCCESS");
                    let new = ended && task != last;
                    if new {
                        last = task;
                    }
                    new
                })
                .await;
            }
        }
    };
    succeed(2).await;
    let executors: Vec<String> = (0..2).map(|place| cluster.executor(place)).collect();
    for away_ms in pick(vec![5_000], vec![5_000, 30_000, 120_000]) {
        running(&client, "rate").await;
        for name in &executors {
            cluster.kill(name).await;
        }
        wall_shows(SystemClock::new().wall_ms() + away_ms).await;
        for name in &executors {
            cluster.start_again(name, &[]);
        }
        succeed(3).await;
    }
}

/// A job is deleted right after a fire and created anew under its id, while leaders die: each one fires by its own anchor,
/// and has nothing of the one before.
#[tokio::test(flavor = "multi_thread")]
async fn b66_a_job_that_comes_and_goes_fires_by_its_own_anchor_each_time() {
    const EVERY: i64 = 500;
    let rounds = pick(6, 50);
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    let tick = job("tick", EVERY as u64, "fireAll", "allow", json!({}));
    let (mut runs, mut version) = (BTreeSet::new(), 0);
    for round in 0..rounds {
        let created = client.put_job("tick", &tick, Some(0)).await.expect("the job is created");
        assert!(created.version > version, "round {round}: version {} after {version}", created.version);
        version = created.version;
        if round % 3 == 1 {
            die_together(&cluster, &[cluster.replica(cluster.leader().await)]).await;
        }
        until("it fires", PATIENCE, async || made(&client, "tick").await >= 2).await;
        let instants = fired(&history(&client, "tick").await);
        let anchor = created.created_at.0;
        let by_anchor = |at: i64| at > anchor && (at - anchor) % EVERY == 0;
        assert!(instants.iter().all(|(at, _)| by_anchor(*at)), "round {round}: {instants:?} from {anchor}");
        assert_eq!(instants[0].0, anchor + EVERY, "round {round}: the first one is its own");
        // The key of a run of the one before stands for nothing of this one.
        let run = orloj_wire::rest::job::RunJob { params: None, overlap: None };
        let run = client.run_job("tick", &run, Some("again")).await.expect("it is run");
        assert!(runs.insert(run.task_id), "round {round}");
        client.delete_job("tick", Some(version)).await.expect("it is deleted");
    }
}

/// From the answer to a pause on nothing fires, however close the next instant was.
#[tokio::test(flavor = "multi_thread")]
async fn b108_nothing_fires_behind_the_answer_to_a_pause() {
    let rounds = pick(8, 200);
    let cluster = Cluster::start(Setup::default()).await;
    let clients: Vec<Client> =
        (0..3).map(|place| cluster.client_of(&[place], Duration::from_secs(30))).collect();
    let client = cluster.client();
    let tick = job("tick", 250, "skip", "allow", json!({}));
    client.create_job(&tick).await.expect("the job is created");
    for round in 0..rounds {
        let before = made(&client, "tick").await;
        until("it fires", PATIENCE, async || made(&client, "tick").await > before).await;
        let next = next_fire(&client, "tick").await;
        wall_shows(next + 250 + (round as i64 % 5 - 2) * 20).await;
        clients[round % 3].pause_job("tick", Some("stop")).await.expect("it is paused");
        let paused = client.job("tick").await.expect("it is there").state;
        wall_shows(SystemClock::new().wall_ms() + 700).await;
        let later = clients[(round + 1) % 3].job("tick").await.expect("it is there").state;
        assert!(later.paused.is_some() && later.next_fire.is_none());
        assert_eq!(later.counts.fired, paused.counts.fired, "round {round}");
        clients[(round + 2) % 3].resume_job("tick").await.expect("it is resumed");
    }
}

/// While nobody can run a job that forbids overlap, one task of it waits; when an executor joins, there is one run.
#[tokio::test(flavor = "multi_thread")]
async fn b33_a_job_that_cannot_be_placed_does_not_pile_up() {
    let cluster = Cluster::start(Setup { set: vec![QUICK_HEARTBEATS], ..Setup::default() }).await;
    let client = cluster.client();
    let executors: Vec<String> = (0..2).map(|place| cluster.executor(place)).collect();
    for name in &executors {
        cluster.kill(name).await;
    }
    let mut wanted = held("wanted", 1);
    wanted.allow_unknown_handler = true;
    client.create_job(&wanted).await.expect("the job is created");
    until("it is held up", PATIENCE, async || skipped(&client, "wanted").await >= 8).await;
    let state = client.job("wanted").await.expect("it is there").state;
    assert_eq!((state.counts.fired, state.open_tasks), (1, 1), "one waits, the others are skipped");
    client.pause_job("wanted", Some("no more for now")).await.expect("the job is paused");
    cluster.start_again(&executors[0], &[]);
    let tasks = forbade_overlap(&client, "wanted").await;
    assert_eq!(tasks.len(), 1, "one run, and not one for each instant");
    assert_eq!(tasks[0].status, "SUCCESS");
}

/// A whole outage of a job that fires twice a second is a count, and the job goes on with the next instant.
#[tokio::test(flavor = "multi_thread")]
async fn b62_an_outage_of_the_whole_cluster_is_a_count_and_the_job_goes_on() {
    let mut cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    let tick = job("tick", 500, "skip", "allow", json!({}));
    client.create_job(&tick).await.expect("the job is created");
    until("it fires", PATIENCE, async || made(&client, "tick").await >= 2).await;
    cluster.stop().await;
    wall_shows(SystemClock::new().wall_ms() + 5_000).await;
    cluster.start_on_the_same_folder().await;
    let client = cluster.client();
    let before = made(&client, "tick").await;
    until("it goes on", PATIENCE, async || made(&client, "tick").await > before + 2).await;
    client.pause_job("tick", Some("that will do")).await.expect("the job is paused");
    let entries = history(&client, "tick").await;
    assert_eq!(unaccounted("tick", 500, &entries), Vec::<String>::new());
    let missed: Vec<u64> = entries.iter().filter_map(|entry| entry.count).collect();
    let all: u64 = missed.iter().sum();
    assert!(all >= 6 && missed.len() <= 3, "counts of {missed:?}, not a row for each");
}

/// Dates that do not exist, a year that is over, and an hour that the clocks always jump over: refused at once, however
/// many ask for them on every replica, while other jobs go on and the leader stays.
#[tokio::test(flavor = "multi_thread")]
async fn b43_a_thousand_dates_that_never_come_hold_up_nobody() {
    let (count, beats) = pick((300, 10), (1_000, 100));
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    let ids: Vec<String> = (0..beats).map(|number| format!("beat-{number}")).collect();
    for id in &ids {
        let beat = JobSpec { misfire_grace_ms: Some(10_000), ..job(id, 1_000, "skip", "allow", json!({})) };
        client.create_job(&beat).await.expect("the job is created");
    }
    until("jobs fire", PATIENCE, async || made(&client, &ids[beats - 1]).await >= 2).await;
    let before = client.cluster().await.expect("the cluster is shown");
    let clients: Vec<Client> = (0..3).map(|place| cluster.client_of(&[place], PATIENCE)).collect();
    let never = [
        "0 0 30 2 *",
        "0 0 31 4 *",
        "0 0 31 2,4,6 *",
        "0 0 0 30 2 ? 2027",
        "0 0 0 1 1 ? 2020",
        "30 2 * 3 SUN#2",
    ];
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..count {
        let (client, expression) = (clients[number % 3].clone(), never[number % never.len()]);
        let mut wanted = job(&format!("never-{number}"), 1_000, "skip", "allow", json!({}));
        wanted.triggers = serde_json::from_value(json!([{
            "kind": "cron", "expression": expression, "timeZone": "America/New_York", "dst": {"gap": "skip"},
        }]))
        .expect("triggers");
        asked.spawn(async move { client.create_job(&wanted).await.map(|made| made.job_id) });
    }
    while let Some(answer) = asked.join_next().await {
        let refused = answer.expect("the call ends").expect_err("it never fires");
        assert_eq!(refused.code(), Some(Code::ValidationFailed), "{refused}");
    }
    for id in &ids {
        let so_far = made(&client, id).await;
        until("it goes on", PATIENCE, async || made(&client, id).await > so_far).await;
        let counts = counts(&client, id).await.expect("it is there");
        assert_eq!(counts.skipped.values().sum::<u64>(), 0, "{id}: {counts:?}");
    }
    let after = client.cluster().await.expect("the cluster is shown");
    assert_eq!((after.leader, after.term), (before.leader, before.term), "the leader stays");
}

/// Very many jobs fire in one second, on executors that hold far fewer tasks: each makes its task and each task runs once,
/// the leader stays, and what fires afterwards fires as ever.
#[tokio::test(flavor = "multi_thread")]
async fn b100_a_crowd_of_jobs_of_one_second_fires_whole() {
    let (count, ahead_ms) = pick((400, 10_000), (10_000, 120_000));
    let cluster = Cluster::start(Setup { slots: Some(4), ..Setup::default() }).await;
    let client = cluster.client();
    let before = client.cluster().await.expect("the cluster is shown");
    let at = SystemClock::new().wall_ms() / 1_000 * 1_000 + ahead_ms;
    let once = |id: &str, at: i64| {
        let mut once = job(id, 1_000, "fireOnce", "allow", json!({}));
        once.triggers =
            serde_json::from_value(json!([{"kind": "once", "at": Time(at).to_string()}])).expect("triggers");
        once
    };
    let ids: Vec<String> = (0..count).map(|number| format!("crowd-{number}")).collect();
    for some in ids.chunks(32) {
        let mut asked = tokio::task::JoinSet::new();
        for id in some {
            let (client, job) = (client.clone(), once(id, at));
            asked.spawn(async move { client.create_job(&job).await.map(|made| made.job_id) });
        }
        for created in asked.join_all().await {
            created.expect("the job is created");
        }
    }
    let mut late = Vec::new();
    for id in &ids {
        let ended = async || {
            let state = client.job(id).await.map(|job| job.state);
            state.is_ok_and(|state| state.counts.fired > 0 && state.open_tasks == 0)
        };
        until("its task ends", PATIENCE, ended).await;
        let entries = history(&client, id).await;
        let tasks = tasks_of(&client, &entries).await;
        assert_eq!((entries.len(), tasks.len()), (1, 1), "{id}: {entries:?}");
        assert_eq!(faults(&tasks[0]), Vec::<String>::new());
        let ran = tasks[0].attempts.iter().flatten().filter(|one| one.outcome.as_deref() != Some("refused"));
        let granted: Vec<i64> = ran.map(|attempt| attempt.granted_at.0).collect();
        assert_eq!(granted.len(), 1, "{id}: {:?}", tasks[0].attempts);
        late.push(granted[0] - at);
    }
    println!(
        "figures: from the instant of {count} jobs to the grants of their tasks, in ms: {}",
        late.into_iter().collect::<Figures>()
    );
    let after = client.cluster().await.expect("the cluster is shown");
    assert_eq!((after.leader, after.term), (before.leader, before.term), "the leader stays");
    client
        .create_job(&once("after", SystemClock::new().wall_ms() + 2_000))
        .await
        .expect("the job is created");
    until("the next one fires", PATIENCE, async || made(&client, "after").await == 1).await;
    cluster.agree(3).await;
}
