//! Golden bytes of everything that this crate writes or sends besides the log: a change of one of them is a
//! change of a format, and needs a new version of its kind.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{self, Schema};
use crate::identity::Identity;
use crate::message::*;
use crate::snapshot::{FileEntry, Manifest};
use crate::status::{Checkpoint, NodeState, NodeStatus, Role};
use crate::stored::*;
use crate::types::Member;

/// Checks the bytes of a value and that they decode to it.
fn golden<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    schema: Schema,
    value: &T,
    hex: &str,
) {
    let frame = codec::encode(schema, value).unwrap();
    // Without the frame: `codec` has golden bytes for that.
    let payload = &frame[9..frame.len() - 4];
    let found: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, hex.replace(['\n', ' '], ""), "{value:?}");
    assert_eq!(codec::decode::<T>(schema, &frame).unwrap(), *value);
}

const VOTE: StoredVote = StoredVote { term: 3, node: 2, committed: true };
const LAST: StoredLogId = StoredLogId { term: 3, node: 2, index: 7 };

fn member() -> Member {
    Member { internal: "i:1".into(), api: "http://a".into(), birth: "b".into() }
}

fn manifest() -> Manifest {
    let config = StoredConfig { voters: vec![vec![1]], nodes: vec![(1, member())] };
    let membership = StoredMembership { log_id: Some(LAST), config };
    let meta = StoredSnapshotMeta { last_log_id: Some(LAST), membership };
    Manifest { meta, files: vec![FileEntry { name: "f".into(), size: 9, crc: 8 }] }
}

const B_VOTE: &str = "0300000000000000 0200000000000000 01";
const B_LAST: &str = "0300000000000000 0200000000000000 0700000000000000";
const B_MEMBER: &str = "0300000000000000 693a31 0800000000000000 687474703a2f2f61 0100000000000000 62";
const B_ONE: &str = "0100000000000000";
const B_NONE: &str = "0000000000000000";

fn b_manifest() -> String {
    let membership = format!("01 {B_LAST} {B_ONE} {B_ONE} {B_ONE} {B_ONE} {B_ONE} {B_MEMBER}");
    format!("01 {B_LAST} {membership} {B_ONE} {B_ONE} 66 0900000000000000 08000000")
}

#[test]
fn files_are_golden() {
    let identity = Identity { cluster: "c".into(), birth: "b".into(), id: Some(7), entered: true };
    golden(Schema::Identity, &identity, &format!("{B_ONE} 63 {B_ONE} 62 01 0700000000000000 01"));
    golden(Schema::SnapshotManifest, &manifest(), &b_manifest());
    golden(Schema::StatePointer, &5_u64, "0500000000000000");
    let checkpoints = vec![Checkpoint { index: 256, digest: 9 }];
    golden(Schema::Checkpoints, &checkpoints, &format!("{B_ONE} 0001000000000000 0900000000000000"));
}

#[test]
fn replication_is_golden() {
    let request = |value: &Append, hex: &str| golden(Schema::RpcRequest, value, hex);
    let entries =
        vec![StoredEntry { log_id: LAST, payload: StoredPayload::Normal(Bytes::from_static(b"x")) }];
    let append = Append { vote: VOTE, prev: Some(LAST), entries, committed: None };
    let entry = format!("{B_LAST} 01000000 {B_ONE} 78");
    request(&append, &format!("{B_VOTE} 01 {B_LAST} {B_ONE} {entry} 00"));
    let reply = |value: &AppendReply, hex: &str| golden(Schema::RpcReply, value, hex);
    reply(&AppendReply::Success, "00000000");
    reply(&AppendReply::Partial(Some(LAST)), &format!("01000000 01 {B_LAST}"));
    reply(&AppendReply::Conflict, "02000000");
    reply(&AppendReply::HigherVote(VOTE), &format!("03000000 {B_VOTE}"));

    let ask = AskVote { vote: VOTE, last: Some(LAST), transfer: true };
    golden(Schema::RpcRequest, &ask, &format!("{B_VOTE} 01 {B_LAST} 01"));
    let reply = VoteReply { vote: VOTE, last: None, granted: true };
    golden(Schema::RpcReply, &reply, &format!("{B_VOTE} 00 01"));
    let transfer = Transfer { from: VOTE, to: 5, last: Some(LAST) };
    golden(Schema::RpcRequest, &transfer, &format!("{B_VOTE} 0500000000000000 01 {B_LAST}"));
    golden(Schema::RpcReply, &TransferReply::Taken, "00000000");
    golden(Schema::RpcReply, &TransferReply::VoteChanged(VOTE), &format!("01000000 {B_VOTE}"));
    golden(Schema::RpcReply, &TransferReply::Behind(Some(LAST)), &format!("02000000 01 {B_LAST}"));
}

