//! The guard file: what this node's log had certainly synced, kept outside the log's own database.
//!
//! RocksDB ends its recovery at the first damaged record of the WAL and drops what follows. That forgives the
//! torn end of a power loss, and would as silently drop acknowledged entries or a vote when a record in the
//! middle has rotted. The guard tells the two apart: it claims a vote and a last index only after the log had
//! synced them, so a log that opens below the claim has lost something that others rely on.
//!
//! The claim is written after every sync of the log and itself synced for votes and about once a second. It
//! may lag (a power loss may show an older claim), but never leads: before a truncation it is lowered
//! and synced. The last committed position rides along, because the log's own database would have to rewrite
//! one key with every batch, and such a key makes RocksDB merge files that it could otherwise just move.
//!
//! The file has two slots, written in turn, each with its own checksum, so that a torn write leaves the
//! other; a lowered claim fills both.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::codec::{Schema, decode, encode};
use crate::error::Fault;
use crate::files;
use crate::stored::{StoredLogId, StoredVote};

/// Distance of the slots: a page, so that no write touches both.
const SLOT: u64 = 4096;

/// What the log had synced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The last vote.
    pub vote: Option<StoredVote>,
    /// Index of the last entry, or of the purge point when that is further.
    pub last_index: Option<u64>,
    /// The last position known to be committed. At most `last_index`, unless a snapshot was just installed.
    pub committed: Option<StoredLogId>,
}

/// A slot of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    /// The higher sequence of the two slots is the current one.
    sequence: u64,
    claim: Claim,
}

/// The guard file, open for writing.
#[derive(Debug)]
pub struct Guard {
    path: PathBuf,
    file: File,
    sequence: u64,
    claim: Claim,
    synced: Claim,
}

impl Guard {
    /// Creates the file with an empty claim and syncs it with its directory. A crash in the middle leaves no
    /// half-written guard behind.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn create(path: &Path) -> Result<Guard, Fault> {
        if path.try_exists().map_err(Fault::io("look for", path))? {
            return Err(Fault::Misuse(format!("{} exists and is not overwritten", path.display())));
        }
        let draft = path.with_extension("new");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&draft)
            .map_err(Fault::io("create", &draft))?;
        let claim = Claim::default();
        let mut guard = Guard { path: path.to_path_buf(), file, sequence: 0, claim, synced: claim };
        guard.lower(claim)?;
        files::rename(&draft, path)?;
        Ok(guard)
    }

    /// Opens the file. `Ok(None)` when it does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or neither slot is whole.
    pub fn open(path: &Path) -> Result<Option<Guard>, Fault> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Fault::io("open", path))?,
        };
        let slots = [read_slot(&file, path, 0)?, read_slot(&file, path, 1)?];
        let newest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
        let Some(Slot { sequence, claim }) = newest else {
            return Err(Fault::NoGuard { path: path.to_path_buf(), state: "damaged" });
        };
        Ok(Some(Guard { path: path.to_path_buf(), file, sequence, claim, synced: claim }))
    }

    /// The current claim.
    pub fn claim(&self) -> Claim {
        self.claim
    }

    /// Whether the current claim has not been synced yet.
    pub fn is_dirty(&self) -> bool {
        self.claim != self.synced
    }

    /// Raises the claim after the log has synced what it says. Not synced itself.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn raise(&mut self, claim: Claim) -> Result<(), Fault> {
        if claim == self.claim {
            return Ok(());
        }
        self.claim = claim;
        self.write_slot()
    }

    /// Syncs the current claim.
    ///
    /// # Errors
    /// The disk failed.
    pub fn sync(&mut self) -> Result<(), Fault> {
        self.file.sync_data().map_err(Fault::io("sync", &self.path))?;
        self.synced = self.claim;
        Ok(())
    }

    /// Lowers the claim, in both slots and synced, before the log gives up what it claims.
    ///
    /// # Errors
    /// The file cannot be written or synced.
    pub fn lower(&mut self, claim: Claim) -> Result<(), Fault> {
        self.claim = claim;
        self.write_slot()?;
        self.write_slot()?;
        self.sync()
    }

    fn write_slot(&mut self) -> Result<(), Fault> {
        self.sequence += 1;
        let slot = Slot { sequence: self.sequence, claim: self.claim };
        let frame = encode(Schema::Guard, &slot).map_err(Fault::codec("guard claim"))?;
        // The frame's length differs with what is claimed; it is put before the frame, under no checksum of
        // its own: a wrong length makes a wrong frame.
        let mut bytes = u16::try_from(frame.len()).unwrap_or(u16::MAX).to_le_bytes().to_vec();
        bytes.extend_from_slice(&frame);
        let offset = (self.sequence % 2) * SLOT;
        self.file.write_all_at(&bytes, offset).map_err(Fault::io("write", &self.path))
    }
}

