use std::collections::{BTreeMap, BTreeSet};

use orloj_jepsen_core::event;

use super::*;

fn at(ms: u64) -> Now {
    Now { mono_ns: ms * NS_PER_MS, wall_ms: 1_700_000_000_000 + i64::try_from(ms).unwrap() }
}

fn answer(number: u64) -> Told {
    let task_id = format!("tsk_{number}");
    let seen = TaskSeen { task_id, status: "PENDING".to_owned(), version: 1, ..TaskSeen::default() };
    Told::Task(Box::new(seen))
}

fn client(number: u64) -> u32 {
    u32::try_from(number % 5).unwrap()
}

/// Lets a generator work, one operation every 10 ms, each acknowledged.
fn work(generator: &mut Generator, count: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut ids: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..count {
        let now = at(number * 10);
        let op = generator.next(now, client(number));
        let told = match &op {
            Op::Submit(planned) => answer(*ids.entry(planned.seen.label.clone()).or_insert(number)),
            Op::List { page: 0, .. } => Told::Page { tasks: Vec::new(), next: Some("more".to_owned()) },
            Op::List { .. } => Told::Page { tasks: Vec::new(), next: None },
            Op::Get { .. } | Op::Cancel { .. } => Told::Refused,
        };
        generator.told(now, client(number), &op, &told);
        ops.push(op);
    }
    ops
}

fn mix() -> Mix {
    Mix {
        effect_url: Some("http://sink/effect".to_owned()),
        executors: vec!["e1".to_owned()],
        ..Mix::default()
    }
}

fn submissions(ops: &[Op]) -> Vec<&Planned> {
    let submitted = ops.iter().filter_map(|op| match op {
        Op::Submit(planned) => Some(&**planned),
        _ => None,
    });
    submitted.collect()
}

#[test]
fn a_seed_repeats_the_load_and_another_makes_another() {
    let load = |seed| work(&mut Generator::new(seed, "a", mix()), 500);
    assert_eq!(load(1), load(1));
    assert_ne!(load(1), load(2));
}

#[test]
fn every_shape_of_operation_and_task_occurs() {
    let ops = work(&mut Generator::new(3, "a", mix()), 6_000);
    let mut seen = BTreeSet::new();
    for op in &ops {
        match op {
            Op::Get { wait: None, .. } => seen.insert("get"),
            Op::Get { .. } => seen.insert("poll"),
            Op::Cancel { .. } => seen.insert("cancel"),
            Op::List { page: 0, .. } => seen.insert("list"),
            Op::List { .. } => seen.insert("next page"),
            Op::Submit(_) => seen.insert("submit"),
        };
    }
    let submitted = submissions(&ops);
    for planned in &submitted {
        let body = &planned.body;
        let shapes = [
            ("delayed", body.delay_ms.is_some()),
            ("instant", body.run_at.is_some()),
            ("expiring", body.expire_at.is_some()),
            ("pinned", body.strategy.is_some()),
            ("hot", body.routing_key.is_some()),
            ("prioritised", body.priority.is_some()),
            ("effect", planned.seen.behaviour == "effect"),
            ("big", body.params.0["fill"].as_str().is_some_and(|fill| fill.len() > 10_000)),
            ("keyless", planned.seen.idempotency_key.is_none()),
        ];
        seen.extend(shapes.iter().filter(|(_, has)| *has).map(|(name, _)| *name));
    }
    let behaviours: BTreeSet<_> = submitted.iter().map(|planned| planned.seen.behaviour.as_str()).collect();
    assert_eq!(seen.len(), 15, "{seen:?}");
    for behaviour in ["ok", "slow", "fail", "fail_for_good", "hang", "fail_times:1", "fail_times:3"] {
        assert!(behaviours.contains(behaviour), "{behaviours:?}");
    }
}

#[test]
fn every_submission_is_acceptable_and_says_in_the_history_what_it_sends() {
    let ops = work(&mut Generator::new(4, "a", mix()), 4_000);
    for planned in submissions(&ops) {
        let Planned { seen, body } = planned;
        assert!(body.faults().is_empty(), "{body:?}");
        assert_eq!(crate::seen::label(&body.params.0).as_ref(), Some(&seen.label));
        assert_eq!((seen.delay_ms, seen.timeout_ms), (body.delay_ms, body.timeout_ms));
        assert_eq!(seen.run_at_ms, body.run_at.map(|time| time.0));
        assert_eq!(seen.priority, body.priority.unwrap_or(5));
        assert_eq!(seen.handler, body.handler);
        assert!(seen.behaviour != "hang" || seen.timeout_ms.is_some(), "what hangs has a timeout");
        let bytes = serde_json::to_vec(body).unwrap().len();
        assert!(bytes < 128 * 1024, "{bytes} bytes");
    }
}

