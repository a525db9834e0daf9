use orloj_wire::protocol::{
    AnnounceRound, Cancel, CancelReason, Dispatch, HeartbeatAck, Registered, ReportVerdict, Reports,
    ReportsAck, Run, RunAck, RunVerdict,
};
use serde_json::{Value, json};

use super::*;

const LIFE: i64 = 1_700_000_000_000;

/// A mock executor with a clock of its own.
struct Bench {
    mock: Mock,
    now: Now,
}

impl Bench {
    fn new(slots: u32, queue: u32) -> Bench {
        let profile = Profile {
            id: "e1".to_owned(),
            address: "10.0.0.11:7010".to_owned(),
            handlers: vec!["mock".to_owned()],
            slots,
            queue,
            weight: 100,
            zone: None,
            labels: BTreeMap::new(),
            replicas: ["n1", "n2", "n3"]
                .iter()
                .map(|name| (format!("{name}:1"), (*name).to_owned()))
                .collect(),
            seed: 7,
        };
        let now = Now { mono_ns: 1_000_000_000, wall_ms: LIFE };
        Bench { mock: Mock::new(profile, now), now }
    }

    fn pass(&mut self, ms: u64) -> Vec<Call> {
        self.now.mono_ns += ms * 1_000_000;
        self.now.wall_ms += i64::try_from(ms).unwrap();
        self.mock.tick(self.now)
    }

    fn answer(&mut self, call: &Call, heard: Heard) {
        self.mock.answered(self.now, call.number, heard);
    }

    /// Registers in a round.
    fn register(&mut self, round: u64) {
        let call = self.pass(0).pop().unwrap();
        assert!(matches!(call.body, CallBody::Register(_)), "{call:?}");
        let replicas = Vec::new();
        let answer = Registered { round, heartbeat_ms: 1_000, stale: Vec::new(), replicas };
        self.answer(&call, Heard::Registered(answer));
        let call = self.pass(0).pop().unwrap();
        let CallBody::Heartbeat(_) = call.body else { panic!("a heartbeat follows: {call:?}") };
        self.answer(&call, beat(round));
        self.mock.take_events();
    }

    fn run(&mut self, round: u64, attempts: Vec<Dispatch>) -> Answer<RunAck> {
        let incarnation = self.mock.incarnation();
        let run = Run { executor_id: "e1".to_owned(), incarnation, round, attempts };
        self.mock.on_run(self.now, Some("n1"), &run)
    }

    fn offer(&mut self, round: u64, dispatch: Dispatch) -> (RunVerdict, Option<String>) {
        match self.run(round, vec![dispatch]).said {
            Said::Body(ack) => (ack.verdicts[0], ack.refusal),
            other => panic!("the push is taken: {other:?}"),
        }
    }

    fn cancel(&mut self, reason: CancelReason, dispatch: &Dispatch) -> bool {
        let attempts = vec![dispatch.attempt.clone()];
        let push = Cancel { executor_id: "e1".to_owned(), round: self.mock.round(), reason, attempts };
        match self.mock.on_cancel(self.now, &push).said {
            Said::Body(ack) => ack.held[0],
            other => panic!("the cancel is taken: {other:?}"),
        }
    }

    /// Reports that are sent now.
    fn reports(&mut self, ms: u64) -> Vec<(Call, Reports)> {
        let calls = self.pass(ms);
        let reports = calls.into_iter().filter_map(|call| match &call.body {
            CallBody::Reports(reports) => Some((call.clone(), reports.clone())),
            _ => None,
        });
        reports.collect()
    }

    fn what(&mut self) -> Vec<What> {
        self.mock.take_events().into_iter().map(|event| event.what).collect()
    }

    fn outcomes(&mut self) -> Vec<String> {
        let ends = self.what().into_iter().filter_map(|what| match what {
            What::Finish(finish) => Some(finish.outcome),
            _ => None,
        });
        ends.collect()
    }
}

