//! The bytes of callbacks: their commands, rows and keys.

use orloj_model::callback::{Callback, FailureKind, Send, SendOutcome, Stage};
use orloj_model::command::{CallbackCommand, Claim, Command};
use orloj_model::key::CallbackDueKey;

use super::{Golden, caller, task};

/// Adds every one.
pub fn add(golden: &mut Golden) {
    let command = |command| Command::Callback(Box::new(command));
    golden.command(
        "callback start",
        command(CallbackCommand::Start { task: task(), series: 1, number: 2, chance: 3 }),
    );
    for (name, outcome) in outcomes() {
        golden.command(
            &format!("callback finish {name}"),
            command(CallbackCommand::Finish { task: task(), series: 1, number: 2, outcome, chance: 3 }),
        );
    }
    let claim = Some(Claim { nonce: [3; 16], expires_at: 4 });
    golden.command(
        "callback redeliver",
        command(CallbackCommand::Redeliver { task: task(), caller: caller(), claim }),
    );
    for stage in [Stage::Waiting, Stage::Pending, Stage::Delivered, Stage::Failed] {
        golden.row(&format!("callback {}", stage.name()), &row(stage));
    }
    let key = CallbackDueKey { lane: "hooks.example.com".into(), at: -1, task: task() };
    golden.key("callback due", &key);
}

fn outcomes() -> Vec<(&'static str, SendOutcome)> {
    use FailureKind::{Blocked, Connect, Dns, Secret, Status, Timeout, Tls, Unknown};
    let mut outcomes = vec![("delivered", SendOutcome::Delivered { status: 204 })];
    for kind in [Dns, Blocked, Connect, Tls, Timeout, Status, Unknown, Secret] {
        let outcome = SendOutcome::Failed { kind, status: Some(503), retry_after_ms: Some(60_000) };
        outcomes.push((kind.name(), outcome));
    }
    outcomes
}

fn row(stage: Stage) -> Callback {
    let outcome = Some(SendOutcome::failed(FailureKind::Timeout));
    let send = Send { series: 1, number: 1, round: 7, started_at: 5, ended_at: Some(6), outcome };
    let next_at = (stage == Stage::Pending).then_some(9);
    Callback { url: "https://h/".into(), stage, series: 1, sent: 1, next_at, sends: vec![send] }
}
