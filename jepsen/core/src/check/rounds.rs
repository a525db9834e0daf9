//! D3: an executor that has heard of a round takes nothing from an older one.

use std::collections::BTreeMap;

use super::Options;
use crate::event::{Event, What};
use crate::history::History;
use crate::verdict::Judgement;

/// What one executor has heard so far.
#[derive(Default)]
struct Heard {
    round: u64,
    /// The event that told it.
    event: u64,
}

impl Heard {
    fn raise(&mut self, round: u64, event: &Event) {
        if round > self.round {
            *self = Heard { round, event: event.i };
        }
    }
}

/// D3. Per executor, across its lives except for one that began without memory: a push is taken (or answered
/// as known) only when its round is at least the highest heard before. Counts the stale pushes that were
/// refused: without any, nothing was tried.
pub fn stale_rounds(history: &History, _: &Options) -> Vec<Judgement> {
    let mut word = Judgement::of("D3");
    let mut heard: BTreeMap<&str, Heard> = BTreeMap::new();
    let (mut taken, mut refused) = (0_u64, 0_u64);
    for event in history.events() {
        match &event.what {
            What::ExecutorUp(up) if up.amnesiac => {
                heard.remove(up.executor.as_str());
            }
            What::RoundHeard(told) => heard.entry(&told.executor).or_default().raise(told.round, event),
            What::Recv(recv) => {
                let known = heard.entry(&recv.executor).or_default();
                if recv.verdict == "refused" {
                    refused += u64::from(recv.reason.as_deref() == Some("stale_round"));
                } else {
                    taken += 1;
                    if recv.round < known.round {
                        let what = format!(
                            "{} answered {} to a push of round {}, after it had heard of round {}",
                            recv.executor, recv.verdict, recv.round, known.round
                        );
                        word.violated(what, Some(&recv.grant.task), &[known.event, event.i]);
                    }
                }
                known.raise(recv.round, event);
            }
            _ => {}
        }
    }
    word.stat("looked_at", taken as f64);
    word.stat("stale_rejects", refused as f64);
    vec![word]
}
