//! Golden bytes and damaged frames.

use orloj_model::{Batch, Command};
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    number: u16,
    name: String,
    list: Vec<u8>,
}

fn row() -> Row {
    Row { number: 0x0102, name: "ab".into(), list: vec![7] }
}

/// The frame of [`row`], byte by byte.
const ROW_FRAME: [u8; 34] = [
    b'O', b'J', 1, 1, 1, 21, 0, 0, 0, // header
    0x02, 0x01, // number
    2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', // name
    1, 0, 0, 0, 0, 0, 0, 0, 7, // list
    0x37, 0xab, 0xb6, 0x3d, // checksum, computed apart with zlib
];

fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&frame);
    frame.extend_from_slice(&checksum.to_le_bytes());
    frame
}

/// A frame of the right kind around any payload, with a right checksum.
fn framed(schema: Schema, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![b'O', b'J', 1, schema as u8, schema.version()];
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    frame.extend_from_slice(payload);
    sealed(frame)
}

#[test]
fn frame_layout_is_golden() {
    assert_eq!(encode(Schema::Row, &row()).unwrap(), ROW_FRAME);
    assert_eq!(decode::<Row>(Schema::Row, &ROW_FRAME).unwrap(), row());
}

#[test]
fn kinds_keep_their_numbers() {
    let kinds = [
        Schema::Row,
        Schema::Batch,
        Schema::LogEntry,
        Schema::Vote,
        Schema::LogId,
        Schema::Membership,
        Schema::SnapshotMeta,
        Schema::SnapshotManifest,
        Schema::Identity,
        Schema::Guard,
        Schema::RpcRequest,
        Schema::RpcReply,
        Schema::StateMeta,
        Schema::Checkpoints,
        Schema::StatePointer,
        Schema::LogStart,
    ];
    for (kind, number) in kinds.into_iter().zip(1u8..) {
        assert_eq!(kind as u8, number, "{kind:?}");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for bit in 0..ROW_FRAME.len() * 8 {
        let mut frame = ROW_FRAME;
        frame[bit / 8] ^= 1 << (bit % 8);
        assert!(decode::<Row>(Schema::Row, &frame).is_err(), "bit {bit}");
    }
}

#[test]
fn every_truncation_and_addition_is_a_wrong_length() {
    for length in 0..ROW_FRAME.len() {
        let error = decode::<Row>(Schema::Row, &ROW_FRAME[..length]).unwrap_err();
        assert!(matches!(error, CodecError::Length { .. }), "{length}: {error}");
    }
    let longer = [&ROW_FRAME[..], &[0]].concat();
    let error = decode::<Row>(Schema::Row, &longer).unwrap_err();
    assert_eq!(error, CodecError::Length { schema: Schema::Row, expected: 34, actual: 35 });
}

#[test]
fn another_kind_or_version_is_refused_by_name() {
    let error = decode::<Row>(Schema::Vote, &ROW_FRAME).unwrap_err();
    assert_eq!(error, CodecError::Schema { schema: Schema::Vote, kind: 1, version: 1 });
    let mut newer = ROW_FRAME[..30].to_vec();
    newer[4] = 2;
    let error = decode::<Row>(Schema::Row, &sealed(newer)).unwrap_err();
    assert_eq!(error, CodecError::Schema { schema: Schema::Row, kind: 1, version: 2 });
    let mut foreign = ROW_FRAME;
    foreign[2] = 9;
    let error = decode::<Row>(Schema::Row, &foreign).unwrap_err();
    assert_eq!(error, CodecError::Magic { schema: Schema::Row, found: [b'O', b'J', 9] });
}

#[test]
fn forged_lengths_do_not_allocate() {
    // The frame's own length.
    let mut frame = ROW_FRAME;
    frame[5..9].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = decode::<Row>(Schema::Row, &frame).unwrap_err();
    assert_eq!(error, CodecError::TooLarge { schema: Schema::Row, length: u64::from(u32::MAX) });
    // Lengths inside the payload, under a right checksum: of bytes, of text, of a list of wide values.
    for count in [2u64, 1 << 20, 1 << 40, u64::MAX] {
        let mut payload = count.to_le_bytes().to_vec();
        payload.push(b'a');
        let frame = framed(Schema::Row, &payload);
        for error in [
            decode::<bytes::Bytes>(Schema::Row, &frame).unwrap_err(),
            decode::<String>(Schema::Row, &frame).unwrap_err(),
            decode::<Vec<[u64; 16]>>(Schema::Row, &frame).unwrap_err(),
        ] {
            assert!(matches!(error, CodecError::Decode { .. }), "{count}: {error}");
        }
    }
}

#[test]
fn bytes_left_over_in_the_payload_are_refused() {
    let error = decode::<u8>(Schema::Row, &framed(Schema::Row, &[1, 2])).unwrap_err();
    assert!(matches!(error, CodecError::Decode { .. }), "{error}");
}

#[test]
fn a_value_above_its_limit_is_not_written() {
    let large = vec![0u8; META_LIMIT as usize];
    let error = encode(Schema::Vote, &large).unwrap_err();
    assert!(matches!(error, CodecError::Encode { schema: Schema::Vote, .. }), "{error}");
    assert!(encode(Schema::Row, &large).is_ok());
    // Eight bytes of a length, and the rest: the limit itself is within it.
    let most = vec![0u8; META_LIMIT as usize - 8];
    assert_eq!(encode(Schema::Vote, &most).unwrap().len(), META_LIMIT as usize + FRAME_OVERHEAD);
    let above = vec![0u8; META_LIMIT as usize - 7];
    assert!(encode(Schema::Vote, &above).is_err());
}

#[test]
fn a_frame_takes_no_more_than_it_needs_whatever_went_before() {
    let large = encode(Schema::Row, &vec![7u8; 100_000]).unwrap();
    assert_eq!(large.capacity(), large.len());
    assert!(encode(Schema::Vote, &vec![0u8; META_LIMIT as usize]).is_err());
    assert_eq!(encode(Schema::Row, &row()).unwrap(), ROW_FRAME, "nothing is left of the others");
}

#[test]
fn batch_is_golden() {
    let batch = Batch { now_ms: 258, round: 3, changes: vec![Command::BeginRound { leader: 1 }] };
    let frame = encode(Schema::Batch, &batch).unwrap();
    let payload = [
        2, 1, 0, 0, 0, 0, 0, 0, // now_ms
        3, 0, 0, 0, 0, 0, 0, 0, // round
        1, 0, 0, 0, 0, 0, 0, 0, // one change
        0, 0, 0, 0, // BeginRound
        1, 0, 0, 0, 0, 0, 0, 0, // leader
    ];
    assert_eq!(frame, framed(Schema::Batch, &payload));
    assert_eq!(decode::<Batch>(Schema::Batch, &frame).unwrap(), batch);
}
