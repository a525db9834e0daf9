//! What can go wrong for a caller.

use orloj_wire::problem::{Code, Problem};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address or a key cannot be used.
    #[error("{what}: {value:?} {why}")]
    Config {
        /// Which setting.
        what: &'static str,
        /// Its value; of a secret only its length.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The API refused the call, after every repetition that could help.
    #[error("{} ({}): {}{}", .0.code, .0.status, .0.detail, listed(.0))]
    Problem(Box<Problem>),
    /// No replica could be reached, or the connection broke, until the deadline. A change may have happened.
    #[error("no answer from {url}")]
    Transport {
        /// The replica tried last.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// Several replicas were tried until the deadline, and each failed for its own reason. A change may have happened.
    #[error("no replica answers:{}", each(.0))]
    Unreachable(Vec<(String, Error)>),
    /// An answer that is not Orloj's: something else listens there.
    #[error("the answer of {url} with status {status} is not understood: {why}")]
    Answer {
        /// Who answered.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What was wrong with the body.
        why: String,
    },
    /// The task had not ended by the deadline of [`wait`](crate::Client::wait); it may still.
    #[error("task {task_id} is {status} at the deadline")]
    NotFinished {
        /// The task.
        task_id: String,
        /// Where it stood.
        status: String,
    },
}

/// The values at fault, where there are several: the detail tells of a single one.
fn listed(problem: &Problem) -> String {
    if problem.errors.len() < 2 {
        return String::new();
    }
    problem.errors.iter().map(|error| format!("\n  {}: {}", error.pointer, error.message)).collect()
}

/// Replicas, a line each, with the newest fault of each.
fn each(faults: &[(String, Error)]) -> String {
    faults
        .iter()
        .map(|(url, error)| format!("\n  {}: {}", url.trim_end_matches('/'), reason(error)))
        .collect()
}

/// Why one replica has not answered, in as few words as there are.
fn reason(error: &Error) -> String {
    match error {
        Error::Transport { source, .. } if source.is_timeout() && source.is_connect() => {
            "no connection in time".to_owned()
        }
        Error::Transport { source, .. } if source.is_timeout() => "no answer in time".to_owned(),
        Error::Transport { source, .. } => innermost(source),
        other => other.to_string(),
    }
}

/// The cause at the end of a chain: those before it say only that there is one.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

impl Error {
    /// The stable code of a refused call.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Problem(problem) => Code::from_text(&problem.code),
            _ => None,
        }
    }

    /// Whether the try that it tells of certainly changed nothing: it reached nobody, or was refused.
    pub(crate) fn had_no_effect(&self) -> bool {
        match self {
            Error::Transport { source, .. } => source.is_connect(),
            Error::Problem(_) => {
                !matches!(self.code(), None | Some(Code::CommitUnknown | Code::Internal | Code::NotReady))
            }
            Error::Unreachable(faults) => faults.iter().all(|(_, fault)| fault.had_no_effect()),
            Error::Config { .. } | Error::NotFinished { .. } => true,
            Error::Answer { .. } => false,
        }
    }

    /// Whether a change that was asked for may have happened although there is no good answer.
    pub fn is_unknown(&self) -> bool {
        match self {
            Error::Transport { .. } | Error::Answer { .. } => true,
            Error::Unreachable(faults) => faults.iter().any(|(_, fault)| fault.is_unknown()),
            _ => self.code() == Some(Code::CommitUnknown),
        }
    }
}
