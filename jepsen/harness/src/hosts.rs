//! The machines of a run: their names, addresses and ports.

/// The replicas.
pub const REPLICAS: [&str; 3] = ["n1", "n2", "n3"];
/// The mock executors, which live in the harness.
pub const MOCKS: [&str; 3] = ["e1", "e2", "e3"];
/// The real executor, a process of its own.
pub const REAL: &str = "e4";
/// The sink that stands for the outside world.
pub const SINK: &str = "sink";
/// The name by which the replicas know it, since a callback goes to no address.
pub const SINK_NAME: &str = "sink.orloj.test";
/// Where the harness makes its own calls from. No fault touches it, but those of whom it calls.
pub const ADMIN: &str = "admin";

/// Public port of a replica.
pub const API_PORT: u16 = 7000;
/// Internal port of a replica.
pub const INTERNAL_PORT: u16 = 7001;
/// Port of a replica's debug listener, on its own loopback.
pub const DEBUG_PORT: u16 = 7002;
/// Port of an executor.
pub const EXECUTOR_PORT: u16 = 7010;
/// Port of the sink.
pub const SINK_PORT: u16 = 7020;

/// The name of the client with this number, from 1.
pub fn client(number: u32) -> String {
    format!("c{number}")
}

/// The last byte of a host's address in 10.77.0.0/24.
pub fn last_byte(host: &str) -> Option<u8> {
    let (base, number) = match host.as_bytes().first()? {
        b'n' => (0, &host[1..]),
        b'e' => (10, &host[1..]),
        b'c' => (30, &host[1..]),
        _ if host == SINK => (20, "1"),
        _ if host == ADMIN => (20, "2"),
        _ => return None,
    };
    number.parse::<u8>().ok()?.checked_add(base)
}

/// `10.77.0.x:port`.
///
/// # Panics
/// No host has this name.
pub fn address(host: &str, port: u16) -> String {
    let last = last_byte(host).unwrap_or_else(|| panic!("no host is called {host:?}"));
    format!("10.77.0.{last}:{port}")
}

/// Every host of a run with so many clients.
pub fn all(clients: u32) -> Vec<String> {
    let fixed = REPLICAS.iter().chain(&MOCKS).chain([&REAL, &SINK, &ADMIN]);
    fixed.map(|name| (*name).to_owned()).chain((1..=clients).map(client)).collect()
}

/// Whether this is a replica.
pub fn is_replica(host: &str) -> bool {
    REPLICAS.contains(&host)
}

/// Whether this is an executor, mock or real.
pub fn is_executor(host: &str) -> bool {
    MOCKS.contains(&host) || host == REAL
}

/// Whether this is a client.
pub fn is_client(host: &str) -> bool {
    host.starts_with('c')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_host_has_an_address_of_its_own() {
        let hosts = all(20);
        let addresses: BTreeSet<_> = hosts.iter().map(|host| address(host, 1)).collect();
        assert_eq!(addresses.len(), hosts.len());
        assert_eq!(address("n2", API_PORT), "10.77.0.2:7000");
        assert_eq!(address("sink", SINK_PORT), "10.77.0.21:7020");
        assert_eq!(address("c1", 1), "10.77.0.31:1");
        assert_eq!(last_byte("x"), None);
    }
}
