//! The only file that names bincode: how values become bytes on disk and between members.
//!
//! Every value travels in a frame (integers little-endian):
//!
//! | bytes | what |
//! |---|---|
//! | 2 | magic `OJ` |
//! | 1 | codec: 1 is bincode 1.3 with fixed-width integers |
//! | 1 | kind, see [`Schema`] |
//! | 1 | version of that kind |
//! | 4 | length of the payload |
//! | n | payload |
//! | 4 | CRC-32 (IEEE) of everything before it |
//!
//! bincode does not describe itself, so a persisted type never changes its fields: a changed type is a new
//! version of its kind, and golden bytes in the tests hold each one still. Lengths inside a payload are not
//! trusted: decoding works on slices only, under a limit, and refuses what is left over.

use std::cell::Cell;
use std::io::{self, Write};

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: [u8; 2] = *b"OJ";
const CODEC_BINCODE_1: u8 = 1;
const HEADER: usize = 9;
const TRAILER: usize = 4;
/// Bytes of the buffer that a thread keeps for its next frames.
const SCRATCH_KEPT: usize = 1 << 20;

/// Bytes that a frame adds to its payload.
pub const FRAME_OVERHEAD: usize = HEADER + TRAILER;

/// Largest payload of a table row, in bytes. The largest row is a task's changing part with its result and
/// log tail.
pub const ROW_LIMIT: u32 = 4 << 20;
/// Largest encoded batch, in bytes. The proposer closes a batch at 256 KiB, but a single large change may go
/// beyond it.
pub const BATCH_LIMIT: u32 = 8 << 20;
/// Largest log entry, in bytes: a batch in its frame, and the entry's own fields.
pub const LOG_ENTRY_LIMIT: u32 = BATCH_LIMIT + (64 << 10);
/// Largest message between members, in bytes: a round of replication is about 1 MiB of entries, or one entry
/// of any size.
pub const RPC_LIMIT: u32 = 2 * LOG_ENTRY_LIMIT;
/// Largest record of the store's own bookkeeping (vote, positions, membership, identity), in bytes.
pub const META_LIMIT: u32 = 256 << 10;
/// Largest list of a snapshot's files, in bytes.
pub const MANIFEST_LIMIT: u32 = 16 << 20;

/// What a frame holds. The number of a kind is part of the format and is never reused; its version is raised
/// whenever the type behind it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Schema {
    /// A row of a model table.
    Row = 1,
    /// An [`orloj_model::Batch`], the payload of a log entry.
    Batch = 2,
    /// [`crate::stored::StoredEntry`].
    LogEntry = 3,
    /// [`crate::stored::StoredVote`].
    Vote = 4,
    /// [`crate::stored::StoredLogId`]: committed, purged and the like.
    LogId = 5,
    /// [`crate::stored::StoredMembership`].
    Membership = 6,
    /// [`crate::stored::StoredSnapshotMeta`].
    SnapshotMeta = 7,
    /// The list of a snapshot's files.
    SnapshotManifest = 8,
    /// Which member a data directory belongs to.
    Identity = 9,
    /// The guard file beside the log.
    Guard = 10,
    /// A request between members.
    RpcRequest = 11,
    /// The answer to a request between members.
    RpcReply = 12,
    /// The state database's own bookkeeping.
    StateMeta = 13,
    /// The digests at the last checkpoints.
    Checkpoints = 14,
    /// Which directory holds the state database.
    StatePointer = 15,
    /// Index at which a log that was never purged begins.
    LogStart = 16,
}

impl Schema {
    /// The version that this build writes, and the only one that it reads.
    pub const fn version(self) -> u8 {
        1
    }

    /// Largest payload, in bytes.
    pub const fn limit(self) -> u32 {
        match self {
            Schema::Row => ROW_LIMIT,
            Schema::Batch => BATCH_LIMIT,
            Schema::LogEntry => LOG_ENTRY_LIMIT,
            Schema::RpcRequest | Schema::RpcReply => RPC_LIMIT,
            Schema::SnapshotManifest => MANIFEST_LIMIT,
            Schema::Vote
            | Schema::LogId
            | Schema::Membership
            | Schema::SnapshotMeta
            | Schema::Identity
            | Schema::Guard
            | Schema::StateMeta
            | Schema::Checkpoints
            | Schema::StatePointer
            | Schema::LogStart => META_LIMIT,
        }
    }
}

/// Why a value could not be encoded or bytes could not be decoded. About bytes from the disk it means
/// corruption (or a downgrade) and is never to be read as "nothing there".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The value is too large or its type cannot be encoded.
    #[error("cannot encode {schema:?}: {reason}")]
    Encode {
        /// What was to be encoded.
        schema: Schema,
        /// bincode's words.
        reason: String,
    },
    /// Fewer bytes than a frame has, or fewer or more than its length says.
    #[error("{schema:?} frame has {actual} bytes, {expected} expected")]
    Length {
        /// What was expected.
        schema: Schema,
        /// Bytes that the frame should have.
        expected: u64,
        /// Bytes that are there.
        actual: u64,
    },
    /// The frame does not start as ours do.
    #[error("{schema:?} frame starts with {found:02x?}, not with the magic of Orloj and a known codec")]
    Magic {
        /// What was expected.
        schema: Schema,
        /// The first three bytes.
        found: [u8; 3],
    },
    /// A good frame, but of another kind or version.
    #[error("{schema:?} frame expected, found kind {kind} version {version}")]
    Schema {
        /// What was expected.
        schema: Schema,
        /// The kind found.
        kind: u8,
        /// The version found.
        version: u8,
    },
    /// The length is above the limit of the kind.
    #[error("{schema:?} payload of {length} bytes is above the limit of {} bytes", schema.limit())]
    TooLarge {
        /// What was expected.
        schema: Schema,
        /// The length found.
        length: u64,
    },
    /// The checksum does not match: the bytes were damaged.
    #[error("{schema:?} frame is damaged: checksum {found:08x} stored, {computed:08x} computed")]
    Checksum {
        /// What was expected.
        schema: Schema,
        /// The checksum in the frame.
        found: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// The payload is not a value of the type.
    #[error("{schema:?} payload does not decode: {reason}")]
    Decode {
        /// What was expected.
        schema: Schema,
        /// bincode's words.
        reason: String,
    },
}