#[test]
fn sending_a_snapshot_is_golden() {
    let request = |value: &SendSnapshot, hex: &str| golden(Schema::RpcRequest, value, hex);
    let begin = SendSnapshot::Begin { vote: VOTE, manifest: Box::new(manifest()) };
    request(&begin, &format!("00000000 {B_VOTE} {}", b_manifest()));
    let piece =
        SendSnapshot::Piece { vote: VOTE, file: 1, offset: 2, crc: 3, data: Bytes::from_static(b"x") };
    request(&piece, &format!("01000000 {B_VOTE} 01000000 0200000000000000 03000000 {B_ONE} 78"));
    request(&SendSnapshot::Finish { vote: VOTE }, &format!("02000000 {B_VOTE}"));
    let reply = |value: &SnapshotReply, hex: &str| golden(Schema::RpcReply, value, hex);
    reply(&SnapshotReply::Have(vec![7]), &format!("00000000 {B_ONE} 0700000000000000"));
    reply(&SnapshotReply::Written, "01000000");
    reply(&SnapshotReply::Done(VOTE), &format!("02000000 {B_VOTE}"));
    reply(&SnapshotReply::Again("x".into()), &format!("03000000 {B_ONE} 78"));
}

#[test]
fn joining_is_golden() {
    let probed = Probed {
        id: Some(1),
        birth: "b".into(),
        entered: true,
        seeds: vec![(1, "i:1".into())],
        seed_id: 1,
        internal: "i:1".into(),
        api: "http://a".into(),
        members: vec![(1, member())],
        leader: None,
    };
    let address = "0300000000000000 693a31";
    let addresses = format!("{address} 0800000000000000 687474703a2f2f61");
    let seeds = format!("{B_ONE} {B_ONE} {address}");
    let members = format!("{B_ONE} {B_ONE} {B_MEMBER}");
    let expected = format!("01 {B_ONE} {B_ONE} 62 01 {seeds} {B_ONE} {addresses} {members} 00");
    golden(Schema::RpcReply, &probed, &expected);
    golden(Schema::RpcRequest, &(), "");
    let join = Join { id: Some(1), member: member() };
    golden(Schema::RpcRequest, &join, &format!("01 {B_ONE} {B_MEMBER}"));
    let reply = |value: &JoinReply, hex: &str| golden(Schema::RpcReply, value, hex);
    reply(&JoinReply::Assigned(1), &format!("00000000 {B_ONE}"));
    reply(&JoinReply::CatchingUp, "01000000");
    reply(&JoinReply::Member, "02000000");
    reply(&JoinReply::NotLeader(Some(member())), &format!("03000000 01 {B_MEMBER}"));
    reply(&JoinReply::Refused("x".into()), &format!("04000000 {B_ONE} 78"));
    golden(Schema::RpcRequest, &Adopt { id: 1, birth: "b".into() }, &format!("{B_ONE} {B_ONE} 62"));
    golden(Schema::RpcReply, &AdoptReply::Taken, "00000000");
    golden(Schema::RpcReply, &AdoptReply::Refused("x".into()), &format!("01000000 {B_ONE} 78"));
}

#[test]
fn a_status_is_golden() {
    let status = NodeStatus {
        id: Some(1),
        cluster: "c".into(),
        role: Role::Leader,
        state: NodeState::DiskLow,
        term: 1,
        leader: Some(1),
        digest_checkpoint: Some(Checkpoint { index: 1, digest: 1 }),
        ..NodeStatus::default()
    };
    let indexes = [B_NONE; 7].join(" ");
    let head = format!("01 {B_ONE} {B_ONE} 63 04000000 01000000 {B_ONE} 01 {B_ONE}");
    golden(Schema::RpcReply, &status, &format!("{head} {indexes} 01 {B_ONE} {B_ONE} {B_NONE}"));
}
