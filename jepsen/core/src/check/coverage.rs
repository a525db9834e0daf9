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
//! | `effects` | effects that reached the sink |
//! | `repeated_effects` | those of them that it refused as repetitions |
//! | `delayed_starts` | first starts of tasks with a delay |
//! | `job_fires` | tasks that jobs made by their triggers |
//! | `job_kinds` | kinds of triggers, misfire and overlap policies among the jobs that were put |
//! | `job_skips` | instants of jobs that were skipped; `job_misfires` are those of them that were missed |
//! | `dependent_starts` | tasks with parents that were handed out, and `dependents_skipped` those that were skipped |
//! | `shards_again` | attempts after the first at tasks of several shards |
//! | `broadcast_shards` | attempts at broadcasts |
//! | `callbacks` | callbacks that the sink recorded; `callbacks_refused` are those that it did not answer well |
//! | `retries` | attempts in the tables after one that failed, timed out or was lost |
//! | `<outcome>_attempts` | attempts in the tables that ended so: `failed`, `timed_out`, `lost`, `cancelled`, `refused` |
//! | `packets_dropped`, `packets_duplicated`, `packets_reordered`, `packets_delayed`, `packets_throttled` | packets to which the network did so |
//! | `<status>_tasks` | tasks in the tables that ended so: `succeeded`, `failed`, `cancelled`, `skipped` |
//! | `<checker>.<figure>` | a figure of another checker: `T6.judged_in_calm` |

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use crate::attempts::{Life, Tasks};
use crate::event::{Event, FinalTask, Kind, LinkCount, Recv, What};
use crate::history::History;
use crate::leaders::Leaders;
use crate::verdict::Judgement;

/// H1. Every counter that is required has come far enough; else the run is unknown, and the counter is named.
/// A name that no counter has is such a case too: it can never be met. Every counter is a figure. `others` is what
/// the other checkers have said.
pub fn coverage(history: &History, options: &Options, others: &[Judgement]) -> Judgement {
    let mut word = Judgement::of("H1");
    let mut counters = counters(history);
    // Those that are required stand among the figures also when they are 0.
    for name in options.required.keys() {
        if let Some(figure) = figure(others, name) {
            counters.insert(name.clone(), figure);
        }
    }
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
    word
}

/// The figure that is named so, `<checker>.<figure>`; none when the checker tells none of this name.
fn figure(others: &[Judgement], name: &str) -> Option<u64> {
    let (id, name) = name.split_once('.')?;
    let value = others.iter().find(|other| other.id == id)?.stats.get(name)?;
    // Counts: whole, not negative, and far below 2^53.
    Some(*value as u64)
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
    count_jobs(&mut counters, history);
    add(&mut counters, "snapshots_installed", installs.values().sum());
    count_packets(&mut counters, history);
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

/// Each job once, whichever tables have it.
fn count_jobs(counters: &mut BTreeMap<String, u64>, history: &History) {
    let mut counted: BTreeSet<&str> = BTreeSet::new();
    let mut kinds: BTreeSet<String> = BTreeSet::new();
    for event in history.events() {
        if let What::JobPut(put) = &event.what {
            kinds.extend(put.fires.iter().map(|fires| format!("{:?}", std::mem::discriminant(fires))));
            kinds.extend([format!("misfire {}", put.misfire), format!("overlap {}", put.overlap)]);
        }
        let What::FinalJob(last) = &event.what else { continue };
        if counted.insert(&last.job) {
            let missed = last.skipped_count.iter().filter(|(reason, _)| reason.starts_with("misfire"));
            add(counters, "job_fires", last.fired_count);
            add(counters, "job_skips", last.skipped_count.values().sum());
            add(counters, "job_misfires", missed.map(|(_, count)| count).sum());
        }
    }
    add(counters, "job_kinds", kinds.len() as u64);
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
        What::Callback(callback) => {
            add(counters, "callbacks", 1);
            add(counters, "callbacks_refused", u64::from(!(200..300).contains(&callback.answered)));
        }
        What::Effect(effect) => {
            add(counters, "effects", 1);
            add(counters, "repeated_effects", u64::from(effect.repeated));
        }
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

/// Links tell sums since the beginning: the last that each told counts.
fn count_packets(counters: &mut BTreeMap<String, u64>, history: &History) {
    let mut links: BTreeMap<(&str, &str), &LinkCount> = BTreeMap::new();
    for event in history.events() {
        let What::Links(told) = &event.what else { continue };
        links.extend(told.links.iter().map(|link| ((link.from.as_str(), link.to.as_str()), link)));
    }
    for link in links.into_values() {
        add(counters, "packets_dropped", link.dropped);
        add(counters, "packets_duplicated", link.duplicated);
        add(counters, "packets_reordered", link.reordered);
        add(counters, "packets_delayed", link.delayed);
        add(counters, "packets_throttled", link.throttled);
    }
}

/// What a task has to do with others, and its shards with each other.
fn count_graph(counters: &mut BTreeMap<String, u64>, life: &Life<'_>, last: &FinalTask) {
    let Some(request) = life.request() else { return };
    let tries = last.attempts.len() as u64;
    if !request.depends_on.is_empty() {
        add(counters, "dependent_starts", u64::from(tries > 0));
        add(counters, "dependents_skipped", u64::from(last.task.reason.as_deref() == Some("dependency")));
    }
    if request.broadcast {
        add(counters, "broadcast_shards", tries);
    } else if request.shard_total > 1 {
        let again = last.attempts.iter().filter(|row| row.attempt > 1).count();
        add(counters, "shards_again", again as u64);
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
        count_graph(counters, life, last);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Links;
    use crate::testing::event;
    use crate::verdict::Validity;

    fn required(name: &str, times: u64) -> Options {
        Options { required: [(name.to_owned(), times)].into(), ..Options::default() }
    }

    #[test]
    fn a_figure_of_another_checker_can_be_required() {
        let mut other = Judgement::of("T6");
        other.stat("judged_in_calm", 2.0);
        let judge = |name, times| {
            coverage(&History::default(), &required(name, times), std::slice::from_ref(&other)).validity
        };
        assert_eq!(judge("T6.judged_in_calm", 2), Validity::Valid);
        assert_eq!(judge("T6.judged_in_calm", 3), Validity::Unknown);
        assert_eq!(judge("T6.no_such_figure", 1), Validity::Unknown);
        assert_eq!(judge("D6.judged_in_calm", 1), Validity::Unknown, "of another checker");
    }

    #[test]
    fn the_last_word_of_each_link_counts() {
        let told = |ms, from: &str, dropped, duplicated| {
            let link = LinkCount {
                from: from.into(),
                to: "n2".into(),
                packets: 100,
                dropped,
                duplicated,
                ..LinkCount::default()
            };
            event(ms, What::Links(Links { links: vec![link] }))
        };
        let history = History::merge(vec![told(1, "n1", 3, 0), told(2, "n3", 1, 7), told(3, "n1", 5, 0)]);
        let counters = counters(&history);
        assert_eq!((counters["packets_dropped"], counters["packets_duplicated"]), (6, 7));
        assert!(!counters.contains_key("packets_reordered"));
    }
}
