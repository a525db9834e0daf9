//! The bytes of callers, keys and the audit.

use orloj_model::access::{
    AccessKeyRow, AccessMeta, Actor, AuditKind, AuditRow, CallbackHost, CallerLimits, CallerRow,
    CallerSettings, Denial, KeyLimits, KeyOwner, Resealed, Scope, SealedOf, SealedSecret,
};
use orloj_model::command::{
    AccessCommand, Asked, CallbackCommand, Claim, Command, DueTime, GraphCommand, Idempotency, JobCommand,
    Sibling, Submit, SubmitGraph,
};
use orloj_model::graph::OnShardFailure;
use orloj_model::id::JobId;
use orloj_model::job::JobKey;
use orloj_model::key::{AccessKeyName, AuditKey, OwnerKey};
use orloj_model::task::{Origin, Strategy};

use super::{Golden, caller, executor, spec, task};

/// Adds every one.
pub fn add(golden: &mut Golden) {
    for (name, command) in commands() {
        golden.command(&format!("access {name}"), Command::Access(Box::new(command)));
    }
    let secret = SealedSecret { id: "whs_1".into(), sealed: vec![1, 2], created_at: 3 };
    let row = CallerRow {
        version: 2,
        settings: settings(),
        webhook_secrets: vec![secret],
        created_at: 4,
        updated_at: 5,
    };
    golden.row("caller", &row);
    golden.row("caller limits", &CallerLimits { max_running: 7 });
    for (name, owner) in owners() {
        let row =
            AccessKeyRow { owner, sealed: vec![1, 2], enabled: true, description: "d".into(), created_at: 3 };
        golden.row(&format!("access key {name}"), &row);
    }
    golden.row("access meta", &AccessMeta { revision: 1, callers: 2, next_audit: [3, 4] });
    let row = AuditRow {
        at: 1,
        actor: "adk_A".into(),
        action: "a".into(),
        target: "t".into(),
        detail: "d".into(),
        request_id: "r".into(),
        address: "h".into(),
        count: 2,
    };
    golden.row("audit", &row);
    golden.key("caller", &caller());
    golden.key("access key", &AccessKeyName("ak_1".into()));
    golden.key("owner key", &OwnerKey { owner: "caller".into(), key: "ak_1".into() });
    for kind in [AuditKind::Change, AuditKind::Denied, AuditKind::Unsigned] {
        golden.key(&format!("audit {kind:?}"), &AuditKey { kind, number: 7 });
    }
    for (name, asked) in asked() {
        golden
            .command(&format!("of key {name}"), Command::OfKey { access_key: "ak_2".into(), change: asked });
    }
}

fn by() -> Actor {
    let claim = Some(Claim { nonce: [3; 16], expires_at: 4 });
    Actor { access_key: "adk_A".into(), request_id: "r".into(), claim }
}

fn settings() -> CallerSettings {
    CallerSettings {
        enabled: true,
        description: "d".into(),
        scopes: Scope::ALL.into(),
        handlers: vec!["echo".into(), "report-*".into()],
        callback_hosts: vec![CallbackHost {
            host: "*.example.com".into(),
            ports: vec![443, 8443],
            plain_http: true,
            allow_cidrs: vec!["10.0.0.0/8".into()],
        }],
        limits: KeyLimits {
            requests_per_1000s: 1,
            requests_burst: 2,
            submits_per_1000s: 3,
            submits_burst: 4,
            waiters: 5,
        },
    }
}

/// What can be asked for with a key; the commands in it have lines of their own.
fn asked() -> [(&'static str, Asked); 8] {
    let claim = Claim { nonce: [3; 16], expires_at: 4 };
    let key = JobKey { caller: caller(), job: JobId::new("nightly").expect("a valid name") };
    let submit = Submit {
        task: task(),
        spec: spec(Origin::Submission, Strategy::Ring),
        due: DueTime::After(6),
        claim: Some(claim.clone()),
        idempotency: Some(Idempotency { key: "k".into(), fingerprint: [1; 32] }),
    };
    let job = JobCommand::Delete { job: key, expected: Some(1), claim: Some(claim.clone()) };
    let graph = GraphCommand::Submit(Box::new(SubmitGraph {
        submit: Submit { claim: None, idempotency: None, ..submit.clone() },
        on_shard_failure: OnShardFailure::Wait,
        siblings: vec![Sibling { place: 1, key: "k#0".into() }],
    }));
    let redeliver = CallbackCommand::Redeliver { task: task(), caller: caller(), claim: Some(claim.clone()) };
    let access = AccessCommand::SetKey { key: "ak_1".into(), enabled: true, by: by() };
    [
        ("submit", Asked::Submit(Box::new(submit))),
        ("cancel", Asked::Cancel { task: task(), caller: Some(caller()), claim: Some(claim.clone()) }),
        ("drain", Asked::Drain { executor: executor(), on: true }),
        ("spend", Asked::Spend { claim }),
        ("job", Asked::Job(Box::new(job))),
        ("graph", Asked::Graph(Box::new(graph))),
        ("callback", Asked::Callback(Box::new(redeliver))),
        ("access", Asked::Access(Box::new(access))),
    ]
}

fn owners() -> [(&'static str, KeyOwner); 2] {
    [
        ("of a caller", KeyOwner::Caller(caller())),
        ("of an admin", KeyOwner::Admin { scopes: [Scope::Audit].into() }),
    ]
}

fn commands() -> Vec<(&'static str, AccessCommand)> {
    let (caller, key, id) = (caller(), || "ak_1".to_owned(), || "whs_1".to_owned());
    let put = AccessCommand::PutCaller {
        caller: caller.clone(),
        expected: Some(1),
        settings: settings(),
        by: by(),
    };
    let denial = Denial {
        access_key: key(),
        action: "submit".into(),
        code: "c".into(),
        address: "h".into(),
        request_id: "r".into(),
        count: 2,
    };
    let mut commands = vec![
        ("put caller", put),
        ("delete caller", AccessCommand::DeleteCaller { caller: caller.clone(), by: by() }),
        (
            "put limited caller",
            AccessCommand::PutLimited {
                caller: caller.clone(),
                expected: Some(1),
                settings: settings(),
                limits: CallerLimits { max_running: 7 },
                by: by(),
            },
        ),
        ("set key", AccessCommand::SetKey { key: key(), enabled: true, by: by() }),
        ("delete key", AccessCommand::DeleteKey { key: key(), by: by() }),
        (
            "add webhook secret",
            AccessCommand::AddWebhookSecret { caller: caller.clone(), id: id(), sealed: vec![1], by: by() },
        ),
        ("delete webhook secret", AccessCommand::DeleteWebhookSecret { caller, id: id(), by: by() }),
        ("admit", AccessCommand::Admit { by: by(), action: "a".into(), target: "t".into() }),
        ("denied", AccessCommand::Denied { denials: vec![denial.clone()] }),
        ("unsigned", AccessCommand::Unsigned { denials: vec![denial] }),
    ];
    for (name, of) in [
        ("reseal key", SealedOf::Key(key())),
        ("reseal webhook secret", SealedOf::Webhook { caller: self::caller(), id: id() }),
    ] {
        let secrets = vec![Resealed { of, before: vec![1], sealed: vec![2] }];
        commands.push((name, AccessCommand::Reseal { secrets }));
    }
    for (name, owner) in owners() {
        let name = if name == "of a caller" { "add key of a caller" } else { "add key of an admin" };
        let (sealed, description) = (vec![1], "d".to_owned());
        commands.push((name, AccessCommand::AddKey { key: key(), owner, sealed, description, by: by() }));
    }
    commands
}
