//! What a mock executor does by itself: registers, sends heartbeats, reports, leaves; and finds the leader.

mod answers;

use std::collections::BTreeMap;

use orloj_jepsen_core::event::{RoomSaid, What};
use orloj_wire::protocol::{AttemptRef, Heartbeat, Leave, Register, Reports};

use super::call::{Call, CallBody};
use super::{Mock, Profile};
use crate::{NS_PER_MS, Now};

/// Most reports of one call.
const BATCH: usize = 256;
/// Heartbeats are no closer together than this, in ms.
const SHORTEST_GAP_MS: u64 = 20;
/// The first pause after a call that came to nothing, and the longest, in ms.
const BACKOFF_MS: (u64, u64) = (50, 1_000);
/// What is assumed until a registration is answered, in ms.
const HEARTBEAT_MS: u64 = 1_000;

/// A call that has no answer yet.
#[derive(Debug, Clone)]
enum Sent {
    /// A registration, a heartbeat or a goodbye.
    Presence,
    /// Reports; `extra` ones come from a vice, and nothing waits for them.
    Reports { attempts: Vec<AttemptRef>, extra: bool },
}

/// The pause before the next try.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    failures: u32,
}

impl Pause {
    fn next_ms(&mut self) -> u64 {
        let (first, longest) = BACKOFF_MS;
        let ms = first.saturating_mul(1 << self.failures.min(10)).min(longest);
        self.failures += 1;
        ms
    }
}

/// See the module's description.
#[derive(Debug, Clone)]
pub(super) struct Duties {
    targets: Vec<String>,
    current: usize,
    former: Option<String>,
    next_number: u64,
    /// Whom each was sent to, and what.
    calls: BTreeMap<u64, (String, Sent)>,
    registered: bool,
    heartbeat_ms: u64,
    presence_due: u64,
    presence_pause: Pause,
    last_beat: u64,
    flap_due: u64,
    reports_due: u64,
    reports_pause: Pause,
    /// Reports go one by one: the leader has refused a batch.
    alone: bool,
    /// The leader was last told that there is no room.
    said_full: bool,
    /// As `said_full`, but not taken back until it has been told otherwise.
    told_full: bool,
}

impl Duties {
    pub(super) fn new(profile: &Profile) -> Duties {
        Duties {
            targets: profile.replicas.iter().map(|(internal, _)| internal.clone()).collect(),
            current: 0,
            former: None,
            next_number: 1,
            calls: BTreeMap::new(),
            registered: false,
            heartbeat_ms: HEARTBEAT_MS,
            presence_due: 0,
            presence_pause: Pause::default(),
            last_beat: 0,
            flap_due: 0,
            reports_due: 0,
            reports_pause: Pause::default(),
            alone: false,
            said_full: false,
            told_full: false,
        }
    }

    /// For the next life: numbers of calls go on, so that a late answer to the last life is told apart.
    pub(super) fn next_life(&self, profile: &Profile, now_ns: u64) -> Duties {
        Duties { next_number: self.next_number, presence_due: now_ns, ..Duties::new(profile) }
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    pub(super) fn register_again(&mut self) {
        self.registered = false;
        self.presence_due = 0;
    }

    pub(super) fn beat_now(&mut self, now_ns: u64) {
        let earliest = self.last_beat.saturating_add(SHORTEST_GAP_MS * NS_PER_MS);
        self.presence_due = self.presence_due.min(now_ns.max(earliest));
    }

    pub(super) fn report_now(&mut self, now_ns: u64) {
        self.reports_due = self.reports_due.min(now_ns);
    }

    /// It tells the leader whether it has room. True when that differs from what it told last.
    fn tell_room(&mut self, room: bool) -> bool {
        self.said_full = !room;
        std::mem::replace(&mut self.told_full, !room) == room
    }

    pub(super) fn room(&mut self, now_ns: u64, room: bool) {
        if self.said_full && room {
            self.said_full = false;
            self.beat_now(now_ns);
        }
    }

    /// Somebody says who leads. False when that is who was asked last.
    pub(super) fn follow(&mut self, leader: &str) -> bool {
        let before = self.current;
        let at = self.targets.iter().position(|target| target == leader);
        self.current = at.unwrap_or_else(|| {
            self.targets.push(leader.to_owned());
            self.targets.len() - 1
        });
        if before != self.current {
            self.former = self.targets.get(before).cloned();
        }
        before != self.current
    }

    fn advance(&mut self) {
        self.current = (self.current + 1) % self.targets.len().max(1);
    }

    fn call(&mut self, to: Option<String>, sent: Sent, body: CallBody) -> Option<Call> {
        let to = to.or_else(|| self.targets.get(self.current).cloned())?;
        let number = self.next_number;
        self.next_number += 1;
        self.calls.insert(number, (to.clone(), sent));
        Some(Call { number, to, body })
    }

    fn presence_is_out(&self) -> bool {
        self.calls.values().any(|(_, sent)| matches!(sent, Sent::Presence))
    }

    fn reports_are_out(&self) -> bool {
        self.calls.values().any(|(_, sent)| matches!(sent, Sent::Reports { extra: false, .. }))
    }
}

impl Mock {
    /// Lets time pass: attempts end, and what is due to be said is returned. To be called at every
    /// [`next_due`](Mock::next_due), and after everything else that happens to it.
    pub fn tick(&mut self, now: Now) -> Vec<Call> {
        if !self.answers() {
            return Vec::new();
        }
        self.end_due(now);
        let mut calls = Vec::new();
        calls.extend(self.presence(now));
        calls.extend(self.reports(now));
        calls
    }

