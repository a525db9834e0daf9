//! A client whose key may do little, and that asks for more than that: whether it is let in is all that is judged.

use std::time::Duration;

use hyper::Method;
use orloj_jepsen_core::event::{Knock, What};
use orloj_wire::problem::{Code, Problem};
use tokio_util::sync::CancellationToken;

use super::client::Credentials;
use super::http::{Ask, Connection};
use super::now;
use super::recorder::{Note, Recorder};

/// Between two calls: several times what the key may do, over all replicas.
const PAUSE: Duration = Duration::from_millis(150);
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Every so many calls one is a submission.
const SUBMISSIONS: u64 = 3;
/// A submission that is refused, but only after the limits have let it in: it makes no task.
const NOBODY_HAS_IT: &[u8] = br#"{"handler":"nobody-has-this"}"#;

/// Asks the replica `node` over and over until told to stop.
pub async fn run(
    node: &str,
    mut connection: Connection,
    credentials: Credentials,
    recorder: Recorder,
    stop: CancellationToken,
) {
    let key = credentials.access_key.clone();
    let mut signer = credentials.signer();
    let mut number = 0;
    while !stop.is_cancelled() {
        number += 1;
        let submits = number % SUBMISSIONS == 0;
        let mut ask = call(submits);
        signer.sign(&mut ask, None);
        let from_ns = now().mono_ns;
        // Whoever has no answer may have been let in or not: nothing can be said of it.
        if let Ok(reply) = connection.ask(ask, PATIENCE).await {
            let problem: Option<Problem> = serde_json::from_slice(&reply.body).ok();
            if let Some(time) = problem.as_ref().and_then(|problem| problem.server_time) {
                signer.learn(time.0);
            }
            let let_in = is_let_in(reply.status, problem.as_ref());
            let knock = Knock { key: key.clone(), submits, from_ns, let_in, status: reply.status };
            recorder.note(Note::event(node, What::Knock(knock)));
        }
        stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
    }
}

fn call(submits: bool) -> Ask {
    let (method, path, body) = match submits {
        true => (Method::POST, "/openapi/v1/tasks", NOBODY_HAS_IT),
        false => (Method::GET, "/openapi/v1/executors", &b""[..]),
    };
    Ask { method, path: path.to_owned(), body: body.to_vec(), ..Ask::default() }
}

/// Whether an answer comes from behind the limits for certain.
fn is_let_in(status: u16, problem: Option<&Problem>) -> bool {
    let code = problem.and_then(|problem| Code::from_text(&problem.code));
    (200..300).contains(&status) || code == Some(Code::HandlerUnknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_the_limits_was_let_in() {
        let told = |code: Code| is_let_in(code.status(), Some(&Problem::new(code, "")));
        assert!(is_let_in(200, None) && told(Code::HandlerUnknown));
        for code in [Code::RateLimited, Code::NoLeader, Code::InvalidSignature, Code::TimestampOutOfWindow] {
            assert!(!told(code), "{code:?}");
        }
        assert!(!is_let_in(502, None));
    }
}
