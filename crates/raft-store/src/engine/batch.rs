//! Changes that are written together.

use std::borrow::Cow;

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets the value under a key.
    Put {
        /// The key.
        key: Cow<'a, [u8]>,
        /// Its value from now on.
        value: Cow<'a, [u8]>,
    },
    /// Removes a key, which need not be there.
    Delete {
        /// The key.
        key: Cow<'a, [u8]>,
    },
    /// Removes every key of `from..to`.
    DeleteRange {
        /// The first key.
        from: Cow<'a, [u8]>,
        /// The key behind the last one.
        to: Cow<'a, [u8]>,
    },
}

/// Changes in the order in which they count. Bytes may be borrowed, so that an engine copies them once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteBatch<'a> {
    changes: Vec<Change<'a>>,
}

impl<'a> WriteBatch<'a> {
    /// Room for so many changes.
    pub fn with_capacity(changes: usize) -> Self {
        WriteBatch { changes: Vec::with_capacity(changes) }
    }

    /// The changes.
    pub fn changes(&self) -> &[Change<'a>] {
        &self.changes
    }

    /// Sets the value under a key.
    pub fn put(&mut self, key: impl Into<Cow<'a, [u8]>>, value: impl Into<Cow<'a, [u8]>>) {
        self.changes.push(Change::Put { key: key.into(), value: value.into() });
    }

    /// Removes a key.
    pub fn delete(&mut self, key: impl Into<Cow<'a, [u8]>>) {
        self.changes.push(Change::Delete { key: key.into() });
    }

    /// Removes every key of `from..to`.
    pub fn delete_range(&mut self, from: impl Into<Cow<'a, [u8]>>, to: impl Into<Cow<'a, [u8]>>) {
        self.changes.push(Change::DeleteRange { from: from.into(), to: to.into() });
    }
}
