//! What a step of a plan does: one fault with its parameters.

use serde::{Deserialize, Serialize};

use crate::target::Target;

/// A fault. In files its name is `package.fault`, its parameters stand beside it in kebab-case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// SIGKILL; started again at the undo.
    #[serde(rename = "process.kill")]
    Kill,
    /// SIGTERM, then a start at the undo.
    #[serde(rename = "process.term")]
    Term,
    /// SIGSTOP, SIGCONT at the undo.
    #[serde(rename = "process.pause")]
    Pause,
    /// Killed and started again and again.
    #[serde(rename = "process.crash-loop")]
    CrashLoop {
        /// Between two kills, in ms.
        beat_ms: u64,
    },
    /// Every replica is killed and started, one after the other.
    #[serde(rename = "process.rolling")]
    Rolling {
        /// From one replica to the next, in ms.
        beat_ms: u64,
    },
    /// No packet goes in or out.
    #[serde(rename = "partition.isolate")]
    Isolate,
    /// The replicas of the target and the other replicas cannot talk; everybody else can talk to all.
    #[serde(rename = "partition.split")]
    Split,
    /// The other two replicas cannot talk to each other: only the target sees both.
    #[serde(rename = "partition.bridge")]
    Bridge,
    /// Nothing reaches the target, which can still send.
    #[serde(rename = "partition.one-way-in")]
    OneWayIn,
    /// Nothing leaves the target, which still hears everything.
    #[serde(rename = "partition.one-way-out")]
    OneWayOut,
    /// The link from the target to one other replica is cut.
    #[serde(rename = "partition.edge")]
    Edge,
    /// The target cannot talk to any executor.
    #[serde(rename = "partition.executors")]
    CutExecutors,
    /// The target cannot talk to any client.
    #[serde(rename = "partition.clients")]
    CutClients,
    /// The links of the target are cut one by one; they heal in another order.
    #[serde(rename = "partition.swizzle")]
    Swizzle {
        /// From one cut to the next, in ms.
        beat_ms: u64,
    },
    /// Every packet of the target is late.
    #[serde(rename = "link.delay")]
    Delay {
        /// By so many ms in each direction.
        delay_ms: u64,
        /// And up to so many more.
        jitter_ms: u64,
    },
    /// Packets of the target get lost.
    #[serde(rename = "link.loss")]
    Loss {
        /// So many in a hundred.
        percent: u8,
    },
    /// Packets of the target arrive twice.
    #[serde(rename = "link.duplicate")]
    Duplicate {
        /// So many in a hundred.
        percent: u8,
    },
    /// Packets of the target overtake each other.
    #[serde(rename = "link.reorder")]
    Reorder {
        /// So many in a hundred.
        percent: u8,
    },
    /// The links of the target are slow.
    #[serde(rename = "link.rate")]
    Rate {
        /// kbit/s in each direction.
        kbit: u64,
    },
    /// The process dies while its links are cut, so that nobody hears of the end of its connections.
    #[serde(rename = "link.half-open")]
    HalfOpen,
    /// Open connections of the target are reset, again and again.
    #[serde(rename = "link.resets")]
    Resets {
        /// From one reset to the next, in ms.
        beat_ms: u64,
    },
    /// Power loss: what was not synced is gone. Started again at the undo.
    #[serde(rename = "power.fail")]
    PowerFail,
    /// One follower is stopped while the leader and the other acknowledge; the other loses power, the leader is
    /// stopped, the first goes on.
    #[serde(rename = "power.amnesiac")]
    Amnesiac {
        /// From one of these to the next, in ms.
        beat_ms: u64,
    },
    /// The disk is full.
    #[serde(rename = "disk.full")]
    DiskFull,
    /// Every sync of a file takes longer.
    #[serde(rename = "disk.slow-sync")]
    SlowSync {
        /// By so many ms.
        delay_ms: u64,
    },
    /// Syncs of files fail with EIO.
    #[serde(rename = "disk.sync-error")]
    SyncError,
    /// Every write to the disk stands still.
    #[serde(rename = "disk.stall")]
    Stall,
    /// The disk can only be read.
    #[serde(rename = "disk.read-only")]
    ReadOnly,
    /// The process dies and one bit of its data turns over. What does not start again is replaced by a new member.
    #[serde(rename = "disk.flip")]
    Flip,
    /// The process dies and one of its files has lost its end. What does not start again is replaced.
    #[serde(rename = "disk.truncate")]
    Truncate,
    /// The wall clock of the process jumps, and back at the undo.
    #[serde(rename = "clock.jump")]
    ClockJump {
        /// By so many ms, forward when positive.
        by_ms: i64,
    },
    /// The wall clock jumps forth and back all the time.
    #[serde(rename = "clock.strobe")]
    ClockStrobe {
        /// By so many ms.
        by_ms: i64,
        /// From one jump to the next, in ms.
        beat_ms: u64,
    },
    /// The wall clock runs away evenly.
    #[serde(rename = "clock.ramp")]
    ClockRamp {
        /// So many ms gained in each second.
        ms_per_s: i64,
    },
    /// Only so much of one core.
    #[serde(rename = "resource.cpu")]
    Cpu {
        /// Percent of one core.
        percent: u32,
    },
    /// Only so much memory; beyond it the kernel kills.
    #[serde(rename = "resource.memory")]
    Memory {
        /// MiB.
        mib: u64,
    },
    /// Only so many open files.
    #[serde(rename = "resource.files")]
    Files {
        /// That many.
        count: u64,
    },
    /// The target is removed from the cluster, loses its data and joins under a new id.
    #[serde(rename = "membership.replace")]
    Replace,
    /// The target is removed by the administrator while it runs; replaced at the undo.
    #[serde(rename = "membership.remove")]
    Remove,
    /// The target is replaced, then its old data comes back: the old identity must be refused.
    #[serde(rename = "membership.old-identity")]
    OldIdentity {
        /// From the loss of the data to its return, in ms.
        beat_ms: u64,
    },
    /// The administrator moves the leadership.
    #[serde(rename = "membership.transfer")]
    Transfer,
    /// The target takes a snapshot at once.
    #[serde(rename = "membership.snapshot")]
    Snapshot,
    /// The executor dies; a new life begins at the undo.
    #[serde(rename = "executor.kill")]
    ExecutorKill,
    /// The executor answers nothing and does nothing.
    #[serde(rename = "executor.hang")]
    ExecutorHang,
    /// Handlers start and never end.
    #[serde(rename = "executor.stuck")]
    ExecutorStuck,
    /// It takes what is pushed to it and never answers the push.
    #[serde(rename = "executor.no-answer")]
    NoAnswer,
    /// It accepts attempts and never reports of them.
    #[serde(rename = "executor.silent")]
    ExecutorSilent,
    /// It sends every report twice.
    #[serde(rename = "executor.report-twice")]
    ReportTwice,
    /// Its reports come late.
    #[serde(rename = "executor.report-late")]
    ReportLate {
        /// By so many ms.
        delay_ms: u64,
    },
    /// It reports to the leader that it knew before.
    #[serde(rename = "executor.report-old-leader")]
    ReportOldLeader,
    /// It accepts, works, and answers 500.
    #[serde(rename = "executor.error-after-accept")]
    ErrorAfterAccept,
    /// It leaves and registers again and again.
    #[serde(rename = "executor.flap")]
    Flap {
        /// From one to the next, in ms.
        every_ms: u64,
    },
    /// It registers with another weight.
    #[serde(rename = "executor.weight")]
    Weight {
        /// The new weight.
        weight: u32,
    },
    /// The sink answers 500.
    #[serde(rename = "sink.errors")]
    SinkErrors,
    /// The sink takes effects and never answers.
    #[serde(rename = "sink.silent")]
    SinkSilent,
    /// The sink answers slowly.
    #[serde(rename = "sink.slow")]
    SinkSlow {
        /// After so many ms.
        delay_ms: u64,
    },
    /// The sink is away: nobody listens.
    #[serde(rename = "sink.down")]
    SinkDown,
}

