//! Plans: a scenario and a seed, expanded before the run into every step and every option that it will have.
//!
//! A seed repeats choices, not timing: what really happened stands in the history. The plan is what `replay` runs
//! again and what `shrink` takes steps away from.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use orloj_jepsen_agents::generator::Extra;
use orloj_jepsen_core::check::Options as CheckOptions;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::dice::Dice;
use crate::scenario::{ClusterOptions, JobOptions, Mix, Scenario};
use crate::target::Target;

/// The version of the format.
pub const VERSION: u32 = 1;
/// Load after the last fault, in ms.
const TAIL_MS: u64 = 1_000;

/// Everything that a run needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// [`VERSION`].
    pub v: u32,
    /// The scenario's name.
    pub scenario: String,
    /// The seed of all choices.
    pub seed: u64,
    /// What the seed and the scenario say beside the steps.
    pub options: RunOptions,
    /// The steps in the order of their beginning.
    pub steps: Vec<Step>,
}

/// Options of a run, all derived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RunOptions {
    /// How long the load goes on, in seconds.
    pub seconds: u64,
    /// After the heal, how long everything may take to come to rest, in seconds.
    pub quiesce_s: u64,
    /// Operations a second of all clients together.
    pub rate: u32,
    /// How many clients.
    pub clients: u32,
    /// Seed of clients and mock executors.
    pub agents_seed: u64,
    /// Seed of the network.
    pub network_seed: u64,
    /// Seed of what the nemesis chooses at the moment of a fault (which follower, which file, which bit).
    pub nemesis_seed: u64,
    /// One task with a business key runs through all of it.
    pub trial: bool,
    /// Shares of submissions with parents, shards, broadcasts and callbacks.
    #[serde(default)]
    pub extra: Extra,
    /// Jobs that fire while the load goes on.
    #[serde(default)]
    pub jobs: JobOptions,
    /// The cluster.
    pub cluster: ClusterOptions,
    /// Bounds for the checkers, and what must have been exercised.
    pub check: CheckOptions,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// Its number in the plan, from 1; it stays when a plan is shrunk.
    pub number: u64,
    /// When, in ms from the beginning of the load.
    pub at_ms: u64,
    /// How long it stays, in ms.
    pub for_ms: u64,
    /// Whom it hits.
    pub target: Target,
    /// What it does.
    pub action: Action,
}

impl Step {
    /// The counter of the coverage checker that shows that a step of this kind was carried out.
    fn counter(&self) -> String {
        let name = format!("fault:{}", self.action.full_name());
        match self.target {
            Target::Leader => format!("{name}@leader"),
            Target::Follower | Target::Followers | Target::NextLeader => format!("{name}@follower"),
            _ => name,
        }
    }
}

/// So many packets must have met each step of a kind, on average.
const PACKETS_PER_STEP: u64 = 5;

/// The counter of the coverage checker that shows that packets met a fault of this kind.
fn packets(action: &Action) -> Option<&'static str> {
    match action {
        Action::Isolate
        | Action::Split
        | Action::Bridge
        | Action::OneWayIn
        | Action::OneWayOut
        | Action::Edge
        | Action::CutExecutors
        | Action::CutClients
        | Action::HalfOpen
        | Action::Swizzle { .. }
        | Action::Loss { .. } => Some("packets_dropped"),
        Action::Delay { .. } => Some("packets_delayed"),
        Action::Duplicate { .. } => Some("packets_duplicated"),
        Action::Reorder { .. } => Some("packets_reordered"),
        Action::Rate { .. } => Some("packets_throttled"),
        _ => None,
    }
}

/// What the command line says otherwise than the scenario.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes {
    /// How long the load goes on, in seconds.
    pub seconds: Option<u64>,
    /// Operations a second.
    pub rate: Option<u32>,
}