fn options(limit: u32) -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_limit(u64::from(limit)).reject_trailing_bytes()
}

thread_local! {
    /// Where frames are put together: how long one is shows only at its end.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Encodes a value into a frame. The value is walked once.
///
/// # Errors
/// [`CodecError::Encode`] when the payload would be above the limit of its kind.
pub fn encode<T: Serialize + ?Sized>(schema: Schema, value: &T) -> Result<Vec<u8>, CodecError> {
    let mut frame = SCRATCH.take();
    frame.clear();
    // The copy takes no more than it needs, and whoever keeps it keeps no more.
    let encoded = put_together(schema, value, &mut frame).map(|()| frame.as_slice().to_vec());
    if frame.capacity() <= SCRATCH_KEPT {
        SCRATCH.set(frame);
    }
    encoded
}

/// Writes a frame into an empty buffer.
fn put_together<T: Serialize + ?Sized>(
    schema: Schema,
    value: &T,
    frame: &mut Vec<u8>,
) -> Result<(), CodecError> {
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&[CODEC_BINCODE_1, schema as u8, schema.version()]);
    // The length comes last.
    frame.extend_from_slice(&[0; 4]);
    // With a limit of its own bincode would walk the value once more, to measure it first.
    let layout = bincode::DefaultOptions::new().with_fixint_encoding();
    let payload = Bounded { bytes: &mut *frame, most: HEADER + schema.limit() as usize };
    layout
        .serialize_into(payload, value)
        .map_err(|error| CodecError::Encode { schema, reason: error.to_string() })?;
    let length = (frame.len() - HEADER) as u32;
    frame[HEADER - 4..HEADER].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(frame);
    frame.extend_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Takes bytes in until there are `most`.
struct Bounded<'a> {
    bytes: &'a mut Vec<u8>,
    most: usize,
}

impl Write for Bounded<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.most - self.bytes.len() < bytes.len() {
            return Err(io::Error::other("the value is above the limit of its kind"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes a frame of the given kind. All of `bytes` must belong to it.
///
/// # Errors
/// Any [`CodecError`] but `Encode`. No input can make it panic or allocate more than the limit of the kind.
pub fn decode<T: DeserializeOwned>(schema: Schema, bytes: &[u8]) -> Result<T, CodecError> {
    let payload = payload(schema, bytes)?;
    options(schema.limit())
        .deserialize(payload)
        .map_err(|error| CodecError::Decode { schema, reason: error.to_string() })
}

/// Bytes that a value takes inside a frame, without encoding it.
///
/// # Errors
/// [`CodecError::Encode`] when that is above the limit of its kind.
pub fn encoded_size<T: Serialize + ?Sized>(schema: Schema, value: &T) -> Result<u64, CodecError> {
    options(schema.limit())
        .serialized_size(value)
        .map_err(|error| CodecError::Encode { schema, reason: error.to_string() })
}

/// Decodes a row of a table. Rows without fields, those of pure indexes, have no bytes and no frame.
///
/// # Errors
/// As [`decode`]; also when a row that has fields has no bytes.
pub fn decode_row<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    if !bytes.is_empty() {
        return decode(Schema::Row, bytes);
    }
    let empty = options(0).deserialize(bytes);
    empty.map_err(|error| CodecError::Decode { schema: Schema::Row, reason: error.to_string() })
}

/// Checks the frame around a payload and takes it off.
fn payload(schema: Schema, bytes: &[u8]) -> Result<&[u8], CodecError> {
    let actual = bytes.len() as u64;
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(CodecError::Length { schema, expected: FRAME_OVERHEAD as u64, actual });
    };
    let [m0, m1, codec, kind, version, l0, l1, l2, l3] = *header;
    if [m0, m1] != MAGIC || codec != CODEC_BINCODE_1 {
        return Err(CodecError::Magic { schema, found: [m0, m1, codec] });
    }
    if (kind, version) != (schema as u8, schema.version()) {
        return Err(CodecError::Schema { schema, kind, version });
    }
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    if length > schema.limit() {
        return Err(CodecError::TooLarge { schema, length: u64::from(length) });
    }
    let expected = u64::from(length) + FRAME_OVERHEAD as u64;
    let Some((payload, trailer)) = rest.split_last_chunk::<TRAILER>() else {
        return Err(CodecError::Length { schema, expected, actual });
    };
    if expected != actual {
        return Err(CodecError::Length { schema, expected, actual });
    }
    let found = u32::from_le_bytes(*trailer);
    let computed = crc32fast::hash(&bytes[..bytes.len() - TRAILER]);
    if found != computed {
        return Err(CodecError::Checksum { schema, found, computed });
    }
    Ok(payload)
}

/// The codec of table rows, for [`orloj_model::tables::MapTables`] and the state database alike.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bincode;

impl orloj_model::tables::Codec for Bincode {
    type Error = CodecError;

    fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, CodecError> {
        encode(Schema::Row, value)
    }

    fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, CodecError> {
        decode_row(bytes)
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
