//! Places of the outbox: who gets them, and who does not.

use super::*;

fn task(number: u8) -> TaskId {
    TaskId([number; 16])
}

/// The lane of a caller for a host.
fn lane(host: &str, caller: &str) -> String {
    format!("{host} {caller}")
}

/// Begins whatever may be begun at `now`, and says which lanes got how many places.
fn fill(outbox: &mut Outbox, now: Millis) -> BTreeMap<String, usize> {
    let mut begun: BTreeMap<String, usize> = BTreeMap::new();
    while let Some((lane, room)) = outbox.next_due(now) {
        let known = begun.entry(lane.clone()).or_default();
        let tasks: Vec<_> = (*known..*known + room).map(|number| task(number as u8)).collect();
        *known += room;
        outbox.began(&lane, &tasks, Some(now));
    }
    begun
}

/// The places that a caller has among these.
fn of(begun: &BTreeMap<String, usize>, caller: &str) -> usize {
    begun.iter().filter(|(lane, _)| lane_parts(lane).1 == caller).map(|(_, count)| count).sum()
}

#[test]
fn a_lane_is_due_from_its_first_instant_on() {
    let mut outbox = Outbox::default();
    let a = lane("a", "shop");
    outbox.heard(&a, 100);
    outbox.heard(&a, 50);
    outbox.heard(&a, 70);
    assert_eq!((outbox.next_wake(49), outbox.next_due(49)), (Some(50), None));
    assert_eq!(outbox.next_wake(50), None, "it is due, and waits for nothing but a place");
    assert_eq!(outbox.next_due(50), Some((a.clone(), PER_HOST)));
    outbox.began(&a, &[], None);
    assert_eq!(outbox.next_wake(0), None);
    assert!(outbox.lanes.is_empty() && outbox.callers.is_empty(), "nothing is kept of who has no entries");
}

#[test]
fn b114_one_slow_receiver_holds_up_nobody() {
    let mut outbox = Outbox::default();
    let (slow, quick) = (lane("slow", "shop"), lane("quick", "shop"));
    outbox.heard(&slow, 0);
    let four: Vec<_> = (0..4).map(task).collect();
    outbox.began(&slow, &four, Some(0));
    assert_eq!(outbox.next_due(9), None, "its places are taken");
    outbox.heard(&quick, 5);
    assert_eq!(outbox.next_due(9), Some((quick, PER_HOST)));
    outbox.ended(&slow, task(0), Some(true));
    assert_eq!(outbox.next_due(9), Some((slow, 1)));
}

#[test]
fn dead_receivers_do_not_take_every_place() {
    let mut outbox = Outbox::default();
    // Of many callers, each with one: the share of a caller is not what bounds them.
    let dead: Vec<String> =
        (0..100).map(|number| lane(&format!("dead-{number:03}"), &format!("c{number}"))).collect();
    for lane in &dead {
        outbox.heard(lane, 0);
        outbox.began(lane, &[task(1)], Some(0));
        outbox.ended(lane, task(1), Some(false));
    }
    let begun = fill(&mut outbox, 1);
    assert!(begun.values().all(|places| *places == 1), "one place for one that does not answer");
    assert_eq!(begun.len(), TO_SILENT);
    outbox.heard(&lane("alive", "shop"), 0);
    assert_eq!(outbox.next_due(1), Some((lane("alive", "shop"), PER_HOST)));
    // One that answers again is like any other.
    let again = begun.keys().next().expect("some were begun");
    outbox.ended(again, task(0), Some(true));
    assert_eq!(outbox.room(again), PER_HOST);
    assert_eq!(outbox.to_silent, TO_SILENT - 1);
}

#[test]
fn silence_is_remembered_where_nothing_waits() {
    let mut outbox = Outbox::default();
    let dead = lane("dead", "shop");
    outbox.began(&dead, &[task(1)], None);
    outbox.ended(&dead, task(1), Some(false));
    outbox.heard(&dead, 0);
    assert_eq!(outbox.next_due(0), Some((dead, 1)));
}

#[test]
fn one_caller_with_any_number_of_hosts_leaves_places_to_others() {
    let mut outbox = Outbox::default();
    for number in 0..1_000 {
        outbox.heard(&lane(&format!("h{number:03}.example.org"), "greedy"), 0);
    }
    let alone = fill(&mut outbox, 1);
    assert_eq!(of(&alone, "greedy"), IN_ALL / 2);
    // Whoever comes next finds a place at once, and then another, down to a fair share.
    for number in 0..1_000 {
        outbox.heard(&lane(&format!("h{number:03}.example.com"), "late"), 1);
    }
    let second = fill(&mut outbox, 1);
    assert_eq!((of(&second, "late"), of(&second, "greedy")), (16, 0));
    outbox.heard(&lane("hooks.example.net", "third"), 1);
    let third = fill(&mut outbox, 1);
    assert_eq!(of(&third, "third"), PER_HOST);
    // What becomes free goes to who has fewer, and never to the last place.
    let sends = alone.keys().flat_map(|lane| (0..PER_HOST as u8).map(move |number| (lane, number)));
    let mut next = None;
    for (lane, number) in sends.take(5) {
        assert_eq!(next, None, "a place is kept for whoever comes next");
        outbox.ended(lane, task(number), Some(true));
        next = outbox.next_due(1).map(|(lane, _)| lane_parts(&lane).1.to_owned());
    }
    assert_eq!(next.as_deref(), Some("late"));
}

#[test]
fn callers_of_one_host_share_its_places() {
    let mut outbox = Outbox::default();
    let (first, second) = (lane("hooks.example.com", "first"), lane("hooks.example.com", "second"));
    outbox.heard(&first, 0);
    let begun = fill(&mut outbox, 0);
    assert_eq!(begun, BTreeMap::from([(first.clone(), PER_HOST)]));
    outbox.heard(&second, 0);
    assert_eq!(outbox.next_due(0), None, "the host has no more");
    // Each place that becomes free goes to the one that has fewer, not to the one that has waited longest.
    for number in 0..2 {
        outbox.ended(&first, task(number), Some(true));
        assert_eq!(outbox.next_due(0), Some((second.clone(), 1)), "{number}");
        outbox.began(&second, &[task(100 + number)], Some(0));
    }
    // A receiver that does not answer one caller is not silent for the other.
    outbox.ended(&first, task(2), Some(false));
    assert!(outbox.lanes[&first].silent && !outbox.lanes[&second].silent);
}

#[test]
fn all_lanes_together_have_a_bound_and_nothing_is_left_behind() {
    let mut outbox = Outbox::default();
    for number in 0..200 {
        outbox.heard(&lane(&format!("h{number}"), &format!("c{number}")), 0);
    }
    let begun = fill(&mut outbox, 0);
    let total: usize = begun.values().sum();
    assert_eq!((total, outbox.under_way), (IN_ALL, IN_ALL));
    let (one, places) = begun.iter().next().expect("some were begun");
    assert!(outbox.is_under_way(one, task(0)) && outbox.count(one) == *places);
    for (lane, places) in &begun {
        for number in 0..*places {
            outbox.ended(lane, task(number as u8), Some(true));
        }
    }
    for number in 0..200 {
        outbox.began(&lane(&format!("h{number}"), &format!("c{number}")), &[], None);
    }
    assert_eq!((outbox.under_way, outbox.to_silent), (0, 0));
    assert!(outbox.lanes.is_empty() && outbox.callers.is_empty() && outbox.hosts.is_empty());
    assert!(outbox.due.is_empty());
}
