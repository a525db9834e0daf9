//! Whether the leader that a node knows is still there. Raft goes on naming one that is gone: without a majority nobody
//! is elected in its place, so a follower keeps the vote that it gave, and a leader that nobody hears leads on in its
//! own eyes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use orloj_model::id::NodeId;
use tokio::time::Instant;

use crate::status::Leadership;

/// A leader counts as gone after the longest silence before an election so many times over. An ordinary change of leader
/// fits in, so that nobody is told of it; the death of a majority is told within 2.25 s by the default timing.
const ELECTIONS: u32 = 3;

/// When a leader was last heard: of a follower, when it took something from one; of a leader, when it came to lead.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<Option<Instant>>);

impl Pulse {
    /// A leader is heard, now.
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// For how long none has been heard; `None` where none ever was.
    pub fn silence(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map(|heard| heard.elapsed())
    }
}

/// The leader that this node knows, where it is there. `silence` is how long a follower has not heard it, and how long a
/// leader has not heard a majority; `alone` says that this node is the only one that votes.
pub fn living(
    known: Leadership,
    alone: bool,
    silence: Option<Duration>,
    longest_before_election: Duration,
) -> Option<NodeId> {
    let heard = silence.is_some_and(|silence| silence <= longest_before_election * ELECTIONS);
    known.leader.filter(|_| heard || (known.leading && alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_gone_once_it_was_silent_for_three_elections() {
        let election = Duration::from_millis(750);
        let silent = |ms| Some(Duration::from_millis(ms));
        let led_by_2 = |leading| Leadership { term: 3, leader: Some(2), leading };
        for leading in [false, true] {
            let known = led_by_2(leading);
            assert_eq!(living(known, false, silent(0), election), Some(2));
            assert_eq!(living(known, false, silent(2_250), election), Some(2), "an election fits in");
            assert_eq!(living(known, false, silent(2_251), election), None);
            assert_eq!(
                living(known, false, None, election),
                None,
                "what the disk remembers is no sign of life"
            );
        }
        assert_eq!(living(led_by_2(true), true, None, election), Some(2), "whoever is alone is a majority");
        assert_eq!(living(led_by_2(false), true, silent(9_999), election), None);
        assert_eq!(living(Leadership::default(), true, silent(0), election), None);
    }
}