fn beat(round: u64) -> Heard {
    Heard::Heartbeat(HeartbeatAck { round, register: false, superseded: false, stale: Vec::new() })
}

fn acked(verdicts: &[ReportVerdict]) -> Heard {
    Heard::Reports(ReportsAck { verdicts: verdicts.to_vec(), round: 1 })
}

fn dispatch(task: &str, attempt: u32, fence: u64, behaviour: &str, work_ms: u64) -> Dispatch {
    Dispatch {
        attempt: AttemptRef { task_id: task.to_owned(), shard_index: 0, attempt, fence },
        shard_total: 1,
        handler: "mock".to_owned(),
        params: json!({ "label": format!("l-{task}"), "behaviour": behaviour, "workMs": work_ms }),
        caller_id: "caller".to_owned(),
        business_key: None,
        dedupe_key: task.to_owned(),
        timeout_ms: None,
        due_at: LIFE,
        scheduled_at: None,
        job_id: None,
        checkpoint: None,
    }
}

fn ok(task: &str, fence: u64) -> Dispatch {
    dispatch(task, 1, fence, "ok", 50)
}

#[test]
fn an_attempt_is_received_started_finished_reported_and_acknowledged() {
    let mut bench = Bench::new(2, 1);
    bench.register(1);
    assert_eq!(bench.offer(1, ok("a", 5)), (RunVerdict::Accepted, None));
    assert!(bench.reports(49).is_empty());
    let (call, reports) = bench.reports(1).pop().unwrap();
    let report = &reports.reports[0];
    assert_eq!(report.outcome, ReportOutcome::Succeeded);
    let result: Value = serde_json::from_str(report.result.as_deref().unwrap()).unwrap();
    assert_eq!(result, json!({"label": "l-a", "attempt": 1}));
    bench.answer(&call, acked(&[ReportVerdict::Accepted]));
    let what = bench.what();
    let [
        What::Recv(recv),
        What::Start(start),
        What::Finish(finish),
        What::ReportSent(sent),
        What::ReportAcked(acked),
    ] = &what[..]
    else {
        panic!("{what:?}")
    };
    assert_eq!((recv.verdict.as_str(), recv.label.as_deref(), recv.round), ("accepted", Some("l-a"), 1));
    assert_eq!(recv.sender.as_deref(), Some("n1"));
    assert_eq!((start.grant.fence, finish.outcome.as_str()), (5, "succeeded"));
    assert_eq!(finish.result_digest, Some(crate::digest::digest(&result)));
    assert_eq!((sent, acked.verdict.as_str()), (finish, "accepted"));
    assert!(bench.mock.holding(bench.now).is_empty());
    assert!(bench.reports(5_000).is_empty(), "what is acknowledged is not sent again");
}

#[test]
fn an_older_round_is_refused_also_after_a_restart_but_not_after_the_loss_of_the_disk() {
    let mut bench = Bench::new(1, 1);
    bench.register(3);
    let announce = AnnounceRound { executor_id: "e1".to_owned(), round: 5, leader: "n2:1".to_owned() };
    assert!(matches!(bench.mock.on_round(bench.now, &announce).said, Said::Body(_)));
    let stale = Said::Refused { status: 409, code: "stale_round" };
    assert_eq!(bench.run(4, vec![ok("a", 5)]).said, stale);
    let what = bench.what();
    assert!(
        matches!(&what[..], [What::RoundHeard(heard), What::Recv(recv)]
            if heard.leader.as_deref() == Some("n2") && recv.reason.as_deref() == Some("stale_round")),
        "{what:?}"
    );
    let push =
        Cancel { executor_id: "e1".into(), round: 4, reason: CancelReason::Cancelled, attempts: vec![] };
    assert!(matches!(bench.mock.on_cancel(bench.now, &push).said, Said::Refused { code: "stale_round", .. }));
    bench.mock.restart(bench.now, false);
    assert_eq!(bench.run(4, vec![ok("a", 5)]).said, stale);
    bench.mock.restart(bench.now, true);
    assert_eq!(bench.offer(4, ok("a", 5)).0, RunVerdict::Accepted);
    let up: Vec<_> = bench.what().into_iter().filter(|what| matches!(what, What::ExecutorUp(_))).collect();
    assert!(matches!(&up[..], [What::ExecutorUp(kept), What::ExecutorUp(lost)]
        if !kept.amnesiac && lost.amnesiac && lost.incarnation > kept.incarnation));
}

