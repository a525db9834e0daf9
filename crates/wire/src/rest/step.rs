//! The steps of a job's workflow, as its owner writes them.

use std::collections::{BTreeMap, BTreeSet};

use orloj_model::id::check_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::depends::check_references;
use super::submit::{MAX_ATTEMPT_MS, no_params, within};
use super::{DEFAULT_PRIORITY, DependsOnEnd, OnShardFailure, Retry, Strategy, Submit};
use crate::json::Strict;
use crate::problem::FieldError;

/// The most steps of a workflow.
pub const STEPS_LIMIT: usize = 1_000;

/// One step. Only `name` and `handler` are required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepSpec {
    /// Its name, `[A-Za-z0-9._-]{1,128}`, unique in the workflow.
    pub name: String,
    /// What it runs: the name of a handler.
    #[serde(alias = "executor", alias = "executorId", alias = "executor_id")]
    pub handler: String,
    /// Its parameters: any JSON, at most 64 KiB; may hold placeholders, and references to the results of the steps
    /// that it depends on.
    #[serde(default = "no_params")]
    pub params: Strict,
    /// Steps that must end first.
    #[serde(default, alias = "depends_on", skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepNeed>,
    /// 0-9, by default 5.
    #[serde(default, deserialize_with = "within::<_, 0, 9>", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: Option<u64>,
    /// The longest that one attempt may run, 1 ms to 30 days.
    #[serde(
        default,
        deserialize_with = "within::<_, 1, MAX_ATTEMPT_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = MAX_ATTEMPT_MS))]
    pub timeout_ms: Option<u64>,
    /// When and how often to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Labels that the executor must carry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Place on the ring; by default the job's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Preferred zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How an executor is chosen; by default the ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Handed to the handler with every attempt; may hold placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// How many shards, 1-1024; by default 1.
    #[serde(
        default,
        alias = "shard_total",
        deserialize_with = "within::<_, 1, 1024>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = 1024))]
    pub shard_total: Option<u64>,
    /// What becomes of its other shards when one has failed for good.
    #[serde(default, alias = "on_shard_failure", skip_serializing_if = "Option::is_none")]
    pub on_shard_failure: Option<OnShardFailure>,
    /// How long it is expected to take.
    #[serde(
        default,
        deserialize_with = "within::<_, 0, MAX_ATTEMPT_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = MAX_ATTEMPT_MS))]
    pub estimated_duration_ms: Option<u64>,
}

/// A step that must end first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepNeed {
    /// Its name.
    pub step: String,
    /// On which end of it; by default `success`.
    #[serde(default)]
    pub on: DependsOnEnd,
}

impl StepSpec {
    /// A step with every default.
    pub fn new(name: impl Into<String>, handler: impl Into<String>, params: Value) -> Self {
        StepSpec {
            name: name.into(),
            handler: handler.into(),
            params: Strict(params),
            depends_on: Vec::new(),
            priority: None,
            timeout_ms: None,
            retry: None,
            labels: BTreeMap::new(),
            routing_key: None,
            zone: None,
            strategy: None,
            business_key: None,
            shard_total: None,
            on_shard_failure: None,
            estimated_duration_ms: None,
        }
    }

    /// The submission that would make its task: it is held to the same rules.
    pub fn submission(&self) -> Submit {
        Submit {
            priority: self.priority,
            timeout_ms: self.timeout_ms,
            retry: self.retry.clone(),
            labels: self.labels.clone(),
            routing_key: self.routing_key.clone(),
            zone: self.zone.clone(),
            strategy: self.strategy.clone(),
            business_key: self.business_key.clone(),
            shard_total: self.shard_total,
            on_shard_failure: self.on_shard_failure,
            estimated_duration_ms: self.estimated_duration_ms,
            ..Submit::new(self.handler.clone(), self.params.0.clone())
        }
    }
}

