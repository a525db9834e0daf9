//! Looks at one replica ten times a second, on its own debug listener.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orloj_jepsen_core::event::{Probe, What};
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::http::{Ask, Connection};
use super::now;
use super::recorder::{Note, Recorder};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// A replica that does not answer within it is not seen this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// `GET /debug/probe`, as far as a history has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: Option<u64>,
    birth: String,
    term: u64,
    vote: Option<u64>,
    role: String,
    leader: Option<u64>,
    round: u64,
    serving: Option<u64>,
    last_log: u64,
    committed: u64,
    applied: u64,
    purged: u64,
    snapshot: u64,
    snapshots_installed: u64,
    digests: BTreeMap<u64, String>,
    log_terms: BTreeMap<u64, u64>,
    wheel: u64,
    waiting: u64,
    running: u64,
    wall_ms: i64,
    rss: u64,
    fds: u64,
    state: String,
}

/// Looks at the replica `node` until `stop`. `life` is the number of its process, which whoever starts it
/// counts; `seen` is told of every look, none when there was no answer. Runs where `address` is the replica's own
/// loopback.
pub async fn run(
    node: &str,
    address: SocketAddr,
    life: Arc<AtomicU64>,
    recorder: Recorder,
    seen: impl Fn(Option<&Probe>),
    stop: CancellationToken,
) {
    let mut connection = Connection::new(address);
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let before = life.load(Ordering::SeqCst);
        let probe = look(&mut connection).await;
        seen(probe.as_ref());
        // An answer that spans the start of another process could be either's.
        if let Some(probe) = probe.filter(|_| life.load(Ordering::SeqCst) == before) {
            recorder.note(Note::event(node, What::Probe(Probe { life: before, ..probe })));
        }
    }
}

/// One look, for whoever must know where a replica stands. None when it does not answer.
pub async fn look(connection: &mut Connection) -> Option<Probe> {
    let ask = Ask { path: "/debug/probe".to_owned(), ..Ask::default() };
    let reply = connection.ask(ask, PATIENCE).await.ok()?;
    let shown: Shown = serde_json::from_slice(&reply.body).ok()?;
    Some(probe(shown, now().wall_ms))
}

fn probe(shown: Shown, wall_ms: i64) -> Probe {
    Probe {
        id: shown.id.unwrap_or(0),
        birth: shown.birth,
        life: 0,
        term: shown.term,
        vote: shown.vote,
        role: shown.role,
        leader: shown.leader,
        round: shown.round,
        serving: shown.serving,
        last_log: shown.last_log,
        committed: shown.committed,
        applied: shown.applied,
        purged: shown.purged,
        snapshot: shown.snapshot,
        snapshots_installed: shown.snapshots_installed,
        digests: shown.digests,
        log_terms: shown.log_terms,
        wheel: shown.wheel,
        waiting: shown.waiting,
        running: shown.running,
        wall_offset_ms: shown.wall_ms - wall_ms,
        rss: shown.rss,
        fds: shown.fds,
        state: shown.state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_as_the_replica_shows_it() {
        let shown: Shown = serde_json::from_value(serde_json::json!({
            "id": 2, "birth": "b1", "term": 3, "vote": null, "role": "leader", "state": "ok", "leader": 2,
            "round": 7, "serving": 7, "lastLog": 90, "committed": 89, "applied": 89, "purged": 0,
            "snapshot": 0, "snapshotsInstalled": 0, "digest": "00", "digestIndex": 89,
            "digests": {"64": "00000000000000aa"}, "logTerms": {"89": 3}, "wheel": 4, "waiting": 0,
            "running": 1, "wallMs": 5_250, "rss": 1, "fds": 2, "scheduler": {"anything": true},
        }))
        .unwrap();
        let probe = probe(shown, 5_000);
        assert_eq!((probe.wall_offset_ms, probe.serving, probe.last_log), (250, Some(7), 90));
        assert_eq!(probe.digests[&64], "00000000000000aa");
        assert_eq!(probe.log_terms[&89], 3);
    }
}
