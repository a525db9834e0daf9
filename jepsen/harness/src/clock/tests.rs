use super::*;
use crate::tool::run;
use crate::wait::until;
use std::process::Command;

const PATIENCE: Duration = Duration::from_secs(10);

fn shim() -> Option<(tempfile::TempDir, WallShim)> {
    if !crate::tool::installed("cc") {
        eprintln!("skipped: there is no C compiler");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let shim = WallShim::compile(dir.path()).unwrap();
    Some((dir, shim))
}

/// Runs `program` by `clock` and gives what it prints, in seconds.
fn seconds(clock: &WallClock, program: &str, args: &[&str]) -> f64 {
    let output = run(Command::new(program).args(args).envs(clock.env())).unwrap();
    output.split_whitespace().next().unwrap().parse().unwrap()
}

fn wall(clock: &WallClock) -> f64 {
    seconds(clock, "date", &["+%s.%N"])
}

#[test]
fn a_jump_is_seen_by_a_process() {
    let Some((_dir, shim)) = shim() else { return };
    let clock = shim.clock("n1").unwrap();
    let before = wall(&clock);
    for (jump, offset) in [(3_600_000, 3_600.0), (-7_200_500, -3_600.5), (3_600_500, 0.0)] {
        clock.jump(jump);
        let seen = wall(&clock) - before;
        assert!((offset..offset + 30.0).contains(&seen), "{seen} s, not {offset} s");
    }
    assert_eq!(clock.offset(), 0);
}

#[test]
fn a_jump_is_seen_by_every_reader_of_the_wall_clock_and_by_no_other() {
    let Some((dir, shim)) = shim() else { return };
    let source = dir.path().join("read.c");
    fs::write(&source, READ).unwrap();
    let program = dir.path().join("read").to_string_lossy().into_owned();
    tool("cc", &["-o", &program, &source.to_string_lossy(), "-lpthread"]).unwrap();
    let clock = shim.clock("n1").unwrap();
    clock.jump(3_600_000);
    let text = run(Command::new(&program).envs(clock.env())).unwrap();
    let mut fields = text.split_whitespace().map(|field| field.parse::<f64>().unwrap());
    let mut next = || fields.next().unwrap();
    let apart = |reader: &str, seen: f64| assert!((3_599.0..3_601.0).contains(&seen), "{reader}: {seen}");
    apart("clock_gettime", next());
    apart("gettimeofday", next());
    apart("time", next());
    let monotonic = next();
    assert!(monotonic.abs() < 1.0, "the monotonic clock moved by {monotonic} s");
    let waited = next();
    assert!((0.05..5.0).contains(&waited), "a wait of 50 ms by the wall clock took {waited} s");
}

/// Prints how far each reader of a clock is from the system call below it, which nothing moves, and how long
/// a wait of 50 ms took whose end is an instant of the wall clock.
const READ: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static double s(struct timespec t) { return t.tv_sec + t.tv_nsec / 1e9; }
static double raw(int clock) { struct timespec t; syscall(SYS_clock_gettime, clock, &t); return s(t); }
int main(void) {
    struct timespec t; struct timeval v;
    clock_gettime(CLOCK_REALTIME, &t); printf("%f ", s(t) - raw(CLOCK_REALTIME));
    gettimeofday(&v, NULL); printf("%f ", v.tv_sec + v.tv_usec / 1e6 - raw(CLOCK_REALTIME));
    printf("%f ", time(NULL) - raw(CLOCK_REALTIME) + 0.5);
    clock_gettime(CLOCK_MONOTONIC, &t); printf("%f ", s(t) - raw(CLOCK_MONOTONIC));
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    double begin = raw(CLOCK_MONOTONIC);
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 50000000; if (t.tv_nsec >= 1000000000) { t.tv_nsec -= 1000000000; t.tv_sec++; }
    alarm(20);
    pthread_mutex_lock(&mutex);
    while (!pthread_cond_timedwait(&never, &mutex, &t)) {}
    printf("%f\n", raw(CLOCK_MONOTONIC) - begin);
}
"#;

#[test]
fn a_ramp_gains_until_it_ends() {
    let Some((_dir, shim)) = shim() else { return };
    let clock = shim.clock("n1").unwrap();
    let begin = monotonic();
    clock.ramp(500);
    until("a gain of 100 ms", PATIENCE, || Ok((clock.offset() >= 100).then_some(()))).unwrap();
    // It can only be slower than the rate: a step comes late, never early.
    assert!(monotonic() - begin >= Duration::from_millis(195));
    clock.jump(-1_000);
    assert!(clock.offset() < 0, "a jump holds while the clock drifts");
    clock.ramp(0);
    let ended = clock.offset();
    thread::sleep(RAMP_STEP * 3);
    assert_eq!(clock.offset(), ended);
    clock.restore();
    assert_eq!(clock.offset(), 0);
}

#[test]
fn the_gain_follows_the_rate() {
    assert_eq!(gain(Duration::from_secs(2), 500), 1_000 * MS_NS);
    assert_eq!(gain(Duration::from_millis(10), -100), -MS_NS);
}

#[test]
fn the_clocks_of_two_nodes_are_apart() {
    let Some((_dir, shim)) = shim() else { return };
    let (one, other) = (shim.clock("n1").unwrap(), shim.clock("n2").unwrap());
    one.jump(60_000);
    assert_eq!((one.offset(), other.offset()), (60_000, 0));
}
