use std::time::Duration;

use super::*;

/// An arrival: when, and the number in the packet's first byte.
type Arrival = (u64, u8);

/// Sends `packets` of (time, number, length) from host 0 to host 1 and gives what arrives, in order.
fn carry(engine: &mut Engine, packets: &[(u64, u8, usize)]) -> Vec<Arrival> {
    let mut arrived = Vec::new();
    for &(now, number, length) in packets {
        while let Some(due) = engine.next_due().filter(|due| *due <= now) {
            engine.release(due, &mut |_, _, bytes| arrived.push((due, bytes[0])));
        }
        let mut bytes = vec![number; length];
        engine.offer(now, 0, 1, &mut bytes, &mut |_, to, bytes| {
            assert_eq!(to, 1);
            arrived.push((now, bytes[0]));
        });
    }
    while let Some(due) = engine.next_due() {
        engine.release(due, &mut |_, _, bytes| arrived.push((due, bytes[0])));
    }
    arrived
}

fn engine(rule: LinkRule) -> Engine {
    let mut engine = Engine::new(2, 7);
    engine.set(0, 1, rule);
    engine
}

/// `count` packets of 100 bytes, one every `gap` microseconds, numbered from 0 and around.
fn train(count: usize, gap: u64) -> Vec<(u64, u8, usize)> {
    (0..count).map(|at| (at as u64 * gap, at as u8, 100)).collect()
}

fn numbers(arrived: &[Arrival]) -> Vec<u8> {
    arrived.iter().map(|(_, number)| *number).collect()
}

#[test]
fn a_plain_link_carries_at_once_and_in_order() {
    let mut engine = engine(LinkRule::default());
    assert_eq!(carry(&mut engine, &train(3, 10)), vec![(0, 0), (10, 1), (20, 2)]);
    let expected = Counters { packets: 3, bytes: 300, ..Counters::default() };
    assert_eq!(engine.counters(0, 1), expected);
    assert_eq!(engine.counters(1, 0), Counters::default());
}

#[test]
fn delay_and_jitter_keep_the_order() {
    let rule = LinkRule { jitter: Duration::from_millis(20), ..LinkRule::delayed(Duration::from_millis(50)) };
    let mut engine = engine(rule);
    let sent = train(200, 1_000);
    let arrived = carry(&mut engine, &sent);
    assert_eq!(numbers(&arrived), (0..200).collect::<Vec<u8>>());
    for ((sent, _, _), (at, number)) in sent.iter().zip(&arrived) {
        assert!((50_000..=70_000).contains(&(at - sent)), "packet {number} took {}", at - sent);
    }
    let travel: Vec<u64> = arrived.iter().zip(&sent).map(|((at, _), (sent, _, _))| at - sent).collect();
    assert!(travel.iter().max() > travel.iter().min(), "no jitter at all");
    assert_eq!(engine.counters(0, 1).delayed, 200);
}

#[test]
fn loss_duplication_and_damage_have_their_shares() {
    let share = |count: u64| count as f64 / 20_000.0;
    let close = |count: u64, wanted: f64| (share(count) - wanted).abs() < 0.01;
    let mut lossy = engine(LinkRule::lossy(0.3));
    let arrived = carry(&mut lossy, &train(20_000, 10));
    assert!(close(lossy.counters(0, 1).dropped, 0.3), "{:?}", lossy.counters(0, 1));
    assert_eq!(arrived.len() as u64 + lossy.counters(0, 1).dropped, 20_000);

    let mut doubling = engine(LinkRule { duplicate: 0.2, ..LinkRule::default() });
    let arrived = carry(&mut doubling, &train(20_000, 10));
    assert!(close(doubling.counters(0, 1).duplicated, 0.2), "{:?}", doubling.counters(0, 1));
    assert_eq!(arrived.len() as u64, 20_000 + doubling.counters(0, 1).duplicated);

    // Packets of the kind that has a payload: version 4, header 20 bytes, UDP.
    let mut damaging = engine(LinkRule { corrupt: 0.1, ..LinkRule::default() });
    let mut changed = 0;
    for now in 0..20_000 {
        let mut packet = [0u8; 60];
        packet[0] = 0x45;
        packet[9] = 17;
        let before = packet;
        damaging.offer(now, 0, 1, &mut packet, &mut |_, _, bytes| {
            changed += u64::from(bytes != before);
        });
    }
    assert!(close(changed, 0.1), "{changed}");
    assert_eq!(damaging.counters(0, 1).corrupted, changed);
}

