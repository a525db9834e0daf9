//! Finds out whom a symbolic target means at this moment.

use std::collections::BTreeMap;

use crate::dice::Dice;
use crate::hosts::{MOCKS, REAL, REPLICAS, SINK};
use crate::target::Target;

/// What was seen of the cluster last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The replica that leads, if one is known.
    pub leader: Option<String>,
    /// Last index of the log of each replica that answers.
    pub last_log: BTreeMap<String, u64>,
    /// Attempts that each mock executor holds.
    pub held: BTreeMap<String, usize>,
}

/// The hosts that `target` means.
///
/// # Errors
/// Nobody fits at this moment; the reason.
pub fn resolve(
    target: &Target,
    seen: &Sighting,
    clients: u32,
    dice: &mut Dice,
) -> Result<Vec<String>, String> {
    let one = |name: &str| vec![name.to_owned()];
    let leader = || seen.leader.clone().ok_or("no replica leads");
    let followers = || -> Result<Vec<String>, &str> {
        let leader = leader()?;
        Ok(REPLICAS.iter().filter(|name| **name != leader).map(|name| (*name).to_owned()).collect())
    };
    Ok(match target {
        Target::Leader => vec![leader()?],
        Target::Follower => dice.pick(&followers()?).cloned().into_iter().collect(),
        Target::NextLeader => {
            let last = |name: &String| seen.last_log.get(name).copied().unwrap_or(0);
            followers()?.into_iter().max_by_key(last).into_iter().collect()
        }
        Target::Followers => followers()?,
        Target::Majority => {
            let follower = dice.pick(&followers()?).cloned();
            std::iter::once(leader()?).chain(follower).collect()
        }
        Target::All => REPLICAS.iter().map(|name| (*name).to_owned()).collect(),
        Target::BusyExecutor => {
            let held = |name: &&&str| seen.held.get(**name).copied().unwrap_or(0);
            let most = MOCKS.iter().max_by_key(held).copied().unwrap_or(MOCKS[0]);
            one(most)
        }
        Target::RealExecutor => one(REAL),
        Target::Executors => MOCKS.iter().map(|name| (*name).to_owned()).collect(),
        Target::Sink => one(SINK),
        Target::Clients => (1..=clients).map(crate::hosts::client).collect(),
        Target::AnyReplica => dice.pick(&REPLICAS).map(|name| one(name)).unwrap_or_default(),
        Target::AnyExecutor => dice.pick(&MOCKS).map(|name| one(name)).unwrap_or_default(),
        Target::Host(name) => one(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Sighting {
        Sighting {
            leader: Some("n2".into()),
            last_log: [("n1".to_owned(), 5), ("n2".to_owned(), 9), ("n3".to_owned(), 7)].into(),
            held: [("e3".to_owned(), 2)].into(),
        }
    }

    fn of(target: &Target, seen: &Sighting) -> Result<Vec<String>, String> {
        resolve(target, seen, 2, &mut Dice::new(1))
    }

    #[test]
    fn every_word_means_somebody() {
        let seen = seen();
        assert_eq!(of(&Target::Leader, &seen).unwrap(), ["n2"]);
        assert_eq!(of(&Target::NextLeader, &seen).unwrap(), ["n3"]);
        assert_eq!(of(&Target::Followers, &seen).unwrap(), ["n1", "n3"]);
        assert_eq!(of(&Target::BusyExecutor, &seen).unwrap(), ["e3"]);
        assert_eq!(of(&Target::Clients, &seen).unwrap(), ["c1", "c2"]);
        assert_eq!(of(&Target::Host("e1".into()), &seen).unwrap(), ["e1"]);
        let majority = of(&Target::Majority, &seen).unwrap();
        assert_eq!((majority.len(), majority[0].as_str()), (2, "n2"));
        assert_ne!(of(&Target::Follower, &seen).unwrap(), ["n2"]);
    }

    #[test]
    fn without_a_leader_nobody_can_be_told_from_another() {
        let nobody = Sighting { leader: None, ..seen() };
        for target in [Target::Leader, Target::Follower, Target::Majority, Target::NextLeader] {
            assert_eq!(of(&target, &nobody), Err("no replica leads".to_owned()));
        }
        assert_eq!(of(&Target::All, &nobody).unwrap().len(), 3);
    }
}
