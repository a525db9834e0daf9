//! The proof that the checkers find what they are for: the product is broken on purpose, in one known way after
//! the other, and for each a checker that was named before has to say that the history is invalid.

#[cfg(feature = "mutants")]
pub mod prove;

use anyhow::Context as _;
use serde::Deserialize;

/// The list, from the folder above.
const LIST: &str = include_str!("../../mutants.toml");

/// A deliberate fault of the product, and who must notice it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The name that the product knows it by.
    pub name: String,
    /// Checkers, one of which must say invalid.
    pub checkers: Vec<String>,
    /// Within so many seeds, from the first one on.
    pub seeds: u64,
    /// Of whose faults only these are left, by name: others would hide it. Empty: all are left.
    #[serde(default)]
    pub faults: Vec<String>,
}

/// Every deliberate fault, in the order of the list.
///
/// # Errors
/// The list cannot be read.
pub fn list() -> anyhow::Result<Vec<Listed>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        mutant: Vec<Listed>,
    }
    let list: List = toml::from_str(LIST).context("mutants.toml")?;
    Ok(list.mutant)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orloj_jepsen_core::History;
    use orloj_jepsen_core::check::{Options, judge};
    use orloj_model::mutant::Mutant;

    use super::*;
    use crate::plan::Plan;

    #[test]
    fn every_mutant_is_listed_with_checkers_that_are_live() {
        let list = list().unwrap();
        let listed: Vec<&str> = list.iter().map(|mutant| mutant.name.as_str()).collect();
        let all: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        assert_eq!(listed, all);
        let live = judge(&History::merge(Vec::new()), &Options::default()).judgements;
        let live: BTreeSet<String> = live.into_iter().map(|judgement| judgement.id).collect();
        for Listed { name, checkers, seeds, faults } in &list {
            assert!(!checkers.is_empty() && *seeds > 0, "{name} must be caught by nobody");
            let dead: Vec<&String> = checkers.iter().filter(|id| !live.contains(*id)).collect();
            assert!(dead.is_empty(), "{name} names checkers that are not live: {dead:?}");
            for fault in faults {
                let is_drawn = |seed| {
                    let mut plan = Plan::expand(seed, 20_000);
                    plan.keep(std::slice::from_ref(fault));
                    !plan.steps.is_empty()
                };
                assert!((1..=*seeds).any(is_drawn), "{name} waits for the fault {fault}, which no plan has");
            }
        }
    }
}
