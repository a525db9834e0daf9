//! What a node is told at its start. Every option has a default but the directory, the cluster's name and
//! the node's own addresses; [`Options::check`] names the field and the value that is wrong.

use std::collections::BTreeSet;
use std::path::PathBuf;

use orloj_model::id::NodeId;
use serde::{Deserialize, Serialize};

/// Everything that a node is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// The id under which this node first boots with `members`. A node that joins gets its id from the
    /// leader, and a node that has booted before keeps the id in its identity file.
    pub node_id: NodeId,
    /// The cluster's name; every peer call carries it and a node of another cluster refuses it.
    pub cluster: String,
    /// Where the data lives. One process at a time.
    pub dir: PathBuf,
    /// `host:port` under which peers reach this node.
    pub internal: String,
    /// Base URL under which callers reach this node, for hints to the leader.
    pub api: String,
    /// The members with which the cluster boots for the first time, this node among them. Empty: join.
    pub members: Vec<SeedMember>,
    /// Internal addresses to ask for the leader when this node must join. The addresses of `members` are
    /// asked as well.
    pub join: Vec<String>,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// When to snapshot and how much log to keep.
    pub snapshot: SnapshotOptions,
    /// When the disk counts as full.
    pub disk: DiskOptions,
    /// How many proposals may wait.
    pub proposals: ProposalOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            node_id: 1,
            cluster: "orloj".into(),
            dir: PathBuf::from("data"),
            internal: "127.0.0.1:7071".into(),
            api: "http://127.0.0.1:7070".into(),
            members: Vec::new(),
            join: Vec::new(),
            timing: Timing::default(),
            snapshot: SnapshotOptions::default(),
            disk: DiskOptions::default(),
            proposals: ProposalOptions::default(),
        }
    }
}

/// A member of the first boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SeedMember {
    /// Its id; at least 1 and never reused.
    pub id: NodeId,
    /// `host:port` of its internal listener.
    pub internal: String,
    /// Base URL of its public listener.
    pub api: String,
}

/// Heartbeats and elections, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Timing {
    /// Between two heartbeats of a leader.
    pub heartbeat_ms: u64,
    /// Shortest silence after which a follower stands for election; more than three heartbeats.
    pub election_min_ms: u64,
    /// Longest such silence, and the leader's lease.
    pub election_max_ms: u64,
    /// Between two comparisons of the digests with the other members'.
    pub digest_check_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { heartbeat_ms: 150, election_min_ms: 500, election_max_ms: 750, digest_check_ms: 5_000 }
    }
}

/// When to snapshot and how much log to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SnapshotOptions {
    /// A snapshot is taken when the log has grown by so many bytes since the last one.
    pub log_bytes: u64,
    /// And when the last one is this old and anything has been applied since, in seconds (up to a fifth
    /// longer, so that the nodes do not all snapshot at once).
    pub every_s: u64,
    /// Entries kept in the log behind the snapshot, so that a node that was away for a while catches up
    /// from the log. At least what is applied while a snapshot is being sent.
    pub keep_log_entries: u64,
    /// Silence after which a transfer to a peer is given up, in milliseconds.
    pub chunk_timeout_ms: u64,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        SnapshotOptions {
            log_bytes: 1 << 30,
            every_s: 600,
            keep_log_entries: 200_000,
            chunk_timeout_ms: 10_000,
        }
    }
}

/// When the disk counts as full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct DiskOptions {
    /// Proposals are refused while less than this is free, in bytes, ...
    pub low_bytes: u64,
    /// ... or less than this share of the disk, in percent; the smaller of the two decides.
    pub low_percent: u8,
    /// Size of a file that is deleted when the disk is all but full, so that the node can still start, in
    /// bytes. 0: none.
    pub ballast_bytes: u64,
    /// Between two looks at the disk, in milliseconds.
    pub check_ms: u64,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions { low_bytes: 2 << 30, low_percent: 10, ballast_bytes: 256 << 20, check_ms: 5_000 }
    }
}

