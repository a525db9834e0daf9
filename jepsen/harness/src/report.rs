//! The report of a run: one HTML file that needs nothing else.

use std::path::Path;

use anyhow::Result;

/// Writes `report.html` into the folder of a run.
///
/// # Errors
/// The run has no history or no verdict, or the file cannot be written.
pub fn write(run_dir: &Path) -> Result<()> {
    let dir = crate::store::RunDir::open(run_dir)?;
    let results = dir.read_results()?;
    let text = crate::verdict::table(&results).replace('&', "&amp;").replace('<', "&lt;");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{}</title><pre>{text}</pre>\n",
        results.scenario
    );
    std::fs::write(dir.path().join("report.html"), page)?;
    Ok(())
}
