//! The body of a submission and the limits of its fields.

use std::collections::BTreeMap;

use orloj_model::id::check_name;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::OnShardFailure;
use crate::json::Strict;
use crate::problem::FieldError;
use crate::time::Time;

/// The largest `params`, in bytes of compact JSON.
pub const PARAMS_LIMIT: usize = 128 * 1024;
/// The longest `delayMs`: a thousand years, so that no sum with a present instant leaves year 9999.
pub const MAX_DELAY_MS: u64 = 1_000 * 365 * 86_400_000;
/// The longest `timeoutMs` and `estimatedDurationMs`: 30 days.
pub const MAX_ATTEMPT_MS: u64 = 30 * 86_400_000;
/// The longest backoff: 7 days.
pub const MAX_BACKOFF_MS: u64 = 7 * 86_400_000;
/// The longest routing, business or dedupe key and label value, in bytes.
pub const TEXT_LIMIT: usize = 256;
/// The priority of a task where none is asked for.
pub const DEFAULT_PRIORITY: u64 = 5;
/// The most labels.
const LABELS_LIMIT: usize = 32;
/// The most steps of a backoff list.
const BACKOFF_LIMIT: usize = 10;

/// A submission. Only `handler` is required.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submit {
    /// What to run: the name of a handler.
    #[serde(alias = "executor", alias = "executorId", alias = "executor_id")]
    pub handler: String,
    /// Its parameters: any JSON, at most 128 KiB; `{}` when absent.
    #[serde(default = "no_params")]
    pub params: Strict,
    /// When to run: an instant. One that has passed means at once.
    #[serde(default, alias = "run_at", skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// When to run: so long after the commit, 0 ms to 1,000 years. Not together with `runAt`.
    #[serde(
        default,
        deserialize_with = "within::<_, 0, MAX_DELAY_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = MAX_DELAY_MS))]
    pub delay_ms: Option<u64>,
    /// 0-9, by default 5; orders what waits for a free slot.
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
    /// It is skipped when it has not started by then: at once, where that has passed. After `runAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at: Option<Time>,
    /// When and how often to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Labels that the executor must carry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Place on the ring, so that related tasks stay on the same few executors; by default the handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Preferred zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How an executor is chosen; by default the ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Handed to the handler with every attempt, so that it can be idempotent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Names the work for the executor's memory of outcomes; by default the task id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// How many shards, 1-1024; by default 1.
    #[serde(
        default,
        alias = "shard_total",
        deserialize_with = "within::<_, 1, 1024>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1, max = 1024))]
    pub shard_total: Option<u64>,
    /// What becomes of the other shards when one has failed for good; by default they go on.
    #[serde(default, alias = "on_shard_failure", skip_serializing_if = "Option::is_none")]
    pub on_shard_failure: Option<OnShardFailure>,
    /// Tasks that must end first.
    #[serde(default, alias = "depends_on", skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// Where to announce the end.
    #[serde(default, alias = "callback_url", skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// How long the caller expects it to take.
    #[serde(
        default,
        deserialize_with = "within::<_, 0, MAX_ATTEMPT_MS>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = MAX_ATTEMPT_MS))]
    pub estimated_duration_ms: Option<u64>,
    /// Take the task although no executor has registered its handler yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unknown_handler: bool,
}

pub(super) fn no_params() -> Strict {
    Strict(Value::Object(serde_json::Map::new()))
}

/// When and how often to try again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// Tries after the first for failed and timed-out attempts, 0-10; by default 2.
    #[serde(default = "Retry::default_retries", deserialize_with = "exactly::<_, 0, 10>")]
    #[schemars(range(min = 0, max = 10))]
    pub max_retries: u64,
    /// Delay before each retry, 1-10 steps of at most 7 days; the last repeats.
    #[serde(default = "Retry::default_backoff")]
    pub backoff_ms: Vec<BackoffMs>,
    /// Up to so many per cent are added to each delay, by chance; by default 0.
    #[serde(default, deserialize_with = "exactly::<_, 0, 100>")]
    #[schemars(range(min = 0, max = 100))]
    pub jitter_pct: u64,
    /// Tries after attempts that were lost with their executor, 0-10; by default 3.
    #[serde(default = "Retry::default_lost", deserialize_with = "exactly::<_, 0, 10>")]
    #[schemars(range(min = 0, max = 10))]
    pub max_lost: u64,
}

/// One step of a backoff list, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct BackoffMs(#[schemars(range(max = MAX_BACKOFF_MS))] pub u64);

impl<'de> Deserialize<'de> for BackoffMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        exactly::<D, 0, MAX_BACKOFF_MS>(deserializer).map(BackoffMs)
    }
}

impl Retry {
    fn default_retries() -> u64 {
        2
    }

    fn default_lost() -> u64 {
        3
    }

    fn default_backoff() -> Vec<BackoffMs> {
        [10_000, 30_000, 60_000].map(BackoffMs).to_vec()
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            max_retries: Retry::default_retries(),
            backoff_ms: Retry::default_backoff(),
            jitter_pct: 0,
            max_lost: Retry::default_lost(),
        }
    }
}

/// How an executor is chosen: a name, or `{"pinned": "executor-id"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// By the weighted consistent-hash ring.
    #[default]
    Ring,
    /// In turn.
    RoundRobin,
    /// The one with the most free slots in proportion.
    LeastLoaded,
    /// By chance.
    Random,
    /// This executor alone.
    Pinned(String),
    /// Once on each executor that has the handler.
    Broadcast,
}

