//! `orloj-jepsen failover`: how long the cluster takes after its leader is gone, by kind of fault.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use orloj_jepsen_core::verdict::Judgement;
use serde::Serialize;

use crate::args::FailoverArgs;
use crate::plan::{Plan, Wishes};
use crate::run::execute;
use crate::scenario::Scenario;
use crate::verdict;

/// The kinds of fault that take the leader away.
const CLASSES: [&str; 4] = ["process.kill", "process.pause", "partition.isolate", "power.fail"];
/// How long the leader stays away, in ms; and from its return to the next fault, in ms.
const AWAY_MS: u64 = 5_000;
const BETWEEN_MS: u64 = 3_000;
/// Load before the first fault and after the last, in s.
const MARGIN_S: u64 = 10;

/// Times of one kind of fault, in ms; none when it was never seen alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    fault: &'static str,
    rounds: u64,
    dispatch_p50_ms: Option<f64>,
    dispatch_max_ms: Option<f64>,
    write_p50_ms: Option<f64>,
    write_max_ms: Option<f64>,
}

/// Measures and prints.
///
/// # Errors
/// The run did not get to its verdict.
pub fn run(args: &FailoverArgs) -> Result<ExitCode> {
    let plan = plan(args.rounds)?;
    let outcome = execute(&plan, &args.place)?;
    let recovery = outcome.results.report.judgements.iter().find(|judgement| judgement.id == "L3");
    let figures = figures(recovery.context("the checkers have no word on recovery")?);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        println!("{}", table(&figures));
    }
    println!("{} ({})", verdict::word(outcome.results.validity()), outcome.dir.path().display());
    Ok(verdict::code(outcome.results.validity()))
}

/// Each kind in turn, so many times.
fn plan(rounds: u32) -> Result<Plan> {
    let faults: Vec<String> = CLASSES
        .iter()
        .map(|fault| {
            format!("{{ fault = '{fault}', targets = ['leader'], for-ms = [{AWAY_MS}, {AWAY_MS}] }}")
        })
        .collect();
    let text = format!(
        "name = 'failover'\nabout = 'The leader goes, again and again.'\nseconds = 1\nin-order = true\n\
         rate = 120\nspacing-ms = {BETWEEN_MS}\nsettle-ms = {BETWEEN_MS}\nfaults = [{}]",
        faults.join(", ")
    );
    let scenario = Scenario::parse(&text)?;
    // The gaps are random, at most three times their mean; what is beyond the wanted rounds is cut off.
    let wanted = CLASSES.len() * rounds as usize;
    let longest_ms = wanted as u64 * (AWAY_MS + 4 * BETWEEN_MS);
    let most =
        Plan::expand(&scenario, 1, Wishes { seconds: Some(longest_ms / 1_000 + MARGIN_S), rate: None })?;
    let mut plan = most.clone();
    plan.steps.truncate(wanted);
    let end_ms = plan.steps.last().map_or(0, |step| step.at_ms + step.for_ms);
    plan.options.seconds = end_ms / 1_000 + MARGIN_S;
    Ok(plan)
}

fn figures(recovery: &Judgement) -> Vec<Figures> {
    let of = |name: &str, fault: &str| recovery.stats.get(&format!("{name}.{fault}")).copied();
    CLASSES
        .iter()
        .map(|fault| Figures {
            fault,
            rounds: of("count", fault).unwrap_or(0.0) as u64,
            dispatch_p50_ms: of("dispatch_ms.p50", fault),
            dispatch_max_ms: of("dispatch_ms.max", fault),
            write_p50_ms: of("write_ms.p50", fault),
            write_max_ms: of("write_ms.max", fault),
        })
        .collect()
}

fn table(figures: &[Figures]) -> String {
    let shown = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0}"));
    let mut text = format!(
        "{:<18} {:>6} {:>13} {:>13} {:>13} {:>13}",
        "leader lost by", "rounds", "dispatch p50", "dispatch max", "write p50", "write max"
    );
    for one in figures {
        let ms = [one.dispatch_p50_ms, one.dispatch_max_ms, one.write_p50_ms, one.write_max_ms].map(shown);
        let [a, b, c, d] = ms;
        let _ =
            write!(text, "\n{:<18} {:>6} {a:>10} ms {b:>10} ms {c:>10} ms {d:>10} ms", one.fault, one.rounds);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_as_often_as_was_asked_for() {
        let plan = plan(7).unwrap();
        for class in CLASSES {
            assert_eq!(
                plan.steps.iter().filter(|step| step.action.full_name() == class).count(),
                7,
                "{class}"
            );
        }
        let last = plan.steps.last().unwrap();
        assert!(plan.options.seconds * 1_000 > last.at_ms + last.for_ms);
    }

    #[test]
    fn figures_come_from_the_history() {
        let mut recovery = Judgement::of("L3");
        recovery.stat("count.process.kill", 9.0);
        recovery.stat("dispatch_ms.p50.process.kill", 1_200.0);
        let figures = figures(&recovery);
        assert_eq!((figures[0].rounds, figures[0].dispatch_p50_ms), (9, Some(1_200.0)));
        let table = table(&figures);
        assert!(
            table.contains("process.kill") && table.contains("1200 ms") && table.contains("- ms"),
            "{table}"
        );
    }
}
