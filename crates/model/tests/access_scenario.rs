//! Callers, keys and the audit: what is allowed, what is recorded, and what stays bounded.

mod common;

use std::collections::BTreeSet;

use common::graphs::step;
use common::jobs::*;
use common::*;
use orloj_model::access::{
    AUDIT_KEPT, Actor, AuditKind, CallerLimits, CallerSettings, DENIALS_PER_COMMAND, Denial, KeyLimits,
    KeyOwner, MAX_KEYS, RESEALED_PER_COMMAND, Resealed, SEALED_LIMIT, Scope, SealedOf,
};
use orloj_model::command::{
    AccessCommand, Asked, CallbackCommand, Claim, Command, DueTime, JobCommand, PutJob, PutOfCaller, Submit,
};
use orloj_model::graph::JobFlow;
use orloj_model::job::Definition;
use orloj_model::query::Reached;
use orloj_model::tables::{RawRow, Read, TableId};
use orloj_model::task::Status;
use orloj_model::trigger::SkipReason;
use orloj_model::trigger::overlap::OverlapPolicy::Allow;
use orloj_model::{Event, Refusal, Reply, query};
use serde::de::DeserializeOwned;

fn by(nonce: Option<u8>) -> Actor {
    let claim = nonce.map(|nonce| Claim { nonce: [nonce; 16], expires_at: 2_000_000 });
    Actor { access_key: "adk_A".into(), request_id: "req".into(), claim }
}

fn run(world: &mut World, command: AccessCommand) -> Reply {
    world.run(Command::Access(Box::new(command)))
}

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused(refusal)
}

fn settings() -> CallerSettings {
    CallerSettings {
        enabled: true,
        description: String::new(),
        scopes: BTreeSet::from([Scope::Submit, Scope::Read]),
        handlers: vec!["*".into()],
        callback_hosts: Vec::new(),
        limits: KeyLimits {
            requests_per_1000s: 20_000,
            requests_burst: 20,
            submits_per_1000s: 2_000,
            submits_burst: 2,
            waiters: 10,
        },
    }
}

fn put(expected: Option<u64>) -> AccessCommand {
    AccessCommand::PutCaller { caller: caller(), expected, settings: settings(), by: by(None) }
}

fn add(key: &str, owner: KeyOwner) -> AccessCommand {
    AccessCommand::AddKey {
        key: key.into(),
        owner,
        sealed: vec![1],
        description: String::new(),
        by: by(None),
    }
}

fn add_to_caller(key: &str) -> AccessCommand {
    add(key, KeyOwner::Caller(caller()))
}

fn set(key: &str, enabled: bool) -> AccessCommand {
    AccessCommand::SetKey { key: key.into(), enabled, by: by(None) }
}

fn delete(key: &str) -> AccessCommand {
    AccessCommand::DeleteKey { key: key.into(), by: by(None) }
}

fn actions(world: &World) -> Vec<String> {
    let rows = query::audit(&world.tables, AuditKind::Change, None, 100).expect("maps do not fail");
    rows.into_iter().map(|(_, row)| format!("{} {} {}", row.action, row.target, row.detail)).collect()
}

fn revision(world: &World) -> u64 {
    query::access_meta(&world.tables).expect("maps do not fail").revision
}

#[test]
fn a_caller_is_made_once_and_changed_at_its_version() {
    let mut world = World::ready();
    assert_eq!(run(&mut world, put(Some(1))), refused(Refusal::VersionMismatch { current: 0 }));
    assert_eq!(run(&mut world, put(Some(0))), Reply::Caller { version: 1 });
    assert_eq!(run(&mut world, put(Some(0))), refused(Refusal::VersionMismatch { current: 1 }));
    assert_eq!(run(&mut world, put(Some(1))), Reply::Caller { version: 2 });
    assert_eq!(run(&mut world, put(None)), Reply::Caller { version: 3 });
    assert_eq!(actions(&world)[2], "create_caller caller version 1");
    assert_eq!(actions(&world).len(), 3, "what was refused is no change");
}

