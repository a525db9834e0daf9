//! Short ways to write events, for the tests of this crate.

use crate::event::{Event, Kind, Phase, Probe, VERSION, What};
use crate::spans::MS;

/// An instant in ns.
pub(crate) fn at(ms: u64) -> u64 {
    ms * MS
}

/// An observation.
pub(crate) fn event(ms: u64, what: What) -> Event {
    Event {
        v: VERSION,
        i: 0,
        mono_ns: at(ms),
        src: "test".into(),
        proc: 0,
        kind: Kind::Event,
        node: None,
        key: None,
        what,
        err: None,
        meta: Default::default(),
    }
}

/// What a replica says of itself.
pub(crate) fn probe(ms: u64, node: &str, probe: Probe) -> Event {
    Event { node: Some(node.into()), ..event(ms, What::Probe(probe)) }
}

/// A phase begins.
pub(crate) fn phase(ms: u64, name: &str) -> Event {
    event(ms, What::Phase(Phase { name: name.into() }))
}
