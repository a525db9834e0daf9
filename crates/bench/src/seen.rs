//! A set of ids that lie close together: a bit for each, so that millions cost little. Pure.

use std::collections::HashMap;

/// The ids, 64 in a word.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    words: HashMap<u64, u64>,
}

impl Seen {
    /// Adds an id; `false` when it was there.
    pub(crate) fn insert(&mut self, id: u64) -> bool {
        let word = self.words.entry(id / 64).or_default();
        let bit = 1_u64 << (id % 64);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_new_once() {
        let mut seen = Seen::default();
        for id in [0, 63, 64, u64::MAX] {
            assert!(seen.insert(id), "{id} is new");
            assert!(!seen.insert(id), "{id} has been there");
        }
        assert!(seen.insert(62) && seen.insert(65));
    }
}
