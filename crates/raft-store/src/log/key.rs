//! The shape of the keys of the log's database.

/// The Raft group that all keys of this version belong to. The prefix costs nothing and lets several groups
/// share a node later without moving data.
pub(super) const GROUP: u32 = 0;

/// What a key of the log database names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LogKey {
    /// The vote.
    Vote,
    /// The position up to which the log has been purged.
    Purged,
    /// Where a log that was never purged begins.
    Start,
    /// The entry at an index.
    Entry(u64),
}

const KIND_META: u8 = 1;
const KIND_ENTRY: u8 = 2;
const META_VOTE: u64 = 1;
const META_PURGED: u64 = 2;
const META_START: u64 = 3;

/// Length of a key of the log database.
pub(super) const LOG_KEY_LEN: usize = 13;

impl LogKey {
    /// `[group u32][kind u8][index u64]`, big-endian, so that byte order is log order.
    pub(super) fn encode(self) -> [u8; LOG_KEY_LEN] {
        let (kind, index) = match self {
            LogKey::Vote => (KIND_META, META_VOTE),
            LogKey::Purged => (KIND_META, META_PURGED),
            LogKey::Start => (KIND_META, META_START),
            LogKey::Entry(index) => (KIND_ENTRY, index),
        };
        let mut key = [0; LOG_KEY_LEN];
        key[..4].copy_from_slice(&GROUP.to_be_bytes());
        key[4] = kind;
        key[5..].copy_from_slice(&index.to_be_bytes());
        key
    }

    /// The same for a batch.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.encode().to_vec()
    }

    /// The index of an entry's key; `None` for any other key.
    pub(super) fn entry_index(key: &[u8]) -> Option<u64> {
        let key: &[u8; LOG_KEY_LEN] = key.try_into().ok()?;
        let [g0, g1, g2, g3, kind, index @ ..] = *key;
        let ours = u32::from_be_bytes([g0, g1, g2, g3]) == GROUP && kind == KIND_ENTRY;
        ours.then(|| u64::from_be_bytes(index))
    }

    /// The first key behind every entry.
    pub(super) fn entries_end() -> [u8; LOG_KEY_LEN] {
        let mut key = LogKey::Entry(0).encode();
        key[4] = KIND_ENTRY + 1;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_keys_are_golden_and_sorted() {
        assert_eq!(LogKey::Vote.encode(), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(LogKey::Purged.encode(), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(LogKey::Start.encode(), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(LogKey::Entry(0x0102).encode(), [0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 2]);
        let mut sorted = [0, 1, 255, 256, u64::MAX].map(|index| LogKey::Entry(index).encode());
        sorted.sort_unstable();
        assert_eq!(sorted.map(|key| LogKey::entry_index(&key)), [0, 1, 255, 256, u64::MAX].map(Some));
        assert!(LogKey::entries_end() > LogKey::Entry(u64::MAX).encode());
        assert!(LogKey::Purged.encode() < LogKey::Entry(0).encode());
    }

    #[test]
    fn only_keys_of_entries_have_an_index() {
        assert_eq!(LogKey::entry_index(&LogKey::Vote.encode()), None);
        assert_eq!(LogKey::entry_index(&LogKey::entries_end()), None);
        assert_eq!(LogKey::entry_index(&[0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1]), None);
        assert_eq!(LogKey::entry_index(b"short"), None);
    }
}