fn put_limited(max_running: u32) -> AccessCommand {
    let limits = CallerLimits { max_running };
    AccessCommand::PutLimited { caller: caller(), expected: None, settings: settings(), limits, by: by(None) }
}

/// What holds a task that waits, as its owner reads it.
#[test]
fn the_limit_that_holds_a_task_is_that_of_its_job_or_of_its_caller() {
    let limited = Definition { max_running: Some(1), ..definition(Allow) };
    let mut world = World::with_job("j", limited);
    run(&mut world, put_limited(3));
    for task in 1..=3 {
        let by_hand = world.run_now("j", task_id(task), None);
        world.run(command(JobCommand::RunNow(Box::new(by_hand))));
    }
    world.run(submit(task_id(4), spec(), DueTime::After(0)));
    let reached = |world: &World, task| {
        let spec = world.task(task_id(task)).spec;
        query::reached_limit(&world.tables, &spec, None).expect("maps do not fail")
    };
    assert_eq!((reached(&world, 3), reached(&world, 4)), (None, None));
    world.grant(task_id(1), 1, "a");
    let of_job = Reached { job: Some(key("j").job), most: 1 };
    assert_eq!((reached(&world, 3), reached(&world, 4)), (Some(of_job.clone()), None));
    // The model only tells; it is the leader who holds back.
    world.grant(task_id(2), 1, "a");
    world.grant(task_id(4), 1, "a");
    let of_caller = Reached { job: None, most: 3 };
    assert_eq!((reached(&world, 3), reached(&world, 4)), (Some(of_job), Some(of_caller)));
    run(&mut world, put(None));
    assert_eq!(reached(&world, 4), None);
    // What the configuration says stands above the tables.
    let plain = world.task(task_id(4)).spec;
    let of = |most| query::reached_limit(&world.tables, &plain, Some(most)).expect("maps do not fail");
    assert_eq!((of(3), of(4)), (Some(Reached { job: None, most: 3 }), None));
}

/// Tables of which no range may be read.
struct RowsAlone<'a>(&'a Tables);

impl Read for RowsAlone<'_> {
    type Error = <Tables as Read>::Error;

    fn get_raw(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
        self.0.get_raw(table, key)
    }

    fn range_raw(
        &self,
        table: TableId,
        _: &[u8],
        _: &[u8],
        limit: usize,
    ) -> Result<Vec<RawRow>, Self::Error> {
        panic!("{limit} rows of {table:?} were read")
    }

    fn decode<V: DeserializeOwned>(&self, bytes: &[u8]) -> Result<V, Self::Error> {
        self.0.decode(bytes)
    }
}

#[test]
fn a_limit_that_is_too_high_to_be_told_costs_no_look_at_what_runs() {
    let limited = Definition { max_running: Some(1_001), ..definition(Allow) };
    let mut world = World::with_job("j", limited);
    run(&mut world, put_limited(100_000));
    let by_hand = world.run_now("j", task_id(1), None);
    world.run(command(JobCommand::RunNow(Box::new(by_hand))));
    let spec = world.task(task_id(1)).spec;
    for configured in [None, Some(1_001)] {
        let reached = query::reached_limit(&RowsAlone(&world.tables), &spec, configured);
        assert_eq!(reached.expect("maps do not fail"), None, "{configured:?}");
    }
}

