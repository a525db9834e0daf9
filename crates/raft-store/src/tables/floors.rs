//! Where the queues among the tables begin.
//!
//! Rows of a queue come at its end and are taken from its head, and what was taken leaves marks of removal behind, in
//! memory and in the files. A scan from the beginning of the table would pass all of them each time: with four thousand
//! rows a second that expire, throughput fell to a fifth. So it is remembered where the last scan found the first row.

use orloj_model::tables::TableId;

/// For each table a range of keys that has no row, as the last scan found it.
#[derive(Debug, Default)]
pub(super) struct Floors {
    empty: Vec<Option<Gap>>,
}

/// No row has a full key of `from..to`.
#[derive(Debug, PartialEq, Eq)]
struct Gap {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Floors {
    fn of(&mut self, table: TableId) -> &mut Option<Gap> {
        let place = usize::from(table as u8);
        if self.empty.len() <= place {
            self.empty.resize_with(place + 1, || None);
        }
        &mut self.empty[place]
    }

    /// Where a scan from `from` finds its first row, at the earliest.
    pub fn first<'a>(&'a self, table: TableId, from: &'a [u8]) -> &'a [u8] {
        match self.empty.get(usize::from(table as u8)) {
            Some(Some(gap)) if gap.from.as_slice() <= from && from < gap.to.as_slice() => &gap.to,
            _ => from,
        }
    }

    /// Takes note that a scan from `from` has found no row before `to`.
    pub fn found(&mut self, table: TableId, from: &[u8], to: &[u8]) {
        match self.of(table) {
            Some(gap) if gap.from.as_slice() <= from && from <= gap.to.as_slice() => {
                if gap.to.as_slice() < to {
                    gap.to = to.to_vec();
                }
            }
            other => *other = Some(Gap { from: from.to_vec(), to: to.to_vec() }),
        }
    }

    /// Takes note that a row is written.
    pub fn written(&mut self, table: TableId, key: &[u8]) {
        if let Some(Some(gap)) = self.empty.get_mut(usize::from(table as u8))
            && gap.from.as_slice() <= key
            && key < gap.to.as_slice()
        {
            gap.to = key.to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: TableId = TableId::IdempotencyExpiry;

    #[test]
    fn a_scan_begins_where_the_last_one_found_a_row() {
        let mut floors = Floors::default();
        assert_eq!(floors.first(QUEUE, &[1]), [1]);
        floors.found(QUEUE, &[1], &[5]);
        assert_eq!(floors.first(QUEUE, &[1]), [5]);
        assert_eq!(floors.first(QUEUE, &[3]), [5], "also from within");
        assert_eq!(floors.first(QUEUE, &[0]), [0], "nobody has looked there");
        assert_eq!(floors.first(QUEUE, &[5]), [5]);
        assert_eq!(floors.first(TableId::Due, &[1]), [1], "another table");
        floors.found(QUEUE, &[5], &[8]);
        assert_eq!(floors.first(QUEUE, &[1]), [8], "what borders on it is one with it");
        floors.found(QUEUE, &[2], &[4]);
        assert_eq!(floors.first(QUEUE, &[1]), [8], "a part of it says nothing new");
    }

    #[test]
    fn a_row_that_comes_in_front_is_found() {
        let mut floors = Floors::default();
        floors.found(QUEUE, &[1], &[8]);
        floors.written(QUEUE, &[9]);
        floors.written(QUEUE, &[0]);
        floors.written(TableId::Due, &[3]);
        assert_eq!(floors.first(QUEUE, &[1]), [8]);
        floors.written(QUEUE, &[3]);
        assert_eq!(floors.first(QUEUE, &[1]), [3]);
        assert_eq!(floors.first(QUEUE, &[4]), [4]);
        floors.found(QUEUE, &[6], &[7]);
        assert_eq!(floors.first(QUEUE, &[1]), [1], "only the last scan is remembered");
        assert_eq!(floors.first(QUEUE, &[6]), [7]);
    }
}
