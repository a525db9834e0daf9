//! A sealing key takes the place of another.

use std::collections::BTreeSet;

use orloj_model::access::{Actor, CallerSettings, KeyLimits, KeyOwner, Scope};
use orloj_model::command::{AccessCommand, Command};
use orloj_model::id::CallerId;
use orloj_wire::problem::Code;
use serde_json::{Value, json};

use super::fake_keys::{newer_sealer, older_sealer};
use super::{Draft, Universe};
use crate::seal::{of_key, of_webhook};

const SECRET: &str = "sk_SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS";
const WEBHOOK: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDC2FVsBQIhrs=";

fn by() -> Actor {
    Actor { access_key: "adk_A".into(), request_id: "r".into(), claim: None }
}

fn run(universe: &Universe, command: AccessCommand) {
    let reply = universe.run(Command::Access(Box::new(command)));
    assert!(!matches!(reply, orloj_model::Reply::Refused(_)), "{reply:?}");
}

/// Callers with two keys and a webhook secret each, sealed with the older key.
fn sealed_before(universe: &Universe, callers: usize) {
    let limits = KeyLimits {
        requests_per_1000s: 1_000_000,
        requests_burst: 1_000,
        submits_per_1000s: 1_000_000,
        submits_burst: 1_000,
        waiters: 1,
    };
    for number in 0..callers {
        let caller = CallerId::new(format!("c{number}")).unwrap();
        let settings = CallerSettings {
            enabled: true,
            description: String::new(),
            scopes: BTreeSet::from([Scope::Submit]),
            handlers: vec!["*".into()],
            callback_hosts: Vec::new(),
            limits,
        };
        run(
            universe,
            AccessCommand::PutCaller { caller: caller.clone(), expected: None, settings, by: by() },
        );
        for place in 0..2 {
            let key = format!("ak_{number}-{place}");
            let sealed = older_sealer().seal(&of_key(&key), SECRET).unwrap();
            let owner = KeyOwner::Caller(caller.clone());
            run(universe, AccessCommand::AddKey { key, owner, sealed, description: String::new(), by: by() });
        }
        let sealed = older_sealer().seal(&of_webhook(caller.as_str(), "whs_1"), WEBHOOK).unwrap();
        run(universe, AccessCommand::AddWebhookSecret { caller, id: "whs_1".into(), sealed, by: by() });
    }
}

fn sealing() -> Draft {
    Draft::get("/openapi/v1/sealing").by_admin()
}

fn renew() -> Draft {
    Draft::post("/openapi/v1/sealing/renew", Value::Null).by_admin()
}

fn submit() -> Draft {
    Draft::submit(json!({"handler": "echo"})).by("ak_7-1", SECRET)
}

#[tokio::test]
async fn secrets_are_sealed_anew_in_bounded_steps_and_sign_as_before() {
    let universe = Universe::of(2).await;
    sealed_before(&universe, 342);
    let (leader, follower) = (universe.leader(), &universe.nodes[1]);
    let stands = |reply: super::Reply| {
        let count = |name: &str| reply.body[name].as_u64().unwrap();
        (count("current"), count("older"), count("unreadable"))
    };
    assert_eq!(stands(follower.call(&sealing()).await), (0, 1_026, 0));
    assert_eq!(follower.call(&sealing()).await.body["replica"], 2, "it says whose answer it is");
    leader.call(&submit()).await.task_id();
    let first = follower.call(&renew()).await;
    assert_eq!(
        (&first.body["renewed"], &first.body["remaining"]),
        (&json!(1_024), &json!(2)),
        "{}",
        first.text
    );
    assert_eq!(first.body["key"].as_str(), newer_sealer().key_ids().first().map(String::as_str));
    // Each step made the replicas open what it had sealed, and no more.
    assert_eq!(leader.api.shared().directory.opened_last(), 1_024);
    let second = leader.call(&renew()).await;
    assert_eq!((&second.body["renewed"], &second.body["remaining"]), (&json!(2), &json!(0)));
    assert_eq!(leader.api.shared().directory.opened_last(), 2);
    assert_eq!(leader.call(&renew()).await.body["renewed"], 0);
    for node in &universe.nodes {
        assert_eq!(stands(node.call(&sealing()).await), (1_026, 0, 0));
        node.call(&submit()).await.task_id();
    }
    // The new key alone opens everything.
    let access = universe.access();
    assert!(access.keys.iter().all(|(name, row)| newer_sealer().open(&of_key(name), &row.sealed).is_ok()));
    for (caller, row) in &access.callers {
        let bound = of_webhook(caller.as_str(), "whs_1");
        assert_eq!(newer_sealer().open(&bound, &row.webhook_secrets[0].sealed).unwrap(), WEBHOOK);
    }
}

#[tokio::test]
async fn only_who_looks_after_callers_seals_anew_and_once_per_request() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let auditor =
        node.call(&Draft::post("/openapi/v1/admin-keys", json!({"scopes": ["audit"]})).by_admin()).await;
    let text = |field: &str| auditor.body[field].as_str().unwrap().to_owned();
    for draft in [sealing(), renew()] {
        let denied = draft.clone().by(&text("accessKey"), &text("secretKey"));
        node.call(&denied).await.is(403, Code::ScopeDenied.as_str());
        node.call(&Draft { label: orloj_wire::sign::Label::Caller, ..draft }.by_b())
            .await
            .is(403, "scope_denied");
    }
    let once = renew();
    node.call(&once).await.is_ok();
    node.call(&once).await.is(401, "nonce_replayed");
    let audit = node.call(&Draft::get("/openapi/v1/audit").by_admin()).await;
    assert_eq!(audit.body["records"][0]["action"], "renew_sealing");
    assert_eq!(audit.body["records"].as_array().unwrap().len(), 2, "with the key that was made");
}
