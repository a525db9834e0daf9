//! Processes of the system under test, by their ids: killed, stopped, continued, watched.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// Between two looks at something that is waited for.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `holds`; panics with `what` when that takes longer than `patience`.
pub async fn until(what: &str, patience: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        sleep(PAUSE).await;
    }
}

/// The binary `orloj` that was built together with this test.
///
/// # Panics
/// There is none.
pub fn binary() -> PathBuf {
    let path = std::env::var_os("ORLOJ_BIN").map(PathBuf::from).unwrap_or_else(|| {
        // Tests lie in target/debug/deps, the binary beside that folder.
        let test = std::env::current_exe().expect("a test knows its own file");
        let profile = test.parent().and_then(|deps| deps.parent()).expect("a test lies in deps");
        profile.join("orloj")
    });
    assert!(
        path.is_file(),
        "{} is missing: build it with `cargo build --workspace --all-targets` (make test does), \
         or name another one in ORLOJ_BIN",
        path.display()
    );
    path
}

/// A port of loopback on which nobody listens, for a process that is started later. It is below those that the kernel gives to
/// who asks for any port (32,768 and above as a rule), and each test process looks from a place of its own, so that nobody
/// takes it meanwhile.
///
/// # Panics
/// None of a hundred is free.
pub fn own_port() -> u16 {
    static LOOKED_AT: AtomicU16 = AtomicU16::new(0);
    let block = u16::try_from(std::process::id() % 200).expect("it is below 200");
    let next = || 10_000 + 100 * block + LOOKED_AT.fetch_add(1, Ordering::Relaxed) % 100;
    let mut ports = std::iter::repeat_with(next).take(100);
    ports
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of a hundred ports is free")
}

/// Sends a signal; a process that is gone is no error.
pub fn send(pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { panic!("{pid} is no process id") };
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("cannot send {signal:?} to {pid:?}: {error}"),
    }
}

/// Whether any thread of the process runs. One that has ended and was not waited for does not; one whose first
/// thread has ended still holds its ports until the last one has.
pub fn is_alive(pid: u32) -> bool {
    // The state follows the name, which is in parentheses and may hold anything.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
        None => false,
        Some('Z' | 'X') => fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) > 1,
        Some(_) => true,
    }
}

/// Waits until the process is gone.
pub async fn ended(pid: u32, patience: Duration) {
    until(&format!("process {pid} ends"), patience, async || !is_alive(pid)).await;
}

/// Milliseconds of CPU time that the process has used.
pub fn cpu_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(") ") else { return 0 };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields 14 and 15 of proc(5), in ticks of 10 ms; the state, field 3, is the first here.
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10
}

/// Resident memory of the process, in bytes.
pub fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports = [own_port(), own_port(), own_port()];
        assert!(ports[0] != ports[1] && ports[1] != ports[2], "{ports:?}");
        assert!(ports.iter().all(|port| (10_000..30_000).contains(port)), "{ports:?}");
    }

    #[test]
    fn this_process_is_alive_and_uses_memory() {
        assert!(is_alive(std::process::id()));
        assert!(memory(std::process::id()) > 100_000);
        assert!(!is_alive(u32::MAX / 2));
    }
}
