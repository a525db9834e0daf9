//! The report of a run: one HTML file that needs nothing else.
//!
//! It answers, in this order: is the run a proof, and of what; which invariants held; was the run hard enough;
//! what could the machine not do; what happened when; how fast was the recovery; and for each anomaly who told
//! whom what. Everything in it comes from the files of the run, and nothing in it needs a network or a script.

mod anomalies;
mod chart;
mod coverage;
mod figures;
mod headline;
mod invariants;
mod machine;
mod markup;
mod page;
mod plot_faults;
mod plot_gauges;
mod plot_lag;
mod plot_lanes;
mod plot_latency;
mod plot_rates;
mod plot_tasks;
mod scale;
mod sequence;
mod subject;
mod tell;
mod verdicts;

#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Context as _, Result};

/// Writes `report.html` into the folder of a run.
///
/// # Errors
/// The run has no plan, no history or no verdict, or the file cannot be written.
pub fn write(run_dir: &Path) -> Result<()> {
    let files = subject::Files::read(run_dir)?;
    let path = run_dir.join("report.html");
    std::fs::write(&path, page::page(&files)).with_context(|| format!("write {}", path.display()))
}
