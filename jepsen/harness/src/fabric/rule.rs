//! What a directed link does to the packets on it, and what it counted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How one directed link treats its packets. The default carries everything at once.
///
/// Shares are probabilities from 0 to 1, drawn per packet from the link's own seeded numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LinkRule {
    /// Whether anything passes. A cut link drops silently, also what is already under way on it.
    pub up: bool,
    /// How long each packet travels.
    pub delay: Duration,
    /// A uniformly drawn addition to `delay` of at most this. It never changes the order: a packet leaves
    /// the link no earlier than the one before it. (`reorder` changes the order.)
    pub jitter: Duration,
    /// The share of packets that are lost.
    pub loss: f64,
    /// The share of packets that arrive twice.
    pub duplicate: f64,
    /// The share of packets that are held back by a further 1 to 10 ms, so that later ones overtake them.
    pub reorder: f64,
    /// The most bytes per second, IP headers included; 0 for no limit. At most 400 ms of traffic waits for
    /// its turn, the rest is dropped, as a router with a short queue does.
    pub rate_bytes_per_s: u64,
    /// The share of packets that get one bit of their payload flipped. The checksum is left as it was, so
    /// the receiving kernel drops the packet: to the processes it is loss, but on the receiver's path.
    pub corrupt: f64,
}

impl Default for LinkRule {
    fn default() -> Self {
        Self {
            up: true,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            rate_bytes_per_s: 0,
            corrupt: 0.0,
        }
    }
}

impl LinkRule {
    /// A link that carries nothing.
    pub fn cut() -> Self {
        Self { up: false, ..Self::default() }
    }

    /// A link whose packets travel for `delay`.
    pub fn delayed(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// A link that loses this share of its packets.
    pub fn lossy(loss: f64) -> Self {
        Self { loss, ..Self::default() }
    }

    /// Whether the link carries everything at once and unchanged.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the rule asks for more than the fallback without TUN can do: it can cut, lose and limit.
    pub fn needs_tun(&self) -> bool {
        !self.delay.is_zero()
            || !self.jitter.is_zero()
            || self.duplicate > 0.0
            || self.reorder > 0.0
            || self.corrupt > 0.0
    }

    /// What makes the rule meaningless, if anything: a share outside 0 to 1.
    pub fn fault(&self) -> Option<String> {
        let shares = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
        ];
        let (name, value) = shares.into_iter().find(|(_, value)| !(0.0..=1.0).contains(value))?;
        Some(format!("{name} is {value}: a share is between 0 and 1"))
    }
}

/// What a directed link has seen since the fabric started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Counters {
    /// Packets that were sent into the link.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Copies that did not come out: cut, lost, or too many for the rate.
    pub dropped: u64,
    /// Packets that were doubled.
    pub duplicated: u64,
    /// Packets that were held back so that later ones overtake them.
    pub reordered: u64,
    /// Copies that waited in the fabric for any reason.
    pub delayed: u64,
    /// Copies that waited for those before them, because the link is narrow.
    pub throttled: u64,
    /// Packets whose payload was changed.
    pub corrupted: u64,
}
