//! How faults and targets are called in a history.

use crate::plan::{Fault, Target};

/// Package and name.
pub(crate) fn name(fault: &Fault) -> (&'static str, &'static str) {
    match fault {
        Fault::Kill => ("process", "kill"),
        Fault::Power => ("power", "fail"),
        Fault::Amnesiac(_) => ("power", "amnesiac"),
        Fault::Pause => ("process", "pause"),
        Fault::Isolate(_) => ("partition", "isolate"),
        Fault::OneWayIn(_) => ("partition", "one-way-in"),
        Fault::OneWayOut(_) => ("partition", "one-way-out"),
        Fault::Edge(_) => ("partition", "edge"),
        Fault::Executors(_) => ("partition", "executors"),
        Fault::Clients(_) => ("partition", "clients"),
        Fault::Delay(..) => ("link", "delay"),
        Fault::Loss(_) => ("link", "loss"),
        Fault::Duplicate(_) => ("link", "duplicate"),
        Fault::Reorder(_) => ("link", "reorder"),
        Fault::SlowSync(..) => ("disk", "slow-sync"),
        Fault::SyncError => ("disk", "sync-error"),
        Fault::DiskLow => ("disk", "full"),
        Fault::ClockJump(_) => ("clock", "jump"),
        Fault::Snapshot => ("membership", "snapshot"),
        Fault::Transfer => ("membership", "transfer"),
        Fault::ExecutorKill { .. } => ("executor", "kill"),
        Fault::ExecutorVice(name, _) => ("executor", name),
    }
}

/// Parameters, for people.
pub(super) fn detail(fault: &Fault) -> String {
    match fault {
        Fault::Amnesiac(beat_ms) => format!("beat-ms={beat_ms}"),
        Fault::Isolate(cut) | Fault::OneWayIn(cut) | Fault::OneWayOut(cut) => format!("{cut:?}"),
        Fault::Edge(cut) | Fault::Executors(cut) | Fault::Clients(cut) => format!("{cut:?}"),
        Fault::Delay(low, high) | Fault::SlowSync(low, high) => format!("ms={low}-{high}"),
        Fault::Loss(share) | Fault::Duplicate(share) | Fault::Reorder(share) => format!("share={share}"),
        Fault::ClockJump(by_ms) => format!("by-ms={by_ms}"),
        Fault::ExecutorKill { amnesiac } => format!("amnesiac={amnesiac}"),
        _ => String::new(),
    }
}

/// The word of a target.
pub(super) fn target(target: Target) -> String {
    match target {
        Target::Leader => "leader".to_owned(),
        Target::Follower => "follower".to_owned(),
        Target::Majority => "majority".to_owned(),
        Target::All => "all".to_owned(),
        Target::Replica(number) => format!("n{number}"),
        Target::Executor(number) => format!("e{number}"),
    }
}
