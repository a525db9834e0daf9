//! The fabric on this machine's kernel: hosts in namespaces, packets through the router.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use orloj_jepsen::doctor::{Capability, probe};
use orloj_jepsen::fabric::{Fabric, HostSpec, LinkRule, Wiring};
use orloj_jepsen::inside::{Host, Inside};
use orloj_jepsen::journal::{Journal, Leftover, Pid};
use orloj_jepsen::netns;
use orloj_jepsen::run_id::RunId;
use tempfile::TempDir;

const PORT: u16 = 7100;
/// For what must happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// For what must not.
const SILENCE: Duration = Duration::from_millis(600);

/// Whether the machine has all of these; says what it lacks.
fn able(needs: &[Capability]) -> bool {
    needs.iter().all(|need| match probe(*need) {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: this machine lacks {}: {why:#}", need.name());
            false
        }
    })
}

struct Net {
    _folder: TempDir,
    fabric: Fabric,
    run: RunId,
}

fn two_hosts() -> Net {
    let folder = tempfile::tempdir().unwrap();
    let (run, journal) = Journal::fresh(folder.path()).unwrap();
    let hosts = [HostSpec::new("n1", 1), HostSpec::new("n2", 2)];
    let fabric = Fabric::start(&run, &hosts, 1, &journal).unwrap();
    Net { _folder: folder, fabric, run }
}

