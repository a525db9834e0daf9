//! The running digest of every write.
//!
//! Each write is hashed with 64-bit FNV-1a over length-prefixed fields and mixed into the digest so far
//! (the finaliser of MurmurHash3), so the digest depends on the order of the writes as well as on their
//! bytes. It detects divergence of replicas, not malice.

use crate::tables::TableId;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The digest after one more write: `value` is `None` for a removal.
pub fn fold(digest: u64, table: TableId, key: &[u8], value: Option<&[u8]>) -> u64 {
    let mut hash = eat(FNV_OFFSET, &[table as u8]);
    hash = field(hash, key);
    hash = match value {
        None => eat(hash, &[0]),
        Some(value) => field(eat(hash, &[1]), value),
    };
    mix(digest.rotate_left(17) ^ hash)
}

fn field(hash: u64, bytes: &[u8]) -> u64 {
    eat(eat(hash, &(bytes.len() as u64).to_le_bytes()), bytes)
}

/// FNV-1a over eight-byte words, then over what is left: one multiplication a word keeps the digest off
/// the profile of an apply.
fn eat(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    for word in words.by_ref() {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        hash = (hash ^ u64::from_le_bytes(eight)).wrapping_mul(FNV_PRIME);
        hash ^= hash >> 32;
    }
    for byte in words.remainder() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    }
    hash
}

fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_key_value_and_removal_all_count() {
        let a = fold(0, TableId::Task, b"a", Some(b"1"));
        let b = fold(0, TableId::Task, b"b", Some(b"1"));
        assert_ne!(a, b);
        assert_ne!(a, fold(0, TableId::Spec, b"a", Some(b"1")));
        assert_ne!(a, fold(0, TableId::Task, b"a", Some(b"2")));
        assert_ne!(a, fold(0, TableId::Task, b"a", None));
        assert_ne!(fold(a, TableId::Task, b"b", Some(b"1")), fold(b, TableId::Task, b"a", Some(b"1")));
        assert_ne!(fold(0, TableId::Task, b"a", Some(b"")), fold(0, TableId::Task, b"a", None));
    }

    #[test]
    fn the_bytes_of_the_digest_never_change() {
        // A golden value: replicas of two releases compare digests during a rolling upgrade.
        assert_eq!(fold(7, TableId::Task, b"tsk", Some(b"0123456789")), 11_800_016_354_200_233_201);
    }
}
