//! Who is in the simulation, and under which names and addresses.

use std::fmt;

/// How many replicas there are.
pub const REPLICAS: usize = 3;
/// How many mock executors there are.
pub const EXECUTORS: usize = 3;
/// How many clients there are.
pub const CLIENTS: usize = 4;
/// The name to which callbacks go.
pub const SINK_NAME: &str = "sink.orloj.test";
/// The port to which they go.
pub const SINK_PORT: u16 = 7020;

/// An end of links. Every place has its own; executors and clients have one each, so that they can be cut off one
/// by one, although they share a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A replica, from 1.
    Replica(usize),
    /// A mock executor, from 1.
    Executor(usize),
    /// A client, from 1.
    Client(usize),
    /// The sink, which takes callbacks.
    Sink,
}

impl Place {
    /// Every place, in a fixed order.
    pub fn all() -> impl Iterator<Item = Place> {
        let replicas = (1..=REPLICAS).map(Place::Replica);
        let executors = (1..=EXECUTORS).map(Place::Executor);
        replicas.chain(executors).chain((1..=CLIENTS).map(Place::Client)).chain([Place::Sink])
    }

    /// Every replica.
    pub fn replicas() -> impl Iterator<Item = Place> {
        (1..=REPLICAS).map(Place::Replica)
    }

    /// The place behind an address of the internal listener of a replica, or of an executor.
    pub fn at(address: &str) -> Option<Place> {
        Place::all().find(|place| place.address() == address)
    }

    /// The address that a request to a place names: of a replica its internal listener.
    pub fn address(self) -> String {
        match self {
            Place::Replica(number) => format!("10.77.0.{number}:7001"),
            Place::Executor(number) => format!("10.77.0.{}:7010", 10 + number),
            Place::Client(number) => format!("10.77.0.{}:0", 30 + number),
            Place::Sink => format!("10.77.0.21:{SINK_PORT}"),
        }
    }

    /// The base URL of a replica's public listener.
    pub fn api(self) -> String {
        match self {
            Place::Replica(number) => format!("http://10.77.0.{number}:7000"),
            Place::Executor(_) | Place::Client(_) | Place::Sink => String::new(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Replica(number) => write!(f, "n{number}"),
            Place::Executor(number) => write!(f, "e{number}"),
            Place::Client(number) => write!(f, "c{number}"),
            Place::Sink => write!(f, "sink"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_an_address_of_its_own() {
        for place in Place::all() {
            assert_eq!(Place::at(&place.address()), Some(place));
        }
        assert_eq!(Place::at("10.77.0.9:7001"), None);
    }
}
