//! One event in a few words.

use orloj_jepsen_core::event::{Event, Kind, LinkCount, Links, Probe, Recv, Submit, TaskSeen, What};

/// The name of what an event is about, as in the history.
pub fn name(event: &Event) -> &'static str {
    match event.what {
        What::Submit(_) => "submit",
        What::Get(_) => "get",
        What::Cancel(_) => "cancel",
        What::List(_) => "list",
        What::ExecutorUp(_) => "executor up",
        What::ExecutorDown(_) => "executor down",
        What::RoomSaid(_) => "room said",
        What::RoundHeard(_) => "round heard",
        What::Recv(_) => "push received",
        What::Start(_) => "start",
        What::Finish(_) => "finish",
        What::CancelRecv(_) => "stop received",
        What::ReportSent(_) => "report sent",
        What::ReportAcked(_) => "report answered",
        What::Effect(_) => "effect",
        What::Probe(_) => "probe",
        What::Fault(_) => "fault",
        What::Links(_) => "links",
        What::Process(_) => "process",
        What::Phase(_) => "phase",
        What::FinalTask(_) => "table row",
        What::FinalTable(_) => "table",
        What::JobPut(_) => "job put",
        What::JobStopped(_) => "job stopped",
        What::FinalJob(_) => "table job",
        What::Callback(_) => "callback",
        What::KeyLimits(_) => "limits of a key",
        What::Knock(_) => "call beyond the limits",
    }
}

/// The word for its kind; nothing for an event that is no operation.
pub fn kind(event: &Event) -> &'static str {
    match event.kind {
        Kind::Invoke => "invoke",
        Kind::Ok => "ok",
        Kind::Fail => "fail",
        Kind::Info => "info",
        Kind::Event => "",
    }
}

/// Its values, in a few words.
pub fn detail(event: &Event) -> String {
    let mut text = values(event);
    if let Some(error) = &event.err {
        text.push_str(&format!(" [{error}]"));
    }
    if let Some(applied) = event.meta.applied {
        text.push_str(&format!(" @{applied}"));
    }
    if event.meta.replayed {
        text.push_str(" (repeated)");
    }
    text.trim().to_owned()
}

/// The point of it alone, for a diagram that shows who is concerned.
pub fn brief(event: &Event) -> String {
    match &event.what {
        What::Probe(probe) => match probe.serving {
            Some(round) => format!("{} of term {}, serves round {round}", probe.role, probe.term),
            None => format!("{} of term {}", probe.role, probe.term),
        },
        What::Recv(recv) => {
            let reason = recv.reason.as_deref().unwrap_or_default();
            let attempt = attempt(recv.grant.shard, recv.grant.attempt);
            format!("{attempt}, round {}: {} {reason}", recv.round, recv.verdict)
        }
        What::Start(start) => attempt(start.grant.shard, start.grant.attempt),
        What::Finish(end) | What::ReportSent(end) => {
            format!("{}: {}", attempt(end.grant.shard, end.grant.attempt), end.outcome)
        }
        What::ReportAcked(acked) => {
            format!("{}: {}", attempt(acked.grant.shard, acked.grant.attempt), acked.verdict)
        }
        What::Submit(submit) if submit.answer.is_none() => {
            let delay = submit.delay_ms.map(|ms| format!(", delay {ms} ms")).unwrap_or_default();
            format!("{}{delay}", submit.label)
        }
        _ => detail(event),
    }
}

fn values(event: &Event) -> String {
    match &event.what {
        What::Submit(submit) => self::submit(submit),
        What::Get(get) => seen(get.answer.as_ref(), event.kind),
        What::Cancel(cancel) => seen(cancel.answer.as_ref(), event.kind),
        What::List(list) => {
            let rows = list.answer.as_ref().map(|rows| format!(", {} tasks", rows.len()));
            format!("page {}{}", list.page, rows.unwrap_or_default())
        }
        What::ExecutorUp(up) => format!("{} life {}, {} slots", up.executor, up.incarnation, up.slots),
        What::ExecutorDown(down) => format!("{} life {}", down.executor, down.incarnation),
        What::RoomSaid(said) => {
            format!("{} has {}", said.executor, if said.room { "room again" } else { "no room" })
        }
        What::RoundHeard(heard) => {
            let from = heard.leader.as_ref().map(|leader| format!(" from {leader}")).unwrap_or_default();
            format!("{} heard of round {}{from}", heard.executor, heard.round)
        }
        What::Recv(recv) => self::recv(recv),
        What::Start(start) => {
            format!("{} at {}", attempt(start.grant.shard, start.grant.attempt), start.executor)
        }
        What::Finish(finish) | What::ReportSent(finish) => {
            let attempt = attempt(finish.grant.shard, finish.grant.attempt);
            format!("{attempt} at {}: {}", finish.executor, finish.outcome)
        }
        What::CancelRecv(stop) => {
            let held = if stop.held { "held" } else { "not held" };
            format!(
                "{} at {}: {}, {held}",
                attempt(stop.grant.shard, stop.grant.attempt),
                stop.executor,
                stop.reason
            )
        }
        What::ReportAcked(acked) => {
            format!(
                "{} of {}: {}",
                attempt(acked.grant.shard, acked.grant.attempt),
                acked.executor,
                acked.verdict
            )
        }
        What::Effect(effect) => {
            let key = effect.business_key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
            let took = match (effect.took, effect.repeated) {
                (true, _) => "was applied",
                (false, true) => "was there already",
                (false, false) => "was not applied",
            };
            format!("attempt {}{key}: {took}, answered {}", effect.attempt, effect.status)
        }
        What::Probe(probe) => self::probe(probe),
        What::Fault(fault) => {
            let leader = if fault.on_leader { " (with the leader)" } else { "" };
            let (package, name, phase) = (&fault.package, &fault.name, &fault.phase);
            let nodes = fault.nodes.join(", ");
            format!("step {}: {package}.{name} {phase} on {nodes}{leader} {}", fault.step, fault.detail)
        }
        What::Links(told) => links(told),
        What::Process(process) => {
            let code = process.code.map(|code| format!(", code {code}")).unwrap_or_default();
            let signal = process.signal.map(|signal| format!(", signal {signal}")).unwrap_or_default();
            let line = process.line.as_deref().unwrap_or_default();
            format!("process {} {}{code}{signal} {line}", process.life, process.state)
        }
        What::Phase(phase) => format!("{} begins", phase.name),
        _ => job_or_table(event),
    }
}