#[test]
fn only_a_keyed_submission_is_sent_twice_and_always_the_same() {
    let mut generator = Generator::new(5, "a", mix());
    let mut sent: BTreeMap<String, Planned> = BTreeMap::new();
    let mut repeats = 0;
    for number in 0..4_000 {
        let now = at(number * 10);
        let op = generator.next(now, client(number));
        if let Op::Submit(planned) = &op {
            let before = sent.insert(planned.seen.label.clone(), (**planned).clone());
            if let Some(before) = before {
                assert_eq!(before, **planned);
                assert!(planned.seen.idempotency_key.is_some());
                repeats += 1;
            }
            generator.told(now, client(number), &op, &Told::Unknown);
        }
    }
    assert!(repeats > 1_000, "{repeats} repeats of unknown submissions");
    let keys: BTreeSet<_> =
        sent.values().filter_map(|planned| planned.seen.idempotency_key.clone()).collect();
    let keyed = sent.values().filter(|planned| planned.seen.idempotency_key.is_some()).count();
    assert_eq!(keys.len(), keyed, "one key, one submission");
}

#[test]
fn a_client_reads_the_pages_of_a_list_one_after_the_other() {
    let ops = work(&mut Generator::new(8, "a", mix()), 4_000);
    let mut last: BTreeMap<u32, &Op> = BTreeMap::new();
    let mut followed = 0;
    for (number, op) in (0..).zip(&ops) {
        let before = last.insert(client(number), op);
        if let Op::List { status, page: page @ 1.., token: Some(_), .. } = op {
            let Some(Op::List { status: asked, page: first, .. }) = before else { panic!("{before:?}") };
            assert_eq!((asked, first + 1), (status, *page));
            followed += 1;
        }
    }
    assert!(followed > 20, "{followed} next pages");
}

#[test]
fn cancels_race_with_the_task() {
    let always = Shares { raced: 1.0, ..Shares::default() };
    let only = Operations { submit: 1, get: 0, poll: 0, list: 0, cancel: 0 };
    let mix = Mix { shares: always, operations: only, ..mix() };
    let ops = work(&mut Generator::new(6, "a", mix), 2_000);
    let cancels: BTreeSet<_> = ops
        .iter()
        .filter_map(|op| match op {
            Op::Cancel { task } => Some(task.clone()),
            _ => None,
        })
        .collect();
    assert!(cancels.len() > 400, "{} cancels", cancels.len());
}

#[test]
fn the_rate_is_kept_on_average() {
    let mut generator = Generator::new(7, "a", Mix { ops_per_s: 100.0, ..mix() });
    let total: u64 = (0..20_000).map(|_| generator.pause_ns(10)).sum();
    let mean_ms = total / 20_000 / NS_PER_MS;
    assert!((95..=105).contains(&mean_ms), "10 clients at 100/s pause {mean_ms} ms each");
}

#[test]
fn parents_shards_broadcasts_and_callbacks_are_drawn_apart_from_everything_else() {
    let plain = work(&mut Generator::new(1, "a", mix()), 2_000);
    let extra = Extra { dependent: 0.2, sharded: 0.2, broadcast: 0.1, callback: 0.3 };
    let with = Mix {
        callback_url: Some("http://sink.test/hook".to_owned()),
        shares: Shares { extra, ..Shares::default() },
        ..mix()
    };
    let more = work(&mut Generator::new(1, "a", with), 2_000);
    let first = |ops: &[Op]| submissions(ops).first().map(|planned| planned.body.params.clone());
    assert_eq!(first(&plain), first(&more), "what else a submission is stays as it was");
    let (plain, more) = (submissions(&plain), submissions(&more));
    let is_more = |planned: &&&Planned| {
        let seen = &planned.seen;
        !seen.depends_on.is_empty() || seen.shard_total > 1 || seen.broadcast || seen.callback
    };
    assert_eq!(plain.iter().filter(is_more).count(), 0);
    let count = |has: fn(&event::Submit) -> bool| more.iter().filter(|planned| has(&planned.seen)).count();
    for (name, found) in [
        ("parents", count(|seen| !seen.depends_on.is_empty())),
        ("shards", count(|seen| seen.shard_total > 1)),
        ("broadcasts", count(|seen| seen.broadcast)),
        ("callbacks", count(|seen| seen.callback)),
        ("stops", count(|seen| seen.stops_shards)),
    ] {
        assert!(found > 10, "{name}: {found} of {}", more.len());
    }
    for planned in &more {
        let (seen, body) = (&planned.seen, &planned.body);
        // The tasks of this test have ids that no cluster would give.
        assert!(!seen.depends_on.is_empty() || body.faults().is_empty(), "{body:?}");
        let parents: Vec<&str> = body.depends_on.iter().map(|parent| parent.task_id.as_str()).collect();
        assert!(seen.depends_on.iter().map(|edge| edge.task.as_str()).eq(parents));
        assert_eq!(body.shard_total.unwrap_or(1), seen.shard_total);
        assert_eq!(body.callback_url.is_some(), seen.callback);
        assert!(seen.depends_on.is_empty() || seen.delay_ms.is_none() && seen.expire_at_ms.is_none());
    }
}