#[test]
fn how_many_tasks_of_a_caller_run_is_told_whenever_it_changes() {
    let mut world = World::ready();
    let limit = |max_running| vec![Event::CallerLimit { caller: caller(), max_running }];
    let shown = |world: &World| {
        let view = query::caller(&world.tables, &caller()).expect("maps do not fail");
        let listed = query::caller_limits(&world.tables).expect("maps do not fail");
        let shown = view.and_then(|view| view.limits).map(|limits| limits.max_running);
        assert_eq!(listed.first().map(|(_, limits)| limits.max_running), shown);
        shown
    };
    assert_eq!(run(&mut world, put_limited(0)), refused(Refusal::Invalid));
    assert_eq!(run(&mut world, put_limited(3)), Reply::Caller { version: 1 });
    assert_eq!((&world.events, shown(&world)), (&limit(Some(3)), Some(3)));
    assert_eq!(run(&mut world, put_limited(3)), Reply::Caller { version: 2 });
    assert_eq!(world.events, [], "it is what it was");
    run(&mut world, put_limited(5));
    assert_eq!((&world.events, shown(&world)), (&limit(Some(5)), Some(5)));
    // Whoever says nothing of it takes it away.
    run(&mut world, put(None));
    assert_eq!((&world.events, shown(&world)), (&limit(None), None));
    run(&mut world, put_limited(2));
    run(&mut world, AccessCommand::DeleteCaller { caller: caller(), by: by(None) });
    assert_eq!((&world.events, shown(&world)), (&limit(None), None));
    assert_eq!(actions(&world)[0], "delete_caller caller with 0 keys");
    assert_eq!(actions(&world)[1], "change_caller caller version 5");
}

fn put_with(change: impl FnOnce(&mut CallerSettings)) -> AccessCommand {
    let mut settings = settings();
    change(&mut settings);
    AccessCommand::PutCaller { caller: caller(), expected: None, settings, by: by(None) }
}

#[test]
fn the_jobs_of_a_disabled_caller_make_no_tasks_until_it_is_enabled() {
    let mut world = World::with_job("j", definition(Allow));
    run(&mut world, put_with(|_| {}));
    assert!(matches!(world.fires("j", task_id(1)), Reply::Fired { .. }));
    run(&mut world, put_with(|settings| settings.enabled = false));
    let skipped = Reply::FireSkipped { reason: SkipReason::CallerDisabled };
    assert_eq!(world.fires("j", task_id(2)), skipped);
    let run_now = command(JobCommand::RunNow(Box::new(world.run_now("j", task_id(2), None))));
    assert_eq!(world.run(run_now), skipped);
    let at = FIRST + MINUTE;
    let skip = (SkipReason::CallerDisabled, 1, at, at);
    assert_eq!(world.skips("j"), [skip, (SkipReason::CallerDisabled, 1, world.now, world.now)]);
    assert_eq!(world.task(task_id(1)).state.status, Status::Pending, "what is open goes on");
    assert_eq!(world.next_at("j"), Some(FIRST + 2 * MINUTE), "and so does the job");
    run(&mut world, put_with(|_| {}));
    assert!(matches!(world.fires("j", task_id(3)), Reply::Fired { .. }));
}

#[test]
fn a_fixed_delay_goes_on_when_its_caller_is_enabled_again() {
    let delayed = Definition { triggers: vec![trigger(after_each(MINUTE as u64))], ..definition(Allow) };
    let mut world = World::with_job("j", delayed);
    run(&mut world, put_with(|settings| settings.enabled = false));
    for _ in 0..3 {
        let before = world.next_at("j").expect("it has a next fire");
        let skipped = Reply::FireSkipped { reason: SkipReason::CallerDisabled };
        assert_eq!(world.fires("j", task_id(1)), skipped);
        let answer = world.answer("j").expect("the job is there");
        world.run(answer);
        assert_eq!(world.next_at("j"), Some(before + MINUTE));
    }
    run(&mut world, put_with(|_| {}));
    assert!(matches!(world.fires("j", task_id(1)), Reply::Fired { .. }));
}

#[test]
fn a_job_makes_no_task_with_a_handler_that_its_caller_may_use_no_more() {
    let mut world = World::with_job("plain", definition(Allow));
    let steps = vec![step("one", &[]), step("two", &[])];
    let put = world.put_flow("flow", definition(Allow), JobFlow { steps, ..JobFlow::default() });
    world.run(put);
    let denied = Reply::FireSkipped { reason: SkipReason::HandlerDenied };
    let lists = [(vec!["echo", "repor*"], true), (vec!["echo"], false), (vec![], false)];
    for ((handlers, may), ids) in lists.into_iter().zip([10, 20, 30]) {
        let handlers: Vec<String> = handlers.into_iter().map(str::to_owned).collect();
        run(&mut world, put_with(|settings| settings.handlers = handlers));
        for (job, number) in [("plain", 1), ("flow", 2)] {
            let reply = world.fires(job, task_id(ids + number));
            assert_eq!(reply != denied, may, "{job}: {reply:?}");
        }
    }
}