/// Answers every byte with itself, on every connection, until the test ends.
fn echo(host: &Host) -> SocketAddr {
    let address = SocketAddr::from((host.address(), PORT));
    let listener = host.run_inside(|| Ok(TcpListener::bind(address)?)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn connect(host: &Host, to: SocketAddr, patience: Duration) -> anyhow::Result<TcpStream> {
    host.run_inside(|| {
        let stream = TcpStream::connect_timeout(&to, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}

/// One byte there and back; how long it took.
fn ping(stream: &mut TcpStream) -> std::io::Result<Duration> {
    let began = tokio::time::Instant::now();
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0])?;
    Ok(began.elapsed())
}

#[test]
fn a_one_way_cut_silences_and_a_heal_lets_the_same_connection_go_on() {
    if !able(&[Capability::Router]) {
        return;
    }
    let net = two_hosts();
    let (n1, n2) = (net.fabric.host("n1"), net.fabric.host("n2"));
    let address = echo(n2);
    let mut stream = connect(n1, address, PATIENCE).unwrap();
    ping(&mut stream).unwrap();

    for (from, to) in [("n1", "n2"), ("n2", "n1")] {
        net.fabric.set_link(from, to, LinkRule::cut()).unwrap();
        assert_eq!(net.fabric.link(from, to).unwrap(), LinkRule::cut());
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        let error = ping(&mut stream).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{from} -> {to}");
        assert!(connect(n1, address, SILENCE).is_err(), "{from} -> {to}");
        net.fabric.heal().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The answer to the byte that was cut.
        stream.read_exact(&mut [0]).unwrap();
        ping(&mut stream).unwrap();
    }
    let counters = net.fabric.counters();
    let there = counters.iter().find(|link| link.from == "n1" && link.to == "n2").unwrap();
    assert!(there.counters.dropped > 0 && there.counters.packets > there.counters.dropped, "{there:?}");
}

#[test]
fn delay_adds_up_and_bad_links_still_carry_tcp_unharmed() {
    if !able(&[Capability::Router]) {
        return;
    }
    let net = two_hosts();
    let (n1, n2) = (net.fabric.host("n1"), net.fabric.host("n2"));
    let address = echo(n2);
    let mut stream = connect(n1, address, PATIENCE).unwrap();
    net.fabric.set_link("n1", "n2", LinkRule::delayed(Duration::from_millis(30))).unwrap();
    net.fabric.set_link("n2", "n1", LinkRule::delayed(Duration::from_millis(20))).unwrap();
    let took = ping(&mut stream).unwrap();
    assert!(took >= Duration::from_millis(50), "{took:?}");

    let bad = LinkRule { loss: 0.05, duplicate: 0.1, reorder: 0.1, corrupt: 0.05, ..LinkRule::default() };
    net.fabric.set_link("n1", "n2", bad).unwrap();
    net.fabric.set_link("n2", "n1", LinkRule::default()).unwrap();
    let sent: Vec<u8> = (0..200_000u32).map(|at| (at * 7 / 3) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&copy));
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).unwrap();
    writing.join().unwrap().unwrap();
    assert!(sent == received, "TCP delivered other bytes than were sent");
    let counters = net.fabric.counters();
    let there = counters.iter().find(|link| link.from == "n1").unwrap().counters;
    assert!(
        there.dropped > 0 && there.duplicated > 0 && there.reordered > 0 && there.corrupted > 0,
        "{there:?}"
    );
}

#[test]
fn the_bridge_cuts_and_loses_and_says_what_it_cannot_do() {
    if !able(&[Capability::Bridge]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (run, journal) = Journal::fresh(folder.path()).unwrap();
    let hosts = [HostSpec::new("n1", 1), HostSpec::new("n2", 2), HostSpec::new("n3", 3)];
    let fabric = Fabric::start_with(Wiring::Bridge, &run, &hosts, 1, &journal).unwrap();
    assert_eq!(fabric.wiring(), Wiring::Bridge);
    let address = echo(fabric.host("n2"));
    let mut cut = connect(fabric.host("n1"), address, PATIENCE).unwrap();
    let mut other = connect(fabric.host("n3"), address, PATIENCE).unwrap();

    fabric.set_link("n1", "n2", LinkRule::cut()).unwrap();
    cut.set_read_timeout(Some(SILENCE)).unwrap();
    assert!(ping(&mut cut).is_err());
    ping(&mut other).unwrap();
    fabric.heal().unwrap();
    assert!(fabric.link("n1", "n2").unwrap().is_plain());
    cut.set_read_timeout(Some(PATIENCE)).unwrap();
    cut.read_exact(&mut [0]).unwrap();

    fabric.set_link("n1", "n2", LinkRule::lossy(0.5)).unwrap();
    let slow = LinkRule { rate_bytes_per_s: 1_000_000, ..LinkRule::default() };
    fabric.set_link("n3", "n2", slow).unwrap();
    assert!(fabric.set_link("n1", "n2", LinkRule::delayed(SILENCE)).is_err());
    assert_eq!(fabric.link("n1", "n2").unwrap(), LinkRule::lossy(0.5));
    drop(fabric);
    assert!(!netns::path(&run.netns("bridge-net")).exists());
}

#[test]
fn connections_are_reset_or_left_half_open() {
    if !able(&[Capability::Router, Capability::Resets]) {
        return;
    }
    let net = two_hosts();
    let (n1, n2) = (net.fabric.host("n1"), net.fabric.host("n2"));
    let address = echo(n2);
    let mut both = connect(n1, address, PATIENCE).unwrap();
    ping(&mut both).unwrap();
    net.fabric.reset_connections("n2", "n1").unwrap();
    assert!(both.read_exact(&mut [0]).is_err(), "the reset reached the other end");

    let mut half = connect(n1, address, PATIENCE).unwrap();
    ping(&mut half).unwrap();
    net.fabric.set_link("n2", "n1", LinkRule::cut()).unwrap();
    net.fabric.reset_connections("n2", "n1").unwrap();
    net.fabric.heal().unwrap();
    half.set_read_timeout(Some(SILENCE)).unwrap();
    let silence = half.read_exact(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock, "the other end knows nothing");
    assert!(ping(&mut half).is_err(), "and learns it when it sends");
}

#[test]
fn work_inside_a_host_sees_its_network_alone() {
    if !able(&[Capability::Router]) {
        return;
    }
    let net = two_hosts();
    let host = net.fabric.host("n1");
    let own = host.address();
    let thread: Inside<Vec<bool>> = host
        .spawn_inside("bind", move || async move {
            let bind = |address| tokio::net::TcpListener::bind((address, 0));
            let other = std::net::Ipv4Addr::new(10, 77, 0, 2);
            vec![bind(own).await.is_ok(), bind(other).await.is_ok()]
        })
        .unwrap();
    assert_eq!(thread.name(), "n1-bind");
    assert_eq!(thread.join().unwrap(), vec![true, false]);

    let panicking = host.spawn_inside("panic", || async { panic!("on purpose") }).unwrap();
    assert!(format!("{:#}", panicking.join().unwrap_err()).contains("on purpose"));

    let mut child = host.spawn_process_inside(Command::new("sleep").arg("60")).unwrap();
    assert_eq!(netns::processes(&net.run.netns("n1")).unwrap(), vec![child.id()]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn two_runs_live_side_by_side_and_leave_nothing() {
    if !able(&[Capability::Router]) {
        return;
    }
    let (one, two) = (two_hosts(), two_hosts());
    for net in [&one, &two] {
        let address = echo(net.fabric.host("n2"));
        ping(&mut connect(net.fabric.host("n1"), address, PATIENCE).unwrap()).unwrap();
    }
    let names = [one.run.netns("n1"), two.run.netns("n1")];
    drop((one, two));
    for name in names {
        assert!(!netns::path(&name).exists(), "{name}");
    }
}

/// Set for the copy of this program that plays the harness that dies.
const VICTIM: &str = "ORLOJ_JEPSEN_TEST_JOURNALS";

#[test]
fn a_later_process_undoes_the_network_of_a_dead_harness() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        die_with_a_network_up(folder.as_ref());
    }
    if !able(&[Capability::Router]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_later_process_undoes_the_network_of_a_dead_harness", "--nocapture"])
        .env(VICTIM, folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    victim.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    victim.wait().unwrap();
    let word = |mark: &str| {
        let line = said.lines().find_map(|line| line.split_once(mark)).unwrap_or_else(|| panic!("{said}"));
        line.1.split(' ').next().unwrap().to_string()
    };
    let run: RunId = word("run=").parse().unwrap();
    let orphan = Pid::of(word("orphan=").parse().unwrap()).unwrap();
    assert!(netns::path(&run.netns("n1")).exists());
    assert!(orphan.is_alive());

    let leftovers = Journal::undo_leftovers(folder.path()).unwrap();
    let path = folder.path().join(format!("{run}.journal"));
    assert_eq!(leftovers, vec![Leftover { path, steps: 2, problems: vec![] }]);
    assert!(!netns::path(&run.netns("n1")).exists());
    assert!(!netns::path(&run.netns("n2")).exists());
    assert!(!orphan.is_alive(), "the process that no journal names was in the namespace");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Brings a network up, starts a process in it that the journal does not name, and dies of SIGKILL.
#[allow(clippy::zombie_processes, reason = "that nobody waits for it is the point")]
fn die_with_a_network_up(folder: &std::path::Path) -> ! {
    let (run, journal) = Journal::fresh(folder).unwrap();
    let hosts = [HostSpec::new("n1", 1), HostSpec::new("n2", 2)];
    let fabric = Fabric::start(&run, &hosts, 1, &journal).unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("600").stdout(std::process::Stdio::null());
    let orphan = fabric.host("n2").spawn_process_inside(&mut sleep).unwrap();
    println!("\nrun={run} orphan={} ", orphan.id());
    Pid::of(std::process::id()).unwrap().signal(rustix::process::Signal::KILL).unwrap();
    unreachable!("killed");
}

/// Ticks of a core that the router's thread has used.
fn router_ticks() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let router = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "fabric")
    };
    let stats = tasks.filter(router).map(|task| std::fs::read_to_string(task.join("stat")).unwrap());
    let ticks = |stat: String| {
        let fields: Vec<u64> = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .skip(11)
            .take(2)
            .map(|it| it.parse().unwrap())
            .collect();
        fields[0] + fields[1]
    };
    stats.map(ticks).sum()
}

/// Prints what the fabric costs, for a test that runs alone; the bound is loose, so that a busy machine does
/// not fail.
#[test]
fn figures() {
    if !able(&[Capability::Router]) {
        return;
    }
    let net = two_hosts();
    let address = echo(net.fabric.host("n2"));
    let mut stream = connect(net.fabric.host("n1"), address, PATIENCE).unwrap();
    let mut pings: Vec<Duration> = (0..2_000).map(|_| ping(&mut stream).unwrap()).collect();
    pings.sort_unstable();
    let (median, p99) = (pings[1_000], pings[1_980]);

    // Two packets and their two acknowledgements each: about 2,000 packets a second.
    let (ticks, began) = (router_ticks(), tokio::time::Instant::now());
    let before: u64 = net.fabric.counters().iter().map(|link| link.counters.packets).sum();
    while began.elapsed() < Duration::from_secs(1) {
        ping(&mut stream).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let paced = net.fabric.counters().iter().map(|link| link.counters.packets).sum::<u64>() - before;
    let busy = (router_ticks() - ticks) as f64 / began.elapsed().as_secs_f64();

    let rate = stream_rate(&net);
    println!(
        "round trip of a byte: p50 {median:?}, p99 {p99:?}; router: {busy:.0}% of a core at {paced} packets/s; \
         one stream: {rate:.0} MB/s"
    );
    assert!(median < Duration::from_millis(20), "{median:?}");
}

/// MB/s of one TCP stream from n1 to n2.
fn stream_rate(net: &Net) -> f64 {
    let to = SocketAddr::from((net.fabric.host("n2").address(), PORT + 1));
    let listener = net.fabric.host("n2").run_inside(|| Ok(TcpListener::bind(to)?)).unwrap();
    let mut writer = connect(net.fabric.host("n1"), to, PATIENCE).unwrap();
    let (mut reader, _) = listener.accept().unwrap();
    let (total, began) = (200 << 20, tokio::time::Instant::now());
    let writing = std::thread::spawn(move || {
        let block = vec![7; 65_536];
        (0..total / block.len()).for_each(|_| writer.write_all(&block).unwrap());
    });
    let mut buffer = vec![0; 65_536];
    let mut left = total;
    while left > 0 {
        left -= reader.read(&mut buffer).unwrap();
    }
    writing.join().unwrap();
    total as f64 / began.elapsed().as_secs_f64() / 1e6
}
