//! Everything that a bench found: printed, written, judged.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use orloj_bench::figures::{Row, Run, summarise};
use orloj_bench::machine::Machine;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::time::Time;
use serde::Serialize;

use super::args::BenchArgs;
use crate::exit::Code;
use crate::remote::output;
use crate::secret::write_public;

/// What the program was built from, where the build was told so.
const COMMIT: Option<&str> = option_env!("ORLOJ_COMMIT");

/// The report; it grows with every run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<'a> {
    version: &'static str,
    commit: Option<&'static str>,
    started_at: String,
    machine: Machine,
    settings: &'a BenchArgs,
    seed: u64,
    /// Why a run broke off, after which there was none any more.
    broken: Option<String>,
    summary: Vec<Row>,
    runs: Vec<Run>,
}

impl<'a> Report<'a> {
    /// A report without any run.
    pub fn new(settings: &'a BenchArgs, machine: Machine, seed: u64) -> Report<'a> {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT.filter(|commit| !commit.is_empty()),
            started_at: Time(SystemClock::new().wall_ms()).to_string(),
            machine,
            settings,
            seed,
            broken: None,
            summary: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a run.
    pub fn add(&mut self, run: Run) {
        self.runs.push(run);
        self.summary = summarise(&self.runs);
    }

    /// Says why there are no more runs than those.
    pub fn break_off(&mut self, why: String) {
        self.broken = Some(why);
    }

    /// Writes everything to the file that the command line names, where it names one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let Some(path) = &self.settings.out else { return Ok(()) };
        self.write_to(path)
    }

    fn write_to(&self, path: &Path) -> anyhow::Result<()> {
        // In one line: histograms have thousands of steps.
        let text = serde_json::to_string(self).context("cannot write the figures as JSON")?;
        write_public(path, &text)
    }

    /// Prints the table.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(&self) -> std::io::Result<()> {
        let Machine { cores, cpu, memory_mib, kernel, file_system, load, .. } = &self.machine;
        output::line(&format!(
            "{cores} cores of {cpu}, {memory_mib} MiB, {kernel}, {file_system}, load {load}"
        ))?;
        let commit = self.commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
        output::line(&format!("orloj {}{commit}, seed {}, {}\n", self.version, self.seed, self.started_at))?;
        let mut table = output::table(["workload", "figure", "median", "spread", "runs"]);
        for row in &self.summary {
            table.add_row(row.cells());
        }
        output::print(&table)?;
        for run in &self.runs {
            let named = named(run);
            for note in &run.notes {
                output::line(&format!("{named}: {note}"))?;
            }
            if !run.errors.is_empty() {
                output::line(&format!("{named}: not acknowledged: {:?}", run.errors))?;
            }
        }
        Ok(())
    }

    /// Says on standard error what must not have happened, a line for each, and what the process shall answer.
    pub fn judge(&self) -> ExitCode {
        let faults = self.faults();
        faults.iter().for_each(|fault| output::note(&format!("orloj bench: {fault}")));
        if faults.is_empty() { ExitCode::SUCCESS } else { Code::TaskFailed.into() }
    }

    fn faults(&self) -> Vec<String> {
        let of = |run: &Run| {
            let named = named(run);
            run.faults.iter().map(|fault| format!("{named}: {fault}")).collect::<Vec<_>>()
        };
        self.runs.iter().flat_map(of).collect()
    }
}

/// The workload with the number of its run.
fn named(run: &Run) -> String {
    format!("{}, run {}", run.workload, run.run)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn settings(line: &str) -> BenchArgs {
        match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
            Command::Bench(args) => *args,
            other => panic!("not a bench: {other:?}"),
        }
    }

    fn run(number: u32, faults: &[&str]) -> Run {
        let faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
        let mut run = Run { workload: "burst, batch".to_owned(), run: number, faults, ..Run::default() };
        run.add("lost", "", 0.0);
        run
    }

    #[test]
    fn each_fault_is_told_with_its_run() {
        let args = settings("orloj bench burst");
        let mut report = Report::new(&args, Machine::look(&std::env::temp_dir()), 7);
        report.add(run(1, &[]));
        assert_eq!(report.faults(), Vec::<String>::new());
        report.add(run(2, &["4 were lost", "1 was early"]));
        let told = ["burst, batch, run 2: 4 were lost", "burst, batch, run 2: 1 was early"];
        assert_eq!(report.faults(), told);
    }

    #[test]
    fn a_report_without_any_run_takes_the_place_of_an_earlier_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        std::fs::write(&path, r#"{"runs": [{"run": 1}], "broken": null}"#).unwrap();
        let args = settings(&format!("orloj bench burst --out {}", path.display()));
        let mut report = Report::new(&args, Machine::look(dir.path()), 7);
        report.break_off("no replica leads".to_owned());
        report.write().unwrap();
        let read: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((&read["broken"], &read["runs"]), (&"no replica leads".into(), &serde_json::json!([])));
    }

    #[test]
    fn what_was_measured_is_kept_when_a_later_run_breaks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let args = settings(&format!("orloj bench burst --out {}", path.display()));
        let mut report = Report::new(&args, Machine::look(dir.path()), 7);
        report.add(run(1, &[]));
        report.write().unwrap();
        let read = || -> serde_json::Value {
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
        };
        assert_eq!((read()["runs"].as_array().unwrap().len(), read()["broken"].is_null()), (1, true));
        report.break_off("no replica leads".to_owned());
        report.write().unwrap();
        assert_eq!(read()["broken"], "no replica leads");
        assert_eq!((&read()["runs"][0]["run"], &read()["seed"]), (&1.into(), &7.into()));
        assert_eq!(read()["version"], env!("CARGO_PKG_VERSION"));
    }
}
