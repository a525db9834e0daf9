//! Deletes old logs: by age, then by size, oldest first. Logs of attempts that run are left alone.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What may stay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Longest age since the last byte, in ms.
    pub(crate) keep_ms: u64,
    /// Most bytes of all.
    pub(crate) keep_bytes: u64,
}

/// One log on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    path: PathBuf,
    bytes: u64,
    changed_ms: i64,
}

/// Chooses what goes. Pure.
fn choose(mut logs: Vec<Stored>, limits: Limits, now_ms: i64) -> Vec<Stored> {
    logs.sort_by_key(|log| log.changed_ms);
    let mut total: u64 = logs.iter().map(|log| log.bytes).sum();
    let keep_ms = i64::try_from(limits.keep_ms).unwrap_or(i64::MAX);
    logs.retain(|log| {
        let old = now_ms.saturating_sub(log.changed_ms) > keep_ms;
        let goes = old || total > limits.keep_bytes;
        total -= if goes { log.bytes } else { 0 };
        goes
    });
    logs
}

/// Sweeps the folder of logs. Returns how many files went.
pub(crate) fn sweep(dir: &Path, live: &HashSet<PathBuf>, limits: Limits, now_ms: i64) -> io::Result<usize> {
    let mut logs = Vec::new();
    let mut folders = Vec::new();
    for folder in entries(dir)? {
        for path in entries(&folder)?.into_iter().filter(|path| !live.contains(path)) {
            let Ok(meta) = fs::metadata(&path) else { continue };
            let since = meta.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let changed_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
            logs.push(Stored { path, bytes: meta.len(), changed_ms });
        }
        folders.push(folder);
    }
    let gone = choose(logs, limits, now_ms);
    for log in &gone {
        fs::remove_file(&log.path)?;
    }
    for folder in folders {
        // Fails while a log is left inside, which is what is wanted.
        let _ = fs::remove_dir(folder);
    }
    Ok(gone.len())
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(cause),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn stored(name: &str, bytes: u64, changed_ms: i64) -> Stored {
        Stored { path: name.into(), bytes, changed_ms }
    }

    #[test]
    fn the_old_go_first_and_then_the_oldest_beyond_the_size() {
        let logs = vec![stored("c", 10, 900), stored("a", 10, 100), stored("b", 10, 500)];
        let names =
            |limits| choose(logs.clone(), limits, 1_000).into_iter().map(|log| log.path).collect::<Vec<_>>();
        assert_eq!(names(Limits { keep_ms: 600, keep_bytes: 99 }), [PathBuf::from("a")]);
        assert_eq!(names(Limits { keep_ms: 9_000, keep_bytes: 15 }), [PathBuf::from("a"), "b".into()]);
        assert!(names(Limits { keep_ms: 9_000, keep_bytes: 30 }).is_empty());
    }

    #[test]
    fn live_logs_stay_and_empty_folders_go() {
        let temp = tempfile::tempdir().unwrap();
        for name in ["t1/a.log", "t2/b.log"] {
            fs::create_dir_all(temp.path().join(name).parent().unwrap()).unwrap();
            fs::write(temp.path().join(name), "x").unwrap();
        }
        let live = HashSet::from([temp.path().join("t1/a.log")]);
        let limits = Limits { keep_ms: 0, keep_bytes: 0 };
        assert_eq!(sweep(temp.path(), &live, limits, i64::MAX).unwrap(), 1);
        assert!(temp.path().join("t1/a.log").exists() && !temp.path().join("t2").exists());
        assert_eq!(sweep(&temp.path().join("none"), &live, limits, 0).unwrap(), 0);
    }
}
