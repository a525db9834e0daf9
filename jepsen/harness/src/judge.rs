//! Judges a history by the checkers of the core, and by what the harness alone knows of its run.

use orloj_jepsen_core::check::{self, Report};
use orloj_jepsen_core::history::History;

use crate::plan::RunOptions;
use crate::run::trial::{KEY, TRIES};

/// The word on a run.
pub fn judge(history: &History, options: &RunOptions) -> Report {
    let mut check = options.check.clone();
    if options.trial {
        check.business_keys.insert(KEY.to_owned(), TRIES);
    }
    check::judge(history, &check)
}

#[cfg(test)]
mod tests {
    use orloj_jepsen_core::Validity;

    use super::*;
    use crate::plan::{Plan, Wishes};
    use crate::scenario::Scenario;

    fn word(scenario: &str) -> Validity {
        let plan = Plan::expand(&Scenario::find(scenario).unwrap(), 1, Wishes::default()).unwrap();
        let report = judge(&History::default(), &plan.options);
        report.judgements.iter().find(|judgement| judgement.id == "B1").unwrap().validity
    }

    #[test]
    fn a_run_with_a_trial_owes_its_effect() {
        assert_eq!(word("business-key"), Validity::Unknown, "nothing was tried");
        assert_eq!(word("sink"), Validity::Valid);
    }
}
