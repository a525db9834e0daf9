//! The pure half of the fabric: which packets come out of which link, and when. Time is a number that the
//! caller passes in, in microseconds from any fixed point.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::packet;
use super::random::Random;
use super::rule::{Counters, LinkRule};

/// How much traffic of a rate-limited link may wait for its turn.
const RATE_QUEUE_US: u64 = 400_000;
/// How long a reordered packet is held back, beyond what the link's delay asks.
const HOLD_LEAST_US: u64 = 1_000;
const HOLD_MOST_US: u64 = 10_000;
/// The most packets that wait in the whole fabric; it bounds the memory to about 100 MB.
const MOST_WAITING: usize = 65_536;

struct Link {
    rule: LinkRule,
    counters: Counters,
    random: Random,
    /// When the rate lets the next packet start.
    free_at: u64,
    /// When the packet before leaves the link, so that jitter keeps the order.
    last_due: u64,
}

struct Waiting {
    due: u64,
    /// Packets of the same microsecond leave in the order in which they came.
    order: u64,
    from: usize,
    to: usize,
    bytes: Box<[u8]>,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    /// Reversed, because `BinaryHeap` gives its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

/// Every link of a fabric and the packets under way.
pub struct Engine {
    hosts: usize,
    links: Vec<Link>,
    waiting: BinaryHeap<Waiting>,
    order: u64,
}

impl Engine {
    /// Links between `hosts` hosts, all plain; `seed` decides every draw.
    pub fn new(hosts: usize, seed: u64) -> Self {
        let link = |index: usize| Link {
            rule: LinkRule::default(),
            counters: Counters::default(),
            random: Random::of_link(seed, index / hosts, index % hosts),
            free_at: 0,
            last_due: 0,
        };
        let links = (0..hosts * hosts).map(link).collect();
        Self { hosts, links, waiting: BinaryHeap::new(), order: 0 }
    }

    /// Changes the rule of a link. New packets do not queue behind those that an earlier, slower rule still
    /// holds: a healed link is fast at once.
    pub fn set(&mut self, from: usize, to: usize, rule: LinkRule) {
        let link = &mut self.links[from * self.hosts + to];
        link.rule = rule;
        link.free_at = 0;
        link.last_due = 0;
    }

    /// The rule of a link.
    pub fn rule(&self, from: usize, to: usize) -> LinkRule {
        self.links[from * self.hosts + to].rule
    }

    /// What a link has counted.
    pub fn counters(&self, from: usize, to: usize) -> Counters {
        self.links[from * self.hosts + to].counters
    }

    /// Counts a packet that the receiving host's queue refused.
    pub fn refused(&mut self, from: usize, to: usize) {
        self.links[from * self.hosts + to].counters.dropped += 1;
    }

    /// Takes a packet that `from` sent to `to` at `now`; `emit(from, to, packet)` gets what arrives at once.
    /// The packet's bytes may be changed by a corrupting link.
    pub fn offer(
        &mut self,
        now: u64,
        from: usize,
        to: usize,
        packet: &mut [u8],
        emit: &mut impl FnMut(usize, usize, &[u8]),
    ) {
        let link = &mut self.links[from * self.hosts + to];
        link.counters.packets += 1;
        link.counters.bytes += packet.len() as u64;
        if !link.rule.up || link.random.chance(link.rule.loss) {
            link.counters.dropped += 1;
            return;
        }
        if link.random.chance(link.rule.corrupt) && packet::flip_payload_bit(packet, link.random.next()) {
            link.counters.corrupted += 1;
        }
        let doubled = link.random.chance(link.rule.duplicate);
        link.counters.duplicated += u64::from(doubled);
        for _ in 0..1 + usize::from(doubled) {
            match link.schedule(now, packet.len()) {
                None => link.counters.dropped += 1,
                Some(due) if due <= now => emit(from, to, packet),
                // One slow link may fill the fabric; the others go on.
                Some(_) if self.waiting.len() >= MOST_WAITING => link.counters.dropped += 1,
                Some(due) => {
                    link.counters.delayed += 1;
                    self.order += 1;
                    self.waiting.push(Waiting { due, order: self.order, from, to, bytes: packet.into() });
                }
            }
        }
    }

    /// Lets everything out that is due at `now`.
    pub fn release(&mut self, now: u64, emit: &mut impl FnMut(usize, usize, &[u8])) {
        while self.next_due().is_some_and(|due| due <= now) {
            let Some(packet) = self.waiting.pop() else { return };
            let link = &mut self.links[packet.from * self.hosts + packet.to];
            if link.rule.up {
                emit(packet.from, packet.to, &packet.bytes);
            } else {
                link.counters.dropped += 1;
            }
        }
    }

    /// When the next packet is due, if any is under way.
    pub fn next_due(&self) -> Option<u64> {
        self.waiting.peek().map(|packet| packet.due)
    }
}

impl Link {
    /// When a packet of `length` bytes that enters at `now` leaves; `None` when it finds the queue full.
    fn schedule(&mut self, now: u64, length: usize) -> Option<u64> {
        let mut due = now;
        if self.rule.rate_bytes_per_s > 0 {
            let start = self.free_at.max(now);
            if start - now > RATE_QUEUE_US {
                return None;
            }
            self.counters.throttled += u64::from(start > now);
            self.free_at = start + (length as u64 * 1_000_000).div_ceil(self.rule.rate_bytes_per_s);
            due = self.free_at;
        }
        due += self.rule.delay.as_micros() as u64;
        due += self.random.up_to(self.rule.jitter.as_micros() as u64);
        due = due.max(self.last_due);
        if self.random.chance(self.rule.reorder) {
            self.counters.reordered += 1;
            return Some(due + HOLD_LEAST_US + self.random.up_to(HOLD_MOST_US - HOLD_LEAST_US));
        }
        self.last_due = due;
        Some(due)
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