#[test]
fn another_executor_and_another_life_are_refused() {
    let mut bench = Bench::new(1, 1);
    let own = bench.mock.incarnation();
    let mut run = Run { executor_id: "e2".into(), incarnation: own, round: 1, attempts: vec![ok("a", 5)] };
    let said = bench.mock.on_run(bench.now, None, &run).said;
    assert_eq!(said, Said::Refused { status: 409, code: "wrong_executor" });
    run.executor_id = "e1".into();
    run.incarnation = own - 1;
    let said = bench.mock.on_run(bench.now, None, &run).said;
    assert_eq!(said, Said::Refused { status: 409, code: "wrong_incarnation" });
    assert_eq!(bench.mock.round(), 0, "a push for somebody else tells nothing");
}

#[test]
fn a_known_fence_is_never_started_twice() {
    let mut bench = Bench::new(2, 2);
    bench.register(1);
    bench.offer(1, ok("a", 5));
    assert_eq!(bench.offer(2, ok("a", 5)).0, RunVerdict::Duplicate, "held, and pushed by a later leader");
    let (call, _) = bench.reports(50).pop().unwrap();
    bench.answer(&call, Heard::NoAnswer);
    assert_eq!(bench.offer(2, ok("a", 5)).0, RunVerdict::Duplicate);
    let (call, _) =
        bench.reports(0).pop().expect("a duplicate of what has ended sends the report again at once");
    bench.answer(&call, acked(&[ReportVerdict::Repeated]));
    assert_eq!(bench.offer(2, ok("a", 5)).0, RunVerdict::Duplicate, "remembered");
    assert_eq!(bench.offer(2, ok("a", 4)), (RunVerdict::Refused, Some("stale_fence".into())));
    let starts = bench.what().into_iter().filter(|what| matches!(what, What::Start(_))).count();
    assert_eq!(starts, 1);
}

#[test]
fn what_was_refused_stays_refused() {
    let mut bench = Bench::new(1, 0);
    bench.register(1);
    bench.offer(1, dispatch("a", 1, 5, "hang", 0));
    assert_eq!(bench.offer(1, ok("b", 6)), (RunVerdict::Refused, Some("queue_full".into())));
    let unknown = Dispatch { handler: "other".into(), ..ok("c", 7) };
    assert_eq!(bench.offer(1, unknown), (RunVerdict::Refused, Some("unknown_handler".into())));
    bench.cancel(CancelReason::Cancelled, &dispatch("a", 1, 5, "hang", 0));
    bench.pass(30);
    assert_eq!(bench.offer(1, ok("b", 6)), (RunVerdict::Refused, Some("stale_fence".into())));
    assert_eq!(bench.offer(1, ok("b", 8)).0, RunVerdict::Accepted, "a new grant is another matter");
    assert!(!bench.cancel(CancelReason::LeaseLost, &ok("d", 9)), "it is not held");
    assert_eq!(bench.offer(1, ok("d", 9)), (RunVerdict::Refused, Some("stale_fence".into())));
}

#[test]
fn a_newer_grant_of_a_shard_ends_the_older_one_and_waits_for_it() {
    let mut bench = Bench::new(2, 2);
    bench.register(1);
    bench.offer(1, dispatch("a", 1, 5, "hang", 0));
    bench.offer(1, dispatch("a", 2, 9, "ok", 10));
    let order: Vec<String> = {
        bench.pass(100);
        bench.pass(100);
        bench.what().into_iter().filter_map(|what| match what {
            What::Start(start) => Some(format!("start {}", start.grant.fence)),
            What::Finish(finish) => Some(format!("{} {}", finish.outcome, finish.grant.fence)),
            _ => None,
        })
    }
    .collect();
    assert_eq!(order, ["start 5", "dropped 5", "start 9", "succeeded 9"]);
}

