//! One direction between two places, and the fate of one message on it.

use orloj_jepsen_agents::rng::Rng;

/// How a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// What is sent is lost.
    Lose,
    /// What is sent arrives once the link is whole again, as TCP's retransmissions do.
    Hold,
}

/// One direction between two places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Whether and how it is cut.
    pub cut: Option<Cut>,
    /// Shortest and longest delay, in ms; at least 1.
    pub delay_ms: (u64, u64),
    /// Share of messages that need a retransmission.
    pub loss: f64,
    /// Share of requests that arrive twice.
    pub duplicate: f64,
    /// Share of messages that are held up, so that later ones overtake them.
    pub reorder: f64,
}

/// A local network.
impl Default for Link {
    fn default() -> Self {
        Link { cut: None, delay_ms: (1, 3), loss: 0.0, duplicate: 0.0, reorder: 0.0 }
    }
}

/// The first pause before a retransmission, in ms; it doubles.
const RETRANSMIT_MS: u64 = 200;
/// After so many losses in a row the connection is given up.
const LOSSES: u32 = 4;
/// How much longer a message takes that others overtake, in ms.
const OVERTAKEN_MS: (u64, u64) = (5, 60);

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives after so many ms.
    Arrives(u64),
    /// It waits for the link to be whole.
    Held,
    /// It is lost without a sign.
    Lost,
    /// The connection is given up after so many ms.
    Reset(u64),
}

impl Link {
    /// Decides what becomes of a message that is sent now.
    pub fn fate(&self, rng: &mut Rng) -> Fate {
        match self.cut {
            Some(Cut::Lose) => return Fate::Lost,
            Some(Cut::Hold) => return Fate::Held,
            None => {}
        }
        let mut delay = rng.between(self.delay_ms.0.max(1), self.delay_ms.1.max(1));
        let (mut pause, mut losses) = (RETRANSMIT_MS, 0);
        while rng.chance(self.loss) {
            (delay, pause, losses) = (delay + pause, pause * 2, losses + 1);
            if losses == LOSSES {
                return Fate::Reset(delay);
            }
        }
        if rng.chance(self.reorder) {
            delay += rng.between(OVERTAKEN_MS.0, OVERTAKEN_MS.1);
        }
        Fate::Arrives(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(link: Link) -> Vec<Fate> {
        let mut rng = Rng::new(1);
        (0..1_000).map(|_| link.fate(&mut rng)).collect()
    }

    #[test]
    fn a_message_arrives_late_again_or_not_at_all() {
        let plain = fates(Link::default());
        assert!(plain.iter().all(|fate| matches!(fate, Fate::Arrives(1..=3))));
        let cut = |cut| fates(Link { cut: Some(cut), ..Link::default() });
        assert!(cut(Cut::Lose).iter().all(|fate| *fate == Fate::Lost));
        assert!(cut(Cut::Hold).iter().all(|fate| *fate == Fate::Held));
        let lossy = fates(Link { loss: 0.5, ..Link::default() });
        assert!(lossy.iter().any(|fate| matches!(fate, Fate::Arrives(200..))));
        assert!(lossy.iter().any(|fate| matches!(fate, Fate::Reset(3_000..))));
        let mixed = fates(Link { reorder: 0.5, ..Link::default() });
        assert!(mixed.iter().any(|fate| matches!(fate, Fate::Arrives(6..=63))));
    }
}
