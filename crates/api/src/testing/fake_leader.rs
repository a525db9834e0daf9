//! A leader's loop for tests.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use orloj_model::id::Round;
use orloj_scheduler::{LeaderError, LiveExecutor, Probe};
use orloj_wire::protocol::{
    Heartbeat, HeartbeatAck, Leave, LogChunk, LogRequest, Register, Registered, Reports, ReportsAck, Saves,
    SavesAck,
};

use crate::Leader;
use crate::leader::Answered;

/// A leader's loop that takes note of what executors say.
#[derive(Default)]
pub(crate) struct FakeLeader {
    pub(crate) serving: AtomicBool,
    pub(crate) heard: Mutex<Vec<String>>,
    /// What logs hold; `None` while the executor does not answer.
    pub(crate) log: Mutex<Option<Vec<u8>>>,
}

impl FakeLeader {
    pub(crate) fn stop_serving(&self) {
        self.serving.store(false, Ordering::SeqCst);
    }

    fn hear<T: Send + 'static>(&self, what: String, answer: T) -> Answered<'_, T> {
        async move {
            if !self.serving.load(Ordering::SeqCst) {
                return Err(LeaderError::NotLeader { leader: Some("h:1".into()) });
            }
            self.heard.lock().unwrap().push(what);
            Ok(answer)
        }
        .boxed()
    }
}

impl Leader for FakeLeader {
    fn register(&self, message: Register) -> Answered<'_, Registered> {
        let answer = Registered { round: 1, heartbeat_ms: 5000, stale: vec![], replicas: vec![] };
        self.hear(format!("register {}", message.executor_id), answer)
    }

    fn heartbeat(&self, message: Heartbeat) -> Answered<'_, HeartbeatAck> {
        let answer = HeartbeatAck { round: 1, register: false, superseded: false, stale: vec![] };
        self.hear(format!("heartbeat {}", message.executor_id), answer)
    }

    fn report(&self, message: Reports) -> Answered<'_, ReportsAck> {
        self.hear(format!("report {}", message.executor_id), ReportsAck { verdicts: vec![], round: 1 })
    }

    fn save(&self, message: Saves) -> Answered<'_, SavesAck> {
        self.hear(format!("save {}", message.executor_id), SavesAck { taken: vec![] })
    }

    fn leave(&self, message: Leave) -> Answered<'_, ()> {
        self.hear(format!("leave {}", message.executor_id), ())
    }

    fn log(&self, request: LogRequest) -> Answered<'_, LogChunk> {
        let log = self.log.lock().unwrap().clone();
        async move {
            let log = log.ok_or(LeaderError::ExecutorUnreachable("gone".into()))?;
            let start = (request.offset as usize).min(log.len());
            let end = (start + request.limit as usize).min(log.len());
            let complete = end == log.len();
            Ok(LogChunk { data: log[start..end].to_vec(), next_offset: end as u64, complete })
        }
        .boxed()
    }

    fn executors_live(&self) -> Vec<LiveExecutor> {
        Vec::new()
    }

    fn probe(&self) -> Probe {
        Probe::default()
    }

    fn serving(&self) -> Option<Round> {
        self.serving.load(Ordering::SeqCst).then_some(1)
    }
}
