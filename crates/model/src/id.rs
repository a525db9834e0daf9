//! Identifiers. Each kind is its own type, so that one cannot be passed for another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Why a text is not the identifier that it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdError {
    /// A name with a character that names may not have.
    Character {
        /// The offending character.
        found: char,
        /// Its position, counted in characters from 0.
        position: usize,
    },
    /// A job's id with a character that those may not have.
    JobCharacter {
        /// The offending character.
        found: char,
        /// Its position, counted in characters from 0.
        position: usize,
    },
    /// A name that is empty or too long.
    Length {
        /// The length found, in characters.
        length: usize,
        /// The longest allowed.
        limit: usize,
    },
    /// A task id that is not `tsk_` and 22 characters of base64url.
    TaskId,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdError::Character { found, position } => {
                write!(f, "character {found:?} at position {position} is not allowed: use [A-Za-z0-9._-]")
            }
            IdError::JobCharacter { found, position } => {
                write!(f, "character {found:?} at position {position} is not allowed: use [A-Za-z0-9_-]")
            }
            IdError::Length { length, limit } => write!(f, "length {length} is outside 1-{limit}"),
            IdError::TaskId => f.write_str("not a task id: expected tsk_ and 22 characters of [A-Za-z0-9_-]"),
        }
    }
}

impl std::error::Error for IdError {}

/// The longest name of a caller, an executor, a job, a calendar, a handler or a label.
pub const NAME_LIMIT: usize = 128;

/// Checks a name against `[A-Za-z0-9._-]{1,128}`.
pub fn check_name(name: &str) -> Result<(), IdError> {
    check_length(name)?;
    for (position, found) in name.chars().enumerate() {
        if !(found.is_ascii_alphanumeric() || matches!(found, '.' | '_' | '-')) {
            return Err(IdError::Character { found, position });
        }
    }
    Ok(())
}

fn check_length(name: &str) -> Result<(), IdError> {
    let length = name.chars().count();
    if length == 0 || length > NAME_LIMIT {
        return Err(IdError::Length { length, limit: NAME_LIMIT });
    }
    Ok(())
}

/// Checks the id of a job against `[A-Za-z0-9_-]{1,128}`: it stands in paths, where a dot would be read as one.
pub fn check_job_id(id: &str) -> Result<(), IdError> {
    check_length(id)?;
    let allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    match id.chars().enumerate().find(|(_, char)| !allowed(*char)) {
        Some((position, found)) => Err(IdError::JobCharacter { found, position }),
        None => Ok(()),
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $type:ident, $check:ident, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(String);

        impl $type {
            #[doc = concat!("Checks and takes a name of `", $allowed, "{1,128}`.")]
            pub fn new(name: impl Into<String>) -> Result<Self, IdError> {
                let name = name.into();
                $check(&name)?;
                Ok($type(name))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                $type::new(text)
            }
        }
    };
}

name_type!(
    /// A caller: a tenant of the API that owns keys and tasks.
    CallerId,
    check_name,
    "[A-Za-z0-9._-]"
);
name_type!(
    /// An executor, by the id in its configuration.
    ExecutorId,
    check_name,
    "[A-Za-z0-9._-]"
);
name_type!(
    /// A job, by the id that its owner chose. Each caller has names of its own.
    JobId,
    check_job_id,
    "[A-Za-z0-9_-]"
);
name_type!(
    /// A calendar, by the name that its owner chose. Each caller has names of its own.
    CalendarName,
    check_name,
    "[A-Za-z0-9._-]"
);

/// A scheduler replica. Ids are never reused: a node whose data is gone comes back under a new one.
pub type NodeId = u64;

/// One life of an executor process; grows with every start.
pub type Incarnation = u64;

/// The log index of the entry that granted a lease. Never reused.
pub type Fence = u64;

/// The scheduling round: raised by one by every new leader before it does anything else.
pub type Round = u64;

/// Milliseconds since the Unix epoch, UTC.
pub type Millis = i64;

/// A task: 16 bytes, shown as `tsk_` and 22 characters of base64url without padding. [`TaskIds`] draws them, so that nobody
/// can guess one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub [u8; 16]);

/// How many ids begin with the same bytes, see [`TaskIds`]. About as many tasks as one buffer of the database holds.
const IDS_PER_BLOCK: u64 = 1 << 15;
/// How many bytes those are.
const BLOCK_BYTES: usize = 3;
/// Where the number of a block stands in the word that is kept; below it, how many ids of it are left.
const BLOCK_SHIFT: u32 = 32;

/// Draws the ids of tasks, for the callers or for the leader of one process.
///
/// The first three bytes of an id are the number of a block of 32,768 ids, and the next block has the next number; the
/// numbers begin anywhere. The other thirteen bytes are by chance. So tasks that are made together lie together in the
/// tables, and merges of the database's large files rewrite little but new tasks: with ids all by chance they would rewrite
/// every task that ever finished. Nobody can guess the 104 bits behind; two ids tell about how many lie between them.
pub struct TaskIds {
    random: Arc<dyn Random>,
    block: AtomicU64,
}

impl TaskIds {
    /// Begins at a block by chance.
    pub fn new(random: Arc<dyn Random>) -> TaskIds {
        let first = random.up_to((1 << (8 * BLOCK_BYTES)) - 1);
        TaskIds { random, block: AtomicU64::new(first << BLOCK_SHIFT | IDS_PER_BLOCK) }
    }

