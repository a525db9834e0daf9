//! One run, from the empty machine to the verdict and back to the empty machine.

pub mod around;
pub mod firing;
mod link_counts;
pub mod phases;
pub mod sightings;
pub mod stage;
pub mod trial;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use orloj_jepsen_core::verdict::Validity;

use crate::args::{PlaceArgs, ReplayArgs, RunArgs};
use crate::doctor::{self, Capability};
use crate::interrupt;
use crate::journal::{self, Journal};
use crate::judge::judge;
use crate::plan::{Plan, Wishes};
use crate::report;
use crate::scenario::Scenario;
use crate::store::{Results, RunDir};
use crate::verdict;
use around::Around;
use stage::Stage;

/// A finished run.
pub struct Outcome {
    /// Its folder.
    pub dir: RunDir,
    /// Its verdict.
    pub results: Results,
}

/// `orloj-jepsen run`
///
/// # Errors
/// The run did not get to its verdict.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let scenario = Scenario::find(&args.scenario)?;
    let seed = args.seed.map_or_else(drawn_seed, Ok)?;
    let wishes = Wishes { seconds: args.seconds(), rate: args.rate };
    let plan = Plan::expand(&scenario, seed, wishes)?;
    told(&execute(&plan, &args.place)?)
}

/// `orloj-jepsen replay`
///
/// # Errors
/// There is no plan, or the run did not get to its verdict.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let path = if args.plan.is_dir() { args.plan.join("plan.json") } else { args.plan.clone() };
    told(&execute(&Plan::load(&path)?, &args.place)?)
}

fn told(outcome: &Outcome) -> Result<ExitCode> {
    println!("{}", verdict::table(&outcome.results));
    println!("{}", outcome.dir.path().display());
    Ok(verdict::code(outcome.results.validity()))
}

fn drawn_seed() -> Result<u64> {
    use std::io::Read as _;
    let mut bytes = [0; 4];
    fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("draw a seed")?;
    Ok(u64::from(u32::from_le_bytes(bytes)))
}

/// Carries a plan out and judges it.
///
/// # Errors
/// The run did not get to its verdict. What it had made is undone all the same.
pub fn execute(plan: &Plan, place: &PlaceArgs) -> Result<Outcome> {
    let orloj: PathBuf = stage::program(place.orloj.as_deref())?;
    for left in Journal::undo_leftovers(&journal::default_folder())? {
        eprintln!(
            "undone what {} had left: {} steps {}",
            left.path.display(),
            left.steps,
            left.problems.join("; ")
        );
    }
    let machine = doctor::examine();
    let (id, journal) = Journal::fresh(&journal::default_folder())?;
    eprintln!("run {id}: scenario {}, seed {}, {} steps", plan.scenario, plan.seed, plan.steps.len());
    let stop = interrupt::flag()?;
    let shift = machine.has(Capability::TimeNamespace);
    let stage = Stage::set(plan, &place.store, (&orloj, shift), journal, &id)?;
    let dir = stage.dir.clone();
    fs::write(dir.path().join("doctor.json"), serde_json::to_string_pretty(&machine)?)?;
    let played = play(plan, &stage, &machine, &stop);
    let results = played.and_then(|failures| judged(plan, &dir, failures));
    let keep = place.keep || !results.as_ref().is_ok_and(|results| results.validity() == Validity::Valid);
    for problem in stage.strike(keep) {
        eprintln!("not undone: {problem}");
    }
    Ok(Outcome { results: results.with_context(|| format!("run {}", dir.path().display()))?, dir })
}

fn play(plan: &Plan, stage: &Stage, machine: &doctor::Report, stop: &Arc<AtomicBool>) -> Result<Vec<String>> {
    let around = Around::start(&stage.fabric, &stage.dir, &plan.options, &stage.cluster, &stage.lives)?;
    let played = phases::play(plan, stage, &around, machine, stop);
    let mut failures = around.finish();
    for recorder in [&stage.supervisor, &stage.nemesis, &stage.run] {
        failures.extend(recorder.finish().err().map(|error| format!("{error:#}")));
    }
    failures.extend(played?);
    Ok(failures)
}

fn judged(plan: &Plan, dir: &RunDir, harness_failures: Vec<String>) -> Result<Results> {
    let history = dir.merge()?;
    let report = judge(&history, &plan.options);
    let results = Results {
        scenario: plan.scenario.clone(),
        seed: plan.seed,
        harness_failures,
        events: history.events().len() as u64,
        report,
    };
    dir.write_results(&results)?;
    // The merged history has every line of them.
    fs::remove_dir_all(dir.parts()).context("remove the parts of the history")?;
    report::write(dir.path())?;
    Ok(results)
}