/// How many proposals may wait, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProposalOptions {
    /// Encoded bytes of all proposals that are not answered yet; beyond it a proposal is refused at once.
    pub queue_bytes: usize,
    /// Longest wait for an answer, in milliseconds; then the outcome is unknown.
    pub deadline_ms: u64,
    /// Most changes in one log entry.
    pub entry_changes: usize,
    /// Most encoded bytes in one log entry (one larger change still gets an entry of its own).
    pub entry_bytes: usize,
    /// Most entries proposed and not yet applied.
    pub in_flight: usize,
}

impl Default for ProposalOptions {
    fn default() -> Self {
        ProposalOptions {
            queue_bytes: 32 << 20,
            deadline_ms: 10_000,
            entry_changes: 512,
            entry_bytes: 256 << 10,
            in_flight: 8,
        }
    }
}

/// An option with a value that it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("option {field}: {value:?} {problem}")]
pub struct OptionError {
    /// The option, as in the configuration file.
    pub field: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is wrong with that.
    pub problem: &'static str,
}

/// Bytes of a cluster's name, at most.
const CLUSTER_LIMIT: usize = 64;
/// Greatest id of a member of the first boot. The ids of nodes that join later are above it.
pub const SEED_ID_LIMIT: NodeId = 1_000;

impl Options {
    /// Checks every option against its bounds.
    pub fn check(&self) -> Result<(), OptionError> {
        self.check_names()?;
        self.check_members()?;
        self.timing.check()?;
        self.snapshot.check()?;
        self.disk.check()?;
        self.proposals.check()
    }

    fn check_names(&self) -> Result<(), OptionError> {
        let name_is_plain = self.cluster.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        ensure(
            name_is_plain && (1..=CLUSTER_LIMIT).contains(&self.cluster.len()),
            "cluster",
            &self.cluster,
            "must be 1-64 characters of [A-Za-z0-9._-]",
        )?;
        ensure(!self.dir.as_os_str().is_empty(), "dir", self.dir.display(), "must name a directory")?;
        check_internal("internal", &self.internal)?;
        check_api("api", &self.api)?;
        self.join.iter().try_for_each(|address| check_internal("join", address))
    }

    fn check_members(&self) -> Result<(), OptionError> {
        let mut ids = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        for member in &self.members {
            ensure((1..=SEED_ID_LIMIT).contains(&member.id), "members.id", member.id, "must be 1-1000")?;
            ensure(ids.insert(member.id), "members.id", member.id, "is given twice")?;
            check_internal("members.internal", &member.internal)?;
            let fresh = addresses.insert(&member.internal);
            ensure(fresh, "members.internal", &member.internal, "is given twice")?;
            check_api("members.api", &member.api)?;
        }
        if self.members.is_empty() {
            return ensure(
                !self.join.is_empty(),
                "join",
                "",
                "must name a node to ask when members is empty",
            );
        }
        let own = self.members.iter().find(|member| member.id == self.node_id);
        let own_address = own.map(|member| member.internal.as_str());
        ensure(own.is_some(), "node-id", self.node_id, "is not among members")?;
        ensure(
            own_address == Some(self.internal.as_str()),
            "internal",
            &self.internal,
            "differs from this node's address in members",
        )
    }
}

impl Timing {
    fn check(&self) -> Result<(), OptionError> {
        let Timing { heartbeat_ms, election_min_ms, election_max_ms, digest_check_ms } = *self;
        ensure(digest_check_ms >= 10, "timing.digest-check-ms", digest_check_ms, "must be at least 10")?;
        ensure(
            (10..=10_000).contains(&heartbeat_ms),
            "timing.heartbeat-ms",
            heartbeat_ms,
            "must be 10-10000",
        )?;
        ensure(
            election_min_ms > 3 * heartbeat_ms,
            "timing.election-min-ms",
            election_min_ms,
            "must be more than three heartbeats",
        )?;
        ensure(
            election_max_ms > election_min_ms && election_max_ms <= 60_000,
            "timing.election-max-ms",
            election_max_ms,
            "must be more than election-min-ms and at most 60000",
        )
    }
}

impl SnapshotOptions {
    /// Entries to purge at once: few purges, each of many entries, leave few tombstones.
    pub(crate) fn purge_batch(&self) -> u64 {
        (self.keep_log_entries / 8).clamp(1, 20_000)
    }