#[test]
fn a_caller_with_jobs_stays() {
    let mut world = World::with_job("j", definition(Allow));
    run(&mut world, put_with(|_| {}));
    let gone = AccessCommand::DeleteCaller { caller: caller(), by: by(None) };
    assert_eq!(run(&mut world, gone.clone()), refused(Refusal::CallerHasJobs));
    world.run(command(JobCommand::Delete { job: key("j"), expected: None, claim: None }));
    assert_eq!(run(&mut world, gone), Reply::Done);
}

#[test]
fn a_job_that_was_let_in_before_its_caller_was_deleted_is_not_made() {
    let mut world = World::ready();
    let (job, definition) = (key("late"), definition(Allow));
    let computed = world.computed("late", &definition);
    let put_job = PutJob { job, expected: Some(0), definition, computed, claim: None };
    let of_caller = || {
        let of_caller = PutOfCaller { put: put_job.clone(), flow: JobFlow::default(), missed: None };
        command(JobCommand::PutOfCaller(Box::new(of_caller)))
    };
    run(&mut world, put(None));
    run(&mut world, AccessCommand::DeleteCaller { caller: caller(), by: by(None) });
    assert_eq!(world.run(of_caller()), refused(Refusal::CallerNotFound));
    assert_eq!(query::job(&world.tables, &key("late")).expect("maps"), None);
    run(&mut world, put(None));
    assert!(matches!(world.run(of_caller()), Reply::Job { version: 1, .. }));
    // With a caller goes what was remembered of the versions of its jobs.
    let delete = JobCommand::Delete { job: key("late"), expected: Some(1), claim: None };
    assert_eq!(world.run(command(delete)), Reply::Done);
    run(&mut world, AccessCommand::DeleteCaller { caller: caller(), by: by(None) });
    run(&mut world, put(None));
    assert!(matches!(world.run(of_caller()), Reply::Job { version: 1, .. }));
}

#[test]
fn a_caller_has_two_enabled_keys_so_that_they_can_be_exchanged() {
    let mut world = World::ready();
    assert_eq!(run(&mut world, add_to_caller("ak_1")), refused(Refusal::CallerNotFound));
    run(&mut world, put(None));
    assert_eq!(run(&mut world, add_to_caller("ak_1")), Reply::Done);
    assert_eq!(run(&mut world, add_to_caller("ak_1")), refused(Refusal::AccessKeyExists));
    assert_eq!(run(&mut world, add_to_caller("ak_2")), Reply::Done);
    assert_eq!(run(&mut world, add_to_caller("ak_3")), refused(Refusal::TooManyKeys));
    assert_eq!(run(&mut world, set("ak_1", false)), Reply::Done);
    assert_eq!(run(&mut world, add_to_caller("ak_3")), Reply::Done);
    assert_eq!(run(&mut world, set("ak_1", true)), refused(Refusal::TooManyKeys));
    assert_eq!(run(&mut world, set("ak_3", true)), Reply::Done, "it is enabled already");
    assert_eq!(run(&mut world, delete("ak_2")), Reply::Done);
    assert_eq!(run(&mut world, delete("ak_2")), refused(Refusal::AccessKeyNotFound));
    assert_eq!(run(&mut world, set("ak_2", true)), refused(Refusal::AccessKeyNotFound));
    assert_eq!(query::keys_of(&world.tables, "caller").expect("maps"), ["ak_1", "ak_3"]);
    let gone = AccessCommand::DeleteCaller { caller: caller(), by: by(None) };
    assert_eq!(run(&mut world, gone.clone()), Reply::Done);
    assert_eq!(run(&mut world, gone), refused(Refusal::CallerNotFound));
    assert_eq!(query::access(&world.tables).expect("maps").keys, []);
    assert_eq!(actions(&world)[0], "delete_caller caller with 2 keys");
}

