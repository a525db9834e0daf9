//! What tests of several parts begin with.

use std::collections::BTreeMap;

use orloj_model::executor::{Executor, ExecutorState, Registration};
use orloj_model::id::{CallerId, ExecutorId};
use orloj_model::tables::Codec;
use orloj_model::task::{Origin, RetryPolicy, Strategy, TaskSpec};
use orloj_wire::protocol::Heartbeat;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Rows of tables in memory.
pub(crate) struct Json;

impl Codec for Json {
    type Error = serde_json::Error;

    fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, Self::Error> {
        serde_json::to_vec(value)
    }

    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Self::Error> {
        serde_json::from_slice(if bytes.is_empty() { b"null" } else { bytes })
    }
}

/// A plain task of the caller `c`.
pub(crate) fn spec() -> TaskSpec {
    TaskSpec {
        caller: CallerId::new("c").expect("a valid name"),
        access_key: String::new(),
        handler: "echo".into(),
        params: b"{}".to_vec(),
        origin: Origin::Submission,
        priority: 5,
        labels: BTreeMap::new(),
        routing_key: None,
        zone: None,
        strategy: Strategy::Ring,
        business_key: None,
        dedupe_key: None,
        retry: RetryPolicy::default(),
        timeout_ms: None,
        expire_at: None,
        shard_total: 1,
        depends_on: Vec::new(),
        callback_url: None,
        estimated_duration_ms: None,
    }
}

/// An executor without a queue that runs the handler of [`spec`], as the table has it.
pub(crate) fn executor_row(name: &str, incarnation: u64, slots: u32) -> Executor {
    let registration = Registration {
        id: ExecutorId::new(name).expect("a valid name"),
        incarnation,
        address: "127.0.0.1:1".into(),
        handlers: vec!["echo".into()],
        slots,
        queue: 0,
        weight: 100,
        zone: None,
        labels: BTreeMap::new(),
        version: "0".into(),
    };
    Executor { registration, state: ExecutorState::Online, registered_at: 0, changed_at: 0 }
}

/// What it says in round 7 when it holds nothing.
pub(crate) fn heartbeat(name: &str, incarnation: u64, free_slots: u32) -> Heartbeat {
    Heartbeat {
        executor_id: name.into(),
        incarnation,
        round: 7,
        holding: Vec::new(),
        free_slots,
        queued: 0,
        cpu_pct: 1.0,
        draining: false,
        handlers: BTreeMap::new(),
    }
}
