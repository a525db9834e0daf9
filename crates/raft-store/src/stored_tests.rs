//! Golden payloads of every stored form, and conversions there and back.

use std::fmt::Debug;

use openraft::entry::RaftEntry;
use serde::de::DeserializeOwned;

use super::*;
use crate::codec::{FRAME_OVERHEAD, Schema, decode, encode};

/// Holds the payload of a stored form still, and reads it back.
fn golden<T>(schema: Schema, value: &T, hex: &str)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let frame = encode(schema, value).unwrap();
    let payload = &frame[9..frame.len() - 4];
    assert_eq!(payload.len() + FRAME_OVERHEAD, frame.len());
    let found: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, hex.replace([' ', '\n'], ""), "{value:?}");
    assert_eq!(&decode::<T>(schema, &frame).unwrap(), value);
}

fn log_id() -> StoredLogId {
    StoredLogId { term: 2, node: 3, index: 0x1234 }
}

fn member(name: &str) -> Member {
    Member { internal: name.into(), api: "u".into(), birth: String::new() }
}

fn config() -> StoredConfig {
    StoredConfig { voters: vec![vec![1, 2]], nodes: vec![(1, member("a")), (2, member("b"))] }
}

const LOG_ID: &str = "0200000000000000 0300000000000000 3412000000000000";
const CONFIG: &str = "0100000000000000 0200000000000000 0100000000000000 0200000000000000
    0200000000000000
    0100000000000000 0100000000000000 61 0100000000000000 75 0000000000000000
    0200000000000000 0100000000000000 62 0100000000000000 75 0000000000000000";

#[test]
fn stored_forms_are_golden() {
    let vote = StoredVote { term: 5, node: 1, committed: true };
    golden(Schema::Vote, &vote, "0500000000000000 0100000000000000 01");
    golden(Schema::LogId, &log_id(), LOG_ID);
    let membership = StoredMembership { log_id: Some(log_id()), config: config() };
    golden(Schema::Membership, &membership, &format!("01 {LOG_ID} {CONFIG}"));
    let meta = StoredSnapshotMeta { last_log_id: Some(log_id()), membership };
    golden(Schema::SnapshotMeta, &meta, &format!("01 {LOG_ID} 01 {LOG_ID} {CONFIG}"));
}

#[test]
fn entries_are_golden() {
    let entry = |payload| StoredEntry { log_id: log_id(), payload };
    golden(Schema::LogEntry, &entry(StoredPayload::Blank), &format!("{LOG_ID} 00000000"));
    let normal = StoredPayload::Normal(Bytes::from_static(b"xyz"));
    golden(Schema::LogEntry, &entry(normal), &format!("{LOG_ID} 01000000 0300000000000000 78797a"));
    let membership = StoredPayload::Membership(config());
    golden(Schema::LogEntry, &entry(membership), &format!("{LOG_ID} 02000000 {CONFIG}"));
}

#[test]
fn openraft_types_survive_there_and_back() {
    for vote in [Vote::new(4, 2), Vote::new_committed(7, 3)] {
        assert_eq!(Vote::from(StoredVote::from(&vote)), vote);
    }
    let id = LogId { leader_id: LeaderId::new(9, 1), index: 77 };
    assert_eq!(LogId::from(StoredLogId::from(&id)), id);

    let nodes: BTreeMap<_, _> = [(1, member("a")), (2, member("b")), (9, member("learner"))].into();
    let joint = Membership::new(vec![[1].into(), [1, 2].into()], nodes).unwrap();
    let logged = LoggedMembership::new(Some(id), joint.clone());
    assert_eq!(LoggedMembership::try_from(StoredMembership::from(&logged)).unwrap(), logged);
    let none = LoggedMembership::default();
    assert_eq!(LoggedMembership::try_from(StoredMembership::from(&none)).unwrap(), none);
    let meta = SnapshotMeta { last_log_id: Some(id), last_membership: logged };
    assert_eq!(SnapshotMeta::try_from(StoredSnapshotMeta::from(&meta)).unwrap(), meta);

    let normal = EncodedBatch(Bytes::from_static(b"batch"));
    for entry in
        [Entry::new_blank(id), Entry::new(id, Payload::Normal(normal)), Entry::new_membership(id, joint)]
    {
        assert_eq!(StoredEntry::from(&entry).into_entry().unwrap(), entry);
    }
}

#[test]
fn a_voter_without_an_address_is_refused() {
    let mut broken = config();
    broken.nodes.pop();
    let error = Membership::try_from(broken).unwrap_err();
    assert!(error.to_string().contains('2'), "names the node: {error}");
}
