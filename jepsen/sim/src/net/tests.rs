use super::*;
use crate::net::{Cut, Message};

const A: Place = Place::Replica(1);
const B: Place = Place::Replica(2);
const DEADLINE: Duration = Duration::from_secs(5);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A call from A to B, which answers at once; what comes of it, and when B had the request.
fn call(net: &Net, heal_at: Option<u64>) -> (Result<u16, CallError>, Vec<u64>) {
    runtime().block_on(async {
        let caller = net.clone();
        let request = Request::Internal(Message::default());
        let mut call = tokio::spawn(async move { caller.call(A, B, request, DEADLINE).await });
        let mut arrived = Vec::new();
        for now_ms in 1..10_000 {
            if Some(now_ms) == heal_at {
                net.change(|_, _, link| link.cut = None);
            }
            for delivery in net.arrived(now_ms) {
                arrived.push(now_ms);
                if let Some(call) = delivery.call {
                    net.reply(
                        call,
                        Reply::Http { status: 200, headers: Vec::new(), body: Default::default() },
                    );
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            if call.is_finished() {
                let status = (&mut call).await.unwrap().map(|reply| match reply {
                    Reply::Http { status, .. } => status,
                    Reply::Raft(_) => 0,
                });
                return (status, arrived);
            }
        }
        panic!("a call ends with its deadline")
    })
}

#[test]
fn an_answer_comes_back_after_both_delays() {
    let (status, arrived) = call(&Net::new(Rng::new(1)), None);
    assert_eq!(status, Ok(200));
    // Sent in the first millisecond.
    assert!(matches!(arrived[..], [2..=4]), "{arrived:?}");
}

#[test]
fn a_cut_link_loses_or_holds() {
    let lost = |seed| {
        let net = Net::new(Rng::new(seed));
        net.change(|_, _, link| link.cut = Some(Cut::Lose));
        call(&net, None)
    };
    let outcomes: Vec<_> = (0..20).map(lost).collect();
    assert!(outcomes.iter().all(|(_, arrived)| arrived.is_empty()));
    assert!(outcomes.iter().any(|(status, _)| *status == Err(CallError::Unreachable)));
    assert!(outcomes.iter().any(|(status, _)| *status == Err(CallError::Timeout(DEADLINE))));
    let net = Net::new(Rng::new(1));
    net.change(|_, _, link| link.cut = Some(Cut::Hold));
    let (status, arrived) = call(&net, Some(400));
    assert_eq!(status, Ok(200));
    assert!(arrived[0] >= 400);
}

#[test]
fn an_answer_that_is_lost_leaves_its_caller_waiting() {
    let net = Net::new(Rng::new(1));
    net.change(|from, _, link| link.cut = (from == B).then_some(Cut::Lose));
    let (status, arrived) = call(&net, None);
    assert_eq!((status, arrived.len()), (Err(CallError::Timeout(DEADLINE)), 1));
}

#[test]
fn a_request_that_arrives_twice_is_answered_once() {
    let net = Net::new(Rng::new(1));
    net.change(|_, _, link| link.duplicate = 1.0);
    let (status, _) = call(&net, None);
    assert_eq!((status, net.stats().duplicates), (Ok(200), 1));
}

#[test]
fn a_request_that_was_refused_does_not_arrive_later() {
    let net = Net::new(Rng::new(1));
    net.change(|_, _, link| link.duplicate = 1.0);
    let arrived = runtime().block_on(async {
        let caller = net.clone();
        let request = Request::Internal(Message::default());
        let call = tokio::spawn(async move { caller.call(A, B, request, DEADLINE).await });
        let mut arrived = 0;
        for now_ms in 1..300 {
            for delivery in net.arrived(now_ms) {
                arrived += 1;
                delivery.call.into_iter().for_each(|call| net.refuse(call));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(call.await.unwrap().unwrap_err(), CallError::Unreachable);
        arrived
    });
    assert_eq!((arrived, net.stats().duplicates), (1, 1));
}

#[test]
fn callers_learn_of_a_place_that_dies_when_its_kernel_lives() {
    for (loudly, expected) in [(true, CallError::Broken), (false, CallError::Timeout(DEADLINE))] {
        let net = Net::new(Rng::new(1));
        let outcome = runtime().block_on(async {
            let caller = net.clone();
            let request = Request::Internal(Message::default());
            let call = tokio::spawn(async move { caller.call(A, B, request, DEADLINE).await });
            for now_ms in 1..6_000 {
                for delivery in net.arrived(now_ms) {
                    let work = tokio::spawn(std::future::pending::<()>());
                    net.serving(delivery.call.unwrap(), B, work.abort_handle());
                    net.gone(B, loudly);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            call.await.unwrap()
        });
        assert_eq!(outcome.unwrap_err(), expected);
    }
}

#[test]
fn a_caller_that_stops_waiting_stops_the_work() {
    let net = Net::new(Rng::new(1));
    runtime().block_on(async {
        let caller = net.clone();
        let request = Request::Internal(Message::default());
        let call = tokio::spawn(async move { caller.call(A, B, request, DEADLINE).await });
        let mut work = None;
        for now_ms in 1..50 {
            for delivery in net.arrived(now_ms) {
                let task = tokio::spawn(std::future::pending::<()>());
                net.serving(delivery.call.unwrap(), B, task.abort_handle());
                work = Some(task);
                call.abort();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(work.unwrap().is_finished());
    });
}
