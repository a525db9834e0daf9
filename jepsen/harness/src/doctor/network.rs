//! Probes of the network.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::bench::{Bench, on_bench};
use crate::fabric::{Fabric, HostSpec, LinkRule, Wiring};
use crate::inside::Host;
use crate::journal::Step;
use crate::netns;
use crate::tool::tool;
use crate::wait::monotonic;

const PORT: u16 = 7100;
/// For a packet that must arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// For one that must not.
const SILENCE: Duration = Duration::from_millis(50);

pub fn namespaces() -> Result<String> {
    on_bench(|bench| {
        let host = lone_host(bench)?;
        let here = std::fs::read_link("/proc/thread-self/ns/net").context("look at the own namespace")?;
        let there = host.run_inside(|| Ok(std::fs::read_link("/proc/thread-self/ns/net")?))?;
        ensure!(here != there, "a thread that entered a namespace is not in it");
        Ok("a thread entered one".to_string())
    })
}

pub fn router() -> Result<String> {
    on_bench(|bench| wired(Wiring::Router, bench))
}

pub fn bridge() -> Result<String> {
    on_bench(|bench| wired(Wiring::Bridge, bench))
}

/// Joins two hosts, sends a packet, cuts that direction and sends another.
fn wired(wiring: Wiring, bench: &Bench) -> Result<String> {
    let hosts = [HostSpec::new("a", 1), HostSpec::new("b", 2)];
    let fabric = Fabric::start_with(wiring, &bench.run, &hosts, 0, &bench.journal)?;
    let socket = |host: &Host| host.run_inside(|| Ok(UdpSocket::bind((host.address(), PORT))?));
    let (a, b) = (socket(fabric.host("a"))?, socket(fabric.host("b"))?);
    let receives = |socket: &UdpSocket, patience| match socket.set_read_timeout(Some(patience)) {
        Ok(()) => socket.recv(&mut [0; 8]).is_ok(),
        Err(_) => false,
    };
    let (to_a, to_b) = (fabric.host("a").address(), fabric.host("b").address());
    // The first one also looks up the neighbour on a bridge.
    a.send_to(b"first", (to_b, PORT)).context("send a packet")?;
    ensure!(receives(&b, PATIENCE), "a packet does not arrive");
    let began = monotonic();
    a.send_to(b"ping", (to_b, PORT))?;
    ensure!(receives(&b, PATIENCE), "the second packet does not arrive");
    b.send_to(b"pong", (to_a, PORT))?;
    ensure!(receives(&a, PATIENCE), "the answer does not arrive");
    let round_trip = monotonic() - began;
    fabric.set_link("a", "b", LinkRule::cut())?;
    a.send_to(b"cut", (to_b, PORT))?;
    ensure!(!receives(&b, SILENCE), "a packet passes a link that is cut");
    fabric.heal()?;
    a.send_to(b"healed", (to_b, PORT))?;
    ensure!(receives(&b, PATIENCE), "a healed link carries nothing");
    Ok(format!("round trip {} µs", round_trip.as_micros()))
}

pub fn resets() -> Result<String> {
    on_bench(|bench| {
        lone_host(bench)?.run_inside(|| {
            netns::ip_batch("link set lo up\n")?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
            let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
            let (mut far, _) = listener.accept()?;
            far.write_all(b"!")?;
            near.set_read_timeout(Some(SILENCE))?;
            near.read_exact(&mut [0])?;
            tool("ss", &["-K", "-t", "dst", "127.0.0.1"])?;
            match near.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("a connection outlives ss -K: the kernel may lack INET_DIAG_DESTROY")
                }
                _ => Ok("a connection was reset".to_string()),
            }
        })
    })
}

/// A host without a network.
fn lone_host(bench: &Bench) -> Result<Host> {
    let name = bench.run.netns("probe");
    bench.journal.begin(Step::Netns { name: name.clone() })?;
    netns::create(&name)?;
    Host::open("probe", Ipv4Addr::LOCALHOST, name)
}
