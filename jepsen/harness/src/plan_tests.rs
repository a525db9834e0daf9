//! Plans keep their promises for every scenario and many seeds.

use std::collections::BTreeSet;

use super::*;
use crate::scenario::BUILT_IN;

fn built_in() -> impl Iterator<Item = Scenario> {
    BUILT_IN.iter().map(|(_, text)| Scenario::parse(text).unwrap())
}

fn expand(scenario: &Scenario, seed: u64, seconds: u64) -> Plan {
    Plan::expand(scenario, seed, Wishes { seconds: Some(seconds), rate: None }).unwrap()
}

#[test]
fn a_seed_decides_the_whole_plan() {
    for scenario in built_in() {
        assert_eq!(expand(&scenario, 7, 600), expand(&scenario, 7, 600));
        if scenario.faults.len() > 1 {
            assert_ne!(expand(&scenario, 7, 600).steps, expand(&scenario, 8, 600).steps, "{}", scenario.name);
        }
    }
}

#[test]
fn steps_fit_into_the_load_and_no_package_meets_itself() {
    for scenario in built_in() {
        for seed in 0..20 {
            let plan = expand(&scenario, seed, 300);
            for (at, step) in plan.steps.iter().enumerate() {
                assert_eq!(step.number, at as u64 + 1);
                assert!(step.at_ms + step.for_ms < 300_000, "{} seed {seed}: {step:?}", scenario.name);
                for earlier in &plan.steps[..at] {
                    assert!(earlier.at_ms < step.at_ms);
                    let same = earlier.action.name().0 == step.action.name().0;
                    let meets = earlier.at_ms + earlier.for_ms > step.at_ms;
                    assert!(!(same && meets), "{} seed {seed}: {earlier:?} {step:?}", scenario.name);
                }
            }
        }
    }
}

#[test]
fn faults_that_take_replicas_out_never_meet_unless_the_scenario_says_so() {
    for scenario in built_in().filter(|scenario| !scenario.overlap) {
        for seed in 0..20 {
            let plan = expand(&scenario, seed, 600);
            let out: Vec<_> =
                plan.steps.iter().filter(|step| step.action.replicas_out(&step.target) > 0).collect();
            for pair in out.windows(2) {
                let free = pair[0].at_ms + pair[0].for_ms + scenario.settle_ms;
                assert!(pair[1].at_ms >= free, "{} seed {seed}: {pair:?}", scenario.name);
            }
        }
    }
}

#[test]
fn every_fault_and_target_gets_its_turn_and_is_required() {
    for scenario in built_in() {
        let plan = expand(&scenario, 3, 7_200);
        let names: BTreeSet<String> = plan.steps.iter().map(|step| step.action.full_name()).collect();
        for mix in &scenario.faults {
            assert!(names.contains(&mix.fault), "{}: {}", scenario.name, mix.fault);
        }
        for step in &plan.steps {
            let name = step.counter();
            assert!(plan.options.check.required.contains_key(&name), "{name}");
        }
    }
}

#[test]
fn a_plan_survives_its_file_and_a_strange_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.json");
    let plan = expand(&Scenario::find("smoke").unwrap(), 5, 60);
    plan.save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), plan);
    Plan { v: 99, ..plan.clone() }.save(&path).unwrap();
    assert!(Plan::load(&path).unwrap_err().to_string().contains("99"));
    let fewer = plan.with_steps(plan.steps[1..].to_vec());
    assert_eq!((fewer.steps.len(), fewer.options.check.required.len()), (plan.steps.len() - 1, 0));
}

#[test]
fn symbols_that_mean_any_are_drawn_before_the_run() {
    let text = "name='x'\nabout='X.'\nseconds=60\n[[faults]]\nfault='process.kill'\ntargets=['any-replica']";
    let plan = expand(&Scenario::parse(text).unwrap(), 1, 600);
    let hosts: BTreeSet<String> = plan.steps.iter().map(|step| step.target.to_string()).collect();
    assert_eq!(hosts.into_iter().collect::<Vec<_>>(), ["n1", "n2", "n3"]);
}

#[test]
fn no_fault_begins_before_the_calm_is_over() {
    for mut scenario in built_in() {
        scenario.calm_ms = 20_000;
        for seed in 0..20 {
            let first = expand(&scenario, seed, 300).steps.first().map(|step| step.at_ms);
            assert!(first.is_none_or(|at| at >= 20_000), "{} seed {seed}: {first:?}", scenario.name);
        }
    }
}

#[test]
fn packets_must_have_met_the_faults_of_the_network() {
    let required = |name: &str| {
        let scenario = Scenario::find(name).unwrap();
        expand(&scenario, 1, 900).options.check.required
    };
    let (link, partition) = (required("link"), required("partition"));
    for counter in ["dropped", "delayed", "duplicated", "reordered", "throttled"] {
        assert!(link[&format!("packets_{counter}")] >= PACKETS_PER_STEP, "{counter}");
    }
    assert!(partition["packets_dropped"] >= 50 * PACKETS_PER_STEP, "{partition:?}");
    assert!(!required("disk").keys().any(|name| name.starts_with("packets_")));
}
