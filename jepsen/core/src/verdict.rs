//! What a checker says of a history.
//!
//! The verdict has three values: a run in which a fault was never exercised, or in which too much stayed
//! unknown, is not a pass.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether a history keeps an invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// It does.
    Valid,
    /// It cannot be told: not exercised, too much unknown, or the harness itself failed.
    Unknown,
    /// It does not.
    Invalid,
}

impl Validity {
    /// Both together: one violation spoils all, and one unknown leaves the whole unknown.
    pub fn and(self, other: Validity) -> Validity {
        self.max(other)
    }
}

/// One violation, or one reason why nothing can be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anomaly {
    /// What is wrong, in a sentence that names the values.
    pub what: String,
    /// The task that it is about, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The events that show it, by [`Event::i`](crate::Event::i).
    pub events: Vec<u64>,
}

/// A checker's word on one invariant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The invariant: `A1`, `D3` and so on, as in the table of `jepsen/README.md`.
    pub id: String,
    /// The word.
    pub validity: Validity,
    /// Why; empty when valid. At most [`ANOMALIES_KEPT`], the earliest.
    pub anomalies: Vec<Anomaly>,
    /// All of them, also those that are not kept.
    pub anomaly_count: u64,
    /// Figures that show how much was looked at: a checker that saw nothing says so here.
    pub stats: BTreeMap<String, f64>,
}

/// More anomalies of one invariant than these say nothing new.
pub const ANOMALIES_KEPT: usize = 50;

impl Judgement {
    /// A judgement without anomalies yet.
    pub fn of(id: &str) -> Judgement {
        Judgement {
            id: id.to_owned(),
            validity: Validity::Valid,
            anomalies: Vec::new(),
            anomaly_count: 0,
            stats: BTreeMap::new(),
        }
    }

    /// Records a violation.
    pub fn violated(&mut self, what: impl Into<String>, task: Option<&str>, events: &[u64]) {
        self.add(Validity::Invalid, what.into(), task, events);
    }

    /// Records why nothing can be told.
    pub fn unknown(&mut self, what: impl Into<String>, events: &[u64]) {
        self.add(Validity::Unknown, what.into(), None, events);
    }

    /// Records a figure.
    pub fn stat(&mut self, name: &str, value: f64) {
        self.stats.insert(name.to_owned(), value);
    }

    fn add(&mut self, validity: Validity, what: String, task: Option<&str>, events: &[u64]) {
        self.validity = self.validity.and(validity);
        self.anomaly_count += 1;
        if self.anomalies.len() < ANOMALIES_KEPT {
            self.anomalies.push(Anomaly { what, task: task.map(str::to_owned), events: events.to_vec() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_violation_spoils_all_and_one_unknown_is_no_pass() {
        use Validity::{Invalid, Unknown, Valid};
        assert_eq!(Valid.and(Valid), Valid);
        assert_eq!(Valid.and(Unknown), Unknown);
        assert_eq!(Unknown.and(Invalid), Invalid);
        let mut judgement = Judgement::of("A1");
        judgement.unknown("nothing was submitted", &[]);
        assert_eq!(judgement.validity, Unknown);
        for number in 0..60 {
            judgement.violated(format!("{number}"), Some("tsk_1"), &[number]);
        }
        assert_eq!((judgement.validity, judgement.anomaly_count), (Invalid, 61));
        assert_eq!(judgement.anomalies.len(), ANOMALIES_KEPT);
    }
}