#[test]
fn stops_and_timeouts_are_reported_as_what_they_are() {
    let mut bench = Bench::new(4, 4);
    bench.register(1);
    let timed = Dispatch { timeout_ms: Some(200), ..dispatch("t", 1, 1, "hang", 0) };
    bench.offer(1, timed);
    for (task, fence) in [("c", 2), ("l", 3)] {
        bench.offer(1, dispatch(task, 1, fence, "hang", 0));
    }
    assert!(bench.cancel(CancelReason::Cancelled, &dispatch("c", 1, 2, "hang", 0)));
    assert!(bench.cancel(CancelReason::LeaseLost, &dispatch("l", 1, 3, "hang", 0)));
    let sent = bench.reports(50);
    let reported: Vec<_> = sent[0].1.reports.iter().map(|report| report.outcome.clone()).collect();
    assert_eq!(reported, [ReportOutcome::Cancelled], "a lost lease reports nothing");
    bench.answer(&sent[0].0, acked(&[ReportVerdict::Accepted]));
    let sent = bench.reports(150);
    assert_eq!(sent[0].1.reports[0].outcome, ReportOutcome::TimedOut);
    let mut outcomes = bench.outcomes();
    outcomes.sort();
    assert_eq!(outcomes, ["cancelled", "dropped", "timedOut"]);
}

#[test]
fn what_waits_for_a_slot_can_be_stopped_without_a_start() {
    let mut bench = Bench::new(1, 2);
    bench.register(1);
    bench.offer(1, dispatch("a", 1, 5, "hang", 0));
    bench.offer(1, ok("b", 6));
    assert!(bench.cancel(CancelReason::Cancelled, &ok("b", 6)));
    assert_eq!(bench.outcomes(), ["cancelled"]);
    let reports = bench.reports(0);
    assert_eq!(reports[0].1.reports[0].started_at, None);
}