impl Plan {
    /// Expands a scenario.
    ///
    /// # Errors
    /// A fault of it cannot be made.
    pub fn expand(scenario: &Scenario, seed: u64, wishes: Wishes) -> anyhow::Result<Plan> {
        let mut dice = Dice::new(seed);
        // Each use has its own stream, so that another option here leaves the rest of the plan as it is.
        let [agents_seed, network_seed, nemesis_seed] = [dice.draw(), dice.draw(), dice.draw()];
        let seconds = wishes.seconds.unwrap_or(scenario.seconds);
        let steps = Expansion::new(scenario, dice.fork()).steps(seconds.saturating_mul(1_000))?;
        let mut check = scenario.check.clone();
        check.heartbeat_ms = scenario.cluster.heartbeat_ms;
        check.missed_heartbeats = scenario.cluster.offline_after;
        check.timeout_grace_ms = scenario.cluster.timeout_grace_ms;
        for step in &steps {
            check.required.entry(step.counter()).or_insert(1);
            if let Some(counter) = packets(&step.action) {
                *check.required.entry(counter.to_owned()).or_default() += PACKETS_PER_STEP;
            }
        }
        let options = RunOptions {
            seconds,
            quiesce_s: scenario.quiesce_s,
            rate: wishes.rate.unwrap_or(scenario.rate),
            clients: scenario.clients,
            agents_seed,
            network_seed,
            nemesis_seed,
            trial: scenario.trial,
            extra: scenario.extra,
            jobs: scenario.jobs,
            cluster: scenario.cluster.clone(),
            check,
        };
        Ok(Plan { v: VERSION, scenario: scenario.name.clone(), seed, options, steps })
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// There is none, or it is of another version.
    pub fn load(path: &Path) -> anyhow::Result<Plan> {
        let named = || format!("plan {}", path.display());
        let text = fs::read_to_string(path).with_context(named)?;
        let plan: Plan = serde_json::from_str(&text).with_context(named)?;
        ensure!(plan.v == VERSION, "{}: version {} is not {VERSION}", named(), plan.v);
        Ok(plan)
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The same plan with these steps alone. What the other steps should have exercised is no longer required.
    pub fn with_steps(&self, steps: Vec<Step>) -> Plan {
        let mut plan = Plan { steps, ..self.clone() };
        plan.options.check.required.clear();
        plan
    }
}

/// The state of an expansion.
struct Expansion<'a> {
    scenario: &'a Scenario,
    dice: Dice,
    deck: Vec<(&'a Mix, &'a Target)>,
    /// By package, when its last fault ends.
    packages: std::collections::BTreeMap<String, u64>,
    /// When the last fault ends that takes replicas out, and when one that takes executors out.
    replicas_whole_at: u64,
    executors_whole_at: u64,
}

impl<'a> Expansion<'a> {
    fn new(scenario: &'a Scenario, dice: Dice) -> Self {
        let (deck, packages) = Default::default();
        Expansion { scenario, dice, deck, packages, replicas_whole_at: 0, executors_whole_at: 0 }
    }

    fn steps(mut self, load_ms: u64) -> anyhow::Result<Vec<Step>> {
        let mut steps = Vec::new();
        let mut at = self.scenario.calm_ms;
        while let Some((mix, target)) = self.deal() {
            let mean = self.scenario.spacing_ms as f64;
            // Bounded, so that one unlucky draw does not leave a short run without faults.
            let gap = self.dice.exponential(mean).clamp(mean / 10.0, mean * 3.0) as u64;
            let dice = &mut self.dice;
            let action = mix.action(|choices| dice.pick(choices).copied())?;
            let for_ms = self.duration(mix, &action);
            let target = self.concrete(target);
            at = self.begin(at, gap, &action, &target);
            if at + for_ms + TAIL_MS > load_ms {
                break;
            }
            self.occupy(at + for_ms, &action, &target);
            steps.push(Step { number: steps.len() as u64 + 1, at_ms: at, for_ms, target, action });
        }
        Ok(steps)
    }

    /// The next card. Dealing from a deck gives each fault its turn, which independent draws do not.
    fn deal(&mut self) -> Option<(&'a Mix, &'a Target)> {
        if self.deck.is_empty() {
            for mix in &self.scenario.faults {
                for _ in 0..mix.weight {
                    self.deck.extend(mix.targets.iter().map(|target| (mix, target)));
                }
            }
            if !self.scenario.in_order {
                self.dice.shuffle(&mut self.deck);
            }
            self.deck.reverse();
        }
        self.deck.pop()
    }

    fn duration(&mut self, mix: &Mix, action: &Action) -> u64 {
        let election = self.scenario.cluster.election_max_ms as f64;
        let (low, high) = mix.for_ms.map_or((0.3 * election, 5.0 * election), |(low, high)| {
            ((low as f64).max(1.0), (high as f64).max(1.0))
        });
        // Even over the orders of magnitude: short faults find other things than long ones.
        let drawn = low * (high / low).powf(self.dice.unit());
        (drawn as u64).max(action.least_ms())
    }

    fn concrete(&mut self, target: &Target) -> Target {
        let of = |dice: &mut Dice, hosts: &[&str]| {
            Target::Host(dice.pick(hosts).copied().unwrap_or_default().to_owned())
        };
        match target {
            Target::AnyReplica => of(&mut self.dice, &["n1", "n2", "n3"]),
            Target::AnyExecutor => of(&mut self.dice, &["e1", "e2", "e3"]),
            other => other.clone(),
        }
    }

    /// When it may begin: after the step before it, and after everything that it must not meet.
    fn begin(&self, last: u64, gap: u64, action: &Action, target: &Target) -> u64 {
        let package = self.packages.get(&action.name().0).copied().unwrap_or(self.scenario.calm_ms);
        let mut at = (package + gap).max(last + 1);
        if action.replicas_out(target) > 0 && !self.scenario.overlap {
            at = at.max(self.replicas_whole_at);
        }
        if action.executors_out(target) > 0 {
            at = at.max(self.executors_whole_at);
        }
        at
    }

    fn occupy(&mut self, end: u64, action: &Action, target: &Target) {
        // Two faults of one package would undo each other.
        self.packages.insert(action.name().0, end);
        if action.replicas_out(target) > 0 {
            self.replicas_whole_at = self.replicas_whole_at.max(end + self.scenario.settle_ms);
        }
        if action.executors_out(target) > 0 {
            self.executors_whole_at = self.executors_whole_at.max(end + self.scenario.settle_ms);
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