fn job_or_table(event: &Event) -> String {
    match &event.what {
        What::FinalTask(row) => format!("{}, {} attempts", task(&row.task), row.attempts.len()),
        What::FinalTable(table) => format!("{} tasks at index {}", table.tasks, table.applied),
        What::JobPut(put) => format!("{}, misfire {}, overlap {}", put.job, put.misfire, put.overlap),
        What::JobStopped(stopped) => stopped.job.clone(),
        What::FinalJob(row) => {
            format!("{}: {} fired, {} skipped", row.job, row.fired_count, row.skipped.len())
        }
        What::Callback(callback) => {
            let signed = if callback.signed { "" } else { ", not signed" };
            let (status, version) = (&callback.status, callback.version);
            format!("{status} in version {version}, answered {}{signed}", callback.answered)
        }
        What::KeyLimits(limits) => {
            let (all, submits) = (limits.requests_per_s, limits.submits_per_s);
            format!("{}: {all} calls and {submits} submissions a second", limits.key)
        }
        What::Knock(knock) => {
            let fate = if knock.let_in { "let in" } else { "kept out" };
            format!("{}: {fate}, status {}", knock.key, knock.status)
        }
        _ => String::new(),
    }
}

fn links(told: &Links) -> String {
    let of = |name: &str, count: fn(&LinkCount) -> u64| {
        let sum: u64 = told.links.iter().map(count).sum();
        (sum > 0).then(|| format!("{sum} {name}"))
    };
    let sums = [
        of("dropped", |link| link.dropped),
        of("duplicated", |link| link.duplicated),
        of("reordered", |link| link.reordered),
        of("delayed", |link| link.delayed),
        of("throttled", |link| link.throttled),
    ];
    let sums: Vec<String> = sums.into_iter().flatten().collect();
    format!("{} links so far: {}", told.links.len(), sums.join(", "))
}

fn attempt(shard: u16, number: u32) -> String {
    if shard == 0 { format!("attempt {number}") } else { format!("attempt {number} of shard {shard}") }
}

fn recv(recv: &Recv) -> String {
    let (grant, reason) = (&recv.grant, recv.reason.as_deref().unwrap_or_default());
    let sender = recv.sender.as_deref().unwrap_or("?");
    let (attempt, fence) = (attempt(grant.shard, grant.attempt), grant.fence);
    format!("{attempt}, fence {fence}, round {} of {sender}: {} {reason}", recv.round, recv.verdict)
}

fn submit(submit: &Submit) -> String {
    match &submit.answer {
        Some(answer) => task(answer),
        None => {
            let delay = submit.delay_ms.map(|ms| format!(", delay {ms} ms")).unwrap_or_default();
            let timeout = submit.timeout_ms.map(|ms| format!(", timeout {ms} ms")).unwrap_or_default();
            let (label, behaviour, work) = (&submit.label, &submit.behaviour, submit.work_ms);
            format!("{label}: {behaviour} for {work} ms{delay}{timeout}, {} retries", submit.max_retries)
        }
    }
}

fn seen(answer: Option<&TaskSeen>, kind: Kind) -> String {
    match answer {
        Some(answer) => task(answer),
        None if kind == Kind::Ok => "no such task".to_owned(),
        None => String::new(),
    }
}

fn task(seen: &TaskSeen) -> String {
    let reason = seen.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}{reason}, version {}, attempt {}", seen.status, seen.version, seen.attempt)
}

fn probe(probe: &Probe) -> String {
    let serving = probe.serving.map(|round| format!(", serves round {round}")).unwrap_or_default();
    let (role, term) = (&probe.role, probe.term);
    format!("{role} of term {term}{serving}, committed {}, applied {}", probe.committed, probe.applied)
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;

    use orloj_jepsen_core::history::History;

    use super::*;

    #[test]
    fn every_kind_of_event_is_told_without_loss_of_its_point() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/D9/good.jsonl");
        let file = std::io::BufReader::new(std::fs::File::open(golden).unwrap());
        let lines: Vec<String> = file.lines().map(Result::unwrap).collect();
        let events = History::read_lines(lines.join("\n").as_bytes()).unwrap();
        for event in &events {
            assert!(!name(event).is_empty());
            let text = detail(event);
            assert_eq!(text, text.trim());
        }
        let recv = events.iter().find(|event| matches!(event.what, What::Recv(_))).unwrap();
        assert!(detail(recv).contains("fence"), "{}", detail(recv));
    }
}
