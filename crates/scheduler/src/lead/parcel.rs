//! A push in as many calls as it takes: an executor reads no more than 4 MiB at once.

use orloj_wire::protocol::{Dispatch, Run, RunAck};

use crate::link::{self, ExecutorLink, LinkError, Target};
use crate::results::length;

/// How many bytes of attempts a call has before it takes no further one. A single attempt has up to some 1.3 MiB: its
/// parameters, what its parents returned, and a checkpoint.
const CALL_BYTES: usize = 2 << 20;
/// What is added for the rest of an attempt: ids, names and a business key.
const HEAD_BYTES: usize = 1 << 10;

/// Hands a batch over, call by call. Where one comes to nothing all of it does: what has arrived is pushed again, and is
/// known there.
pub(super) async fn deliver(link: &dyn ExecutorLink, target: &Target, run: Run) -> Result<RunAck, LinkError> {
    let Run { executor_id, incarnation, round, attempts } = run;
    let mut whole = RunAck { verdicts: Vec::new(), refusal: None, free_slots: 0, free_places: 0 };
    for attempts in parcels(attempts) {
        let count = attempts.len();
        let part = Run { executor_id: executor_id.clone(), incarnation, round, attempts };
        let ack = link::run(link, target, &part).await?;
        if ack.verdicts.len() != count {
            let problem = format!("{} verdicts for {count} attempts", ack.verdicts.len());
            return Err(LinkError::Malformed(problem));
        }
        whole.verdicts.extend(ack.verdicts);
        whole = RunAck { verdicts: whole.verdicts, refusal: ack.refusal.or(whole.refusal), ..ack };
    }
    Ok(whole)
}

/// The attempts of each call, in order.
fn parcels(attempts: Vec<Dispatch>) -> Vec<Vec<Dispatch>> {
    let mut parcels = Vec::new();
    let (mut parcel, mut bytes) = (Vec::new(), 0);
    for attempt in attempts {
        bytes += weight(&attempt);
        parcel.push(attempt);
        if bytes >= CALL_BYTES {
            parcels.push(std::mem::take(&mut parcel));
            bytes = 0;
        }
    }
    if !parcel.is_empty() {
        parcels.push(parcel);
    }
    parcels
}

/// About how many bytes an attempt takes in a call.
fn weight(attempt: &Dispatch) -> usize {
    let checkpoint = attempt.checkpoint.as_ref().map_or(0, |bytes| bytes.len().div_ceil(3) * 4);
    // What has no end is an end of its own.
    HEAD_BYTES + checkpoint + length(&attempt.params, CALL_BYTES).unwrap_or(CALL_BYTES)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use orloj_wire::protocol::{AttemptRef, RunVerdict};
    use serde_json::json;

    use super::*;

    /// What an executor reads at most.
    const READ: usize = 4 << 20;

    fn attempt(number: u64, params: serde_json::Value, checkpoint: usize) -> Dispatch {
        Dispatch {
            attempt: AttemptRef { task_id: "t".into(), shard_index: 0, attempt: 1, fence: number },
            shard_total: 50,
            handler: "h".repeat(128),
            params,
            caller_id: "c".repeat(128),
            business_key: Some("b".repeat(256)),
            dedupe_key: "d".repeat(256),
            timeout_ms: None,
            due_at: 0,
            scheduled_at: None,
            job_id: None,
            checkpoint: Some(vec![7; checkpoint]),
        }
    }

    fn run(attempts: Vec<Dispatch>) -> Run {
        Run { executor_id: "e".into(), incarnation: 1, round: 1, attempts }
    }

    /// An executor that takes what it can read, but nothing in the call of this number.
    #[derive(Default)]
    struct Executor {
        heard: Mutex<Vec<Vec<u64>>>,
        silent_in: Option<usize>,
    }

    impl ExecutorLink for Executor {
        fn post<'a>(
            &'a self,
            _: &'a Target,
            _: &'static str,
            body: Vec<u8>,
            _: Duration,
        ) -> BoxFuture<'a, Result<Vec<u8>, LinkError>> {
            async move {
                if body.len() > READ {
                    return Err(LinkError::Refused { status: 413, code: "payload_too_large".into() });
                }
                let run: Run = serde_json::from_slice(&body).unwrap();
                let fences: Vec<_> = run.attempts.iter().map(|attempt| attempt.attempt.fence).collect();
                let mut heard = self.heard.lock().unwrap();
                heard.push(fences.clone());
                if self.silent_in == Some(heard.len()) {
                    return Err(LinkError::NoAnswer("silence".into()));
                }
                let verdict = |fence| if fence % 7 == 0 { RunVerdict::Refused } else { RunVerdict::Accepted };
                let verdicts: Vec<_> = fences.into_iter().map(verdict).collect();
                let refusal = verdicts.contains(&RunVerdict::Refused).then(|| "queue_full".to_owned());
                let ack = RunAck { verdicts, refusal, free_slots: 9, free_places: 9 };
                Ok(serde_json::to_vec(&ack).unwrap())
            }
            .boxed()
        }
    }

    fn target() -> Target {
        Target { id: "e".into(), address: "127.0.0.1:1".into() }
    }

    #[tokio::test]
    async fn b133_the_largest_parameters_of_many_attempts_go_out_in_calls_that_are_read() {
        let characters = "\u{1f980}".repeat(16_000);
        for (count, params, checkpoint) in [
            (256, json!("x".repeat(64 << 10)), 0),
            (256, json!({ "text": characters }), 64 << 10),
            // Escaped, each byte takes six; and what parents returned may be put in besides.
            (50, json!("\u{1}".repeat(200 << 10)), 64 << 10),
            (256, json!({}), 0),
            (1, json!("x".repeat(3 << 20)), 64 << 10),
        ] {
            let executor = Executor::default();
            let attempts: Vec<_> =
                (1..=count).map(|number| attempt(number, params.clone(), checkpoint)).collect();
            let ack = deliver(&executor, &target(), run(attempts)).await.unwrap();
            let heard = executor.heard.lock().unwrap().concat();
            assert_eq!(heard, (1..=count).collect::<Vec<_>>(), "each once, in order");
            let refused: Vec<_> = (1..=count).filter(|fence| fence % 7 == 0).collect();
            let verdicts = (1..=count).zip(&ack.verdicts);
            let said = verdicts.filter(|(_, verdict)| **verdict == RunVerdict::Refused);
            assert_eq!(said.map(|(fence, _)| fence).collect::<Vec<_>>(), refused);
            assert_eq!(ack.refusal.is_some(), !refused.is_empty());
        }
    }

    #[tokio::test]
    async fn small_attempts_go_out_in_one_call() {
        let executor = Executor::default();
        let attempts = (1..=256).map(|number| attempt(number, json!({ "n": 1 }), 0)).collect();
        deliver(&executor, &target(), run(attempts)).await.unwrap();
        assert_eq!(executor.heard.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_batch_of_which_one_call_is_not_answered_is_pushed_again() {
        let executor = Executor { silent_in: Some(2), ..Executor::default() };
        let attempts = (1..=100).map(|number| attempt(number, json!("x".repeat(64 << 10)), 0)).collect();
        let failed = deliver(&executor, &target(), run(attempts)).await;
        assert_eq!(failed, Err(LinkError::NoAnswer("silence".into())));
        assert_eq!(executor.heard.lock().unwrap().len(), 2, "nothing goes out behind it");
    }
}
