//! What the run itself does and sees: faults, processes, phases, and the world outside the cluster.

use serde::{Deserialize, Serialize};

/// An effect outside the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effect {
    /// The task, where the effect names it; the executor's own handler does not.
    pub task: String,
    /// The harness's name of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The attempt.
    pub attempt: u32,
    /// The business key, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// The fence that came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Whether it took effect.
    pub took: bool,
    /// Whether it was refused because its key had taken effect before; an error of the sink refuses it as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// HTTP status that the sink answered with; 0 when it never answered.
    pub status: u16,
}

/// A callback that arrived at the sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Callback {
    /// The task that it tells of; empty where the body cannot be read.
    pub task: String,
    /// The id of the event, the same on every send.
    pub id: String,
    /// The task's status, as it says.
    pub status: String,
    /// The task's version, as it says.
    pub version: u64,
    /// When the task ended, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<i64>,
    /// Its signature is right.
    pub signed: bool,
    /// HTTP status that the sink answered with; 0 when it never answered.
    pub answered: u16,
}

/// What the nemesis did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// Number of the step in the plan.
    pub step: u64,
    /// The package: `partition`, `link`, `process`, `power`, `disk`, `clock`, `resource`, `membership`,
    /// `executor`, `sink`.
    pub package: String,
    /// The fault's name within it: `isolate`, `kill`, `pause`, …
    pub name: String,
    /// Whom the plan meant: `leader`, `follower`, `majority`, `executor:e2`, …
    pub target: String,
    /// Whom it hit.
    pub nodes: Vec<String>,
    /// Whether the leader of the moment was among them.
    pub on_leader: bool,
    /// `installed`, `undone`, `skipped` (with the reason in `detail`), `indeterminate` or `failed`.
    pub phase: String,
    /// Parameters or reason.
    pub detail: String,
}

/// A process of the cluster began or ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// `started`, `exited`, `panicked`.
    pub state: String,
    /// Which process of this node, from 1.
    pub life: u64,
    /// Exit code, where it exited by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The harness ended it, or meant it to end (disk full, failed fsync).
    pub expected: bool,
    /// The last line of its log, of a panic or an unexpected end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// A phase of the run begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// `load`, `heal` (all faults are undone), `quiesce` (no more load), `final` (last reads), `end`.
    pub name: String,
}

/// What the directed links have done to packets. Told when a fault of the network begins or ends and at the end of
/// the load, of the links on which something has happened to a packet since it was told before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Links {
    /// Each with what it has counted since the network was made.
    pub links: Vec<LinkCount>,
}

/// What one directed link has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkCount {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Packets that were sent into it.
    pub packets: u64,
    /// Packets that did not come out.
    pub dropped: u64,
    /// Packets that came out twice.
    pub duplicated: u64,
    /// Packets that were overtaken.
    pub reordered: u64,
    /// Packets that came out later than they were sent.
    pub delayed: u64,
    /// Packets that waited for others, because the link is narrow.
    pub throttled: u64,
}
