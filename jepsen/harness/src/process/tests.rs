use super::*;
use crate::testing::{Bench, PATIENCE, Told, able, is_admin};

struct Fixture {
    process: Proc,
    told: Told,
    bench: Bench,
}

fn shell(script: &str) -> Fixture {
    shell_ahead(script, Duration::ZERO)
}

fn shell_ahead(script: &str, monotonic_ahead: Duration) -> Fixture {
    let (bench, told) = (Bench::new(), Told::default());
    let mut spec = Spec::new("sh", bench.dir.path().join("log"));
    spec.args = vec!["-c".into(), script.into()];
    spec.env = vec![("MARK".into(), "given".into())];
    spec.monotonic_ahead = monotonic_ahead;
    let process = Proc::start(spec, &bench.journal, told.record()).unwrap();
    Fixture { process, told, bench }
}

impl Fixture {
    fn log(&self) -> String {
        std::fs::read_to_string(self.bench.dir.path().join("log")).unwrap()
    }

    /// Waits until the process has written this.
    fn says(&self, text: &str) {
        until(text, PATIENCE, || Ok(self.log().contains(text).then_some(()))).unwrap();
    }

    fn told(&self, words: &[&str]) {
        until("what is recorded", PATIENCE, || Ok((self.told.words() == words).then_some(())))
            .unwrap_or_else(|error| panic!("{error}: {:?}, not {words:?}", self.told.all()));
    }
}

#[test]
fn an_end_by_itself_is_recorded_with_its_code_and_last_words() {
    let fixture = shell("echo $MARK; echo last words >&2; exit 70");
    let ended = fixture.process.wait(PATIENCE).unwrap().unwrap();
    assert_eq!(ended, Ended { code: Some(70), signal: None, expected: false });
    assert_eq!(fixture.log(), "given\nlast words\n");
    let told = fixture.told.all();
    assert_eq!(fixture.told.words(), ["started", "exited"]);
    assert_eq!((told[1].life, told[1].code, told[1].expected), (1, Some(70), false));
    assert_eq!(told[1].line.as_deref(), Some("last words"));
    assert_eq!(fixture.process.kill(PATIENCE).unwrap(), ended, "a kill changes nothing any more");
}

#[test]
fn a_kill_is_expected_and_a_next_life_begins() {
    let fixture = shell("echo begun; exec sleep 1000");
    assert!(fixture.process.start_again().is_err(), "it runs");
    let pid = fixture.process.pid();
    let ended = fixture.process.kill(PATIENCE).unwrap();
    assert_eq!(ended, Ended { code: None, signal: Some(9), expected: true });
    assert!(!fixture.process.is_running());
    fixture.process.start_again().unwrap();
    assert_eq!(fixture.process.life(), 2);
    assert_ne!(fixture.process.pid(), pid);
    let ended = fixture.process.terminate(PATIENCE).unwrap();
    assert_eq!((ended.signal, ended.expected), (Some(15), true));
    fixture.told(&["started", "exited", "started", "exited"]);
    assert_eq!(fixture.told.all()[3].life, 2);
}

#[test]
fn an_end_that_is_meant_is_expected() {
    let fixture = shell("read line < /dev/null; exec sleep 1000");
    fixture.process.expect_end();
    fixture.process.state().current.pid.signal(Signal::ABORT).unwrap();
    let ended = fixture.process.wait(PATIENCE).unwrap().unwrap();
    assert_eq!((ended.signal, ended.expected), (Some(6), true));
    fixture.process.start_again().unwrap();
    fixture.process.state().current.pid.signal(Signal::ABORT).unwrap();
    let ended = fixture.process.wait(PATIENCE).unwrap().unwrap();
    assert!(!ended.expected, "the next life is not meant to end");
    fixture.process.start_again().unwrap();
    fixture.process.expect_end();
    fixture.process.expect_life();
    fixture.process.state().current.pid.signal(Signal::ABORT).unwrap();
    assert!(!fixture.process.wait(PATIENCE).unwrap().unwrap().expected, "what was wrong is undone");
}

#[test]
fn a_paused_process_does_nothing_until_it_is_resumed() {
    let fixture = shell("while :; do echo works; done");
    fixture.says("works");
    fixture.process.pause().unwrap();
    fixture.process.pause().unwrap();
    let length = fixture.log().len();
    assert!(fixture.process.wait(Duration::from_millis(100)).unwrap().is_none());
    assert_eq!(fixture.log().len(), length);
    assert!(fixture.process.is_running());
    fixture.process.resume().unwrap();
    until("it works again", PATIENCE, || Ok((fixture.log().len() > length).then_some(()))).unwrap();
    fixture.process.pause().unwrap();
    assert_eq!(fixture.process.terminate(PATIENCE).unwrap().signal, Some(15), "it goes on to end");
    fixture.process.pause().unwrap();
}

#[test]
fn a_panic_is_recorded_while_the_process_goes_on() {
    let fixture =
        shell("echo \"thread 'main' panicked at src/a.rs:1:2:\"; echo it cannot be; exec sleep 1000");
    fixture.told(&["started", "panicked"]);
    let panic = &fixture.told.all()[1];
    assert_eq!(panic.line.as_deref(), Some("thread 'main' panicked at src/a.rs:1:2: it cannot be"));
    assert!(!panic.expected);
    assert!(fixture.process.is_running());
}

#[test]
fn a_panic_is_recorded_before_the_end_that_it_causes() {
    let fixture = shell("echo \"thread 'main' panicked at src/a.rs:1:2:\"; echo it cannot be; exit 101");
    fixture.told(&["started", "panicked", "exited"]);
    assert_eq!(fixture.told.all()[2].code, Some(101));
}

#[test]
fn a_program_that_is_missing_is_an_error() {
    let bench = Bench::new();
    let spec = Spec::new("/no/such/program", bench.dir.path().join("log"));
    assert!(Proc::start(spec, &bench.journal, Told::default().record()).is_err());
}

#[test]
fn the_monotonic_clock_can_be_ahead_in_a_process_of_the_same_number() {
    if !able(&[
        ("CAP_SYS_ADMIN", is_admin()),
        ("time namespaces", std::path::Path::new("/proc/self/ns/time").exists()),
    ]) {
        return;
    }
    let ahead = Duration::from_secs(1_000_000);
    let fixture = shell_ahead("read up rest < /proc/uptime; echo $$ $up end; exec sleep 1000", ahead);
    fixture.says("end");
    let log = fixture.log();
    let mut words = log.split_whitespace();
    assert_eq!(words.next().unwrap().parse::<u32>().unwrap(), fixture.process.pid());
    let uptime: f64 = words.next().unwrap().parse().unwrap();
    let real = crate::wait::monotonic().as_secs_f64();
    assert!((uptime - real - 1e6).abs() < 100_000.0, "{uptime} s, not {real} s and a million");
    assert_eq!(fixture.process.kill(PATIENCE).unwrap().signal, Some(9));
}

#[test]
fn the_journal_ends_a_process_even_if_it_is_paused() {
    let fixture = shell("exec sleep 1000");
    fixture.process.pause().unwrap();
    assert_eq!(fixture.bench.journal.undo_all(), Vec::<String>::new());
    let ended = fixture.process.wait(PATIENCE).unwrap().unwrap();
    assert_eq!((ended.signal, ended.expected), (Some(9), false));
}
