//! Draws submissions.

use orloj_jepsen_core::event;
use orloj_wire::json::Strict;
use orloj_wire::rest::{self, BackoffMs, Retry, Strategy};
use orloj_wire::time::Time;
use serde_json::{Value, json};

use super::mix::Mix;
use crate::Now;
use crate::rng::Rng;

/// The shortest delay, in ms.
const SHORTEST_DELAY_MS: u64 = 10;
/// How far an instant may have passed, in ms.
const PAST_MS: u64 = 1_000;
/// Tries after attempts that were lost: the faults of a run take many executors away.
const MAX_LOST: u64 = 10;
/// The longest timeout of a handler that hangs, in ms.
const LONGEST_HANG_MS: u64 = 2_000;
/// The timeout of handlers that do not hang, in ms: long enough for every work.
const TIMEOUT_MS: u64 = 30_000;

/// A submission: as the history has it, and as it is sent. Repeats send the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// As the history has it, without an answer.
    pub seen: event::Submit,
    /// The body.
    pub body: rest::Submit,
}

/// A submission with this label.
pub(super) fn draw(rng: &mut Rng, mix: &Mix, label: String, now: Now) -> Planned {
    let effect_url = mix.effect_url.as_ref().filter(|_| rng.chance(mix.shares.effect));
    let mut planned = match effect_url {
        Some(url) => effect(rng, url, &label),
        None => mock(rng, mix, &label),
    };
    timing(rng, mix, &mut planned, now);
    placement(rng, mix, &mut planned);
    retry(rng, mix, &mut planned);
    if rng.chance(mix.shares.keyed) {
        planned.seen.idempotency_key = Some(format!("key-{label}"));
    }
    planned.seen.label = label;
    planned
}

/// A task for the real executor: one keyed effect at the sink.
fn effect(rng: &mut Rng, url: &str, label: &str) -> Planned {
    let business_key = format!("effect-{label}");
    let address = format!("{url}?label={label}&key={business_key}");
    let timeout_ms = rng.between(2_000, 5_000);
    let params = json!({ "method": "POST", "url": address, "timeoutMs": timeout_ms });
    let mut body = rest::Submit::new("http", params);
    body.business_key = Some(business_key.clone());
    let seen = event::Submit {
        handler: "http".to_owned(),
        behaviour: "effect".to_owned(),
        business_key: Some(business_key),
        priority: 5,
        shard_total: 1,
        ..event::Submit::default()
    };
    Planned { seen, body }
}

/// A task for the mock executors.
fn mock(rng: &mut Rng, mix: &Mix, label: &str) -> Planned {
    let handler = rng.pick(&mix.handlers).cloned().unwrap_or_else(|| "mock".to_owned());
    let (behaviour, work_ms) = behaviour(rng, mix);
    let hangs = behaviour == "hang";
    let mut params = json!({ "label": label, "behaviour": behaviour, "workMs": work_ms });
    if rng.chance(mix.shares.big) {
        let bytes = rng.between(mix.big_bytes / 4, mix.big_bytes);
        params["fill"] = Value::String("x".repeat(usize::try_from(bytes).unwrap_or(0)));
    }
    let mut body = rest::Submit::new(&handler, params);
    if hangs {
        body.timeout_ms = Some(rng.between(300, LONGEST_HANG_MS));
    } else if rng.chance(mix.shares.timed) {
        body.timeout_ms = Some(TIMEOUT_MS);
    }
    if rng.chance(mix.shares.business) {
        body.business_key = Some(format!("business-{label}"));
    }
    let seen = event::Submit {
        handler,
        behaviour,
        work_ms,
        timeout_ms: body.timeout_ms,
        business_key: body.business_key.clone(),
        shard_total: 1,
        priority: 5,
        ..event::Submit::default()
    };
    Planned { seen, body }
}

fn behaviour(rng: &mut Rng, mix: &Mix) -> (String, u64) {
    let weights = &mix.behaviours;
    let at = rng.weighted(&[
        weights.ok,
        weights.slow,
        weights.fail,
        weights.fail_times,
        weights.fail_for_good,
        weights.hang,
    ]);
    let work_ms = rng.between(1, mix.longest_work_ms.max(1));
    match at {
        1 => ("slow".to_owned(), work_ms * 10),
        2 => ("fail".to_owned(), work_ms),
        3 => (format!("fail_times:{}", rng.between(1, 3)), work_ms),
        4 => ("fail_for_good".to_owned(), work_ms),
        5 => ("hang".to_owned(), 0),
        _ => ("ok".to_owned(), work_ms),
    }
}

fn timing(rng: &mut Rng, mix: &Mix, planned: &mut Planned, now: Now) {
    let weights = &mix.timing;
    let delay = rng.between(SHORTEST_DELAY_MS, mix.longest_delay_ms.max(SHORTEST_DELAY_MS));
    let mut due_ms = now.wall_ms;
    match rng.weighted(&[weights.at_once, weights.delayed, weights.instant]) {
        1 => {
            planned.body.delay_ms = Some(delay);
            due_ms += signed(delay);
        }
        2 => {
            let passed = rng.chance(0.1);
            let past = signed(rng.between(0, PAST_MS));
            due_ms = if passed { due_ms - past } else { due_ms + signed(delay) };
            planned.body.run_at = Some(Time(due_ms));
        }
        _ => {}
    }
    if rng.chance(mix.shares.expiring) {
        let after = signed(rng.between(50, 3_000));
        planned.body.expire_at = Some(Time(due_ms + after));
    }
    planned.seen.delay_ms = planned.body.delay_ms;
    planned.seen.run_at_ms = planned.body.run_at.map(|time| time.0);
    planned.seen.expire_at_ms = planned.body.expire_at.map(|time| time.0);
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn placement(rng: &mut Rng, mix: &Mix, planned: &mut Planned) {
    if rng.chance(mix.shares.prioritised) {
        let priority = rng.below(10);
        planned.body.priority = Some(priority);
        planned.seen.priority = priority;
    }
    // The real executor has its own handler: nothing there is pinned to a mock one.
    if planned.seen.behaviour == "effect" {
        return;
    }
    if rng.chance(mix.shares.pinned)
        && let Some(executor) = rng.pick(&mix.executors)
    {
        planned.body.strategy = Some(Strategy::Pinned(executor.clone()));
    } else if rng.chance(mix.shares.hot) {
        planned.body.routing_key = Some(format!("hot-{}", rng.below(mix.hot_keys.max(1))));
    }
    planned.seen.routing_key.clone_from(&planned.body.routing_key);
    planned.seen.anywhere = Some(planned.body.strategy.is_none() && planned.body.routing_key.is_none());
}

fn retry(rng: &mut Rng, mix: &Mix, planned: &mut Planned) {
    let steps = rng.between(1, 3);
    let longest = mix.longest_backoff_ms.max(50);
    let backoff_ms: Vec<u64> = (0..steps).map(|_| rng.between(50, longest)).collect();
    let max_retries = rng.between(0, 4);
    planned.seen.max_retries = max_retries;
    planned.seen.max_lost = MAX_LOST;
    planned.seen.backoff_ms.clone_from(&backoff_ms);
    let backoff_ms = backoff_ms.into_iter().map(BackoffMs).collect();
    planned.body.retry = Some(Retry { max_retries, backoff_ms, jitter_pct: 0, max_lost: MAX_LOST });
    debug_assert!(matches!(planned.body.params, Strict(Value::Object(_))), "parameters are an object");
}
