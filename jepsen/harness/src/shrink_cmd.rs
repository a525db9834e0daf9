//! `orloj-jepsen shrink`: takes steps away from the plan of an invalid run while it stays invalid.

use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::args::ShrinkArgs;
use crate::plan::{Plan, Step};
use crate::run::execute;
use crate::shrink::shrink;
use crate::store::RunDir;

/// Runs candidate after candidate; each counts as harmless when it was not invalid in the same invariant in any of its
/// tries. Writes `plan-shrunk.json` beside the plan.
///
/// # Errors
/// The run was not invalid, or a candidate could not be run.
pub fn run(args: &ShrinkArgs) -> Result<ExitCode> {
    let dir = RunDir::open(&args.run)?;
    let (plan, results) = (Plan::load(&dir.plan())?, dir.read_results()?);
    let violated: Vec<String> = results.violated().into_iter().map(str::to_owned).collect();
    ensure!(!violated.is_empty(), "{} was not invalid: there is nothing to shrink", args.run.display());
    eprintln!("{} steps violate {}", plan.steps.len(), violated.join(", "));
    let fails = |steps: &[Step]| -> Result<bool> {
        let candidate = plan.with_steps(steps.to_vec());
        for _ in 0..args.tries {
            let outcome = execute(&candidate, &args.place)?;
            let bad = outcome.results.violated().iter().any(|id| violated.iter().any(|known| known == id));
            eprintln!("{} steps: {}", steps.len(), if bad { "still invalid" } else { "not invalid" });
            if bad {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let left = plan.with_steps(shrink(&plan.steps, fails)?);
    let path = dir.path().join("plan-shrunk.json");
    left.save(&path)?;
    println!("{} of {} steps are left: {}", left.steps.len(), plan.steps.len(), path.display());
    Ok(ExitCode::SUCCESS)
}
