//! One short run of real processes on the real network: leader killed, everything judged, nothing left behind.

use std::io::Write as _;
use std::path::PathBuf;

use orloj_jepsen::args::PlaceArgs;
use orloj_jepsen::doctor::{Capability, probe};
use orloj_jepsen::plan::{Plan, Wishes};
use orloj_jepsen::run::execute;
use orloj_jepsen::scenario::Scenario;
use orloj_jepsen_core::Validity;

const SCENARIO: &str = "
name = 'kill'
about = 'The leader dies once.'
seconds = 14
quiesce-s = 40
rate = 40
clients = 4
spacing-ms = 1000
in-order = true
faults = [{ fault = 'process.kill', targets = ['leader'], for-ms = [1500, 1500] }]
extra = { dependent = 0.15, sharded = 0.06, broadcast = 0.03, callback = 0.2 }
jobs = { each-second = 6, each-minute = 2, life-s = 10 }
check = { heal_ms = 8000, required = { leader_changes = 1, job_fires = 20, dependent_starts = 5, callbacks = 5 } }
";

/// What the run cannot do without.
const NEEDED: [Capability; 3] = [Capability::Namespaces, Capability::Router, Capability::Disks];

/// The program under test, where it has been built: two folders above this test.
fn program() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test knows where it is");
    let path = test.parent()?.parent()?.join("orloj");
    path.is_file().then_some(path)
}

/// Tells people, also when the test passes: what was not exercised is no pass.
fn tell(line: &str) {
    // Without a standard error there is nobody to be told.
    let _ = writeln!(std::io::stderr(), "a_run_is_judged_and_leaves_nothing_behind: {line}");
}

/// Whether the machine has what the run needs. Tells of everything that it lacks.
fn machine_can() -> bool {
    let lacking = Capability::ALL.into_iter().filter(|capability| {
        let problem = probe(*capability).err();
        if let Some(problem) = &problem {
            tell(&format!("not exercised: this machine has no {}: {problem:#}", capability.name()));
        }
        problem.is_some()
    });
    !lacking.collect::<Vec<_>>().iter().any(|capability| NEEDED.contains(capability))
}

#[test]
fn a_run_is_judged_and_leaves_nothing_behind() {
    let Some(orloj) = program() else {
        return tell("nothing was exercised: the program orloj has not been built");
    };
    if !machine_can() {
        return tell("nothing was exercised: a run needs network namespaces, the router and disks");
    }
    let store = tempfile::tempdir().unwrap();
    let plan = Plan::expand(&Scenario::parse(SCENARIO).unwrap(), 1, Wishes::default()).unwrap();
    assert!(!plan.steps.is_empty());
    let place = PlaceArgs { store: store.path().join("store"), orloj: Some(orloj), keep: false };
    let outcome = execute(&plan, &place).unwrap();
    let results = &outcome.results;
    let shown = orloj_jepsen::verdict::table(results);
    assert_eq!(results.harness_failures, [""; 0], "{shown}");
    assert_eq!(results.validity(), Validity::Valid, "a machine that can do this owes a whole run\n{shown}");
    assert!(results.events > 500, "{shown}");
    let stats = |id: &str| results.report.judgements.iter().find(|one| one.id == id).unwrap().stats.clone();
    assert!(stats("H1")["fault:process.kill@leader"] >= 1.0, "{shown}");
    for (id, figure) in [("T1", "fired"), ("W1", "started"), ("W2", "delivered"), ("W3", "results")] {
        assert!(stats(id)[figure] >= 1.0, "{id} {figure}\n{shown}");
    }
    for file in ["plan.json", "history.jsonl", "results.json", "report.html", "doctor.json"] {
        assert!(outcome.dir.path().join(file).is_file(), "{file}");
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&outcome.dir.path().display().to_string()), "{mounts}");
}
