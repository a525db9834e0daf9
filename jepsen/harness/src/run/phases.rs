//! The phases of a run: load with the nemesis, heal, load without, rest, last reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orloj_jepsen_core::event::{Event, Fault, Kind, Meta, Phase, VERSION, What};
use tokio::time::Instant;

use super::around::Around;
use super::firing::Firing;
use super::link_counts::LinkCounts;
use super::sightings::at_rest;
use super::stage::Stage;
use super::trial::Trial;
use crate::agents::final_reads::{self, Known};
use crate::agents::recorder::Note;
use crate::doctor::Report as Machine;
use crate::hosts::{ADMIN, DEBUG_PORT, REPLICAS};
use crate::nemesis::hand::Hand;
use crate::nemesis::{Nemesis, World as _};
use crate::plan::Plan;
use crate::wait::{monotonic, until};

/// For every executor to be known to the leader at the beginning.
const REGISTERED: Duration = Duration::from_secs(60);
/// Load after the heal, which shows that the cluster serves again.
const AFTER_HEAL: Duration = Duration::from_secs(6);
/// The checkers look at probes from after the time that healing may take.
const SEEN_HEALED: Duration = Duration::from_secs(4);
/// After faults of the sink: what it did not answer is announced again within so long, but for what it had not answered
/// three times.
const HEARD_AGAIN: Duration = Duration::from_secs(45);
/// The cluster has come to rest when it is at rest for so long.
const RESTED: Duration = Duration::from_secs(2);
/// For all last reads.
const LAST_READS: Duration = Duration::from_secs(90);