impl Action {
    /// `package.fault`.
    pub fn full_name(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value.get("fault").and_then(|name| name.as_str()).unwrap_or_default().to_owned()
    }

    /// The package and the fault's name within it.
    pub fn name(&self) -> (String, String) {
        let full = self.full_name();
        full.split_once('.').map(|(package, name)| (package.to_owned(), name.to_owned())).unwrap_or_default()
    }

    /// The parameters, for people: `delay-ms=50 jitter-ms=5`.
    pub fn parameters(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        let entries = value.as_object().into_iter().flatten().filter(|(key, _)| *key != "fault");
        entries.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Between two beats of a fault that goes on acting while it is installed, in ms.
    pub fn beat_ms(&self) -> Option<u64> {
        match self {
            Action::CrashLoop { beat_ms }
            | Action::Rolling { beat_ms }
            | Action::Swizzle { beat_ms }
            | Action::Resets { beat_ms }
            | Action::Amnesiac { beat_ms }
            | Action::OldIdentity { beat_ms }
            | Action::ClockStrobe { beat_ms, .. } => Some((*beat_ms).max(10)),
            _ => None,
        }
    }

    /// The shortest time that it needs between installing and undoing to do what it says, in ms.
    pub fn least_ms(&self) -> u64 {
        match self {
            Action::Amnesiac { beat_ms } | Action::Rolling { beat_ms } => 4 * beat_ms,
            Action::Swizzle { beat_ms } => 12 * beat_ms,
            Action::CrashLoop { beat_ms } => 3 * beat_ms,
            // The old identity is there for one beat.
            Action::OldIdentity { beat_ms } => 2 * beat_ms,
            _ => 0,
        }
    }

    /// How many replicas cannot take part while it is installed on `target`. Slow ones take part.
    pub fn replicas_out(&self, target: &Target) -> usize {
        match self {
            Action::Amnesiac { .. } => 2,
            Action::Rolling { .. } | Action::Transfer => 1,
            Action::Bridge => 1,
            Action::Delay { .. }
            | Action::Duplicate { .. }
            | Action::Reorder { .. }
            | Action::ClockJump { .. }
            | Action::ClockStrobe { .. }
            | Action::ClockRamp { .. }
            | Action::Snapshot
            | Action::CutClients
            | Action::CutExecutors => 0,
            Action::Split => 1,
            _ => target.replicas(),
        }
    }

    /// How many mock executors cannot work while it is installed on `target`.
    pub fn executors_out(&self, target: &Target) -> usize {
        match self {
            Action::ExecutorKill
            | Action::ExecutorHang
            | Action::ExecutorStuck
            | Action::ExecutorSilent
            | Action::NoAnswer
            | Action::Flap { .. } => target.executors(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_written_by_its_name_with_its_parameters_beside_it() {
        let action: Action =
            serde_json::from_str(r#"{"fault":"link.delay","delay-ms":50,"jitter-ms":5}"#).unwrap();
        assert_eq!(action, Action::Delay { delay_ms: 50, jitter_ms: 5 });
        assert_eq!(action.name(), ("link".to_owned(), "delay".to_owned()));
        assert_eq!(action.parameters(), "delay-ms=50 jitter-ms=5");
        assert_eq!(Action::Kill.parameters(), "");
        assert!(serde_json::from_str::<Action>(r#"{"fault":"link.delay","delay-ms":50}"#).is_err());
    }

    #[test]
    fn what_takes_replicas_out_is_counted() {
        assert_eq!(Action::Kill.replicas_out(&Target::Majority), 2);
        assert_eq!(Action::Delay { delay_ms: 5, jitter_ms: 0 }.replicas_out(&Target::All), 0);
        assert_eq!(Action::Amnesiac { beat_ms: 9 }.replicas_out(&Target::Leader), 2);
        assert_eq!(Action::ExecutorKill.replicas_out(&Target::AnyExecutor), 0);
        assert_eq!(Action::ExecutorKill.executors_out(&Target::AnyExecutor), 1);
    }
}
