//! The folder of one run, and the folder of all runs.

use std::fs;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use orloj_jepsen_core::check::Report;
use orloj_jepsen_core::event::Event;
use orloj_jepsen_core::history::History;
use orloj_jepsen_core::verdict::Validity;
use serde::{Deserialize, Serialize};

use crate::run_id::RunId;

/// Where everything of one run lies.
#[derive(Debug, Clone)]
pub struct RunDir(PathBuf);

/// The verdict on a run, and what one must know to read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Results {
    /// The scenario.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// What the harness itself failed at. With any of these a run is never valid.
    pub harness_failures: Vec<String>,
    /// Events of the history.
    pub events: u64,
    /// The word on every invariant, and on all together.
    pub report: Report,
}

impl RunDir {
    /// Makes the folder of a new run below `store`.
    ///
    /// # Errors
    /// It cannot be made, or a run of this id lies there already.
    pub fn create(store: &Path, id: &RunId) -> Result<RunDir> {
        fs::create_dir_all(store).with_context(|| format!("create {}", store.display()))?;
        // Mounts and preloaded libraries need a path that holds from everywhere.
        let path = fs::canonicalize(store)?.join(id.as_str());
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        for folder in ["logs", "config", "parts", "data", "wall"] {
            fs::create_dir(path.join(folder))?;
        }
        Ok(RunDir(path))
    }

    /// The folder of a run that is over.
    ///
    /// # Errors
    /// It has no plan in it.
    pub fn open(path: &Path) -> Result<RunDir> {
        let dir = RunDir(path.to_owned());
        ensure!(dir.plan().is_file(), "{} is not the folder of a run: it has no plan.json", path.display());
        Ok(dir)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The plan.
    pub fn plan(&self) -> PathBuf {
        self.0.join("plan.json")
    }

    /// The merged history, one event a line.
    pub fn history(&self) -> PathBuf {
        self.0.join("history.jsonl")
    }

    /// The verdict.
    pub fn results(&self) -> PathBuf {
        self.0.join("results.json")
    }

    /// The log of a process.
    pub fn log(&self, node: &str) -> PathBuf {
        self.0.join("logs").join(format!("{node}.log"))
    }

    /// The configuration of a process.
    pub fn config(&self, name: &str) -> PathBuf {
        self.0.join("config").join(name)
    }

    /// Where each producer writes its part of the history.
    pub fn parts(&self) -> PathBuf {
        self.0.join("parts")
    }

    /// Data of processes that have no disk of their own.
    pub fn data(&self, node: &str) -> PathBuf {
        self.0.join("data").join(node)
    }

    /// What moves wall clocks.
    pub fn wall(&self) -> PathBuf {
        self.0.join("wall")
    }

    /// Merges the parts of the history and writes it. A last line without an end was torn when the harness was
    /// killed: it counts for nothing.
    ///
    /// # Errors
    /// A part cannot be read, or the history cannot be written.
    pub fn merge(&self) -> Result<History> {
        let mut events: Vec<Event> = Vec::new();
        let mut parts: Vec<PathBuf> = fs::read_dir(self.parts())?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        parts.sort();
        for part in parts {
            let named = || format!("history part {}", part.display());
            let text = fs::read(&part).with_context(named)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            events.extend(History::read_lines(&text[..whole]).with_context(named)?);
        }
        let history = History::merge(events);
        let mut file = BufWriter::new(fs::File::create(self.history())?);
        for event in history.events() {
            serde_json::to_writer(&mut file, event)?;
            file.write_all(b"\n")?;
        }
        file.flush()?;
        Ok(history)
    }

    /// Reads the merged history.
    ///
    /// # Errors
    /// There is none, or a line of it is no event.
    pub fn read_history(&self) -> Result<History> {
        let path = self.history();
        let named = || format!("history {}", path.display());
        let file = fs::File::open(&path).with_context(named)?;
        Ok(History::merge(History::read_lines(BufReader::new(file)).with_context(named)?))
    }

    /// Writes the verdict.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_results(&self, results: &Results) -> Result<()> {
        fs::write(self.results(), serde_json::to_string_pretty(results)?).context("write results.json")
    }

    /// Reads the verdict.
    ///
    /// # Errors
    /// There is none.
    pub fn read_results(&self) -> Result<Results> {
        let path = self.results();
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }
}

impl Results {
    /// The word on the whole run: a harness that failed somewhere can only accuse, not acquit.
    pub fn validity(&self) -> Validity {
        let harness = if self.harness_failures.is_empty() { Validity::Valid } else { Validity::Unknown };
        self.report.validity.and(harness)
    }

    /// Invariants that do not hold.
    pub fn violated(&self) -> Vec<&str> {
        let bad = self.report.judgements.iter().filter(|judgement| judgement.validity == Validity::Invalid);
        bad.map(|judgement| judgement.id.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(failures: &[&str], validity: Validity) -> Results {
        Results {
            scenario: "smoke".into(),
            seed: 1,
            harness_failures: failures.iter().map(|text| (*text).to_owned()).collect(),
            events: 0,
            report: Report { validity, judgements: Vec::new() },
        }
    }

    #[test]
    fn a_harness_that_failed_never_says_valid() {
        assert_eq!(results(&[], Validity::Valid).validity(), Validity::Valid);
        assert_eq!(results(&["x"], Validity::Valid).validity(), Validity::Unknown);
        assert_eq!(results(&["x"], Validity::Invalid).validity(), Validity::Invalid);
    }

    #[test]
    fn parts_become_one_history_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let id: RunId = "0001".parse().unwrap();
        let run = RunDir::create(dir.path(), &id).unwrap();
        assert!(RunDir::create(dir.path(), &id).is_err());
        assert!(RunDir::open(run.path()).unwrap_err().to_string().contains("plan.json"));
        let line = |ns: u64, src: &str| {
            format!(
                "{{\"v\":1,\"mono_ns\":{ns},\"src\":\"{src}\",\"proc\":0,\"type\":\"event\",\
                 \"f\":\"phase\",\"value\":{{\"name\":\"load\"}}}}\n"
            )
        };
        fs::write(run.parts().join("a.jsonl"), line(5, "a") + &line(9, "a")).unwrap();
        // Its writer was killed in the middle of a line.
        fs::write(run.parts().join("b.jsonl"), line(7, "b") + &line(8, "b")[..40]).unwrap();
        let sources = |history: &History| -> Vec<String> {
            history.events().iter().map(|event| event.src.clone()).collect()
        };
        assert_eq!(sources(&run.merge().unwrap()), ["a", "b", "a"]);
        assert_eq!(sources(&run.read_history().unwrap()), ["a", "b", "a"]);
        let results = results(&[], Validity::Valid);
        run.write_results(&results).unwrap();
        assert_eq!(run.read_results().unwrap(), results);
    }
}
