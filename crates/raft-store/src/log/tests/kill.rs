//! `kill -9` under load: whatever was reported to be on disk is there afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::victim::{self, say};

const NAME: &str = "log::tests::kill::what_was_reported_survives_kill_9";
const ROUNDS: u64 = 8;

#[test]
fn what_was_reported_survives_kill_9() {
    if let Some(task) = victim::task() {
        let (seed, dir) = task.split_once(' ').unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(write_for_ever(Path::new(dir), seed.parse().unwrap()));
    }
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut oracle = Oracle::default();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let task = format!("{} {}", seed.wrapping_add(round), dir.path().display());
        let lines = victim::run_and_kill(NAME, &task, Duration::from_millis(random.random_range(20..300)));
        for line in &lines {
            oracle.hear(line);
        }
        acknowledged += lines.iter().filter(|line| line.starts_with("ack")).count();
        tokio::runtime::Runtime::new().unwrap().block_on(oracle.check(dir.path()));
    }
    assert!(acknowledged > 0, "the load never got going");
}

/// What the killed process had promised.
#[derive(Default)]
struct Oracle {
    vote: u64,
    /// Acknowledged entries, by index: the terms in which they were written.
    acknowledged: BTreeMap<u64, u64>,
    purged: u64,
}

impl Oracle {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "ready" => {}
            "ack" => {
                let (term, from, to) = (number(1), number(2), number(3));
                self.acknowledged.extend((from..to).map(|index| (index, term)));
            }
            "vote" => self.vote = self.vote.max(number(1)),
            // What may be gone is no promise any more; it is said before it is done.
            "truncating" => drop(self.acknowledged.split_off(&(number(1) + 1))),
            "purging" => self.purged = self.purged.max(number(1)),
            other => panic!("the child said {other:?}"),
        }
    }

    async fn check(&self, dir: &Path) {
        let mut log = open(dir);
        let vote = log.reader().read_vote().await.unwrap();
        assert!(
            vote.map_or(0, |vote| vote.leader_id.term) >= self.vote,
            "vote {vote:?}, promised {}",
            self.vote
        );
        let first = log.get_log_state().await.unwrap().last_purged_log_id.map_or(0, |id| id.index + 1);
        assert!(first <= self.purged + 1, "purged to {first} unasked");
        let found: BTreeMap<u64, Entry> =
            all(&log).await.into_iter().map(|entry| (entry.log_id.index, entry)).collect();
        for (&index, &term) in self.acknowledged.range(first..) {
            assert_eq!(found.get(&index), Some(&entry(term, index)), "acknowledged entry {index}");
        }
    }
}

/// The process that gets killed.
async fn write_for_ever(dir: &Path, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut log = open(dir);
    let voted = log.reader().read_vote().await.unwrap().map_or(0, |vote| vote.leader_id.term);
    let written = log.get_log_state().await.unwrap().last_log_id.map_or(0, |id| id.leader_id.term);
    let mut term = voted.max(written) + 1;
    let mut waiting = std::collections::VecDeque::new();
    say("ready");
    loop {
        let state = log.get_log_state().await.unwrap();
        let next = state.last_log_id.map_or(0, |id| id.index + 1);
        match random.random_range(0..100) {
            0..88 => {
                let end = next + random.random_range(1..20);
                let flushed = submit(&mut log, (next..end).map(|index| entry(term, index))).await;
                waiting.push_back((flushed, format!("ack {term} {next} {end}")));
            }
            88..93 => {
                term += 1;
                log.save_vote(&Vote::new(term, 1)).await.unwrap();
                say(&format!("vote {term}"));
            }
            93..97 => {
                drain(&mut waiting, 0).await;
                let first = state.last_purged_log_id.map_or(0, |id| id.index + 1);
                let keep = next.saturating_sub(random.random_range(1..40)).max(first);
                let last =
                    log.reader().try_get_log_entries(..keep).await.unwrap().last().map(|entry| entry.log_id);
                let Some(last) = last else { continue };
                say(&format!("truncating {}", last.index));
                log.truncate_after(Some(last)).await.unwrap();
                term += 1;
            }
            _ => {
                let upto = log.reader().try_get_log_entries(..next.saturating_sub(100)).await.unwrap();
                let Some(upto) = upto.last().map(|entry| entry.log_id) else { continue };
                say(&format!("purging {}", upto.index));
                log.purge(upto).await.unwrap();
            }
        }
        drain(&mut waiting, 16).await;
    }
}

/// Waits until at most `left` appends are under way, and reports the others.
async fn drain(waiting: &mut std::collections::VecDeque<(FlushReport, String)>, left: usize) {
    while waiting.len() > left
        && let Some((flushed, line)) = waiting.pop_front()
    {
        flushed.await.unwrap().unwrap();
        say(&line);
    }
}