#[test]
fn a_secret_is_sealed_anew_only_where_it_still_is_what_it_was() {
    let mut world = World::ready();
    run(&mut world, put(None));
    run(&mut world, add_to_caller("ak_1"));
    let (id, caller) = ("whs_1".to_owned(), caller());
    let secret = AccessCommand::AddWebhookSecret {
        caller: caller.clone(),
        id: id.clone(),
        sealed: vec![1],
        by: by(None),
    };
    run(&mut world, secret);
    let both = |before: u8, sealed: Vec<u8>| AccessCommand::Reseal {
        secrets: vec![
            Resealed { of: SealedOf::Key("ak_1".into()), before: vec![before], sealed: sealed.clone() },
            Resealed {
                of: SealedOf::Webhook { caller: caller.clone(), id: id.clone() },
                before: vec![before],
                sealed,
            },
        ],
    };
    let sealed = |world: &World| {
        let access = query::access(&world.tables).expect("maps do not fail");
        (access.keys[0].1.sealed.clone(), access.callers[0].1.webhook_secrets[0].sealed.clone())
    };
    let (records, before) = (actions(&world).len(), revision(&world));
    assert_eq!(run(&mut world, both(9, vec![2])), Reply::Done);
    assert_eq!((sealed(&world), revision(&world)), ((vec![1], vec![1]), before), "they were something else");
    assert_eq!(run(&mut world, both(1, vec![2])), Reply::Done);
    assert_eq!((sealed(&world), revision(&world)), ((vec![2], vec![2]), before + 1));
    assert_eq!(run(&mut world, both(2, vec![0; SEALED_LIMIT + 1])), refused(Refusal::Invalid));
    let gone = Resealed { of: SealedOf::Key("ak_9".into()), before: vec![1], sealed: vec![2] };
    let many = AccessCommand::Reseal { secrets: vec![gone.clone(); RESEALED_PER_COMMAND + 1] };
    assert_eq!(run(&mut world, many), refused(Refusal::Invalid));
    assert_eq!(run(&mut world, AccessCommand::Reseal { secrets: vec![gone] }), Reply::Done);
    assert_eq!(actions(&world).len(), records, "the request for it was recorded when it was let in");
}

#[test]
fn disabled_keys_are_bounded_too() {
    let mut world = World::ready();
    run(&mut world, put(None));
    for number in 0..MAX_KEYS {
        let key = format!("ak_{number}");
        assert_eq!(run(&mut world, add_to_caller(&key)), Reply::Done);
        run(&mut world, set(&key, false));
    }
    assert_eq!(run(&mut world, add_to_caller("ak_more")), refused(Refusal::TooManyKeys));
    // Administrators have keys of their own, and no two of them.
    for number in 0..MAX_KEYS {
        let owner = KeyOwner::Admin { scopes: BTreeSet::from([Scope::Audit]) };
        assert_eq!(run(&mut world, add(&format!("adk_{number}"), owner)), Reply::Done);
    }
    assert_eq!(query::keys_of(&world.tables, "").expect("maps").len(), MAX_KEYS);
}

#[test]
fn two_secrets_sign_at_most() {
    let mut world = World::ready();
    let add = |id: &str| AccessCommand::AddWebhookSecret {
        caller: caller(),
        id: id.into(),
        sealed: vec![7],
        by: by(None),
    };
    assert_eq!(run(&mut world, add("a")), refused(Refusal::CallerNotFound));
    run(&mut world, put(None));
    assert_eq!(run(&mut world, add("a")), Reply::Done);
    assert_eq!(run(&mut world, add("a")), refused(Refusal::Invalid));
    assert_eq!(run(&mut world, add("b")), Reply::Done);
    assert_eq!(run(&mut world, add("c")), refused(Refusal::TooManyKeys));
    let delete =
        |id: &str| AccessCommand::DeleteWebhookSecret { caller: caller(), id: id.into(), by: by(None) };
    assert_eq!(run(&mut world, delete("a")), Reply::Done);
    assert_eq!(run(&mut world, delete("a")), refused(Refusal::WebhookSecretNotFound));
    // A change of the settings leaves the secrets alone.
    run(&mut world, put(None));
    assert_eq!(query::access(&world.tables).expect("maps").callers[0].1.webhook_secrets[0].id, "b");
}