/// The slot, or `None` when it is torn or was never written.
fn read_slot(file: &File, path: &Path, slot: u64) -> Result<Option<Slot>, Fault> {
    let mut bytes = [0; 512];
    let mut filled = 0;
    loop {
        let offset = slot * SLOT + filled as u64;
        match file.read_at(&mut bytes[filled..], offset).map_err(Fault::io("read", path))? {
            0 => break,
            read => filled += read,
        }
    }
    let Some((length, rest)) = bytes[..filled].split_first_chunk::<2>() else {
        return Ok(None);
    };
    let frame = rest.get(..usize::from(u16::from_le_bytes(*length)));
    Ok(frame.and_then(|frame| decode(Schema::Guard, frame).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(last_index: u64) -> Claim {
        Claim { last_index: Some(last_index), ..Claim::default() }
    }

    fn damage(path: &Path, offset: u64) {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x40], offset).unwrap();
    }

    #[test]
    fn a_full_claim_is_golden() {
        let slot = Slot {
            sequence: 1,
            claim: Claim {
                vote: Some(StoredVote { term: 2, node: 3, committed: true }),
                last_index: Some(4),
                committed: Some(StoredLogId { term: 5, node: 6, index: 7 }),
            },
        };
        let frame = encode(Schema::Guard, &slot).unwrap();
        let eight = |value: u8| [value, 0, 0, 0, 0, 0, 0, 0];
        let mut payload = eight(1).to_vec();
        payload.extend([&[1][..], &eight(2), &eight(3), &[1]].concat());
        payload.extend([&[1][..], &eight(4)].concat());
        payload.extend([&[1][..], &eight(5), &eight(6), &eight(7)].concat());
        assert_eq!(frame[9..frame.len() - 4], payload);
    }

    #[test]
    fn the_last_claim_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard");
        assert!(Guard::open(&path).unwrap().is_none());
        let mut guard = Guard::create(&path).unwrap();
        assert!(Guard::create(&path).is_err(), "an existing guard is never overwritten");
        for index in 0..5 {
            guard.raise(claim(index)).unwrap();
            assert!(guard.is_dirty());
            assert_eq!(Guard::open(&path).unwrap().unwrap().claim(), claim(index));
        }
        guard.sync().unwrap();
        assert!(!guard.is_dirty());
    }

    #[test]
    fn a_torn_slot_leaves_the_claim_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard");
        let mut guard = Guard::create(&path).unwrap();
        guard.raise(claim(1)).unwrap();
        guard.raise(claim(2)).unwrap();
        damage(&path, (guard.sequence % 2) * SLOT + 20);
        assert_eq!(Guard::open(&path).unwrap().unwrap().claim(), claim(1));
    }

    #[test]
    fn no_higher_claim_survives_a_lowering() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard");
        let mut guard = Guard::create(&path).unwrap();
        guard.raise(claim(90)).unwrap();
        guard.lower(claim(10)).unwrap();
        assert!(!guard.is_dirty());
        for slot in [0, 1] {
            damage(&path, slot * SLOT + 20);
            assert_eq!(Guard::open(&path).unwrap().unwrap().claim(), claim(10), "slot {slot}");
            damage(&path, slot * SLOT + 20);
        }
    }

    #[test]
    fn a_guard_without_a_whole_slot_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard");
        drop(Guard::create(&path).unwrap());
        damage(&path, 20);
        damage(&path, SLOT + 20);
        assert!(matches!(Guard::open(&path), Err(Fault::NoGuard { state: "damaged", .. })));
        std::fs::write(&path, b"").unwrap();
        assert!(matches!(Guard::open(&path), Err(Fault::NoGuard { state: "damaged", .. })));
    }
}
