//! Asks the API what became of every task that was acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orloj_wire::clock::Clock as _;
use orloj_wire::rest::MAX_PAGE;
use orloj_wire::time::Time;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::caller::{Call, CallError, Caller};
use crate::load::{Ack, task_key};
use crate::message::{CheckResult, CheckSpec};

/// Tasks looked up at once when a sample is.
const LOOKUPS: usize = 16;
/// Between two looks at tasks that have not ended.
const PAUSE: Duration = Duration::from_millis(200);
/// Tries of one call.
const TRIES: u32 = 100;

/// A task as the API tells it, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    task_id: &'a str,
    status: &'a str,
    finished_at: Option<&'a str>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tasks: Vec<Item<'a>>,
    next_page_token: Option<&'a str>,
}

/// Looks the tasks up, again and again while some have not ended, until the patience is over.
///
/// # Errors
/// The API does not answer, or refuses.
pub(crate) async fn check(
    caller: &Arc<Caller>,
    acks: &[Ack],
    spec: CheckSpec,
) -> Result<CheckResult, CallError> {
    let begin = caller.clock().monotonic();
    let sample = sample(acks, spec);
    loop {
        let result = match sample.len() < acks.len() {
            true => by_id(caller, &sample).await?,
            false => by_signer(caller, &sample).await?,
        };
        let waited = caller.clock().monotonic() - begin;
        if ended(&result) == result.looked_up || waited.as_secs_f64() >= spec.patience_s {
            return Ok(CheckResult { acknowledged: acks.len() as u64, ..result });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Everything, or where that is too much, as many as may be looked up, by chance.
fn sample(acks: &[Ack], spec: CheckSpec) -> Vec<Ack> {
    let most = usize::try_from(spec.at_most).unwrap_or(usize::MAX);
    if acks.len() <= most {
        return acks.to_vec();
    }
    acks.sample(&mut StdRng::seed_from_u64(spec.seed), most).copied().collect()
}

fn ended(result: &CheckResult) -> u64 {
    let open = ["PENDING", "RUNNING"];
    result
        .statuses
        .iter()
        .filter(|(status, _)| !open.contains(&status.as_str()))
        .map(|(_, count)| count)
        .sum()
}

/// Counts one task.
fn count(result: &mut CheckResult, item: &Item<'_>, due_us: i64) -> Result<(), CallError> {
    *result.statuses.entry(item.status.to_owned()).or_default() += 1;
    let Some(text) = item.finished_at.filter(|_| item.status == "SUCCESS") else { return Ok(()) };
    let finished_ms = Time::parse(text).map_err(|error| CallError::Answer(error.to_string()))?.0;
    let took_us = finished_ms.saturating_mul(1_000).saturating_sub(due_us);
    result.end_to_end.record(u64::try_from(took_us).unwrap_or(0));
    result.last_finished_ms = result.last_finished_ms.max(finished_ms);
    Ok(())
}

/// Reads the list of each caller that has submitted.
async fn by_signer(caller: &Caller, acks: &[Ack]) -> Result<CheckResult, CallError> {
    let mut parts: BTreeMap<u16, Vec<Ack>> = BTreeMap::new();
    for ack in acks {
        parts.entry(ack.signer).or_default().push(*ack);
    }
    let mut result = CheckResult::default();
    for (signer, acks) in parts {
        add(&mut result, by_page(caller, usize::from(signer), &acks).await?);
    }
    result.looked_up = acks.len() as u64;
    Ok(result)
}

/// Adds what was found of others.
fn add(result: &mut CheckResult, part: CheckResult) {
    result.missing += part.missing;
    part.statuses.into_iter().for_each(|(status, count)| {
        *result.statuses.entry(status).or_default() += count;
    });
    result.end_to_end.merge(&part.end_to_end);
    result.last_finished_ms = result.last_finished_ms.max(part.last_finished_ms);
}

/// Reads a caller's list, newest first, until all of them have come.
async fn by_page(caller: &Caller, signer: usize, acks: &[Ack]) -> Result<CheckResult, CallError> {
    let mut open: HashMap<[u8; 22], i64> = acks.iter().map(|ack| (ack.task, ack.due_us)).collect();
    let mut result = CheckResult::default();
    let mut token = String::new();
    while !open.is_empty() {
        let query = match token.as_str() {
            "" => format!("page_size={MAX_PAGE}"),
            token => format!("page_size={MAX_PAGE}&page_token={token}"),
        };
        let answer = patiently(caller, signer, "/openapi/v1/tasks", &query).await?;
        let page: Page<'_> = parse(&answer)?;
        for item in &page.tasks {
            if let Some(due_us) = task_key(item.task_id).and_then(|key| open.remove(&key)) {
                count(&mut result, item, due_us)?;
            }
        }
        let Some(next) = page.next_page_token else { break };
        next.clone_into(&mut token);
    }
    result.missing = open.len() as u64;
    Ok(result)
}

/// Asks for each of them.
async fn by_id(caller: &Arc<Caller>, acks: &[Ack]) -> Result<CheckResult, CallError> {
    let mut result = CheckResult { looked_up: acks.len() as u64, ..CheckResult::default() };
    let mut lookups = JoinSet::new();
    for part in acks.chunks(acks.len().div_ceil(LOOKUPS).max(1)) {
        let (caller, part) = (Arc::clone(caller), part.to_vec());
        lookups.spawn(async move { each(&caller, &part).await });
    }
    while let Some(part) = lookups.join_next().await {
        add(&mut result, part.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?);
    }
    Ok(result)
}

async fn each(caller: &Caller, acks: &[Ack]) -> Result<CheckResult, CallError> {
    let mut result = CheckResult::default();
    for ack in acks {
        let path = format!("/openapi/v1/tasks/tsk_{}", String::from_utf8_lossy(&ack.task));
        match patiently(caller, usize::from(ack.signer), &path, "").await {
            Ok(answer) => count(&mut result, &parse(&answer)?, ack.due_us)?,
            Err(CallError::Refused { status: 404, .. }) => result.missing += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(result)
}

async fn patiently(caller: &Caller, signer: usize, path: &str, query: &str) -> Result<Bytes, CallError> {
    let mut tries = 1;
    loop {
        match caller.call(Call { method: "GET", path, query, key: None, signer }, Bytes::new()).await {
            Err(error) if error.passes() && tries < TRIES => tries += 1,
            answer => return answer,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn parse<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> Result<T, CallError> {
    serde_json::from_slice(answer).map_err(|error| CallError::Answer(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_is_measured_from_when_it_was_due() {
        let mut result = CheckResult { looked_up: 3, ..CheckResult::default() };
        let text = r#"{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","status":"SUCCESS","version":3,
            "finishedAt":"1970-01-01T00:00:02.500Z"}"#;
        count(&mut result, &parse(text.as_bytes()).unwrap(), 2_000_000).unwrap();
        let open = r#"{"taskId":"tsk_AAECAwQFBgcICQoLDA0ODw","status":"RUNNING"}"#;
        count(&mut result, &parse(open.as_bytes()).unwrap(), 0).unwrap();
        assert_eq!((result.last_finished_ms, result.end_to_end.count()), (2_500, 1));
        assert!((result.end_to_end.quantiles().unwrap().max - 500.0).abs() < 1.0);
        assert_eq!((ended(&result), result.lost()), (1, 2));
    }

    #[test]
    fn too_many_are_sampled_the_same_way_by_the_same_seed() {
        let acks: Vec<Ack> = (0..100).map(|due_us| Ack { task: [b'a'; 22], due_us, signer: 0 }).collect();
        let spec = CheckSpec { at_most: 10, seed: 5, patience_s: 0.0 };
        let first = sample(&acks, spec);
        assert_eq!(first.len(), 10);
        assert_eq!(first, sample(&acks, spec));
        assert_ne!(first, sample(&acks, CheckSpec { seed: 6, ..spec }));
        assert_eq!(sample(&acks[..10], spec), acks[..10]);
    }

    #[test]
    fn a_page_may_have_more_fields_than_are_read() {
        let text = r#"{"tasks":[{"taskId":"tsk_x","status":"PENDING","priority":5}],"appliedIndex":3}"#;
        let page: Page<'_> = parse(text.as_bytes()).unwrap();
        assert_eq!((page.tasks.len(), page.next_page_token), (1, None));
    }
}