#[test]
fn a_request_changes_something_once_and_every_change_shows_in_the_revision() {
    let mut world = World::ready();
    let once =
        AccessCommand::PutCaller { caller: caller(), expected: None, settings: settings(), by: by(Some(1)) };
    assert_eq!(run(&mut world, once.clone()), Reply::Caller { version: 1 });
    let before = revision(&world);
    assert_eq!(run(&mut world, once), refused(Refusal::NonceReplayed));
    assert_eq!(revision(&world), before);
    run(&mut world, add_to_caller("ak_1"));
    assert_eq!(revision(&world), before + 1);
    let admit = |nonce| AccessCommand::Admit {
        by: by(Some(nonce)),
        action: "drain_executor".into(),
        target: "e1".into(),
    };
    assert_eq!(run(&mut world, admit(2)), Reply::Done);
    assert_eq!(run(&mut world, admit(2)), refused(Refusal::NonceReplayed));
    assert_eq!(revision(&world), before + 1, "it changes no keys");
    assert_eq!(actions(&world)[0], "drain_executor e1 ");
}

#[test]
fn refused_calls_fill_no_disk_and_push_out_no_change() {
    let mut world = World::ready();
    run(&mut world, put(None));
    let denial = |number: usize| Denial {
        access_key: format!("ak_{number}"),
        action: "x".repeat(2_000),
        code: "invalid_signature".into(),
        address: "10.0.0.1".into(),
        request_id: "r".into(),
        count: 3,
    };
    let many = |count: usize| AccessCommand::Denied { denials: (0..count).map(denial).collect() };
    assert_eq!(run(&mut world, many(DENIALS_PER_COMMAND + 1)), refused(Refusal::Invalid));
    let mut commands = Vec::new();
    for _ in 0..AUDIT_KEPT as usize / DENIALS_PER_COMMAND + 2 {
        commands.push(Command::Access(Box::new(many(DENIALS_PER_COMMAND))));
    }
    world.run_all(commands);
    let rows = query::audit(&world.tables, AuditKind::Denied, None, usize::MAX).expect("maps");
    assert_eq!(rows.len() as u64, AUDIT_KEPT);
    assert!(rows.iter().all(|(_, row)| row.action.len() <= 512 && row.count == 3));
    let newest = rows[0].0;
    let page = query::audit(&world.tables, AuditKind::Denied, Some(newest), 2).expect("maps");
    assert_eq!(page.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [newest - 1, newest - 2]);
    assert_eq!(actions(&world).len(), 1);
}

#[test]
fn calls_without_a_good_signature_push_out_none_that_had_one() {
    let mut world = World::ready();
    let denials = |count: usize| {
        let denial = |number: usize| Denial {
            access_key: format!("ak_{number}"),
            action: "submit".into(),
            code: "invalid_signature".into(),
            address: "10.0.0.1".into(),
            request_id: "r".into(),
            count: 1,
        };
        (0..count).map(denial).collect::<Vec<_>>()
    };
    let unsigned = |count: usize| AccessCommand::Unsigned { denials: denials(count) };
    assert_eq!(run(&mut world, AccessCommand::Denied { denials: denials(1) }), Reply::Done);
    assert_eq!(run(&mut world, unsigned(DENIALS_PER_COMMAND + 1)), refused(Refusal::Invalid));
    assert_eq!(run(&mut world, unsigned(0)), Reply::Done);
    let rounds = AUDIT_KEPT as usize / DENIALS_PER_COMMAND + 2;
    // Several in one entry: each goes on where the one before has ended.
    let commands = (0..rounds).map(|_| Command::Access(Box::new(unsigned(DENIALS_PER_COMMAND))));
    world.run_all(commands.collect());
    let kept = query::audit(&world.tables, AuditKind::Unsigned, None, usize::MAX).expect("maps");
    assert_eq!(kept.len() as u64, AUDIT_KEPT);
    assert_eq!(kept[0].0, (rounds * DENIALS_PER_COMMAND) as u64 - 1, "numbered without a gap");
    let signed = query::audit(&world.tables, AuditKind::Denied, None, usize::MAX).expect("maps");
    assert_eq!(signed.len(), 1);
}

