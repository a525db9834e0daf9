//! Whom a fault is meant for, by a word whose meaning is found out at the moment of the fault.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A symbolic target. In files it is the word that [`fmt::Display`] writes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// The replica that leads.
    Leader,
    /// A replica that follows.
    Follower,
    /// The follower that has the most of the log.
    NextLeader,
    /// The leader and one follower.
    Majority,
    /// Both followers: a majority that leaves the leader alone.
    Followers,
    /// Every replica.
    All,
    /// The mock executor that holds the most attempts.
    BusyExecutor,
    /// The real executor.
    RealExecutor,
    /// Every executor.
    Executors,
    /// The sink that stands for the outside world.
    Sink,
    /// Every client.
    Clients,
    /// One of the three replicas: the plan draws which, and writes [`Target::Host`].
    AnyReplica,
    /// One of the mock executors: the plan draws which, and writes [`Target::Host`].
    AnyExecutor,
    /// A host by its name: `n2`, `e1`.
    Host(String),
}

const WORDS: &[(Target, &str)] = &[
    (Target::Leader, "leader"),
    (Target::Follower, "follower"),
    (Target::NextLeader, "next-leader"),
    (Target::Majority, "majority"),
    (Target::Followers, "followers"),
    (Target::All, "all"),
    (Target::BusyExecutor, "busy-executor"),
    (Target::RealExecutor, "real-executor"),
    (Target::Executors, "executors"),
    (Target::Sink, "sink"),
    (Target::Clients, "clients"),
    (Target::AnyReplica, "any-replica"),
    (Target::AnyExecutor, "any-executor"),
];

impl Target {
    /// How many replicas it names at most.
    pub fn replicas(&self) -> usize {
        match self {
            Target::Leader | Target::Follower | Target::NextLeader | Target::AnyReplica => 1,
            Target::Majority | Target::Followers => 2,
            Target::All => 3,
            Target::Host(name) if name.starts_with('n') => 1,
            _ => 0,
        }
    }

    /// How many mock executors it names at most.
    pub fn executors(&self) -> usize {
        match self {
            Target::BusyExecutor | Target::AnyExecutor => 1,
            Target::Executors => 3,
            Target::Host(name) if name.starts_with('e') => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Host(name) => f.write_str(name),
            word => {
                let known = WORDS.iter().find(|(target, _)| target == word);
                f.write_str(known.map_or("", |(_, word)| word))
            }
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        if let Some((target, _)) = WORDS.iter().find(|(_, word)| *word == text) {
            return Ok(target.clone());
        }
        let host = matches!(text.as_bytes(), [b'n' | b'e' | b'c', digit, ..] if digit.is_ascii_digit());
        if host { Ok(Target::Host(text.to_owned())) } else { Err(format!("{text:?} is no target")) }
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Target, String> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_one_word() {
        for (target, word) in WORDS {
            assert_eq!((target.to_string().as_str(), word.parse()), (*word, Ok(target.clone())));
        }
        assert_eq!("n2".parse(), Ok(Target::Host("n2".into())));
        assert_eq!(Target::Host("e1".into()).executors(), 1);
        assert!("nobody".parse::<Target>().unwrap_err().contains("nobody"));
    }
}
