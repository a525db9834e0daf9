//! Rows that were asked for last, kept in memory for the next apply.
//!
//! A task is granted, starts and ends within moments, and each of these entries begins by reading its rows. RocksDB
//! finds them among hundreds of thousands in its memtable; while tasks come and go that was a seventh of the leader's
//! time. Whatever is written to the database is written here as well, so that what is kept is what it holds.
//! Rows that are only written, as those of tasks that wait for their hour, are not kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of one generation, its bookkeeping counted. Two of them are kept.
const GENERATION_BYTES: usize = 4 << 20;
/// What a row costs beside its bytes: two allocations and its place in the map.
const ROW_OVERHEAD: usize = 96;

/// Hashes a key at one go. The seed is drawn for each cache: callers choose parts of some keys, and cannot know which of
/// them meet.
#[derive(Clone, Copy)]
struct Seeded(u64);

impl Seeded {
    fn drawn() -> Seeded {
        Seeded(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seeded {
    type Hasher = AtOneGo;

    fn build_hasher(&self) -> AtOneGo {
        AtOneGo(self.0)
    }
}

struct AtOneGo(u64);

impl Hasher for AtOneGo {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// The length in front of the bytes, which the hash of the bytes takes in as well.
    fn write_usize(&mut self, _: usize) {}
}

type Rows = HashMap<Vec<u8>, Vec<u8>, Seeded>;

/// Two generations of rows, by full key: what is asked for comes into the young one, and when that is full it takes the
/// place of the old one. So a row is forgotten once twice its generation's bytes have passed since its last
/// use at most, and nothing needs a list of uses.
pub(super) struct Recent {
    young: Rows,
    old: Rows,
    /// Of the young generation.
    bytes: usize,
    limit: usize,
}

impl Recent {
    /// Nothing yet.
    pub(super) fn new() -> Recent {
        Recent::bounded(GENERATION_BYTES)
    }

    fn bounded(limit: usize) -> Recent {
        let seed = Seeded::drawn();
        Recent { young: Rows::with_hasher(seed), old: Rows::with_hasher(seed), bytes: 0, limit }
    }

    /// The row's value; `None` if it is not kept, whether there is such a row or not.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.keep(key, value.clone());
        Some(value)
    }

    /// Keeps a row as the database has it.
    pub(super) fn keep(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += ROW_OVERHEAD + key.len() + value.len();
        self.young.insert(key, value);
        if self.bytes > self.limit {
            let empty = Rows::with_hasher(*self.young.hasher());
            self.old = mem::replace(&mut self.young, empty);
            self.bytes = 0;
        }
    }

    /// Takes note of a write to a row, which may be kept: `None` removes.
    pub(super) fn written(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let known = self.old.remove(&key).is_some() || self.young.contains_key(&key);
        match value {
            Some(value) if known => self.keep(key, value),
            Some(_) => {}
            None => {
                self.young.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    #[test]
    fn what_was_written_last_stands_in_either_generation() {
        let mut recent = Recent::bounded(10 * (ROW_OVERHEAD + 5));
        for written in [Some(vec![2]), None] {
            for newer in [0, 11] {
                recent.keep(key(1), vec![1]);
                for n in 2..2 + newer {
                    recent.keep(key(n), vec![1]);
                }
                assert_eq!(recent.old.contains_key(&key(1)), newer > 0);
                recent.written(key(1), written.clone());
                assert_eq!(recent.get(&key(1)), written, "with {newer} newer rows");
                recent = Recent::bounded(recent.limit);
            }
        }
        recent.written(key(1), Some(vec![1]));
        assert_eq!(recent.get(&key(1)), None, "nobody has asked for it");
    }

    #[test]
    fn rows_in_use_stay_and_the_rest_goes() {
        let mut recent = Recent::bounded(10 * (ROW_OVERHEAD + 5));
        recent.keep(key(0), vec![7]);
        for n in 1..1_000 {
            recent.keep(key(n), vec![1]);
            assert_eq!(recent.get(&key(0)), Some(vec![7]), "asked for after each of {n}");
            assert!(recent.young.len() + recent.old.len() <= 22);
        }
        assert_eq!(recent.get(&key(500)), None);
    }
}
