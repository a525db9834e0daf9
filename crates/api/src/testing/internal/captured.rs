//! What somebody has captured of what executors say, and sends again.

use super::*;

/// Captures what an executor sends, and sends it again as it is.
struct Captured {
    head: axum::http::request::Parts,
    body: Vec<u8>,
}

impl Captured {
    fn of(call: &str, body: Vec<u8>) -> Captured {
        let (head, _) = executor("e1").to(&format!("{EXECUTORS}/{call}"), &body).into_parts();
        Captured { head, body }
    }

    fn again(&self) -> Request<Body> {
        Request::from_parts(self.head.clone(), Body::from(self.body.clone()))
    }
}

#[tokio::test]
async fn what_executors_were_heard_to_say_without_tls_is_taken_once() {
    let universe = Universe::of(2).await;
    let (one, two) = (&universe.nodes[0], &universe.nodes[1]);
    let captured = calls("e1").map(|(call, body)| (call, Captured::of(call, body)));
    for (call, captured) in &captured {
        let first = one.send_internal(captured.again()).await;
        assert!(matches!(first.status, 200 | 204), "{call}: {}", first.text);
        let again = one.send_internal(captured.again()).await;
        match *call {
            // What they name is over: a fence, a life. The leader's loop says so.
            "report" | "leave" => assert!(matches!(again.status, 200 | 204), "{call}: {}", again.text),
            _ => again.is(401, "nonce_replayed"),
        }
    }
    // A registration is over for every leader to come; of what the others name, a round and a fence, their loop knows.
    universe.elect(Some(2));
    let (_, registration) = &captured[0];
    two.send_internal(registration.again()).await.is(401, "nonce_replayed");
    let heard = two.leader.heard.lock().unwrap().clone();
    assert_eq!(heard, Vec::<String>::new());
    let anew = Captured::of("register", registration.body.clone());
    assert_eq!(two.send_internal(anew.again()).await.status, 200);
}

#[tokio::test]
async fn a_registration_spends_nothing_where_nobody_schedules() {
    let universe = Universe::of(2).await;
    let (one, two) = (&universe.nodes[0], &universe.nodes[1]);
    let register = || Captured::of("register", calls("e1")[0].1.clone()).again();
    let proposals = universe.proposals();
    let elsewhere = two.send_internal(register()).await;
    assert_eq!(elsewhere.status, 421, "{}", elsewhere.text);
    assert_eq!(elsewhere.body, json!({"code": "not_leader", "leader": one.address}));
    one.leader.stop_serving();
    one.send_internal(register()).await.is(503, "no_leader");
    assert_eq!(universe.proposals(), proposals);
}

#[tokio::test]
async fn an_executor_whose_clock_goes_back_is_told_the_time() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let path = format!("{EXECUTORS}/heartbeat");
    universe.clock.advance_ms(100_000);
    let now = Captured::of("heartbeat", heartbeat("e1"));
    // It signs by the time at which everything began, which is within the window, and is taken until it has signed later.
    assert_eq!(node.send_internal(now.again()).await.status, 200);
    let later = executor("e1").at(T + 100).to(&path, &heartbeat("e1"));
    assert_eq!(node.send_internal(later).await.status, 200);
    let back = node.send_internal(executor("e1").to(&path, &heartbeat("e1"))).await;
    back.is(401, "timestamp_out_of_window");
    assert_eq!(back.body["serverTime"], "2027-01-15T08:01:40.000Z");
}
