//! Rows that have been written and are not in the database yet.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use super::PREFIX;
use crate::engine::WriteBatch;

/// What a row costs beside its bytes, roughly: its place in the tree and two allocations.
const ROW_OVERHEAD: usize = 128;

/// What has become of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// Its value; none where it was removed.
    pub value: Option<Vec<u8>>,
    /// Nothing below has such a row. Where it is removed again, nothing is left to be written.
    pub new: bool,
}

/// The last write of each row, by full key, in the order of the keys.
#[derive(Debug, Default)]
pub(super) struct Writes {
    rows: BTreeMap<Vec<u8>, Written>,
    /// By what the keys of a table begin with, the full key in front of which it was cleared before these rows.
    cleared: BTreeMap<[u8; PREFIX], Vec<u8>>,
    bytes: usize,
    taken: usize,
}

impl Writes {
    /// What the rows take in memory, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of all keys and values that were ever taken, those of rows that have changed or gone since as well.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.cleared.is_empty()
    }

    /// Whether a table was cleared.
    pub fn has_cleared(&self) -> bool {
        !self.cleared.is_empty()
    }

    /// Whether what is below of this row counts no more, where nothing is held of it.
    pub fn hides(&self, key: &[u8]) -> bool {
        self.first_below(key) != key
    }

    /// The first key from this one on of which something below still counts.
    pub fn first_below<'a>(&'a self, from: &'a [u8]) -> &'a [u8] {
        let cleared = from.first_chunk::<PREFIX>().and_then(|table| self.cleared.get(table));
        cleared.map_or(from, |to| from.max(to.as_slice()))
    }

    /// The last write of a row.
    pub fn get(&self, key: &[u8]) -> Option<&Written> {
        self.rows.get(key)
    }

    /// The writes from one key up to another one.
    pub fn range(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Written)> {
        self.rows.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)))
    }

    /// Removes every row of the table of `to` in front of it.
    pub fn clear(&mut self, to: Vec<u8>) {
        let Some(table) = to.first_chunk::<PREFIX>().copied() else { return };
        self.taken += to.len();
        let gone: Vec<_> = self.range(&table, &to).map(|(key, _)| key.clone()).collect();
        for key in gone {
            if let Some(written) = self.rows.remove(&key) {
                self.bytes -= ROW_OVERHEAD + key.len() + written.value.map_or(0, |value| value.len());
            }
        }
        let until = self.cleared.entry(table).or_default();
        if *until < to {
            *until = to;
        }
    }

    /// Takes a write. Whether the row is new counts only where nothing is held of it: what is held knows better.
    pub fn set(&mut self, key: Vec<u8>, written: Written) {
        let bytes = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        self.taken += key.len() + bytes(&written.value);
        match self.rows.entry(key) {
            Entry::Vacant(place) => {
                self.bytes += ROW_OVERHEAD + place.key().len() + bytes(&written.value);
                place.insert(written);
            }
            Entry::Occupied(place) if place.get().new && written.value.is_none() => {
                self.bytes -= ROW_OVERHEAD + place.key().len() + bytes(&place.get().value);
                place.remove();
            }
            Entry::Occupied(mut place) => {
                self.bytes += bytes(&written.value);
                let before = std::mem::replace(&mut place.get_mut().value, written.value);
                self.bytes -= bytes(&before);
            }
        }
    }

    /// Takes every write that came after these.
    pub fn take(&mut self, newer: Writes) {
        let taken = self.taken + newer.taken;
        newer.cleared.into_values().for_each(|to| self.clear(to));
        for (key, written) in newer.rows {
            self.set(key, written);
        }
        self.taken = taken;
    }

    /// Every write, as a batch.
    pub fn batch(&self) -> WriteBatch<'_> {
        let mut batch = WriteBatch::with_capacity(self.cleared.len() + self.rows.len());
        for (table, to) in &self.cleared {
            batch.delete_range(table.as_slice(), to.as_slice());
        }
        for (key, written) in &self.rows {
            match &written.value {
                Some(value) => batch.put(key.as_slice(), value.as_slice()),
                None => batch.delete(key.as_slice()),
            }
        }
        batch
    }

    /// Every write, by full key.
    pub fn into_rows(self) -> BTreeMap<Vec<u8>, Written> {
        self.rows
    }
}