/// A change that a key asks for.
fn of_key(access_key: &str, change: Command) -> Command {
    Command::OfKey {
        access_key: access_key.into(),
        change: Asked::of(change).expect("somebody may ask for it"),
    }
}

/// A submission that makes the task of this number.
fn submits(task: u8) -> Command {
    let claim = Some(Claim { nonce: [task; 16], expires_at: 2_000_000 });
    let (task, due) = (task_id(task), DueTime::After(0));
    Command::Submit(Box::new(Submit { task, spec: spec(), due, claim, idempotency: None }))
}

#[test]
fn what_a_key_asked_for_has_no_effect_once_it_is_off_or_gone() {
    let mut world = World::ready();
    run(&mut world, put(None));
    run(&mut world, add_to_caller("k"));
    run(&mut world, add("adk", KeyOwner::Admin { scopes: [Scope::Cluster].into() }));
    let drain = || Command::Drain { executor: executor("a"), on: true };
    assert_eq!(world.run(of_key("adk", drain())), Reply::Done);
    let (off, gone) = (Some(Refusal::AccessKeyDisabled), Some(Refusal::AccessKeyGone));
    for (task, change, refusal) in [
        (1, set("k", true), None),
        (2, set("k", false), off.clone()),
        (3, set("k", true), None),
        (4, put_with(|settings| settings.enabled = false), off),
        (5, put_with(|_| {}), None),
        (6, delete("k"), gone.clone()),
        (7, AccessCommand::DeleteCaller { caller: caller(), by: by(None) }, gone),
    ] {
        run(&mut world, change);
        let before = world.digest();
        let reply = world.run(of_key("k", submits(task)));
        match refusal {
            None => assert!(matches!(reply, Reply::Submitted { .. }), "{task}: {reply:?}"),
            Some(refusal) => {
                assert_eq!(reply, refused(refusal), "{task}");
                assert_eq!(world.digest(), before, "its nonce is not spent either");
            }
        }
    }
    run(&mut world, delete("adk"));
    assert_eq!(world.run(of_key("adk", drain())), refused(Refusal::AccessKeyGone));
    // A key of the secrets file is not in the tables, and what it asks for stands in no such frame.
    assert!(matches!(world.run(submits(8)), Reply::Submitted { .. }));
    // Nobody asks for what is the leader's own.
    let own = CallbackCommand::Start { task: task_id(1), series: 1, number: 1, chance: 0 };
    assert_eq!(world.run(of_key("k", Command::Callback(Box::new(own)))), refused(Refusal::Invalid));
    assert!(Asked::of(of_key("k", submits(9))).is_err());
}

#[test]
fn a_key_that_is_switched_off_within_an_entry_changes_nothing_behind_that() {
    let mut world = World::ready();
    run(&mut world, put(None));
    run(&mut world, add_to_caller("k"));
    let access = |command| Command::Access(Box::new(command));
    let replies = world.run_all(vec![
        of_key("k", submits(1)),
        of_key("k", submits(2)),
        access(set("k", false)),
        of_key("k", submits(3)),
        of_key("other", submits(4)),
        access(set("k", true)),
        of_key("k", submits(5)),
    ]);
    let made: Vec<bool> = replies.iter().map(|reply| matches!(reply, Reply::Submitted { .. })).collect();
    assert_eq!(made, [true, true, false, false, false, false, true]);
    assert_eq!(replies[3], refused(Refusal::AccessKeyDisabled));
    assert_eq!(replies[4], refused(Refusal::AccessKeyGone));
}
