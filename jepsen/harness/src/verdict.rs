//! The verdict, for people and for shells.

use std::fmt::Write as _;
use std::process::ExitCode;

use orloj_jepsen_core::verdict::Validity;

use crate::store::Results;

/// Anomalies of one invariant that are shown.
const SHOWN: usize = 3;

/// What the process answers to the shell.
pub fn code(validity: Validity) -> ExitCode {
    ExitCode::from(match validity {
        Validity::Valid => 0,
        Validity::Invalid => 1,
        Validity::Unknown => 2,
    })
}

/// A word for a validity.
pub fn word(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Invalid => "INVALID",
        Validity::Unknown => "unknown",
    }
}

/// Every invariant on a line, with the first of its anomalies.
pub fn table(results: &Results) -> String {
    let mut text = String::new();
    for judgement in &results.report.judgements {
        let looked = judgement.stats.get("looked_at").map_or(String::new(), |at| format!("looked at {at}"));
        let _ = writeln!(text, "{:<4} {:<8} {looked}", judgement.id, word(judgement.validity));
        for anomaly in judgement.anomalies.iter().take(SHOWN) {
            let _ = writeln!(text, "       {}", anomaly.what);
        }
        let hidden = judgement.anomaly_count.saturating_sub(SHOWN as u64);
        if hidden > 0 {
            let _ = writeln!(text, "       and {hidden} more");
        }
    }
    for failure in &results.harness_failures {
        let _ = writeln!(text, "harness: {failure}");
    }
    let (scenario, seed, events) = (&results.scenario, results.seed, results.events);
    let _ = write!(text, "{} (scenario {scenario}, seed {seed}, {events} events)", word(results.validity()));
    text
}

#[cfg(test)]
mod tests {
    use orloj_jepsen_core::check::Report;
    use orloj_jepsen_core::verdict::Judgement;

    use super::*;

    #[test]
    fn each_invariant_has_a_line_and_its_first_anomalies() {
        let mut judgement = Judgement::of("A1");
        (0..5).for_each(|number| judgement.violated(format!("task {number} is lost"), None, &[]));
        let report = Report { validity: judgement.validity, judgements: vec![judgement] };
        let harness_failures = vec!["a thread".to_owned()];
        let results = Results { scenario: "smoke".into(), seed: 4, harness_failures, events: 9, report };
        let text = table(&results);
        for part in [
            "A1   INVALID",
            "task 2 is lost",
            "and 2 more",
            "harness: a thread",
            "INVALID (scenario smoke, seed 4",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("task 3"), "{text}");
    }
}
