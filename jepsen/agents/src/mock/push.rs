//! What a mock executor says to pushes.

use orloj_jepsen_core::event::{CancelRecv, Recv, RoundHeard, What};
use orloj_wire::protocol::{
    AnnounceRound, Cancel, CancelAck, CancelReason, Dispatch, Holdings, LogChunk, LogRequest, Run, RunAck,
    RunVerdict,
};

use super::book::{Offer, key};
use super::call::{Answer, Said};
use super::{Mock, grant};
use crate::Now;
use crate::behaviour::Work;
use crate::seen::label;

/// Most attempts of one push.
const BATCH: usize = 512;

/// What is said of one attempt: on the wire, and in the history.
type Word = (RunVerdict, Option<&'static str>);

impl Mock {
    /// A batch of attempts; `sender` is the replica that it came from, where the driver can tell.
    pub fn on_run(&mut self, now: Now, sender: Option<&str>, run: &Run) -> Answer<RunAck> {
        if !self.answers() {
            return Answer::nothing();
        }
        let refusal = self.batch_refusal(now, run);
        if let Some((status, code)) = refusal {
            for dispatch in &run.attempts {
                self.note_recv(now, sender, run.round, dispatch, (RunVerdict::Refused, Some(code)));
            }
            return Answer::refused(status, code);
        }
        let mut ack = RunAck { verdicts: Vec::new(), refusal: None, free_slots: 0, free_places: 0 };
        for dispatch in &run.attempts {
            let (verdict, reason) = self.offer(now, sender, run.round, dispatch);
            ack.verdicts.push(verdict);
            // The wire has no word for a vice.
            let reason = reason.map(|reason| if reason == "refuse_all" { "queue_full" } else { reason });
            ack.refusal = ack.refusal.or(reason.map(str::to_owned));
        }
        if ack.verdicts.contains(&RunVerdict::Duplicate) {
            // It may have ended, and the leader may not have heard of it.
            self.duties.report_now(now.mono_ns);
        }
        self.fill_slots(now);
        (ack.free_slots, ack.free_places) = (self.free_slots(), self.free_places());
        self.say_room(now);
        self.spoiled(ack)
    }

    fn batch_refusal(&mut self, now: Now, run: &Run) -> Option<(u16, &'static str)> {
        if run.executor_id != self.profile.id {
            return Some((409, "wrong_executor"));
        }
        if run.incarnation != self.incarnation {
            return Some((409, "wrong_incarnation"));
        }
        if run.attempts.len() > BATCH {
            return Some((400, "invalid_request"));
        }
        (!self.see_round(now, run.round, None)).then_some((409, "stale_round"))
    }

    fn offer(&mut self, now: Now, sender: Option<&str>, round: u64, dispatch: &Dispatch) -> Word {
        let known = self.profile.handlers.contains(&dispatch.handler);
        let refuse = match () {
            () if self.draining => Some("draining"),
            () if self.vices.refuse_all => Some("refuse_all"),
            () if !known => Some("unknown_handler"),
            () => None,
        };
        let (word, older) = match self.book.offer(dispatch, refuse, self.places()) {
            Offer::Accepted { older } => ((RunVerdict::Accepted, None), older),
            Offer::Duplicate => ((RunVerdict::Duplicate, None), None),
            Offer::Refused(reason) => ((RunVerdict::Refused, Some(reason)), None),
        };
        self.note_recv(now, sender, round, dispatch, word);
        if let Some(older) = older {
            self.stop(now, &older, CancelReason::LeaseLost);
        }
        word
    }

    /// The answer to a push that was taken, as the vices leave it.
    fn spoiled(&mut self, ack: RunAck) -> Answer<RunAck> {
        if self.rng.chance(self.vices.no_answer) {
            return Answer::nothing();
        }
        let slow = self.rng.chance(self.vices.slow_answer);
        let delay_ms = if slow { self.vices.slow_answer_ms } else { 0 };
        let broken = self.rng.chance(self.vices.broken_answer);
        Answer { delay_ms, said: if broken { Said::Broken } else { Said::Body(ack) } }
    }

    /// Attempts that shall be stopped.
    pub fn on_cancel(&mut self, now: Now, push: &Cancel) -> Answer<CancelAck> {
        if !self.answers() {
            return Answer::nothing();
        }
        if push.executor_id != self.profile.id {
            return Answer::refused(409, "wrong_executor");
        }
        if !self.see_round(now, push.round, None) {
            return Answer::refused(409, "stale_round");
        }
        let mut held = Vec::with_capacity(push.attempts.len());
        for attempt in &push.attempts {
            let is_held = self.book.entry(&key(attempt)).is_some();
            let received = CancelRecv {
                grant: grant(attempt),
                executor: self.profile.id.clone(),
                reason: reason_name(push.reason).to_owned(),
                held: is_held,
            };
            self.note(now, Some(&attempt.task_id), What::CancelRecv(received));
            self.stop(now, attempt, push.reason);
            held.push(is_held);
        }
        self.fill_slots(now);
        Answer::now(CancelAck { held })
    }

    /// A new leader's round.
    pub fn on_round(&mut self, now: Now, push: &AnnounceRound) -> Answer<Holdings> {
        if !self.answers() {
            return Answer::nothing();
        }
        if push.executor_id != self.profile.id {
            return Answer::refused(409, "wrong_executor");
        }
        if !self.see_round(now, push.round, Some(&push.leader)) {
            return Answer::refused(409, "stale_round");
        }
        self.duties.follow(&push.leader);
        self.duties.report_now(now.mono_ns);
        Answer::now(Holdings {
            incarnation: self.incarnation,
            round: self.memory.round,
            holding: self.holding(now),
            free_slots: self.free_slots(),
            free_places: self.free_places(),
            draining: self.draining,
        })
    }

    /// A mock executor's attempts write nothing: the log is there, and empty, as long as they are known.
    pub fn on_log(&mut self, push: &LogRequest) -> Answer<LogChunk> {
        if !self.answers() {
            return Answer::nothing();
        }
        let complete = !self.book.runs().any(|(running, _, _)| *running == key(&push.attempt));
        Answer::now(LogChunk { data: Vec::new(), next_offset: push.offset, complete })
    }

    /// Sees a round: false when it is over. One that is new, or is announced, is in the history.
    pub(super) fn see_round(&mut self, now: Now, round: u64, leader: Option<&str>) -> bool {
        if round < self.memory.round {
            return false;
        }
        if round > self.memory.round || leader.is_some() {
            let heard = RoundHeard {
                executor: self.profile.id.clone(),
                incarnation: self.incarnation,
                round,
                leader: leader.map(|address| self.replica_name(address)),
            };
            self.note(now, None, What::RoundHeard(heard));
        }
        self.memory.round = round;
        true
    }

    /// The name of a replica, else its address.
    fn replica_name(&self, address: &str) -> String {
        let known = self.profile.replicas.iter().find(|(internal, _)| internal == address);
        known.map_or_else(|| address.to_owned(), |(_, name)| name.clone())
    }

    fn note_recv(&mut self, now: Now, sender: Option<&str>, round: u64, dispatch: &Dispatch, word: Word) {
        let verdict = match word.0 {
            RunVerdict::Accepted => "accepted",
            RunVerdict::Duplicate => "duplicate",
            RunVerdict::Refused => "refused",
        };
        let received = Recv {
            grant: grant(&dispatch.attempt),
            executor: self.profile.id.clone(),
            incarnation: self.incarnation,
            round,
            sender: sender.map(str::to_owned),
            due_at_ms: dispatch.due_at,
            label: label(&dispatch.params).or_else(|| Some(Work::of(&dispatch.params).label)),
            job: dispatch.job_id.clone(),
            scheduled_at_ms: dispatch.scheduled_at,
            verdict: verdict.to_owned(),
            reason: word.1.map(str::to_owned),
            wall_ms: now.wall_ms,
        };
        self.note(now, Some(&dispatch.attempt.task_id), What::Recv(received));
    }
}

fn reason_name(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Cancelled => "cancelled",
        CancelReason::TimedOut => "timedOut",
        CancelReason::LeaseLost => "leaseLost",
    }
}
