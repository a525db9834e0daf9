//! Judges finished runs again, and writes their reports again.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::judge::judge;
use crate::plan::Plan;
use crate::store::{Results, RunDir};
use crate::{report, verdict};

/// `orloj-jepsen check`: the checkers of today on a history of yesterday. What the harness had failed at still counts.
///
/// # Errors
/// The folder holds no finished run.
pub fn check(run: &Path) -> Result<ExitCode> {
    let dir = RunDir::open(run)?;
    let plan = Plan::load(&dir.plan())?;
    let history = if dir.history().is_file() { dir.read_history()? } else { dir.merge()? };
    // A run that ended by force has no results: what it wrote down can be judged all the same.
    let harness_failures = match dir.results().is_file() {
        true => dir.read_results()?.harness_failures,
        false => vec!["the run did not get to its end".to_owned()],
    };
    let results = Results {
        scenario: plan.scenario.clone(),
        seed: plan.seed,
        harness_failures,
        events: history.events().len() as u64,
        report: judge(&history, &plan.options),
    };
    dir.write_results(&results)?;
    report::write(dir.path())?;
    println!("{}", verdict::table(&results));
    Ok(verdict::code(results.validity()))
}

/// `orloj-jepsen report`
///
/// # Errors
/// The folder holds no judged run.
pub fn report(run: &Path) -> Result<ExitCode> {
    report::write(run)?;
    println!("{}", run.join("report.html").display());
    Ok(ExitCode::SUCCESS)
}
