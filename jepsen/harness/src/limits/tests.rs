use super::*;
use crate::process::{Proc, Spec};
use crate::testing::{Bench, PATIENCE, Told, able, is_admin};
use crate::wait::{monotonic, until};
use std::time::Duration;

fn shell(bench: &Bench, script: &str) -> Proc {
    let mut spec = Spec::new("sh", bench.dir.path().join("log"));
    spec.args = vec!["-c".into(), script.into()];
    Proc::start(spec, &bench.journal, Told::default().record()).unwrap()
}

fn limits() -> Option<(Bench, Limits)> {
    let hierarchy = Hierarchy::find();
    if !able(&[("CAP_SYS_ADMIN", is_admin()), ("cgroups with cpu and memory", hierarchy.is_ok())]) {
        return None;
    }
    let bench = Bench::new();
    let limits = Limits::create(&hierarchy.unwrap(), &bench.run, "n1", &bench.journal).unwrap();
    Some((bench, limits))
}

/// The share of one core that a process takes over a while.
fn share(pid: u32) -> f64 {
    let used = || -> f64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // User and system time, in hundredths of a second.
        fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
    };
    let (begin, before) = (monotonic(), used());
    let over = Duration::from_millis(1_500);
    until("some time", PATIENCE, || Ok((monotonic() - begin >= over).then_some(()))).unwrap();
    (used() - before) / 100.0 / (monotonic() - begin).as_secs_f64()
}

#[test]
fn a_process_gets_only_its_share_of_a_core() {
    let Some((bench, limits)) = limits() else { return };
    let process = shell(&bench, "while :; do :; done");
    limits.attach(process.pid()).unwrap();
    limits.cpu(Some(5)).unwrap();
    let limited = share(process.pid());
    assert!(limited < 0.12, "{limited} of a core");
    limits.cpu(None).unwrap();
    let free = share(process.pid());
    assert!(free > limited * 2.0, "{free} of a core after {limited}");
    process.kill(PATIENCE).unwrap();
}

#[test]
fn a_process_that_takes_more_memory_is_killed() {
    let Some((bench, limits)) = limits() else { return };
    let go = bench.dir.path().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    // `tail` keeps the whole of a line in memory.
    let process = shell(&bench, &format!("{wait}; head -c 100000000 /dev/zero | tail -n 1 > /dev/null"));
    limits.attach(process.pid()).unwrap();
    limits.memory(Some(32 << 20)).unwrap();
    fs::write(&go, "").unwrap();
    assert_eq!(process.wait(PATIENCE).unwrap().unwrap().code, Some(128 + 9));
    assert!(limits.memory_used().unwrap() <= 32 << 20);
    limits.memory(None).unwrap();
    process.start_again().unwrap();
    limits.attach(process.pid()).unwrap();
    assert_eq!(process.wait(PATIENCE).unwrap().unwrap().code, Some(0));
}

#[test]
fn the_journal_takes_the_cgroups_away_with_their_processes() {
    let Some((bench, limits)) = limits() else { return };
    let process = shell(&bench, "exec sleep 1000");
    limits.attach(process.pid()).unwrap();
    assert_eq!(bench.journal.undo_all(), Vec::<String>::new());
    assert!(limits.folders.iter().all(|folder| !folder.exists()));
    assert_eq!(process.wait(PATIENCE).unwrap().unwrap().signal, Some(9));
}

#[test]
fn a_process_may_open_only_so_many_files() {
    let bench = Bench::new();
    let go = bench.dir.path().join("go");
    let wait = format!("while [ ! -e {} ]; do :; done", go.display());
    let process = shell(&bench, &format!("{wait}; : < /dev/null; echo opened"));
    let before = files(process.pid(), Some(3)).unwrap();
    assert_eq!(files(process.pid(), before).unwrap(), Some(3));
    assert_eq!(files(process.pid(), Some(3)).unwrap(), before);
    fs::write(&go, "").unwrap();
    let code = process.wait(PATIENCE).unwrap().unwrap().code;
    let log = fs::read_to_string(bench.dir.path().join("log")).unwrap();
    assert!(code != Some(0) && !log.contains("opened"), "{code:?}: {log}");
    process.start_again().unwrap();
    assert_eq!(process.wait(PATIENCE).unwrap().unwrap().code, Some(0));
}
