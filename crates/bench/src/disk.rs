//! How long the disk takes to make a small write last: what every acknowledgement waits for at least once.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use orloj_wire::clock::{Clock as _, SystemClock};
use serde::Serialize;

use crate::latency::{Distribution, Latency};

/// Bytes of each write: about what one submission adds to the log.
const WRITE_BYTES: usize = 256;
/// Bytes of the file that is written over, again and again.
const FILE_BYTES: usize = 4 << 20;

/// Where the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// To the end of a file that grows, so that its length is synced, too.
    Append,
    /// Over others in a file that is there already, as the product's log does once it uses its files again.
    Overwrite,
}

/// What writing and syncing took.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Syncs {
    /// Of one write with its fdatasync.
    pub latency: Option<Distribution>,
    /// Writes a second, one after the other.
    pub per_s: f64,
}

/// Writes 256 bytes and calls fdatasync, again and again, in a new file in `dir`, for so long.
///
/// # Errors
/// The file cannot be made, written, synced or removed.
pub fn measure(dir: &Path, place: Place, span: Duration) -> io::Result<Syncs> {
    let path = dir.join("fdatasync-probe");
    let mut file = File::create(&path)?;
    if place == Place::Overwrite {
        file.write_all(&vec![0x5a; FILE_BYTES])?;
        file.sync_all()?;
    }
    let (clock, bytes, mut latency) = (SystemClock::new(), [0xa5; WRITE_BYTES], Latency::default());
    let begin = clock.monotonic();
    let (mut before, mut at) = (begin, 0);
    while before - begin < span {
        match place {
            Place::Append => file.write_all(&bytes)?,
            Place::Overwrite => file.write_all_at(&bytes, at)?,
        }
        file.sync_data()?;
        at = (at + WRITE_BYTES as u64) % FILE_BYTES as u64;
        let now = clock.monotonic();
        latency.record(u64::try_from((now - before).as_micros()).unwrap_or(u64::MAX));
        before = now;
    }
    drop(file);
    fs::remove_file(&path)?;
    let per_s = latency.count() as f64 / (before - begin).as_secs_f64();
    Ok(Syncs { latency: latency.distribution(), per_s: per_s.round() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_measures_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for place in [Place::Append, Place::Overwrite] {
            let syncs = measure(dir.path(), place, Duration::from_millis(20)).unwrap();
            assert!(syncs.latency.unwrap().quantiles.count > 0 && syncs.per_s > 0.0);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}
