//! Drives every target by chance: first what is in its corpus, then changed copies of that and of its seeds.
//!
//! `ORLOJ_FUZZ_S=600` goes on for ten minutes with each target; `ORLOJ_SEED` repeats a run. A finding is written to
//! `fuzz/corpus/<target>/`, from where it is tried first ever after.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orloj_fuzz::{Target, all, mutate};
use orloj_wire::clock::{Clock as _, SystemClock};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Inputs of each target where no time is given.
const INPUTS: u64 = 50_000;
/// Inputs that are kept to go on from.
const KEPT: usize = 512;

fn corpus(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text:?}: {error}")))
}

fn try_one(target: &Target, input: &[u8], seed: u64) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) else { return };
    let dir = corpus(target);
    let path = dir.join(format!("finding-{seed:016x}-{}", input.len()));
    let kept = fs::create_dir_all(&dir).and_then(|()| fs::write(&path, input));
    println!(
        "{}: finding in {} ({kept:?}): {:?}",
        target.name,
        path.display(),
        String::from_utf8_lossy(input)
    );
    resume_unwind(panic);
}

fn drive(target: Target) {
    let seed = number("ORLOJ_SEED").unwrap_or_else(|| rand::rng().random());
    let seconds = number("ORLOJ_FUZZ_S");
    println!("{}: ORLOJ_SEED={seed}", target.name);
    let mut chance = StdRng::seed_from_u64(seed);
    let mut pool: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.to_vec()).collect();
    for entry in fs::read_dir(corpus(&target)).into_iter().flatten() {
        pool.push(fs::read(entry.expect("the corpus can be listed").path()).expect("the corpus can be read"));
    }
    pool.iter().for_each(|input| try_one(&target, input, seed));
    let clock = SystemClock::new();
    let until = seconds.map(|seconds| clock.monotonic() + Duration::from_secs(seconds));
    let mut count = 0_u64;
    while until.map_or(count < INPUTS, |until| clock.monotonic() < until) {
        let base = pool[chance.random_range(0..pool.len())].clone();
        let other = &pool[chance.random_range(0..pool.len())];
        let input = mutate(&base, other, &mut chance);
        try_one(&target, &input, seed);
        count += 1;
        // Without a view of coverage, some of what was made is gone on from, so that changes add up.
        if count.is_multiple_of(16) {
            match pool.len() < KEPT {
                true => pool.push(input),
                false => {
                    let place = chance.random_range(target.seeds.len()..pool.len());
                    pool[place] = input;
                }
            }
        }
    }
    println!("{}: {count} inputs, no finding", target.name);
}

fn named(name: &str) -> Target {
    all().into_iter().find(|target| target.name == name).expect("the target is in the list")
}

#[test]
fn path_query() {
    drive(named("path_query"));
}

#[test]
fn signature() {
    drive(named("signature"));
}

#[test]
fn bodies() {
    drive(named("bodies"));
}

#[test]
fn protocol() {
    drive(named("protocol"));
}

#[test]
fn names() {
    drive(named("names"));
}

#[test]
fn codec() {
    drive(named("codec"));
}

#[test]
fn callback() {
    drive(named("callback"));
}

#[test]
fn the_seeds_reach_what_they_are_meant_for() {
    use orloj_wire::json::read;
    use orloj_wire::protocol::{Heartbeat, LogRequest, Register, Reports, Run};
    let seeds = named("protocol").seeds;
    let fault = |fault| format!("{fault:?}");
    read::<Register>(seeds[0]).map_err(fault).unwrap();
    read::<Heartbeat>(seeds[1]).map_err(fault).unwrap();
    read::<Reports>(seeds[2]).map_err(fault).unwrap();
    read::<Run>(seeds[3]).map_err(fault).unwrap();
    read::<LogRequest>(seeds[4]).map_err(fault).unwrap();
    let seeds = named("bodies").seeds;
    for seed in &seeds[..2] {
        orloj_wire::json::read_object::<orloj_wire::rest::Submit>(seed).map_err(fault).unwrap();
    }
    // Every target has a file for cargo-fuzz.
    for target in all() {
        let file = format!("../../fuzz/fuzz_targets/{}.rs", target.name);
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).expect(&file);
        assert!(text.contains(&format!("targets::{}(data)", target.name)), "{file}");
    }
}