#[test]
fn reordered_packets_are_overtaken() {
    let mut engine = engine(LinkRule { reorder: 0.1, ..LinkRule::default() });
    let arrived = numbers(&carry(&mut engine, &train(250, 500)));
    let overtaken = arrived.windows(2).filter(|pair| pair[0] > pair[1]).count();
    let held = engine.counters(0, 1).reordered;
    assert!((10..=45).contains(&held), "{held}");
    assert!(overtaken > 5, "{held} were held back, {overtaken} overtaken");
    let mut sorted = arrived;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..250).collect::<Vec<u8>>(), "each packet arrives once");
}

#[test]
fn a_rate_spaces_packets_and_drops_what_would_wait_too_long() {
    let mut engine = engine(LinkRule { rate_bytes_per_s: 100_000, ..LinkRule::default() });
    // 1000 packets of 100 bytes at once are a second of traffic: 1 ms each.
    let arrived = carry(&mut engine, &train(1_000, 0));
    let expected: Vec<u64> = (1..=arrived.len() as u64).map(|at| at * 1_000).collect();
    assert_eq!(arrived.iter().map(|(at, _)| *at).collect::<Vec<_>>(), expected);
    assert_eq!(arrived.len(), 401, "400 ms wait, and the packet under way");
    assert_eq!(engine.counters(0, 1).dropped, 599);
    assert_eq!(engine.counters(0, 1).throttled, 400, "all that were let through but the first");
    // An idle link saves nothing up.
    let later = carry(&mut engine, &[(5_000_000, 1, 100), (5_000_000, 2, 100)]);
    assert_eq!(later, vec![(5_001_000, 1), (5_002_000, 2)]);
}

#[test]
fn a_cut_is_one_way_and_hits_what_is_under_way() {
    let mut engine = engine(LinkRule::delayed(Duration::from_millis(5)));
    engine.offer(0, 0, 1, &mut [1; 20], &mut |_, _, _| panic!("it is delayed"));
    engine.set(0, 1, LinkRule::cut());
    engine.offer(1_000, 0, 1, &mut [2; 20], &mut |_, _, _| panic!("the link is cut"));
    let mut back = 0;
    engine.offer(1_000, 1, 0, &mut [3; 20], &mut |_, _, _| back += 1);
    assert_eq!(back, 1, "the other direction works");
    engine.release(10_000, &mut |_, _, _| panic!("it was under way when the link was cut"));
    assert_eq!(engine.counters(0, 1).dropped, 2);
}

#[test]
fn a_healed_link_is_fast_at_once() {
    let mut engine = engine(LinkRule::delayed(Duration::from_millis(300)));
    engine.offer(0, 0, 1, &mut [1; 20], &mut |_, _, _| panic!("it is delayed"));
    engine.set(0, 1, LinkRule::default());
    let mut arrived = 0;
    engine.offer(1, 0, 1, &mut [2; 20], &mut |_, _, _| arrived += 1);
    assert_eq!(arrived, 1);
    engine.release(300_000, &mut |_, _, _| arrived += 1);
    assert_eq!(arrived, 2, "what was under way still arrives");
}

#[test]
fn a_seed_decides_every_draw_and_links_differ() {
    let rule = LinkRule {
        loss: 0.2,
        duplicate: 0.2,
        reorder: 0.2,
        jitter: Duration::from_millis(3),
        ..LinkRule::delayed(Duration::from_millis(1))
    };
    let outcome = |seed| {
        let mut engine = Engine::new(2, seed);
        engine.set(0, 1, rule);
        carry(&mut engine, &train(200, 300))
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
    let mut engine = Engine::new(2, 1);
    engine.set(0, 1, LinkRule::lossy(0.5));
    engine.set(1, 0, LinkRule::lossy(0.5));
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for now in 0..64u64 {
        engine.offer(now, 0, 1, &mut [0; 20], &mut |_, _, _| there.push(now));
        engine.offer(now, 1, 0, &mut [0; 20], &mut |_, _, _| back.push(now));
    }
    assert_ne!(there, back);
}

#[test]
fn a_full_fabric_drops_what_would_wait_and_nothing_else() {
    let mut engine = engine(LinkRule::delayed(Duration::from_secs(60)));
    for now in 0..=MOST_WAITING as u64 {
        engine.offer(now, 0, 1, &mut [0; 20], &mut |_, _, _| panic!("it is delayed"));
    }
    assert_eq!(engine.counters(0, 1).dropped, 1);
    let mut arrived = 0;
    engine.offer(0, 1, 0, &mut [0; 20], &mut |_, _, _| arrived += 1);
    assert_eq!(arrived, 1);
}
