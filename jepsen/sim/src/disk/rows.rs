//! Rows with their history: every state that somebody may still ask for, or that a crash may bring back.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// A key.
pub(super) type Key = Arc<[u8]>;
/// A value; `None` when the key was removed.
type Version = (u64, Option<Arc<[u8]>>);

/// Rows by key, each with its versions, oldest first.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: BTreeMap<Key, Vec<Version>>,
    /// Keys with versions that can go once nobody needs them.
    stale: BTreeSet<Key>,
    /// The number of the last batch.
    last: u64,
    /// The last batch that a loss of power leaves.
    durable: u64,
    /// Which states are held by snapshots, and by how many.
    pins: BTreeMap<u64, usize>,
}

impl Rows {
    /// Durable rows.
    pub(super) fn of(rows: Vec<(Vec<u8>, Vec<u8>)>) -> Rows {
        let rows = rows.into_iter().map(|(key, value)| (Key::from(key), vec![(0, Some(Arc::from(value)))]));
        Rows { rows: rows.collect(), ..Rows::default() }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Begins a batch: what is set from now on belongs to it.
    pub(super) fn begin(&mut self) {
        self.last += 1;
    }

    pub(super) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let key = match self.rows.get_key_value(key) {
            Some((key, _)) => Arc::clone(key),
            None if value.is_none() => return,
            None => Arc::from(key),
        };
        let versions = self.rows.entry(Arc::clone(&key)).or_default();
        versions.push((self.last, value.map(Arc::from)));
        self.stale.insert(key);
    }

    pub(super) fn remove_range(&mut self, from: &[u8], to: &[u8]) {
        // A tree refuses a range whose ends stand in the wrong order.
        if from >= to {
            return;
        }
        let range = self.rows.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        let keys: Vec<Key> = range.map(|(key, _)| Arc::clone(key)).collect();
        for key in keys {
            self.set(&key, None);
        }
    }

    /// The value as of a batch.
    pub(super) fn get(&self, key: &[u8], at: u64) -> Option<Arc<[u8]>> {
        self.rows.get(key).and_then(|versions| seen(versions, at))
    }

    /// The first row of `from..to` as of a batch; `behind` leaves `from` itself out.
    pub(super) fn next(&self, from: &[u8], behind: bool, to: &[u8], at: u64) -> Option<(Key, Arc<[u8]>)> {
        if from >= to {
            return None;
        }
        let from = if behind { Bound::Excluded(from) } else { Bound::Included(from) };
        let mut rows = self.rows.range::<[u8], _>((from, Bound::Excluded(to)));
        rows.find_map(|(key, versions)| Some((Arc::clone(key), seen(versions, at)?)))
    }

    /// All rows as of the last batch.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Key, Arc<[u8]>)> {
        self.rows.iter().filter_map(|(key, versions)| Some((key, seen(versions, self.last)?)))
    }

    /// From now on a loss of power leaves everything up to this batch.
    pub(super) fn sync(&mut self, upto: u64) {
        self.durable = self.durable.max(upto.min(self.last));
        self.tidy();
    }

    pub(super) fn pin(&mut self) -> u64 {
        *self.pins.entry(self.last).or_default() += 1;
        self.last
    }

    pub(super) fn unpin(&mut self, at: u64) {
        if let Some(count) = self.pins.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&at);
            }
        }
    }

    /// The process is gone: nobody holds a state any more. What was not synced waits in the kernel.
    pub(super) fn let_go(&mut self) {
        self.pins.clear();
        self.tidy();
    }

    /// The power is gone: everything after this batch has never been, and what is there is durable.
    pub(super) fn cut(&mut self, at: u64) {
        self.rows.retain(|_, versions| {
            versions.retain(|(number, _)| *number <= at);
            !versions.is_empty()
        });
        (self.last, self.durable) = (at, at);
        self.pins.clear();
        self.stale = self.rows.keys().cloned().collect();
        self.tidy();
    }

    /// Forgets versions that nobody can ask for any more.
    fn tidy(&mut self) {
        let floor = self.pins.keys().next().copied().unwrap_or(u64::MAX).min(self.durable);
        for key in std::mem::take(&mut self.stale) {
            let Some(versions) = self.rows.get_mut(&key) else { continue };
            let needed = versions.iter().rposition(|(number, _)| *number <= floor).unwrap_or(0);
            versions.drain(..needed);
            match versions.as_slice() {
                [(number, None)] if *number <= floor => {
                    self.rows.remove(&key);
                }
                [(_, Some(_))] => {}
                _ => {
                    self.stale.insert(key);
                }
            }
        }
    }
}

fn seen(versions: &[Version], at: u64) -> Option<Arc<[u8]>> {
    versions.iter().rev().find(|(number, _)| *number <= at).and_then(|(_, value)| value.clone())
}
