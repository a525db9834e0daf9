//! Where a task stands, and how it gets from one place to another by itself.

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It waits.
    Pending,
    /// An executor has it.
    Running,
    /// It succeeded.
    Success,
    /// It failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was never run.
    Skipped,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 6] = [
        Status::Pending,
        Status::Running,
        Status::Success,
        Status::Failed,
        Status::Cancelled,
        Status::Skipped,
    ];

    /// The status of this name in the API.
    pub fn from_name(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Status::Pending => "PENDING",
            Status::Running => "RUNNING",
            Status::Success => "SUCCESS",
            Status::Failed => "FAILED",
            Status::Cancelled => "CANCELLED",
            Status::Skipped => "SKIPPED",
        }
    }

    /// Whether it stays so.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Status::Pending | Status::Running)
    }
}

/// The fewest changes, none of them a caller's, that lead from one status to another; none when none do.
/// `asked` says whether a cancel of the running task has been asked for: then no attempt follows the one that
/// runs, and the task waits no more.
///
/// Waiting tasks are granted (1 change), running ones end or go back to waiting (1), waiting ones that were
/// never started expire (1). More changes than the fewest are always possible while the task has not ended: a
/// handler saves its progress, a due task joins the waiting room, an attempt is handed back.
pub fn hops(from: Status, asked: bool, to: Status) -> Option<u64> {
    use Status::{Cancelled, Failed, Pending, Running, Skipped, Success};
    match (from, to) {
        (from, to) if from == to => Some(0),
        (Running, Success | Failed) => Some(1),
        (Running, Cancelled) if asked => Some(1),
        (Running, Pending) if !asked => Some(1),
        (Running, Skipped) if !asked => Some(2),
        (Pending, Running | Skipped) => Some(1),
        (Pending, Success | Failed) => Some(2),
        _ => None,
    }
}
