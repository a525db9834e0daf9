//! Damage to the files of a stopped replica: what a disk does that returns other bytes than were written.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Which file is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The newest write-ahead log (`<number>.log`).
    Wal,
    /// The newest table (`<number>.sst`). There is none before the first flush.
    Sst,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// One bit turns over; `place` picks it among those of the file.
    Flip {
        /// Any number, taken modulo the bits of the file.
        place: u64,
    },
    /// The last bytes are gone.
    Truncate {
        /// So many, at most all.
        bytes: u64,
    },
}

/// Damages the newest file of that kind anywhere below `dir` and tells which file, and where. `None` when
/// there is no such file with anything in it. The process that owns the files has ended.
pub fn damage(dir: &Path, part: Part, damage: Damage) -> Result<Option<String>> {
    let ending = match part {
        Part::Wal => "log",
        Part::Sst => "sst",
    };
    let Some(path) = newest(dir, ending)? else { return Ok(None) };
    let file = File::options().read(true).write(true).open(&path);
    let file = file.with_context(|| format!("open {}", path.display()))?;
    let len = file.metadata()?.len();
    let what = match damage {
        Damage::Flip { place } => flip(&file, place % (len * 8))?,
        Damage::Truncate { bytes } => {
            file.set_len(len.saturating_sub(bytes))?;
            format!("lost {} of {len} bytes", bytes.min(len))
        }
    };
    file.sync_all().with_context(|| format!("sync {}", path.display()))?;
    let name = path.strip_prefix(dir).unwrap_or(&path);
    Ok(Some(format!("{} {what}", name.display())))
}

fn flip(file: &File, bit: u64) -> Result<String> {
    let (at, bit) = (bit / 8, bit % 8);
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, at)?;
    Ok(format!("bit {bit} of byte {at}"))
}

/// The file `<number>.<ending>` below `dir` that was changed last and is not empty.
fn newest(dir: &Path, ending: &str) -> Result<Option<PathBuf>> {
    let mut found = None;
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry?.path();
            let meta = path.symlink_metadata()?;
            if meta.is_dir() {
                folders.push(path);
            } else if meta.len() > 0 && is_numbered(&path, ending) {
                found = found.max(Some((meta.modified()?, path)));
            }
        }
    }
    Ok(found.map(|(_, path)| path))
}

fn is_numbered(path: &Path, ending: &str) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    path.extension().is_some_and(|is| is == ending) && stem.parse::<u64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("raft/db")).unwrap();
        fs::write(dir.path().join("raft/db/000003.log"), "older").unwrap();
        let old = File::options().write(true).open(dir.path().join("raft/db/000003.log")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::write(dir.path().join("raft/db/000004.log"), "newest").unwrap();
        fs::write(dir.path().join("raft/db/000005.log"), "").unwrap();
        fs::write(dir.path().join("raft/db/trace.log"), "not data").unwrap();
        dir
    }

    #[test]
    fn one_bit_of_the_newest_log_turns_over() {
        let dir = folder();
        let told = damage(dir.path(), Part::Wal, Damage::Flip { place: 48 + 8 }).unwrap().unwrap();
        assert_eq!(told, "raft/db/000004.log bit 0 of byte 1");
        assert_eq!(fs::read_to_string(dir.path().join("raft/db/000004.log")).unwrap(), "ndwest");
        assert_eq!(fs::read_to_string(dir.path().join("raft/db/000003.log")).unwrap(), "older");
    }

    #[test]
    fn the_end_of_the_newest_log_is_lost() {
        let dir = folder();
        let told = damage(dir.path(), Part::Wal, Damage::Truncate { bytes: 2 }).unwrap().unwrap();
        assert_eq!(told, "raft/db/000004.log lost 2 of 6 bytes");
        assert_eq!(fs::read_to_string(dir.path().join("raft/db/000004.log")).unwrap(), "newe");
        let told = damage(dir.path(), Part::Wal, Damage::Truncate { bytes: 9 }).unwrap().unwrap();
        assert!(told.ends_with("lost 4 of 4 bytes"), "{told}");
    }

    #[test]
    fn a_folder_without_tables_is_told() {
        let dir = folder();
        assert_eq!(damage(dir.path(), Part::Sst, Damage::Flip { place: 1 }).unwrap(), None);
    }
}