    fn check(&self) -> Result<(), OptionError> {
        ensure(self.log_bytes > 0, "snapshot.log-bytes", self.log_bytes, "must be at least 1")?;
        ensure(self.every_s > 0, "snapshot.every-s", self.every_s, "must be at least 1")?;
        ensure(
            (100..=600_000).contains(&self.chunk_timeout_ms),
            "snapshot.chunk-timeout-ms",
            self.chunk_timeout_ms,
            "must be 100-600000",
        )
    }
}

impl DiskOptions {
    fn check(&self) -> Result<(), OptionError> {
        ensure(self.low_percent <= 90, "disk.low-percent", self.low_percent, "must be 0-90")?;
        ensure((10..=600_000).contains(&self.check_ms), "disk.check-ms", self.check_ms, "must be 10-600000")
    }
}

impl ProposalOptions {
    fn check(&self) -> Result<(), OptionError> {
        let Self { queue_bytes, deadline_ms, entry_changes, entry_bytes, in_flight } = *self;
        ensure(queue_bytes >= 1 << 20, "proposals.queue-bytes", queue_bytes, "must be at least 1048576")?;
        ensure(deadline_ms >= 100, "proposals.deadline-ms", deadline_ms, "must be at least 100")?;
        let changes = (1..=4096).contains(&entry_changes);
        ensure(changes, "proposals.entry-changes", entry_changes, "must be 1-4096")?;
        let bytes = (1 << 10..=1 << 20).contains(&entry_bytes);
        ensure(bytes, "proposals.entry-bytes", entry_bytes, "must be 1024-1048576")?;
        ensure((1..=256).contains(&in_flight), "proposals.in-flight", in_flight, "must be 1-256")
    }
}

fn ensure(
    holds: bool,
    field: &'static str,
    value: impl ToString,
    problem: &'static str,
) -> Result<(), OptionError> {
    if holds { Ok(()) } else { Err(OptionError { field, value: value.to_string(), problem }) }
}

fn check_internal(field: &'static str, address: &str) -> Result<(), OptionError> {
    let good = match address.rsplit_once(':') {
        Some((host, port)) => {
            !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|p| p > 0)
        }
        None => false,
    };
    ensure(good, field, address, "must be host:port")
}

fn check_api(field: &'static str, url: &str) -> Result<(), OptionError> {
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let good = host.is_some_and(|host| !host.is_empty() && !host.ends_with('/'));
    ensure(good, field, url, "must be http:// or https:// and a host, without a final slash")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Options {
        let member = |id| SeedMember {
            id,
            internal: format!("10.0.0.{id}:7071"),
            api: format!("http://10.0.0.{id}:7070"),
        };
        Options {
            node_id: 2,
            internal: "10.0.0.2:7071".into(),
            members: (1..=3).map(member).collect(),
            ..Options::default()
        }
    }

    fn refused(change: impl FnOnce(&mut Options)) -> (&'static str, String) {
        let mut options = three();
        change(&mut options);
        let error = options.check().expect_err("the option is wrong");
        (error.field, error.value)
    }

    #[test]
    fn the_defaults_with_members_pass() {
        three().check().expect("these are right");
    }

    #[test]
    fn a_wrong_option_is_named_with_its_value() {
        assert_eq!(refused(|o| o.cluster = "a b".into()), ("cluster", "a b".into()));
        assert_eq!(refused(|o| o.internal = "10.0.0.2".into()), ("internal", "10.0.0.2".into()));
        assert_eq!(refused(|o| o.internal = "10.0.0.9:7071".into()), ("internal", "10.0.0.9:7071".into()));
        assert_eq!(refused(|o| o.api = "10.0.0.2".into()), ("api", "10.0.0.2".into()));
        assert_eq!(refused(|o| o.node_id = 9), ("node-id", "9".into()));
        assert_eq!(refused(|o| o.members[0].id = 2), ("members.id", "2".into()));
        assert_eq!(refused(|o| o.members.clear()), ("join", String::new()));
        assert_eq!(refused(|o| o.timing.election_min_ms = 450), ("timing.election-min-ms", "450".into()));
        assert_eq!(refused(|o| o.timing.election_max_ms = 500), ("timing.election-max-ms", "500".into()));
        assert_eq!(refused(|o| o.proposals.in_flight = 0), ("proposals.in-flight", "0".into()));
    }
}