    /// When something is due next, on the monotonic clock in ns; none while it waits for others. May have
    /// passed.
    pub fn next_due(&self) -> Option<u64> {
        if !self.answers() {
            return None;
        }
        let duties = &self.duties;
        let presence =
            (!duties.presence_is_out() && !self.waits_for_old_reports()).then_some(duties.presence_due);
        let first = self.memory.unsaid.iter().map(|unsaid| unsaid.not_before).min();
        let reports = first
            .filter(|_| !duties.reports_are_out() && !self.vices.silent)
            .map(|first| first.max(duties.reports_due));
        self.next_end().into_iter().chain(presence).chain(reports).min()
    }

    /// Reports of an earlier life count only while the leader has not ended what that life held, which the
    /// registration of a new life makes it do.
    fn waits_for_old_reports(&self) -> bool {
        let old = |unsaid: &super::Unsaid| !unsaid.refused && unsaid.report.incarnation != self.incarnation;
        !self.duties.registered && self.memory.unsaid.iter().any(old)
    }

    fn presence(&mut self, now: Now) -> Option<Call> {
        let duties = &mut self.duties;
        if duties.presence_is_out() || now.mono_ns < duties.presence_due {
            return None;
        }
        if self.waits_for_old_reports() {
            return None;
        }
        if !self.duties.registered {
            let body = CallBody::Register(self.registration(now));
            return self.duties.call(None, Sent::Presence, body);
        }
        let done = self.draining && !self.is_busy() && self.memory.unsaid.is_empty();
        if done || self.flaps(now) {
            let body = Leave { executor_id: self.profile.id.clone(), incarnation: self.incarnation };
            return self.duties.call(None, Sent::Presence, CallBody::Leave(body));
        }
        if self.vices.mute {
            self.duties.presence_due = now.in_ms(self.duties.heartbeat_ms);
            return None;
        }
        let body = CallBody::Heartbeat(self.heartbeat(now));
        self.duties.last_beat = now.mono_ns;
        self.duties.call(None, Sent::Presence, body)
    }

    fn flaps(&mut self, now: Now) -> bool {
        let due = self.vices.flap_ms.filter(|_| now.mono_ns >= self.duties.flap_due);
        if let Some(ms) = due {
            self.duties.flap_due = now.in_ms(ms);
        }
        due.is_some()
    }

    fn registration(&self, now: Now) -> Register {
        Register {
            executor_id: self.profile.id.clone(),
            incarnation: self.incarnation,
            address: self.profile.address.clone(),
            handlers: self.profile.handlers.clone(),
            slots: self.profile.slots,
            queue: self.profile.queue,
            weight: self.vices.weight.unwrap_or(self.profile.weight),
            zone: self.profile.zone.clone(),
            labels: self.profile.labels.clone(),
            version: "mock".to_owned(),
            holding: self.holding(now),
        }
    }

    /// Writes down what a heartbeat or an answer to a push tells of its room.
    pub(super) fn say_room(&mut self, now: Now) {
        let room = self.free_slots() > 0 && self.free_places() > 0;
        if self.duties.tell_room(room) {
            let (executor, incarnation) = (self.profile.id.clone(), self.incarnation);
            self.note(now, None, What::RoomSaid(RoomSaid { executor, incarnation, room }));
        }
    }

    fn heartbeat(&mut self, now: Now) -> Heartbeat {
        let free_slots = self.free_slots();
        self.say_room(now);
        Heartbeat {
            executor_id: self.profile.id.clone(),
            incarnation: self.incarnation,
            round: self.memory.round,
            holding: self.book.holding(now.mono_ns, false),
            free_slots,
            queued: u32::try_from(self.book.queued()).unwrap_or(u32::MAX),
            cpu_pct: 0.0,
            draining: self.draining,
            handlers: BTreeMap::new(),
        }
    }

    fn reports(&mut self, now: Now) -> Vec<Call> {
        if self.vices.silent || self.duties.reports_are_out() || now.mono_ns < self.duties.reports_due {
            return Vec::new();
        }
        let most = if self.duties.alone { 1 } else { BATCH };
        let ripe = self.memory.unsaid.iter().filter(|unsaid| unsaid.not_before <= now.mono_ns).take(most);
        let reports: Vec<_> = ripe.map(|unsaid| unsaid.report.clone()).collect();
        if reports.is_empty() {
            return Vec::new();
        }
        let body = Reports { executor_id: self.profile.id.clone(), reports };
        let mut calls = Vec::new();
        if self.rng.chance(self.vices.report_to_former)
            && let Some(former) = self.duties.former.clone()
        {
            calls.extend(self.send_reports(now, Some(former), &body, true));
        }
        if self.rng.chance(self.vices.report_twice) {
            calls.extend(self.send_reports(now, None, &body, true));
        }
        calls.extend(self.send_reports(now, None, &body, false));
        calls
    }

    fn send_reports(&mut self, now: Now, to: Option<String>, body: &Reports, extra: bool) -> Option<Call> {
        for report in &body.reports {
            let told = self.told(report);
            self.note(now, Some(&report.attempt.task_id), What::ReportSent(told));
        }
        let attempts = body.reports.iter().map(|report| report.attempt.clone()).collect();
        self.duties.call(to, Sent::Reports { attempts, extra }, CallBody::Reports(body.clone()))
    }
}