/// One parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependsOn {
    /// The parent; in a batch also `#PLACE`, the place of an earlier submission of it, from 0.
    #[serde(alias = "task_id")]
    pub task_id: String,
    /// On which end of it; by default `success`.
    #[serde(default)]
    pub on: DependsOnEnd,
}

/// On which end of a parent its child may start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DependsOnEnd {
    /// It succeeded.
    #[default]
    Success,
    /// It ended in any way.
    Completed,
    /// It failed.
    Failure,
}

/// A number within bounds, or null.
pub(super) fn within<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(
    de: D,
) -> Result<Option<u64>, D::Error> {
    Option::<u64>::deserialize(de)?.map(bounded::<D::Error, MIN, MAX>).transpose()
}

/// A number within bounds.
fn exactly<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(de: D) -> Result<u64, D::Error> {
    bounded::<D::Error, MIN, MAX>(u64::deserialize(de)?)
}

fn bounded<E: serde::de::Error, const MIN: u64, const MAX: u64>(value: u64) -> Result<u64, E> {
    match (MIN..=MAX).contains(&value) {
        true => Ok(value),
        false => Err(E::custom(format_args!("{value} is outside {MIN}-{MAX}"))),
    }
}

impl Submit {
    /// A submission with every default.
    pub fn new(handler: impl Into<String>, params: Value) -> Self {
        Submit {
            handler: handler.into(),
            params: Strict(params),
            run_at: None,
            delay_ms: None,
            priority: None,
            timeout_ms: None,
            expire_at: None,
            retry: None,
            labels: BTreeMap::new(),
            routing_key: None,
            zone: None,
            strategy: None,
            business_key: None,
            dedupe_key: None,
            shard_total: None,
            on_shard_failure: None,
            depends_on: Vec::new(),
            callback_url: None,
            estimated_duration_ms: None,
            allow_unknown_handler: false,
        }
    }

    /// Everything that parses but is not acceptable; empty when all is well. A number or an instant outside its bounds
    /// does not parse.
    pub fn faults(&self) -> Vec<FieldError> {
        let mut faults = Vec::new();
        name(&mut faults, "/handler", &self.handler);
        if self.run_at.is_some() && self.delay_ms.is_some() {
            faults.push(FieldError::new("/delayMs", "runAt and delayMs exclude each other"));
        }
        if let (Some(run_at), Some(expire_at)) = (self.run_at, self.expire_at)
            && expire_at <= run_at
        {
            faults.push(FieldError::new("/expireAt", format!("{expire_at} is not after runAt {run_at}")));
        }
        self.check_placement(&mut faults);
        for (pointer, text) in [
            ("/routingKey", &self.routing_key),
            ("/businessKey", &self.business_key),
            ("/dedupeKey", &self.dedupe_key),
        ] {
            if let Some(text) = text {
                free_text(&mut faults, pointer, text);
            }
        }
        if let Some(retry) = &self.retry
            && !(1..=BACKOFF_LIMIT).contains(&retry.backoff_ms.len())
        {
            let message = format!("{} steps are outside 1-{BACKOFF_LIMIT}", retry.backoff_ms.len());
            faults.push(FieldError::new("/retry/backoffMs", message));
        }
        self.check_graph(&mut faults);
        faults
    }

    fn check_placement(&self, faults: &mut Vec<FieldError>) {
        if let Some(zone) = &self.zone {
            name(faults, "/zone", zone);
        }
        if let Some(Strategy::Pinned(executor)) = &self.strategy {
            name(faults, "/strategy/pinned", executor);
        }
        if self.labels.len() > LABELS_LIMIT {
            let message = format!("{} labels are more than {LABELS_LIMIT}", self.labels.len());
            faults.push(FieldError::new("/labels", message));
        }
        for (label, value) in self.labels.iter().take(LABELS_LIMIT) {
            name(faults, &format!("/labels/{}", label.replace('~', "~0").replace('/', "~1")), label);
            free_text(faults, &format!("/labels/{}", label.replace('~', "~0").replace('/', "~1")), value);
        }
    }
}

fn name(faults: &mut Vec<FieldError>, pointer: &str, value: &str) {
    if let Err(error) = check_name(value) {
        faults.push(FieldError::new(pointer, format!("{:?}: {error}", shortened(value))));
    }
}

/// A key in the caller's own words: not empty, bounded, without control characters.
fn free_text(faults: &mut Vec<FieldError>, pointer: &str, value: &str) {
    if value.is_empty() || value.len() > TEXT_LIMIT {
        let message = format!("{:?}: {} bytes are outside 1-{TEXT_LIMIT}", shortened(value), value.len());
        faults.push(FieldError::new(pointer, message));
    }
    if let Some(found) = value.chars().find(|char| char.is_control()) {
        let message = format!("{:?}: the control character {found:?} is not allowed", shortened(value));
        faults.push(FieldError::new(pointer, message));
    }
}

/// Enough of a value to recognise it in an error.
pub(super) fn shortened(value: &str) -> String {
    const SHOWN: usize = 80;
    match value.char_indices().nth(SHOWN) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

#[cfg(test)]
#[path = "submit_tests.rs"]
mod tests;
