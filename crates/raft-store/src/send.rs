//! Sending a snapshot: file by file, piece by piece, going on where a broken transfer stopped.
//!
//! Every failure is reported as *unreachable*, because openraft starts a snapshot again at once, and for ever,
//! after any other. There is no limit on the whole transfer, only on the silence after each piece.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use openraft::errors::{RPCError, StreamingError, Unreachable};

use crate::error::Fault;
use crate::message::{SendSnapshot, SnapshotReply};
use crate::peer::Peer;
use crate::runner::{Runner, blocking};
use crate::snapshot::{FileEntry, Handle};
use crate::stored::StoredVote;
use crate::transport::RpcKind;
use crate::types::TypeConfig;

/// Bytes of a file sent at once.
const PIECE: u64 = 1 << 20;

/// Sends a snapshot and answers the vote that holds at the receiver once it is installed there.
pub async fn send(
    peer: &Peer,
    vote: StoredVote,
    snapshot: &Handle,
) -> Result<StoredVote, StreamingError<TypeConfig>> {
    let manifest = snapshot.manifest();
    tracing::info!(
        to = peer.target,
        index = snapshot.index(),
        bytes = manifest.bytes(),
        "sending a snapshot"
    );
    let begin = SendSnapshot::Begin { vote, manifest: Box::new(manifest.clone()) };
    let have = match step(peer, &begin).await? {
        SnapshotReply::Have(have) if have.len() == manifest.files.len() => have,
        SnapshotReply::Done(vote) => return Ok(vote),
        other => return Err(unexpected(&other)),
    };
    for ((number, entry), have) in (0..).zip(&manifest.files).zip(have) {
        let mut offset = have;
        while offset < entry.size {
            let data = read(&*peer.runner, snapshot, entry, offset).await?;
            let (crc, length) = (crc32fast::hash(&data), data.len() as u64);
            match step(peer, &SendSnapshot::Piece { vote, file: number, offset, crc, data }).await? {
                SnapshotReply::Written => offset += length,
                SnapshotReply::Done(vote) => return Ok(vote),
                other => return Err(unexpected(&other)),
            }
        }
    }
    match step(peer, &SendSnapshot::Finish { vote }).await? {
        SnapshotReply::Done(vote) => Ok(vote),
        other => Err(unexpected(&other)),
    }
}

async fn step(peer: &Peer, message: &SendSnapshot) -> Result<SnapshotReply, StreamingError<TypeConfig>> {
    let called = peer.call(RpcKind::Snapshot, message, peer.chunk_timeout).await;
    called.map_err(|error: RPCError<TypeConfig>| Unreachable::new(&error).into())
}

fn unexpected(reply: &SnapshotReply) -> StreamingError<TypeConfig> {
    let why = match reply {
        SnapshotReply::Again(why) => why.clone(),
        other => format!("unexpected answer {other:?}"),
    };
    Unreachable::from_string(format!("the snapshot was not taken: {why}")).into()
}

async fn read(
    runner: &dyn Runner,
    snapshot: &Handle,
    entry: &FileEntry,
    offset: u64,
) -> Result<Bytes, StreamingError<TypeConfig>> {
    let path = snapshot.file(entry);
    let mut piece = vec![0; PIECE.min(entry.size - offset) as usize];
    let read = move || {
        let file = File::open(&path).map_err(Fault::io("open", &path))?;
        file.read_exact_at(&mut piece, offset).map_err(Fault::io("read", &path))?;
        Ok(piece)
    };
    match blocking(runner, read).await {
        Ok(piece) => Ok(Bytes::from(piece)),
        Err(fault) => {
            // The receiver finds damage by the checksum of the file; here the file cannot be read at all.
            tracing::error!(%fault, "a snapshot cannot be read");
            Err(Unreachable::new(&fault).into())
        }
    }
}