    /// An id that cannot be guessed.
    pub fn draw(&self) -> TaskId {
        let next = |word: u64| {
            let (block, left) = (word >> BLOCK_SHIFT, word & ((1 << BLOCK_SHIFT) - 1));
            Some(if left > 1 { word - 1 } else { (block + 1) << BLOCK_SHIFT | IDS_PER_BLOCK })
        };
        // It takes part in nothing that another thread could see in another order.
        let word = match self.block.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(word) | Err(word) => word,
        };
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes[BLOCK_BYTES..]);
        let block = (word >> BLOCK_SHIFT).to_be_bytes();
        bytes[..BLOCK_BYTES].copy_from_slice(&block[block.len() - BLOCK_BYTES..]);
        TaskId(bytes)
    }
}

const BASE64URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const TASK_ID_CHARS: usize = 22;

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0; TASK_ID_CHARS];
        for (place, char) in text.iter_mut().enumerate() {
            // 22 characters carry 132 bits: the last one holds two bits of data and four zero bits.
            let shift = 122 - 6 * place as i32;
            let six = if shift >= 0 { bits >> shift } else { bits << -shift } & 63;
            *char = BASE64URL[six as usize];
        }
        f.write_str("tsk_")?;
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TaskId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let chars = text.strip_prefix("tsk_").ok_or(IdError::TaskId)?.as_bytes();
        if chars.len() != TASK_ID_CHARS {
            return Err(IdError::TaskId);
        }
        let mut bits: u128 = 0;
        for (place, char) in chars.iter().enumerate() {
            let six = BASE64URL.iter().position(|c| c == char).ok_or(IdError::TaskId)? as u128;
            if place == TASK_ID_CHARS - 1 {
                // One spelling only: the four spare bits must be zero.
                if six & 15 != 0 {
                    return Err(IdError::TaskId);
                }
                bits = (bits << 2) | (six >> 4);
            } else {
                bits = (bits << 6) | six;
            }
        }
        Ok(TaskId(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn task_id_matches_the_published_vector() {
        let id = TaskId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(id.to_string(), "tsk_AAECAwQFBgcICQoLDA0ODw");
        assert_eq!("tsk_AAECAwQFBgcICQoLDA0ODw".parse(), Ok(id));
    }

    #[test]
    fn ids_that_are_drawn_together_begin_alike_and_are_by_chance_behind_that() {
        let ids = TaskIds::new(Arc::new(crate::random::SeededRandom::new(7)));
        let drawn: Vec<TaskId> = (0..3 * IDS_PER_BLOCK).map(|_| ids.draw()).collect();
        let block = |id: &TaskId| u32::from_be_bytes([0, id.0[0], id.0[1], id.0[2]]);
        for (at, block_of_ids) in (0..).zip(drawn.chunks(IDS_PER_BLOCK as usize)) {
            let number = (block(&drawn[0]) + at) % (1 << 24);
            assert!(block_of_ids.iter().all(|id| block(id) == number), "block {at}");
        }
        for place in BLOCK_BYTES..16 {
            let values: BTreeSet<u8> = drawn.iter().map(|id| id.0[place]).collect();
            assert_eq!(values.len(), 256, "byte {place}");
        }
        let distinct: BTreeSet<TaskId> = drawn.iter().copied().collect();
        assert_eq!(distinct.len(), drawn.len());
    }

    #[test]
    fn blocks_go_on_from_the_first_after_the_last() {
        let ids = TaskIds::new(Arc::new(crate::random::SeededRandom::new(7)));
        ids.block.store(0xff_ffff << BLOCK_SHIFT | 1, Ordering::Relaxed);
        assert_eq!(ids.draw().0[..BLOCK_BYTES], [0xff; BLOCK_BYTES]);
        assert_eq!(ids.draw().0[..BLOCK_BYTES], [0; BLOCK_BYTES]);
    }

    #[test]
    fn task_id_has_one_spelling() {
        for bad in [
            "",
            "tsk_",
            "tsk_AAECAwQFBgcICQoLDA0ODx",
            "tsk_AAECAwQFBgcICQoLDA0OD",
            "tsk_AAECAwQFBgcICQoLDA0ODw=",
            "TSK_AAECAwQFBgcICQoLDA0ODw",
            "tsk_AAECAwQFBgcICQoLDA0O+w",
        ] {
            assert_eq!(bad.parse::<TaskId>(), Err(IdError::TaskId), "{bad:?}");
        }
    }

    #[test]
    fn names_show_the_offending_character() {
        assert_eq!(ExecutorId::new("a b"), Err(IdError::Character { found: ' ', position: 1 }));
        assert_eq!(CallerId::new(""), Err(IdError::Length { length: 0, limit: 128 }));
        assert!(CallerId::new("x".repeat(128)).is_ok());
        assert!(CallerId::new("x".repeat(129)).is_err());
    }

    #[test]
    fn a_jobs_id_has_no_dot() {
        assert_eq!(JobId::new("a.b"), Err(IdError::JobCharacter { found: '.', position: 1 }));
        assert_eq!(JobId::new("näh"), Err(IdError::JobCharacter { found: 'ä', position: 1 }));
        assert_eq!(JobId::new(""), Err(IdError::Length { length: 0, limit: 128 }));
        assert!(JobId::new("nightly-report_2").is_ok());
        assert!(CalendarName::new("holidays.de").is_ok());
    }
}