/// Two layers of writes as one, in the order of their keys; `upper` hides what `lower` has of a row.
pub(super) fn layered<'a, I, J>(lower: I, upper: J) -> impl Iterator<Item = (&'a Vec<u8>, &'a Written)>
where
    I: Iterator<Item = (&'a Vec<u8>, &'a Written)>,
    J: Iterator<Item = (&'a Vec<u8>, &'a Written)>,
{
    let (mut lower, mut upper) = (lower.peekable(), upper.peekable());
    std::iter::from_fn(move || {
        if let (Some((below, _)), Some((above, _))) = (lower.peek(), upper.peek()) {
            if below < above {
                return lower.next();
            }
            if below == above {
                lower.next();
            }
            return upper.next();
        }
        lower.next().or_else(|| upper.next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Change;

    fn put(value: u8, new: bool) -> Written {
        Written { value: Some(vec![value]), new }
    }

    const REMOVED: Written = Written { value: None, new: false };

    fn after(writes: impl IntoIterator<Item = Written>) -> (Option<Written>, usize) {
        let mut all = Writes::default();
        for written in writes {
            all.set(vec![1], written);
        }
        (all.get(&[1]).cloned(), all.bytes())
    }

    #[test]
    fn of_a_row_that_came_and_went_nothing_is_left() {
        let one = ROW_OVERHEAD + 2;
        assert_eq!(after([put(1, true)]), (Some(put(1, true)), one));
        assert_eq!(after([put(1, true), put(2, false)]), (Some(put(2, true)), one));
        assert_eq!(after([put(1, true), put(2, false), REMOVED]), (None, 0));
        assert_eq!(after([put(1, true), REMOVED, put(3, true)]), (Some(put(3, true)), one));
    }

    #[test]
    fn a_row_that_is_below_is_removed_there() {
        let none = ROW_OVERHEAD + 1;
        assert_eq!(after([put(1, false), REMOVED]), (Some(REMOVED), none));
        // It is new to who writes it, because it was removed before; below it still is.
        assert_eq!(after([REMOVED, put(2, true)]), (Some(put(2, false)), none + 1));
        assert_eq!(after([REMOVED, put(2, true), REMOVED]), (Some(REMOVED), none));
    }

    #[test]
    fn what_came_later_is_taken_row_by_row() {
        let (mut held, mut newer) = (Writes::default(), Writes::default());
        for (key, written) in [(1, put(1, true)), (2, REMOVED), (3, put(1, false))] {
            held.set(vec![key], written);
        }
        for (key, written) in [(1, REMOVED), (2, put(2, true)), (4, put(2, true))] {
            newer.set(vec![key], written);
        }
        held.take(newer);
        assert_eq!(held.taken(), 2 + 1 + 2 + 1 + 2 + 2);
        let rows: Vec<_> = held.into_rows().into_iter().map(|(key, written)| (key[0], written)).collect();
        assert_eq!(rows, [(2, put(2, false)), (3, put(1, false)), (4, put(2, true))]);
    }

    #[test]
    fn what_is_in_front_of_the_end_of_a_clearing_is_gone_and_hidden_below() {
        let key = |at: u8| vec![0, 0, 0, 0, 5, at];
        let mut held = Writes::default();
        held.set(key(1), put(1, false));
        held.set(key(4), put(1, false));
        let mut newer = Writes::default();
        newer.set(key(2), put(2, true));
        newer.clear(key(4));
        newer.set(key(1), put(3, true));
        held.take(newer);
        assert_eq!((held.get(&key(1)), held.get(&key(2))), (Some(&put(3, true)), None));
        assert!(held.hides(&key(3)) && !held.hides(&key(4)) && !held.hides(&[0, 0, 0, 0, 6, 1]));
        assert_eq!(held.bytes(), 2 * (ROW_OVERHEAD + 7));
        held.clear(key(3));
        assert!(held.hides(&key(3)), "an end further on stays");
        let batch = held.batch();
        assert_eq!(
            batch.changes()[0],
            Change::DeleteRange { from: (&key(1)[..5]).into(), to: key(4).into() }
        );
        assert_eq!(batch.changes().len(), 2, "the row that was cleared last is not written");
    }

    #[test]
    fn the_upper_layer_hides_the_lower_one() {
        let layer = |value: u8, keys: &[u8]| {
            let mut layer = Writes::default();
            keys.iter().for_each(|key| layer.set(vec![*key], put(value, false)));
            layer
        };
        let seen = |lower: &[u8], upper: &[u8]| -> Vec<(u8, u8)> {
            let (lower, upper) = (layer(1, lower), layer(2, upper));
            let both = layered(lower.range(&[0], &[9]), upper.range(&[0], &[9]));
            both.map(|(key, written)| (key[0], written.value.as_ref().unwrap()[0])).collect()
        };
        assert_eq!(seen(&[1, 3, 5], &[2, 3, 6, 9]), [(1, 1), (2, 2), (3, 2), (5, 1), (6, 2)]);
        assert_eq!(seen(&[], &[4]), [(4, 2)]);
        assert_eq!(seen(&[4, 5], &[]), [(4, 1), (5, 1)]);
    }
}
