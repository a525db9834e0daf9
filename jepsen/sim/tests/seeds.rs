//! Seeds run to the end in processes of their own: the same seed twice, and a few seeds once.

use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orloj-sim")).args(args).output().expect("the program runs")
}

/// The history of a seed.
fn history(seed: &str, seconds: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("history.jsonl");
    let text = path.to_str().expect("a name");
    sim(&["run", "--seed", seed, "--seconds", seconds, "--history", text]);
    std::fs::read(path).expect("a history was written")
}

#[test]
fn a_seed_run_twice_gives_the_same_history() {
    for seed in ["1", "2", "3"] {
        let (first, second) = (history(seed, "12"), history(seed, "12"));
        assert!(first.len() > 100_000, "seed {seed}: a history of {} bytes is none", first.len());
        let differs = first.split(|byte| *byte == b'\n').zip(second.split(|byte| *byte == b'\n'));
        let line = differs.take_while(|(one, other)| one == other).count() + 1;
        assert!(first == second, "seed {seed}: the histories differ from line {line} on");
    }
    assert_ne!(history("1", "5"), history("2", "5"));
}

#[test]
fn a_few_seeds_are_valid() {
    let output = sim(&["sweep", "--seeds", "20", "--from", "101", "--seconds", "8"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_seed_that_takes_too_long_has_failed_and_is_named() {
    let output = sim(&["sweep", "--seeds", "2", "--from", "41", "--limit-s", "0"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("seed 41: not over after 0 s of real time"), "{told}");
    assert!(told.contains("2 failed: [41, 42]"), "{told}");
}
