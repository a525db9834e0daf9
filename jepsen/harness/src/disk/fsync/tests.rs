use super::*;
use crate::process::{Proc, Spec};
use crate::testing::{Bench, PATIENCE, Told, able};
use crate::tool::installed;
use crate::wait::monotonic;

/// A process that syncs a file again and again and says each time how it went, and its log.
struct Syncing {
    process: Proc,
    bench: Bench,
}

impl Syncing {
    fn start() -> Option<Syncing> {
        if !able(&[("strace", installed("strace")), ("dd", installed("dd"))]) {
            return None;
        }
        let bench = Bench::new();
        let mut spec = Spec::new("sh", bench.dir.path().join("log"));
        let file = bench.dir.path().join("file");
        let dd = format!("dd if=/dev/zero of={} bs=1 count=1 conv=fdatasync status=none", file.display());
        spec.args = vec!["-c".into(), format!("while :; do {dd} && echo done; done").into()];
        let process = Proc::start(spec, &bench.journal, Told::default().record()).unwrap();
        Some(Syncing { process, bench })
    }

    fn count(&self, word: &str) -> usize {
        let log = std::fs::read_to_string(self.bench.dir.path().join("log")).unwrap();
        log.lines().filter(|line| line.ends_with(word)).count()
    }

    /// How long `rounds` more of these take from now.
    fn time(&self, word: &str, rounds: usize) -> Duration {
        let (begin, before) = (monotonic(), self.count(word));
        until(word, PATIENCE, || Ok((self.count(word) >= before + rounds).then_some(()))).unwrap();
        monotonic() - begin
    }
}

#[test]
fn syncs_are_slow_until_the_fault_is_detached() {
    let Some(syncing) = Syncing::start() else { return };
    syncing.time("done", 1);
    let fault =
        FsyncFault::slow(syncing.process.pid(), Duration::from_millis(400), &syncing.bench.journal).unwrap();
    // The first of three may have begun before.
    let slow = syncing.time("done", 3);
    assert!(slow >= Duration::from_millis(800), "{slow:?}");
    assert!(fault.is_installed());
    fault.detach().unwrap();
    let after = syncing.time("done", 10);
    assert!(after < Duration::from_millis(4_000), "{after:?}");
    assert!(syncing.process.is_running());
}

#[test]
fn syncs_fail_until_the_fault_is_detached() {
    let Some(syncing) = Syncing::start() else { return };
    for (errno, text) in [(Errno::Eio, "Input/output error"), (Errno::Enospc, "No space left on device")] {
        let fault = FsyncFault::fail(syncing.process.pid(), errno, 1, &syncing.bench.journal).unwrap();
        syncing.time(text, 2);
        fault.detach().unwrap();
        syncing.time("done", 2);
    }
    assert!(syncing.process.is_running());
}

#[test]
fn a_fault_that_is_dropped_is_detached() {
    let Some(syncing) = Syncing::start() else { return };
    let pid = syncing.process.pid();
    let fault = FsyncFault::slow(pid, Duration::from_millis(400), &syncing.bench.journal).unwrap();
    drop(fault);
    assert_eq!(tracers(Pid::of(pid).unwrap()).unwrap(), [0]);
}

#[test]
fn the_end_of_the_process_is_the_end_of_the_fault() {
    let Some(syncing) = Syncing::start() else { return };
    let delay = Duration::from_millis(100);
    let fault = FsyncFault::slow(syncing.process.pid(), delay, &syncing.bench.journal).unwrap();
    syncing.process.kill(PATIENCE).unwrap();
    fault.detach().unwrap();
    assert!(FsyncFault::slow(syncing.process.pid(), delay, &syncing.bench.journal).is_err());
}

#[test]
fn a_paused_process_can_be_hurt_and_let_go() {
    let Some(syncing) = Syncing::start() else { return };
    syncing.process.pause().unwrap();
    let delay = Duration::from_millis(1);
    let fault = FsyncFault::slow(syncing.process.pid(), delay, &syncing.bench.journal).unwrap();
    fault.detach().unwrap();
    syncing.process.resume().unwrap();
    syncing.time("done", 2);
}
