//! Identifiers. Each kind is its own type, so that one cannot be passed for another.

use std::fmt;
use std::str::FromStr;

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

/// A task: 16 unguessable bytes, shown as `tsk_` and 22 characters of base64url without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub [u8; 16]);

impl TaskId {
    /// An id that cannot be guessed.
    pub fn draw(random: &dyn Random) -> TaskId {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
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
    use super::*;

    #[test]
    fn task_id_matches_the_published_vector() {
        let id = TaskId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(id.to_string(), "tsk_AAECAwQFBgcICQoLDA0ODw");
        assert_eq!("tsk_AAECAwQFBgcICQoLDA0ODw".parse(), Ok(id));
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
