//! What the parameters of a task ask of a mock executor.

use orloj_wire::protocol::ReportOutcome;
use serde_json::{Value, json};

/// What a mock executor does with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Succeeds. `slow` is another word for it, with a long `workMs`.
    Ok,
    /// Fails, and another try can help (but does not).
    Fail,
    /// Fails, and no other try can help.
    FailForGood,
    /// Works until it is stopped or outruns its timeout.
    Hang,
    /// The first so many attempts fail, every later one succeeds.
    FailTimes(u32),
}

/// The parameters of a task for a mock executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The harness's name of the work.
    pub label: String,
    /// What to do.
    pub behaviour: Behaviour,
    /// How long it takes, in ms.
    pub work_ms: u64,
    /// Of a failure: the delay that is asked for, in ms.
    pub retry_after_ms: Option<u64>,
}

impl Behaviour {
    /// Reads `ok`, `slow`, `fail`, `fail_for_good`, `hang` and `fail_times:N`; anything else is `ok`.
    pub fn parse(text: &str) -> Behaviour {
        match text.split_once(':') {
            Some(("fail_times", times)) => times.parse().map_or(Behaviour::Ok, Behaviour::FailTimes),
            _ => match text {
                "fail" => Behaviour::Fail,
                "fail_for_good" => Behaviour::FailForGood,
                "hang" => Behaviour::Hang,
                _ => Behaviour::Ok,
            },
        }
    }

    /// How an attempt of this number ends by itself; none when it does not.
    pub fn end(self, attempt: u32) -> Option<End> {
        let (outcome, retryable) = match self {
            Behaviour::Ok => (ReportOutcome::Succeeded, true),
            Behaviour::Fail => (ReportOutcome::Failed, true),
            Behaviour::FailForGood => (ReportOutcome::Failed, false),
            Behaviour::FailTimes(times) if attempt <= times => (ReportOutcome::Failed, true),
            Behaviour::FailTimes(_) => (ReportOutcome::Succeeded, true),
            Behaviour::Hang => return None,
        };
        Some(End { outcome, retryable })
    }
}

/// How an attempt ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Succeeded or failed.
    pub outcome: ReportOutcome,
    /// Of a failure: another try can help.
    pub retryable: bool,
}

impl Work {
    /// Reads parameters; what is absent has its default (no label, `ok`, 0 ms).
    pub fn of(params: &Value) -> Work {
        let text = |name| params.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name| params.get(name).and_then(Value::as_u64);
        Work {
            label: text("label").to_owned(),
            behaviour: Behaviour::parse(text("behaviour")),
            work_ms: number("workMs").unwrap_or(0),
            retry_after_ms: number("retryAfterMs"),
        }
    }

    /// What an attempt that succeeds returns: tells which attempt's result is shown.
    pub fn result(&self, attempt: u32, shard: u16) -> Value {
        match shard {
            0 => json!({ "label": self.label, "attempt": attempt }),
            shard => json!({ "label": self.label, "attempt": attempt, "shard": shard }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_say_how_each_attempt_ends() {
        let end = |behaviour: &str, attempt| Behaviour::parse(behaviour).end(attempt);
        let ended = |outcome, retryable| Some(End { outcome, retryable });
        assert_eq!(end("ok", 1), ended(ReportOutcome::Succeeded, true));
        assert_eq!(end("slow", 1), ended(ReportOutcome::Succeeded, true));
        assert_eq!(end("fail", 9), ended(ReportOutcome::Failed, true));
        assert_eq!(end("fail_for_good", 1), ended(ReportOutcome::Failed, false));
        assert_eq!(end("hang", 1), None);
        assert_eq!(end("fail_times:2", 2), ended(ReportOutcome::Failed, true));
        assert_eq!(end("fail_times:2", 3), ended(ReportOutcome::Succeeded, true));
        let work = Work::of(&json!({"label": "a", "behaviour": "fail", "workMs": 7, "retryAfterMs": 50}));
        assert_eq!((work.label.as_str(), work.work_ms, work.retry_after_ms), ("a", 7, Some(50)));
        assert_eq!(Work::of(&json!([1])).behaviour, Behaviour::Ok);
    }
}