impl StepSpec {
    /// How much it adds to the texts of its workflow, in bytes: no less than what is stored.
    pub(super) fn bytes(&self) -> usize {
        let fields = [&self.routing_key, &self.zone, &self.business_key];
        let labels: usize = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.name.len()
            + self.handler.len()
            + self.params.0.to_string().len()
            + labels
            + 4 * self.depends_on.len()
            + fields.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// The steps with every default spelled out, in the order in which a server shows them.
pub(super) fn spelled_out(steps: &[StepSpec]) -> Vec<StepSpec> {
    let spell = |step: &StepSpec| StepSpec {
        priority: Some(step.priority.unwrap_or(DEFAULT_PRIORITY)),
        retry: Some(step.retry.clone().unwrap_or_default()),
        strategy: Some(step.strategy.clone().unwrap_or_default()),
        shard_total: Some(step.shard_total.unwrap_or(1)),
        on_shard_failure: Some(step.on_shard_failure.unwrap_or_default()),
        ..step.clone()
    };
    match in_order(steps) {
        Ok(order) => order.into_iter().map(|place| spell(&steps[place])).collect(),
        Err(_) => steps.iter().map(spell).collect(),
    }
}

/// Everything that parses but is not acceptable in a list of steps, apart from what their
/// [submissions](StepSpec::submission) say; empty when all is well. Pointers begin with `/steps`.
pub fn faults(steps: &[StepSpec]) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if steps.len() > STEPS_LIMIT {
        let message = format!("{} steps are more than {STEPS_LIMIT}", steps.len());
        return vec![FieldError::new("/steps", message)];
    }
    let mut names = BTreeSet::new();
    for (place, step) in steps.iter().enumerate() {
        let shown: String = step.name.chars().take(80).collect();
        let mut fault = |message| faults.push(FieldError::new(format!("/steps/{place}/name"), message));
        if let Err(error) = check_name(&step.name) {
            fault(format!("{shown:?}: {error}"));
        } else if !names.insert(step.name.as_str()) {
            fault(format!("{shown:?} is the name of an earlier step"));
        }
    }
    for (place, step) in steps.iter().enumerate() {
        check_needs(&mut faults, place, step, &names);
    }
    if faults.is_empty()
        && let Err(cycle) = in_order(steps)
    {
        let place = steps.iter().position(|step| Some(&step.name) == cycle.first()).unwrap_or_default();
        let message = format!("a cycle: {}", cycle.join(" waits for "));
        faults.push(FieldError::new(format!("/steps/{place}/dependsOn"), message));
    }
    faults
}

fn check_needs(faults: &mut Vec<FieldError>, place: usize, step: &StepSpec, names: &BTreeSet<&str>) {
    let mut seen = BTreeSet::new();
    for (number, need) in step.depends_on.iter().enumerate() {
        let shown: String = need.step.chars().take(80).collect();
        let message = if need.step == step.name {
            format!("{shown:?} would wait for itself")
        } else if !names.contains(need.step.as_str()) {
            format!("{shown:?} is no step of this job")
        } else if !seen.insert(need.step.as_str()) {
            format!("{shown:?} is named twice")
        } else {
            continue;
        };
        faults.push(FieldError::new(format!("/steps/{place}/dependsOn/{number}/step"), message));
    }
    let parents: Vec<&str> = step.depends_on.iter().map(|need| need.step.as_str()).collect();
    check_references(faults, &step.params.0, &parents, &format!("/steps/{place}/params"));
}

/// The places of the steps in an order in which each comes after those that it depends on, as near to the written one
/// as that allows.
///
/// # Errors
/// The names of a cycle, the first one again at its end.
pub fn in_order(steps: &[StepSpec]) -> Result<Vec<usize>, Vec<String>> {
    let places: BTreeMap<&str, usize> =
        steps.iter().enumerate().map(|(place, step)| (step.name.as_str(), place)).collect();
    let parents_of = |place: usize| {
        steps[place].depends_on.iter().filter_map(|need| places.get(need.step.as_str()).copied())
    };
    let mut children = vec![Vec::new(); steps.len()];
    let mut open = vec![0_usize; steps.len()];
    for (place, open) in open.iter_mut().enumerate() {
        for parent in parents_of(place) {
            children[parent].push(place);
            *open += 1;
        }
    }
    let mut free: BTreeSet<usize> = (0..steps.len()).filter(|place| open[*place] == 0).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(place) = free.pop_first() {
        order.push(place);
        for child in &children[place] {
            open[*child] -= 1;
            if open[*child] == 0 {
                free.insert(*child);
            }
        }
    }
    let Some(stuck) = (0..steps.len()).find(|place| open[*place] > 0) else { return Ok(order) };
    // Every step that is left waits for one that is left, so the way up comes by one of them twice.
    let (mut path, mut at) = (Vec::new(), stuck);
    while !path.contains(&at) {
        path.push(at);
        at = parents_of(at).find(|parent| open[*parent] > 0).unwrap_or(at);
    }
    let first = path.iter().position(|place| *place == at).unwrap_or_default();
    let cycle = path[first..].iter().chain([&at]).map(|place| steps[*place].name.clone());
    Err(cycle.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(name: &str, needs: &[&str]) -> StepSpec {
        let needs = needs.iter().map(|step| StepNeed { step: (*step).into(), on: DependsOnEnd::Success });
        StepSpec { depends_on: needs.collect(), ..StepSpec::new(name, "echo", json!({})) }
    }

    #[test]
    fn steps_are_put_in_an_order_near_to_the_written_one() {
        let order = |steps: &[StepSpec]| in_order(steps).unwrap();
        assert_eq!(order(&[]), Vec::<usize>::new());
        assert_eq!(order(&[step("a", &[]), step("b", &["a"]), step("c", &[])]), [0, 1, 2]);
        assert_eq!(
            order(&[step("d", &["b", "c"]), step("b", &["a"]), step("c", &["a"]), step("a", &[])]),
            [3, 1, 2, 0]
        );
    }

    #[test]
    fn a_cycle_is_shown_whole() {
        let steps = [step("a", &[]), step("b", &["a", "d"]), step("c", &["b"]), step("d", &["c"])];
        assert_eq!(in_order(&steps).unwrap_err(), ["b", "d", "c", "b"]);
        let found = faults(&steps);
        assert_eq!(found[0].pointer, "/steps/1/dependsOn");
        assert!(found[0].message.contains("b waits for d waits for c waits for b"), "{found:?}");
    }

    #[test]
    fn faults_name_the_step_and_the_value() {
        let mut refers = step("b", &["a"]);
        let mut many = step("b", &["a"]);
        many.params = Strict((0..2_001).map(|_| json!({"$status": "a"})).collect());
        refers.params = Strict(json!({"x": [{"$result": "a"}, {"$result": "c"}, {"$status": 1}]}));
        for (steps, pointer, shown) in [
            (vec![step("a b", &[])], "/steps/0/name", "' ' at position 1"),
            (vec![step("a", &[]), step("a", &[])], "/steps/1/name", "earlier step"),
            (vec![step("a", &["a"])], "/steps/0/dependsOn/0/step", "itself"),
            (vec![step("a", &["z"])], "/steps/0/dependsOn/0/step", "\"z\" is no step"),
            (vec![step("a", &[]), step("b", &["a", "a"])], "/steps/1/dependsOn/1/step", "twice"),
            (vec![step("a", &[]), refers, step("c", &[])], "/steps/1/params/x/1", "\"c\" is none"),
            (vec![step("a", &[]), many], "/steps/1/params", "2001 references"),
            ((0..1_001).map(|number| step(&format!("s{number}"), &[])).collect(), "/steps", "1001 steps"),
        ] {
            let found = faults(&steps);
            assert_eq!(found[0].pointer, pointer, "{found:?}");
            assert!(found[0].message.contains(shown), "{found:?}");
        }
    }

    #[test]
    fn a_step_survives_the_way_out_and_back() {
        let body = json!({
            "name": "load", "handler": "shell", "params": {"a": 1}, "dependsOn": [{"step": "x", "on": "failure"}],
            "priority": 1, "timeoutMs": 5, "labels": {"a": "b"}, "routingKey": "r", "zone": "z",
            "strategy": "broadcast", "businessKey": "k", "shardTotal": 1, "onShardFailure": "cancel",
            "estimatedDurationMs": 7,
            "retry": {"maxRetries": 1, "backoffMs": [1], "jitterPct": 0, "maxLost": 0},
        });
        let step: StepSpec = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(serde_json::to_value(&step).unwrap(), body);
        assert_eq!(step.submission().on_shard_failure, Some(OnShardFailure::Cancel));
    }
}
