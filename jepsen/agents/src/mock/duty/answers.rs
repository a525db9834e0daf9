//! What a mock executor makes of the answers to its calls.

use orloj_jepsen_core::event::{ReportAcked, What};
use orloj_wire::protocol::{AttemptRef, CancelReason, HeartbeatAck, Registered, ReportVerdict, ReportsAck};

use super::{Pause, SHORTEST_GAP_MS, Sent};
use crate::Now;
use crate::mock::book::key;
use crate::mock::call::Heard;
use crate::mock::{Mock, grant};

/// A report that the leader refuses as such is tried again after so many ms.
const REFUSED_MS: u64 = 2_000;

impl Mock {
    /// What came of a call. An answer to an earlier life is nothing to this one.
    pub fn answered(&mut self, now: Now, number: u64, heard: Heard) {
        let Some((to, sent)) = self.duties.calls.remove(&number) else { return };
        match (sent, heard) {
            (Sent::Presence, Heard::Registered(answer)) => self.on_registered(now, &answer),
            (Sent::Presence, Heard::Heartbeat(answer)) => self.on_heartbeat(now, &answer),
            (Sent::Presence, Heard::Left) if self.draining => self.end_life(now),
            (Sent::Presence, Heard::Left) => {
                self.duties.registered = false;
                self.duties.presence_due = now.in_ms(SHORTEST_GAP_MS);
            }
            (Sent::Presence, heard) => {
                self.look_elsewhere(&to, &heard);
                self.duties.presence_due = now.in_ms(self.duties.presence_pause.next_ms());
            }
            (Sent::Reports { attempts, .. }, Heard::Reports(answer))
                if answer.verdicts.len() == attempts.len() =>
            {
                self.on_reported(now, &attempts, &answer);
            }
            (Sent::Reports { extra: true, .. }, _) => {}
            (Sent::Reports { attempts, .. }, heard) => {
                self.look_elsewhere(&to, &heard);
                if matches!(heard, Heard::Refused(_)) {
                    self.reports_refused(now, &attempts);
                }
                self.duties.reports_due = now.in_ms(self.duties.reports_pause.next_ms());
            }
        }
    }

    /// Only the answer of whom it would ask again moves it: of two calls to one replica the first answer has moved
    /// it already, and the second must not move it away from where the first has led.
    fn look_elsewhere(&mut self, to: &str, heard: &Heard) {
        if self.duties.targets.get(self.duties.current).is_none_or(|current| current != to) {
            return;
        }
        match heard {
            Heard::NotLeader(Some(leader)) if self.duties.follow(leader) => {}
            Heard::Refused(_) => {}
            _ => self.duties.advance(),
        }
    }

    fn on_registered(&mut self, now: Now, answer: &Registered) {
        for replica in &answer.replicas {
            if !self.duties.targets.contains(replica) {
                self.duties.targets.push(replica.clone());
            }
        }
        self.duties.heartbeat_ms = answer.heartbeat_ms.max(1);
        if !self.see_round(now, answer.round, None) {
            self.duties.advance();
            self.duties.presence_due = now.in_ms(self.duties.presence_pause.next_ms());
            return;
        }
        self.duties.registered = true;
        self.duties.presence_pause = Pause::default();
        self.duties.presence_due = now.mono_ns;
        self.drop_stale(now, &answer.stale);
    }

    fn on_heartbeat(&mut self, now: Now, answer: &HeartbeatAck) {
        if answer.superseded {
            self.kill(now);
            return;
        }
        if !self.see_round(now, answer.round, None) {
            // A deposed leader: nothing is dropped at its word.
            self.duties.advance();
            self.duties.presence_due = now.in_ms(self.duties.presence_pause.next_ms());
            return;
        }
        self.duties.presence_pause = Pause::default();
        if answer.register {
            self.duties.registered = false;
        }
        let wait_ms = if answer.register { SHORTEST_GAP_MS } else { self.duties.heartbeat_ms };
        self.duties.presence_due = now.in_ms(wait_ms);
        self.drop_stale(now, &answer.stale);
    }

    fn drop_stale(&mut self, now: Now, stale: &[AttemptRef]) {
        for attempt in stale {
            self.stop(now, attempt, CancelReason::LeaseLost);
        }
        self.fill_slots(now);
    }

    fn on_reported(&mut self, now: Now, attempts: &[AttemptRef], answer: &ReportsAck) {
        for (attempt, verdict) in attempts.iter().zip(&answer.verdicts) {
            let verdict = match verdict {
                ReportVerdict::Accepted => "accepted",
                ReportVerdict::Repeated => "repeated",
                ReportVerdict::Late => "late",
            };
            let acked = ReportAcked {
                grant: grant(attempt),
                executor: self.profile.id.clone(),
                verdict: verdict.to_owned(),
            };
            self.note(now, Some(&attempt.task_id), What::ReportAcked(acked));
            self.memory.unsaid.retain(|unsaid| unsaid.report.attempt != *attempt);
            self.book.acknowledged(&key(attempt));
        }
        self.duties.alone = false;
        self.duties.reports_pause = Pause::default();
        self.duties.reports_due = now.mono_ns;
        if self.draining {
            self.duties.beat_now(now.mono_ns);
        }
    }

    /// A batch that is refused goes again one by one; a report that is refused by itself holds up nothing.
    fn reports_refused(&mut self, now: Now, attempts: &[AttemptRef]) {
        self.duties.alone = true;
        if let [attempt] = attempts
            && let Some(at) = self.memory.unsaid.iter().position(|unsaid| unsaid.report.attempt == *attempt)
            && let Some(mut unsaid) = self.memory.unsaid.remove(at)
        {
            unsaid.refused = true;
            unsaid.not_before = now.in_ms(REFUSED_MS);
            self.memory.unsaid.push_back(unsaid);
        }
    }
}