/// Runs all phases. Returns what the harness failed at; the history has everything else.
///
/// # Errors
/// The run did not get to its end.
pub fn play(
    plan: &Plan,
    stage: &Stage,
    around: &Around<'_>,
    machine: &Machine,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<String>> {
    stage.cluster.wait_ready(&stage.fabric)?;
    until("every executor is registered", REGISTERED, || Ok(around.executors_registered().then_some(())))?;
    let mut failures = Vec::new();
    let firing = plan.options.jobs.any().then(|| Firing::begin(stage, &plan.options)).transpose()?;
    phase(stage, "load");
    let began = monotonic();
    around.start_clients()?;
    let trial = plan.options.trial.then(|| Trial::begin(stage, around)).transpose()?;
    failures.extend(hurt(plan, stage, around, (machine, stop), began));
    phase(stage, "heal");
    let healed = monotonic();
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    std::thread::sleep(AFTER_HEAL);
    around.stop_clients();
    phase(stage, "quiesce");
    let fired = firing.map(Firing::end).transpose().context("the jobs")?;
    if let Some(trial) = trial {
        failures.extend(trial.end(stage).err().map(|error| format!("the trial: {error:#}")));
    }
    rest(plan, around, healed, stop)?;
    phase(stage, "final");
    failures.extend(last_reads(stage, around, plan.options.jobs.one_table)?);
    failures.extend(fired.and_then(|fired| fired.read(stage).err()).map(|error| format!("{error:#}")));
    phase(stage, "end");
    Ok(failures)
}

fn phase(stage: &Stage, name: &str) {
    let mut note = Note::event(ADMIN, What::Phase(Phase { name: name.to_owned() }));
    note.node = None;
    stage.run.note(note);
}

/// Load with faults, until the last is undone and everything is healed.
fn hurt(
    plan: &Plan,
    stage: &Stage,
    around: &Around<'_>,
    (machine, stop): (&Machine, &Arc<AtomicBool>),
    began: Duration,
) -> Vec<String> {
    let counts = LinkCounts::default();
    let record = |at_ns: u64, fault: Fault| {
        let since = Duration::from_nanos(at_ns).saturating_sub(began).as_millis();
        let Fault { package, name, phase, detail, .. } = &fault;
        eprintln!("{since:>7} ms  {phase:<9} {package}.{name} {} {detail}", fault.nodes.join("+"));
        let of_network = matches!(fault.package.as_str(), "partition" | "link");
        stage.nemesis.events(&[faulted(at_ns, fault)]);
        if of_network {
            counts.record(&stage.fabric, &stage.nemesis);
        }
    };
    let hosts = crate::hosts::all(plan.options.clients);
    let seed = plan.options.nemesis_seed;
    let mut hand =
        Hand::new(&stage.fabric, &stage.cluster, around, hosts, &record, began, Arc::clone(stop), seed);
    hand.lacking = lacking(plan, machine);
    let nemesis = Nemesis::new(&mut hand, &plan.steps, plan.options.clients, seed);
    let failed = nemesis.run(plan.options.seconds.saturating_mul(1_000));
    let mut failures = Vec::new();
    if failed > 0 {
        failures.push(format!("{failed} steps of the nemesis failed"));
    }
    failures.extend(hand.heal().err().map(|error| format!("heal: {error:#}")));
    counts.record(&stage.fabric, &stage.nemesis);
    while hand.now_ms() < plan.options.seconds.saturating_mul(1_000) && !hand.stopped() {
        std::thread::sleep(Duration::from_millis(20));
    }
    failures
}

/// The faults of a plan that this machine cannot make, each with what is missing.
fn lacking(plan: &Plan, machine: &Machine) -> BTreeMap<String, String> {
    let names: BTreeSet<String> = plan.steps.iter().map(|step| step.action.full_name()).collect();
    let why = |name: String| {
        let missing: Vec<&str> = machine.missing(&name).iter().map(|finding| finding.name.as_str()).collect();
        (!missing.is_empty()).then(|| (name, missing.join(", ")))
    };
    names.into_iter().filter_map(why).collect()
}

fn faulted(at_ns: u64, fault: Fault) -> Event {
    Event {
        v: VERSION,
        i: 0,
        mono_ns: at_ns,
        src: "nemesis".to_owned(),
        proc: 0,
        kind: Kind::Event,
        node: fault.nodes.first().cloned(),
        key: None,
        what: What::Fault(fault),
        err: None,
        meta: Meta::default(),
    }
}

/// Waits until nothing is left to do, and at least until the checkers have seen enough of the healed cluster. That it
/// does not come to rest in time is for the checkers to say.
fn rest(plan: &Plan, around: &Around<'_>, healed: Duration, stop: &AtomicBool) -> Result<()> {
    let least = healed + Duration::from_millis(plan.options.check.heal_ms) + SEEN_HEALED;
    let of_sink = plan.steps.iter().any(|step| step.action.name().0 == "sink");
    let least = if of_sink { least.max(healed + HEARD_AGAIN) } else { least };
    let most = monotonic() + Duration::from_secs(plan.options.quiesce_s);
    let mut since: Option<Duration> = None;
    loop {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        let now = monotonic();
        let resting = around.held() == 0
            && around.sightings().whole(REPLICAS.len()).is_some_and(|probes| at_rest(&probes));
        since = resting.then(|| since.unwrap_or(now));
        let rested = since.is_some_and(|since| now - since >= RESTED);
        if now >= least && (rested || now >= most) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The table of each replica, from inside it, and every acknowledged task through the API. With `one_table`, a table
/// that is said to be the first one's is not read again.
fn last_reads(stage: &Stage, around: &Around<'_>, one_table: bool) -> Result<Vec<String>> {
    let mut failures = Vec::new();
    let mut known: Option<Known> = None;
    for name in REPLICAS {
        let address = format!("127.0.0.1:{DEBUG_PORT}").parse()?;
        let (recorder, like) = (stage.run.clone(), known.clone().filter(|_| one_table));
        let read = move || async move {
            final_reads::table(name, address, &recorder, like, Instant::now() + LAST_READS).await
        };
        match stage.fabric.host(name).spawn_inside("table", read)?.join()? {
            Ok(read) => known = known.or(Some(read)),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    let (tasks, clients) = (around.load().acknowledged(), around.last_readers()?);
    let read = move || async move { final_reads::gets(tasks, clients, Instant::now() + LAST_READS).await };
    let missed = stage.fabric.host(ADMIN).spawn_inside("last-reads", read)?.join()?.context("last reads")?;
    if missed > 0 {
        failures.push(format!("{missed} tasks had no last read"));
    }
    Ok(failures)
}