#[test]
fn the_same_work_answers_a_later_attempt_without_running() {
    let mut bench = Bench::new(1, 1);
    bench.register(1);
    bench.offer(1, ok("a", 5));
    let (call, _) = bench.reports(50).pop().unwrap();
    bench.answer(&call, acked(&[ReportVerdict::Late]));
    bench.what();
    bench.offer(1, dispatch("a", 2, 9, "ok", 50));
    let (call, reports) = bench.reports(0).pop().unwrap();
    bench.answer(&call, acked(&[ReportVerdict::Accepted]));
    assert_eq!(reports.reports[0].result.as_deref(), Some(r#"{"attempt":1,"label":"l-a"}"#));
    assert!(!bench.what().iter().any(|what| matches!(what, What::Start(_))));
    bench.mock.restart(bench.now, false);
    bench.register(1);
    bench.offer(1, dispatch("a", 3, 12, "ok", 50));
    assert!(!bench.what().iter().any(|what| matches!(what, What::Start(_))), "it is kept on disk");
}

#[test]
fn a_kill_drops_what_ran_and_keeps_what_was_written_down() {
    let mut bench = Bench::new(2, 2);
    bench.register(1);
    bench.offer(1, ok("a", 5));
    bench.offer(1, dispatch("b", 1, 6, "hang", 0));
    let (call, _) = bench.reports(50).pop().unwrap();
    bench.what();
    let before = bench.mock.incarnation();
    bench.mock.kill(bench.now);
    assert!(bench.pass(10).is_empty() && bench.mock.next_due().is_none());
    assert_eq!(bench.run(1, vec![ok("c", 9)]).said, Said::Nothing, "the dead say nothing");
    bench.mock.restart(bench.now, false);
    bench.answer(&call, acked(&[ReportVerdict::Accepted]));
    assert_eq!(bench.outcomes(), ["dropped"]);
    let mut calls = bench.pass(0);
    let report = calls.pop().unwrap();
    let CallBody::Reports(reports) = &report.body else { panic!("the old report goes first: {report:?}") };
    assert!(calls.is_empty(), "the registration waits for it");
    assert_eq!((reports.reports[0].incarnation, reports.reports[0].attempt.fence), (before, 5));
    bench.answer(&report, acked(&[ReportVerdict::Accepted]));
    let call = bench.pass(0).pop().unwrap();
    let CallBody::Register(register) = &call.body else { panic!("then it registers: {call:?}") };
    assert!(register.incarnation > before && register.holding.is_empty());
    bench.mock.restart(bench.now, true);
    assert!(matches!(bench.pass(0).pop().unwrap().body, CallBody::Register(_)));
}

#[test]
fn the_leader_is_found_and_a_deposed_one_is_not_believed() {
    let mut bench = Bench::new(1, 1);
    let call = bench.pass(0).pop().unwrap();
    assert_eq!(call.to, "n1:1");
    bench.answer(&call, Heard::NotLeader(Some("n3:1".into())));
    let call = bench.pass(50).pop().unwrap();
    assert_eq!(call.to, "n3:1", "it follows the hint");
    bench.answer(&call, Heard::NoAnswer);
    let call = bench.pass(100).pop().unwrap();
    assert_eq!(call.to, "n1:1", "and goes round without one");
    let answer = Registered { round: 4, heartbeat_ms: 1_000, stale: Vec::new(), replicas: Vec::new() };
    bench.answer(&call, Heard::Registered(answer));
    bench.offer(5, dispatch("a", 1, 5, "hang", 0));
    let call = bench.pass(0).pop().unwrap();
    let stale = vec![dispatch("a", 1, 5, "hang", 0).attempt];
    let old = HeartbeatAck { round: 4, register: false, superseded: false, stale };
    bench.answer(&call, Heard::Heartbeat(old));
    let call = bench.pass(1_000).pop().unwrap();
    assert_eq!((call.to.as_str(), bench.mock.is_busy()), ("n2:1", true), "nothing is dropped at its word");
    let fresh = HeartbeatAck {
        round: 5,
        register: false,
        superseded: false,
        stale: vec![dispatch("a", 1, 5, "hang", 0).attempt],
    };
    bench.answer(&call, Heard::Heartbeat(fresh));
    bench.pass(30);
    assert_eq!(bench.outcomes(), ["dropped"]);
}

#[test]
fn two_answers_of_one_deposed_leader_lead_to_the_same_place() {
    let mut bench = Bench::new(1, 1);
    bench.register(1);
    bench.offer(1, dispatch("a", 1, 5, "ok", 10));
    let calls = bench.pass(1_000);
    assert_eq!(calls.iter().map(|call| call.to.as_str()).collect::<Vec<_>>(), ["n1:1", "n1:1"], "{calls:?}");
    for call in &calls {
        bench.answer(call, Heard::NotLeader(Some("n2:1".into())));
    }
    let calls = bench.pass(1_000);
    assert_eq!(calls.iter().map(|call| call.to.as_str()).collect::<Vec<_>>(), ["n2:1", "n2:1"], "{calls:?}");
}

#[test]
fn a_superseded_life_ends_and_an_unknown_one_registers_again() {
    let mut bench = Bench::new(1, 1);
    bench.register(1);
    let call = bench.pass(1_000).pop().unwrap();
    let unknown = HeartbeatAck { round: 1, register: true, superseded: false, stale: Vec::new() };
    bench.answer(&call, Heard::Heartbeat(unknown));
    let call = bench.pass(20).pop().unwrap();
    assert!(matches!(call.body, CallBody::Register(_)));
    let gone = HeartbeatAck { round: 1, register: false, superseded: true, stale: Vec::new() };
    bench.answer(&call, Heard::Heartbeat(gone));
    assert!(!bench.mock.is_up());
}

#[test]
fn a_refused_report_holds_up_no_other() {
    let mut bench = Bench::new(2, 2);
    bench.register(1);
    bench.offer(1, ok("a", 5));
    bench.offer(1, ok("b", 6));
    let (call, both) = bench.reports(50).pop().unwrap();
    assert_eq!(both.reports.len(), 2);
    bench.answer(&call, Heard::Refused(400));
    let (call, first) = bench.reports(50).pop().unwrap();
    assert_eq!(first.reports[0].attempt.fence, 5);
    bench.answer(&call, Heard::Refused(400));
    let (call, second) = bench.reports(100).pop().unwrap();
    assert_eq!((second.reports.len(), second.reports[0].attempt.fence), (1, 6));
    bench.answer(&call, acked(&[ReportVerdict::Accepted]));
    let (_, again) = bench.reports(2_000).pop().expect("the refused one is tried again later");
    assert_eq!(again.reports[0].attempt.fence, 5);
}

#[test]
fn a_drain_hands_back_what_has_not_started_and_leaves_at_the_end() {
    let mut bench = Bench::new(1, 1);
    bench.register(1);
    bench.offer(1, ok("a", 5));
    bench.offer(1, ok("b", 6));
    bench.mock.drain(bench.now);
    assert_eq!(bench.outcomes(), ["returned"]);
    assert_eq!(bench.offer(1, ok("c", 7)), (RunVerdict::Refused, Some("draining".into())));
    let mut left = false;
    for _ in 0..20 {
        for call in bench.pass(20) {
            let heard = match &call.body {
                CallBody::Reports(reports) => acked(&vec![ReportVerdict::Accepted; reports.reports.len()]),
                CallBody::Heartbeat(beat_body) => {
                    assert!(beat_body.draining);
                    beat(1)
                }
                CallBody::Leave(_) => Heard::Left,
                CallBody::Register(_) => panic!("it is registered"),
            };
            left |= heard == Heard::Left;
            bench.answer(&call, heard);
        }
    }
    assert!(left && !bench.mock.is_up());
    assert_eq!(bench.outcomes(), ["succeeded"]);
}

#[test]
fn a_full_executor_says_at_once_when_it_has_room() {
    let mut bench = Bench::new(1, 0);
    bench.register(1);
    bench.offer(1, ok("a", 5));
    let calls = bench.pass(50);
    assert!(calls.iter().any(|call| matches!(&call.body, CallBody::Heartbeat(beat) if beat.free_slots == 1)));
    let said = |what: &What| if let What::RoomSaid(said) = what { Some(said.room) } else { None };
    assert_eq!(bench.what().iter().filter_map(said).collect::<Vec<_>>(), [false, true], "each word once");
}

#[test]
fn vices_do_what_they_say() {
    let mut bench = Bench::new(4, 4);
    bench.register(1);

    bench.mock.set_vices(Vices { refuse_all: true, ..Vices::default() });
    assert_eq!(bench.offer(1, ok("a", 1)), (RunVerdict::Refused, Some("queue_full".into())));
    bench.mock.set_vices(Vices { broken_answer: 1.0, ..Vices::default() });
    assert_eq!(bench.run(1, vec![ok("b", 2)]).said, Said::Broken);
    bench.mock.set_vices(Vices { no_answer: 1.0, ..Vices::default() });
    assert_eq!(bench.run(1, vec![ok("c", 3)]).said, Said::Nothing);
    bench.mock.set_vices(Vices { slow_answer: 1.0, slow_answer_ms: 700, ..Vices::default() });
    assert_eq!(bench.run(1, vec![ok("d", 4)]).delay_ms, 700);
    let what = bench.what();
    let words = what.iter().filter_map(|what| match what {
        What::Recv(recv) => Some((recv.verdict.as_str(), recv.reason.as_deref())),
        _ => None,
    });
    let words: Vec<_> = words.collect();
    let taken = ("accepted", None);
    assert_eq!(words, [("refused", Some("refuse_all")), taken, taken, taken]);
    bench.mock.set_vices(Vices { report_twice: 1.0, report_to_former: 1.0, ..Vices::default() });
    bench
        .mock
        .on_round(bench.now, &AnnounceRound { executor_id: "e1".into(), round: 2, leader: "n2:1".into() });
    let targets: Vec<_> = bench.reports(50).into_iter().map(|(call, _)| call.to).collect();
    assert_eq!(targets, ["n1:1", "n2:1", "n2:1"]);
    let sent = bench.what().iter().filter(|what| matches!(what, What::ReportSent(_))).count();
    assert_eq!(sent, 9, "each sending counts");
}

#[test]
fn hung_attempts_mind_no_timeout_and_go_on_when_the_vice_ends() {
    let mut bench = Bench::new(1, 1);
    bench.register(1);
    bench.mock.set_vices(Vices { hang: 1.0, ..Vices::default() });
    bench.offer(1, Dispatch { timeout_ms: Some(100), ..ok("a", 5) });
    bench.pass(10_000);
    assert_eq!(bench.outcomes(), Vec::<String>::new());
    bench.mock.set_vices(Vices::default());
    bench.pass(0);
    assert_eq!(bench.outcomes(), ["succeeded"]);
}

#[test]
fn late_silent_mute_and_frozen_executors_hold_their_tongue() {
    let mut bench = Bench::new(4, 4);
    bench.register(1);
    bench.mock.set_vices(Vices { report_late: 1.0, report_late_ms: 400, ..Vices::default() });
    bench.offer(1, ok("a", 5));
    assert!(bench.reports(50).is_empty() && bench.reports(399).is_empty());
    let (call, _) = bench.reports(1).pop().unwrap();
    bench.answer(&call, acked(&[ReportVerdict::Late]));
    bench.mock.set_vices(Vices { silent: true, mute: true, ..Vices::default() });
    bench.offer(1, ok("b", 6));
    assert!(bench.pass(5_000).is_empty());
    bench.mock.set_vices(Vices { frozen: true, ..Vices::default() });
    assert_eq!(bench.run(9, vec![ok("c", 7)]).said, Said::Nothing);
    assert!(bench.pass(5_000).is_empty() && bench.mock.round() == 1);
    bench.mock.set_vices(Vices::default());
    assert_eq!(bench.pass(0).len(), 2, "then both are said: a heartbeat and the report");
}

#[test]
fn a_change_of_weight_and_a_flap_register_again() {
    let mut bench = Bench::new(1, 1);
    bench.register(1);
    bench.mock.set_vices(Vices { weight: Some(7), ..Vices::default() });
    let call = bench.pass(0).pop().unwrap();
    assert!(matches!(&call.body, CallBody::Register(register) if register.weight == 7));
    let answer = Registered { round: 1, heartbeat_ms: 1_000, stale: Vec::new(), replicas: Vec::new() };
    bench.answer(&call, Heard::Registered(answer));
    bench.mock.set_vices(Vices { weight: Some(7), flap_ms: Some(300), ..Vices::default() });
    let call = bench.pass(0).pop().unwrap();
    assert!(matches!(call.body, CallBody::Leave(_)));
    bench.answer(&call, Heard::Left);
    assert!(bench.mock.is_up());
    assert!(matches!(bench.pass(20).pop().unwrap().body, CallBody::Register(_)));
}

#[test]
fn a_seed_repeats_every_choice() {
    let story = || {
        let mut bench = Bench::new(2, 8);
        bench.register(1);
        bench.mock.set_vices(Vices { broken_answer: 0.5, report_twice: 0.5, hang: 0.3, ..Vices::default() });
        for fence in 1..40 {
            bench.run(1, vec![dispatch(&format!("t{fence}"), 1, fence, "fail_times:1", 5)]);
            for call in bench.pass(7) {
                bench.answer(&call, Heard::NoAnswer);
            }
        }
        bench.mock.take_events()
    };
    assert_eq!(story(), story());
}
