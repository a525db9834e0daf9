//! How long the disk takes to make a small write last: the floor under every acknowledgement.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use orloj_wire::clock::{Clock as _, SystemClock};
use serde::Serialize;

use crate::latency::{Latency, Quantiles};

/// Bytes of each write: about what one submission adds to the log.
const WRITE_BYTES: usize = 256;

/// What appending and syncing took.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Syncs {
    /// Of one write with its fdatasync.
    pub latency: Option<Quantiles>,
    /// Writes a second, one after the other.
    pub per_s: f64,
}

/// Appends 256 bytes and calls fdatasync, again and again, in a new file in `dir`, for so long.
///
/// # Errors
/// The file cannot be made, written, synced or removed.
pub fn measure(dir: &Path, span: Duration) -> io::Result<Syncs> {
    let path = dir.join("fdatasync-probe");
    let mut file = File::create(&path)?;
    let (clock, bytes, mut latency) = (SystemClock::new(), [0xa5; WRITE_BYTES], Latency::default());
    let begin = clock.monotonic();
    let mut before = begin;
    while before - begin < span {
        file.write_all(&bytes)?;
        file.sync_data()?;
        let now = clock.monotonic();
        latency.record(u64::try_from((now - before).as_micros()).unwrap_or(u64::MAX));
        before = now;
    }
    drop(file);
    fs::remove_file(&path)?;
    let per_s = latency.count() as f64 / (before - begin).as_secs_f64();
    Ok(Syncs { latency: latency.quantiles(), per_s: per_s.round() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_measures_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let syncs = measure(dir.path(), Duration::from_millis(20)).unwrap();
        assert!(syncs.latency.unwrap().count > 0 && syncs.per_s > 0.0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
