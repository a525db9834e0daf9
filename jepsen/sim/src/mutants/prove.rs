//! Runs seeds of a broken product until a checker that was named for the fault notices it.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use orloj_jepsen_core::Validity;
use orloj_jepsen_core::check::Report;
use serde::Serialize;

use super::Listed;
use crate::single::{self, Said};

/// Names the fault that a process has.
pub const VARIABLE: &str = "ORLOJ_MUTANT";

/// What to prove.
#[derive(Debug, Clone)]
pub struct Proof {
    /// Of this mutant alone.
    pub only: Option<String>,
    /// How many seeds must be valid without any mutant.
    pub sound: u64,
    /// How long the load with faults goes on, in simulated seconds.
    pub seconds: u64,
    /// Tells one JSON object a line, and no table.
    pub json: bool,
}

/// What came of one mutant.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    mutant: String,
    /// The checkers of which one must notice it.
    expected: Vec<String>,
    /// Every checker that said invalid of the seed that caught it, or of any seed when none did.
    caught_by: Vec<String>,
    /// The seed in which a named checker noticed it.
    seed: Option<u64>,
    /// Of all seeds that were tried, as is the next.
    simulated_s: u64,
    real_s: u64,
}

/// Carries out a proof. Fails when a mutant is not caught, or the product itself is not valid.
///
/// # Errors
/// The program cannot run itself, there is no such mutant, or nobody reads what it tells.
pub fn run(proof: &Proof, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let wanted = |listed: &Listed| proof.only.as_ref().is_none_or(|only| *only == listed.name);
    let list: Vec<Listed> = super::list()?.into_iter().filter(wanted).collect();
    ensure!(!list.is_empty(), "no mutant is named {:?}", proof.only.as_deref().unwrap_or_default());
    for seed in 1..=proof.sound {
        let report = one_seed(None, seed, proof.seconds, &[])?.report;
        if report.validity != Validity::Valid {
            writeln!(out, "{}\nwithout a mutant nothing can be proved", single::tell(seed, &report))?;
            return Ok(ExitCode::FAILURE);
        }
    }
    if !proof.json {
        writeln!(out, "without a mutant: {} seeds are valid\n", proof.sound)?;
        writeln!(out, "{}", line(&["mutant", "expected", "caught by", "seed", "simulated s", "real s"]))?;
        writeln!(out, "{}", line(&["---"; 6]))?;
    }
    let mut missed = 0;
    for listed in list {
        let row = hunt(listed, proof.seconds)?;
        missed += u64::from(row.seed.is_none());
        let text = if proof.json { serde_json::to_string(&row)? } else { row.text() };
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    if missed > 0 && !proof.json {
        writeln!(out, "\n{missed} not caught")?;
    }
    Ok(ExitCode::from(u8::from(missed > 0)))
}

/// Tries seeds until one shows the fault to a checker that was named.
fn hunt(listed: Listed, seconds: u64) -> anyhow::Result<Row> {
    let began = clock();
    let Listed { name, checkers, seeds, faults } = listed;
    let (mut seen, mut simulated_ms, mut found) = (Vec::new(), 0, None);
    for seed in 1..=seeds {
        let said = one_seed(Some(&name), seed, seconds, &faults)?;
        simulated_ms += said.simulated_ms;
        let mut invalid = invalid(said.report);
        let is_named = |id: &String| checkers.contains(id);
        if invalid.iter().any(is_named) {
            // What the seed shows without the mutant as well does not count.
            let sound = self::invalid(one_seed(None, seed, seconds, &faults)?.report);
            invalid.retain(|id| !sound.contains(id));
            if invalid.iter().any(is_named) {
                (seen, found) = (invalid, Some(seed));
                break;
            }
        }
        seen.extend(invalid);
    }
    seen.sort_unstable();
    seen.dedup();
    let real_s = clock().saturating_duration_since(began).as_secs();
    let simulated_s = simulated_ms / 1_000;
    Ok(Row { mutant: name, expected: checkers, caught_by: seen, seed: found, simulated_s, real_s })
}

/// The checkers that say so.
fn invalid(report: Report) -> Vec<String> {
    let judgements = report.judgements.into_iter();
    judgements.filter(|one| one.validity == Validity::Invalid).map(|one| one.id).collect()
}

/// Runs one seed in a process of its own, with only these faults when any is named.
fn one_seed(mutant: Option<&str>, seed: u64, seconds: u64, faults: &[String]) -> anyhow::Result<Said> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new(program)
        .args(["run", "--json", "--seed", &seed.to_string(), "--seconds", &seconds.to_string()])
        .args(faults.iter().flat_map(|fault| ["--only", fault.as_str()]))
        .env_remove(VARIABLE)
        .envs(mutant.map(|name| (VARIABLE, name)))
        .stdin(Stdio::null())
        .output()
        .context("cannot run a seed")?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let name = mutant.unwrap_or("no mutant");
        format!("{name}, seed {seed}: {}", String::from_utf8_lossy(&output.stderr).trim_end())
    })
}

impl Row {
    fn text(&self) -> String {
        let seed = self.seed.map_or("not caught".to_owned(), |seed| seed.to_string());
        let (simulated, real) = (self.simulated_s.to_string(), self.real_s.to_string());
        let (expected, caught) = (self.expected.join(" "), self.caught_by.join(" "));
        line(&[&self.mutant, &expected, &caught, &seed, &simulated, &real])
    }
}

/// A row of a table that is one in Markdown as well.
fn line(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}

#[allow(clippy::disallowed_methods, reason = "how long a proof takes is told to people, and decides nothing")]
fn clock() -> Instant {
    Instant::now()
}
