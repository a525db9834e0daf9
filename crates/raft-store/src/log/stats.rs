//! Counters of the log, for metrics and for deciding when to snapshot.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The log's counters at one moment. Counts run from the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Calls of append.
    pub appends: u64,
    /// Entries appended.
    pub entries: u64,
    /// Encoded bytes appended.
    pub bytes: u64,
    /// Synced writes; each may cover many appends.
    pub syncs: u64,
    /// Duration of the last synced write, in microseconds.
    pub sync_last_us: u64,
    /// Longest synced write, in microseconds.
    pub sync_max_us: u64,
    /// All synced writes together, in microseconds.
    pub sync_total_us: u64,
    /// Entries in the tail in memory.
    pub tail_entries: u64,
    /// The bytes that they take in memory.
    pub tail_bytes: u64,
    /// Reads that the tail could not serve.
    pub cold_reads: u64,
}

/// The counters themselves.
#[derive(Debug, Default)]
pub(super) struct Counters {
    appends: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
    sync_last_us: AtomicU64,
    sync_max_us: AtomicU64,
    sync_total_us: AtomicU64,
    tail_entries: AtomicU64,
    tail_bytes: AtomicU64,
    cold_reads: AtomicU64,
}

impl Counters {
    pub(super) fn appended(&self, entries: usize, bytes: usize) {
        self.appends.fetch_add(1, Ordering::Relaxed);
        self.entries.fetch_add(entries as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn synced(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_last_us.store(us, Ordering::Relaxed);
        self.sync_max_us.fetch_max(us, Ordering::Relaxed);
        self.sync_total_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn tail(&self, entries: usize, bytes: usize) {
        self.tail_entries.store(entries as u64, Ordering::Relaxed);
        self.tail_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn read_cold(&self) {
        self.cold_reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> LogStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogStats {
            appends: read(&self.appends),
            entries: read(&self.entries),
            bytes: read(&self.bytes),
            syncs: read(&self.syncs),
            sync_last_us: read(&self.sync_last_us),
            sync_max_us: read(&self.sync_max_us),
            sync_total_us: read(&self.sync_total_us),
            tail_entries: read(&self.tail_entries),
            tail_bytes: read(&self.tail_bytes),
            cold_reads: read(&self.cold_reads),
        }
    }
}
