//! H1: the run exercised what it promised to exercise.
//!
//! A run in which no leader died has not tested what it claims to test, however valid everything else is.
//! [`Options::required`] names counters and how far each must have come:
//!
//! | counter | counts |
//! |---|---|
//! | `fault:<package>.<name>` | faults of this kind that were installed |
//! | `fault:<package>.<name>@leader` | those of them that hit the leader of the moment |
//! | `fault:<package>.<name>@follower` | those of them that left it alone |
//! | `leader_changes` | rounds that served after the first |
//! | `replica_lives` | processes of replicas and executors that were started again |
//! | `snapshots_installed` | snapshots that replicas installed from a leader |
//! | `executor_lives` | lives of executors after the first of each |
//! | `acked_submits` | submissions that were acknowledged |
//! | `replayed_submits` | submissions that were answered with an earlier one's task |
//! | `unknown_submits` | submissions whose outcome stayed unknown |
//! | `cancels_ok` | cancels that were acknowledged |
//! | `cancels_refused` | cancels that came after the end |
//! | `gets_ok`, `lists_ok` | reads that were answered |
//! | `receipts` | attempts that reached executors |
//! | `sent_again` | pushes that were answered as known |
//! | `stale_rejects` | pushes of an older round that were refused |
//! | `refusals` | pushes that were refused for want of room or while draining |
//! | `late_reports` | reports that were answered as late |
//! | `repeated_reports` | reports that were answered as repeated |
//! | `effects` | effects at the sink |
//! | `delayed_starts` | first starts of tasks with a delay |
//! | `retries` | attempts in the tables after one that failed, timed out or was lost |
//! | `<outcome>_attempts` | attempts in the tables that ended so: `failed`, `timed_out`, `lost`, `cancelled`, `refused` |
//! | `<status>_tasks` | tasks in the tables that ended so: `succeeded`, `failed`, `cancelled`, `skipped` |

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::attempts::{Life, Tasks};
use crate::event::{Event, Kind, Recv, What};
use crate::history::History;
use crate::leaders::Leaders;
use crate::verdict::Judgement;

/// H1. Every counter that is required has come far enough; else the run is unknown, and the counter is named.
/// A name that no counter has is such a case too: it can never be met. Every counter is a figure.
pub fn coverage(history: &History, options: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("H1");
    let counters = counters(history);
    for (name, wanted) in &options.required {
        let seen = counters.get(name).copied().unwrap_or(0);
        if seen < *wanted {
            word.unknown(
                format!("not exercised: {name} was seen {seen} times, and {wanted} are required"),
                &[],
            );
        }
    }
    for (name, count) in &counters {
        word.stat(name, *count as f64);
    }
    word.stat("required", options.required.len() as f64);
    vec![word]
}

/// Every counter of the table above that is not 0.
pub fn counters(history: &History) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut installs: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    let mut executors: BTreeSet<&str> = BTreeSet::new();
    for event in history.events() {
        count_event(&mut counters, &mut installs, event);
        if let What::ExecutorUp(up) = &event.what {
            add(&mut counters, "executor_lives", u64::from(!executors.insert(&up.executor)));
        }
    }
    add(&mut counters, "snapshots_installed", installs.values().sum());
    add(&mut counters, "leader_changes", Leaders::of(history).changes());
    for operation in history.operations() {
        if operation.is_unknown() && matches!(operation.invoke.what, What::Submit(_)) {
            add(&mut counters, "unknown_submits", 1);
        }
    }
    let tasks = Tasks::of(history);
    for life in tasks.by_id.values() {
        count_task(&mut counters, life);
    }
    counters.retain(|_, count| *count > 0);
    counters
}

fn add(counters: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    match counters.get_mut(name) {
        Some(counter) => *counter += count,
        None => {
            counters.insert(name.to_owned(), count);
        }
    }
}

fn count_event<'a>(
    counters: &mut BTreeMap<String, u64>,
    installs: &mut BTreeMap<(&'a str, u64), u64>,
    event: &'a Event,
) {
    match &event.what {
        What::Fault(fault) if fault.phase == "installed" => {
            let name = format!("fault:{}.{}", fault.package, fault.name);
            let side = if fault.on_leader { "leader" } else { "follower" };
            add(counters, &format!("{name}@{side}"), 1);
            add(counters, &name, 1);
        }
        What::Probe(probe) => {
            let node = event.node.as_deref().unwrap_or_default();
            let most = installs.entry((node, probe.life)).or_default();
            *most = (*most).max(probe.snapshots_installed);
        }
        What::Process(process) if process.state == "started" && process.life > 1 => {
            add(counters, "replica_lives", 1);
        }
        What::Recv(recv) => count_receipt(counters, recv),
        What::ReportAcked(acked) => match acked.verdict.as_str() {
            "late" => add(counters, "late_reports", 1),
            "repeated" => add(counters, "repeated_reports", 1),
            _ => {}
        },
        What::Effect(_) => add(counters, "effects", 1),
        What::Submit(_) if event.kind == Kind::Ok => {
            add(counters, "acked_submits", 1);
            add(counters, "replayed_submits", u64::from(event.meta.replayed));
        }
        What::Cancel(_) if event.kind == Kind::Ok => add(counters, "cancels_ok", 1),
        What::Cancel(_) if event.kind == Kind::Fail => add(counters, "cancels_refused", 1),
        What::Get(_) if event.kind == Kind::Ok => add(counters, "gets_ok", 1),
        What::List(_) if event.kind == Kind::Ok => add(counters, "lists_ok", 1),
        _ => {}
    }
}

fn count_receipt(counters: &mut BTreeMap<String, u64>, recv: &Recv) {
    add(counters, "receipts", 1);
    match (recv.verdict.as_str(), recv.reason.as_deref()) {
        ("duplicate", _) => add(counters, "sent_again", 1),
        ("refused", Some("stale_round")) => add(counters, "stale_rejects", 1),
        ("refused", Some("queue_full" | "draining")) => add(counters, "refusals", 1),
        _ => {}
    }
}

fn count_task(counters: &mut BTreeMap<String, u64>, life: &Life<'_>) {
    let first_start = life.tries.get(&(0, 1)).is_some_and(|one| !one.starts.is_empty());
    if first_start && life.request().is_some_and(|request| request.delay_ms.is_some()) {
        add(counters, "delayed_starts", 1);
    }
    if let Some((_, last)) = life.finals.first() {
        let status = match last.task.status.as_str() {
            "SUCCESS" => Some("succeeded_tasks"),
            "FAILED" => Some("failed_tasks"),
            "CANCELLED" => Some("cancelled_tasks"),
            "SKIPPED" => Some("skipped_tasks"),
            _ => None,
        };
        if let Some(name) = status {
            add(counters, name, 1);
        }
    }
    for tries in life.shards().values() {
        let mut after_a_try = false;
        for (_, one) in tries {
            if after_a_try && !one.rows.is_empty() {
                add(counters, "retries", 1);
            }
            let (name, counted) = match one.outcome() {
                Some("failed") => ("failed_attempts", true),
                Some("timedOut") => ("timed_out_attempts", true),
                Some("lost") => ("lost_attempts", true),
                Some("cancelled") => ("cancelled_attempts", false),
                Some("refused") => ("refused_attempts", false),
                _ => continue,
            };
            after_a_try |= counted;
            add(counters, name, 1);
        }
    }
}
