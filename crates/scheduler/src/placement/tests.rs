use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;

use super::*;
use crate::ring::LoadFactor;

const NONE: &ExecutorSet = &ExecutorSet::new();

fn id(name: &str) -> ExecutorId {
    ExecutorId::new(name).expect("a valid name")
}

fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(label, value)| (label.to_string(), value.to_string())).collect()
}

/// An executor with the handler `h`, four slots, two queue places and the usual weight.
fn executor(name: &str) -> Registration {
    Registration {
        id: id(name),
        incarnation: 1,
        address: "127.0.0.1:1".into(),
        handlers: vec!["h".into()],
        slots: 4,
        queue: 2,
        weight: 100,
        zone: None,
        labels: BTreeMap::new(),
        version: String::new(),
    }
}

fn fleet(executors: impl IntoIterator<Item = Registration>) -> Fleet {
    let mut fleet = Fleet::new();
    for registration in executors {
        fleet.register(&registration);
    }
    fleet
}

fn wanted<'a>(fleet: &mut Fleet, strategy: &'a Strategy, key: &str) -> Wanted<'a> {
    Wanted {
        class: fleet.class("h", &BTreeMap::new(), strategy),
        strategy,
        key: KeyHash::of(key),
        zone: None,
        avoid: NONE,
        may_queue: false,
        number: 0,
    }
}

fn name(fleet: &Fleet, idx: ExecutorIdx) -> String {
    fleet.id(idx).expect("an executor of this fleet").to_string()
}

/// Places so many alike and names who took them.
fn take(fleet: &mut Fleet, wanted: &Wanted<'_>, count: usize) -> Vec<String> {
    let taken: Vec<_> = (0..count).map_while(|_| fleet.take(wanted).ok()).collect();
    taken.into_iter().map(|idx| name(fleet, idx)).collect()
}

#[test]
fn a_key_stays_with_its_executor_and_comes_back_to_it() {
    let mut fleet = fleet(["a", "b", "c", "d"].map(executor));
    let wanted = wanted(&mut fleet, &Strategy::Ring, "daily-report");
    let first = fleet.take(&wanted).expect("room for one");
    fleet.give_back(first);
    for _ in 0..20 {
        assert_eq!(fleet.take(&wanted), Ok(first));
        fleet.give_back(first);
    }
    fleet.set_open(first, false);
    let second = fleet.take(&wanted).expect("room for one");
    assert_ne!(second, first);
    fleet.set_open(first, true);
    assert_eq!(fleet.take(&wanted), Ok(first));
}

#[test]
fn the_reasons_for_no_place_differ() {
    let mut fleet = Fleet::new();
    let wanted = wanted(&mut fleet, &Strategy::Ring, "k");
    assert_eq!(fleet.take(&wanted), Err(NoPlace::Nobody));
    fleet.register(&Registration { weight: 0, ..executor("a") });
    assert_eq!(fleet.take(&wanted), Err(NoPlace::Weightless));
    let b = fleet.register(&executor("b"));
    assert_eq!(take(&mut fleet, &wanted, 9), ["b"; 4]);
    assert_eq!(fleet.take(&wanted), Err(NoPlace::Busy));
    fleet.give_back(b);
    assert_eq!(fleet.take(&wanted), Ok(b));
    fleet.remove(b);
    assert_eq!(fleet.take(&wanted), Err(NoPlace::Weightless));
}

#[test]
fn labels_and_handlers_of_a_new_registration_count_at_once() {
    let gpu = |name| Registration { labels: labels(&[("gpu", "yes"), ("arch", "arm")]), ..executor(name) };
    let mut fleet = fleet([executor("a"), gpu("b")]);
    let class = fleet.class("h", &labels(&[("gpu", "yes")]), &Strategy::Ring);
    let wanted = Wanted { class, ..wanted(&mut fleet, &Strategy::Ring, "k") };
    assert_eq!(take(&mut fleet, &wanted, 2), ["b", "b"]);
    fleet.register(&executor("b"));
    assert_eq!(fleet.take(&wanted), Err(NoPlace::Nobody));
    fleet.register(&gpu("a"));
    assert_eq!(take(&mut fleet, &wanted, 1), ["a"]);
    fleet.register(&Registration { handlers: vec!["other".into()], ..gpu("a") });
    assert_eq!(fleet.take(&wanted), Err(NoPlace::Nobody));
    let b = fleet.find(&id("b")).expect("registered");
    assert_eq!(fleet.held(b), 2, "a registration keeps what is held");
}

#[test]
fn queue_places_are_used_only_on_demand_and_after_all_slots() {
    let mut fleet = fleet(["a", "b"].map(executor));
    let slots_only = wanted(&mut fleet, &Strategy::Ring, "k");
    let may_queue = Wanted { may_queue: true, ..slots_only };
    assert_eq!(take(&mut fleet, &may_queue, 8).len(), 8);
    for name in ["a", "b"] {
        let idx = fleet.find(&id(name)).expect("registered");
        assert_eq!((fleet.held(idx), fleet.free_slots(idx)), (4, 0), "{name} got queue places too early");
    }
    assert_eq!(fleet.take(&slots_only), Err(NoPlace::Busy));
    assert_eq!((fleet.able(slots_only.class, false), fleet.able(slots_only.class, true)), (0, 2));
    assert_eq!(take(&mut fleet, &may_queue, 99).len(), 4);
    assert_eq!(fleet.take(&may_queue), Err(NoPlace::Busy));
}

#[test]
fn the_preferred_zone_comes_first() {
    let zoned = |name, zone: &str| Registration { zone: Some(zone.into()), slots: 40, ..executor(name) };
    let mut fleet = fleet([zoned("a", "x"), zoned("b", "y"), zoned("c", "x"), zoned("d", "z")]);
    let anywhere = wanted(&mut fleet, &Strategy::Ring, "k");
    for n in 0..50 {
        let in_x = Wanted { zone: Some("x"), key: KeyHash::of(&format!("k{n}")), ..anywhere };
        let idx = fleet.take(&in_x).expect("room");
        assert!(["a", "c"].contains(&name(&fleet, idx).as_str()));
        fleet.give_back(idx);
    }
    for full in ["a", "c"] {
        let idx = fleet.find(&id(full)).expect("registered");
        fleet.set_held(idx, 40);
    }
    let in_x = Wanted { zone: Some("x"), ..anywhere };
    assert!(fleet.take(&in_x).is_ok(), "a zone is a preference, not a must");
    assert!(fleet.take(&Wanted { zone: Some("nowhere"), ..anywhere }).is_ok());
}

#[test]
fn shards_spread_while_there_are_enough_executors() {
    let mut fleet = fleet(["a", "b", "c", "d"].map(executor));
    let mut holders = ExecutorSet::new();
    let base = wanted(&mut fleet, &Strategy::LeastLoaded, "k");
    let b = fleet.find(&id("b")).expect("registered");
    fleet.set_held(b, 3);
    for _ in 0..4 {
        let idx = fleet.take(&Wanted { avoid: &holders, ..base }).expect("room");
        assert!(!holders.contains(idx), "{} got two shards", name(&fleet, idx));
        holders.insert(idx);
    }
    assert!(fleet.take(&Wanted { avoid: &holders, ..base }).is_ok(), "more shards than executors");
}

#[test]
fn a_broadcast_goes_once_to_each_of_any_weight() {
    let mut fleet = fleet([executor("c"), executor("a"), Registration { weight: 0, ..executor("b") }]);
    let base = wanted(&mut fleet, &Strategy::Broadcast, "k");
    let mut holders = ExecutorSet::new();
    let mut order = Vec::new();
    while let Ok(idx) = fleet.take(&Wanted { avoid: &holders, ..base }) {
        holders.insert(idx);
        order.push(name(&fleet, idx));
    }
    assert_eq!(order, ["a", "b", "c"]);
    assert_eq!(fleet.take(&Wanted { avoid: &holders, ..base }), Err(NoPlace::Busy));
    assert_eq!(fleet.members(base.class).len(), 3);
    assert_ne!(
        base.class,
        wanted(&mut fleet, &Strategy::Ring, "k").class,
        "weight 0 counts in only one of them"
    );
}

#[test]
fn a_pinned_task_goes_to_its_executor_or_waits() {
    let mut fleet = fleet([executor("a"), Registration { weight: 0, ..executor("b") }]);
    let to_b = Strategy::Pinned(id("b"));
    let pinned = wanted(&mut fleet, &to_b, "k");
    assert_eq!(take(&mut fleet, &pinned, 9), ["b"; 4]);
    assert_eq!(fleet.take(&pinned), Err(NoPlace::Busy));
    let to_c = Strategy::Pinned(id("c"));
    let unknown = wanted(&mut fleet, &to_c, "k");
    assert_eq!(fleet.take(&unknown), Err(NoPlace::Nobody));
}

#[test]
fn round_robin_takes_turns_in_the_order_of_ids() {
    let mut fleet = fleet(["c", "a", "b"].map(executor));
    let base = wanted(&mut fleet, &Strategy::RoundRobin, "k");
    let order: Vec<_> = (0..6).map(|number| fleet.take(&Wanted { number, ..base }).expect("room")).collect();
    let order: Vec<_> = order.into_iter().map(|idx| name(&fleet, idx)).collect();
    assert_eq!(order, ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn least_loaded_goes_by_proportion() {
    let mut fleet = fleet([executor("a"), Registration { slots: 8, ..executor("b") }]);
    let base = wanted(&mut fleet, &Strategy::LeastLoaded, "k");
    let mut order = take(&mut fleet, &base, 12);
    assert_eq!(order[..3], ["b", "a", "b"]);
    order.sort();
    assert_eq!(order.iter().filter(|name| *name == "b").count(), 8);
}

#[test]
fn random_goes_by_weight() {
    let heavy = Registration { weight: 300, ..executor("b") };
    let mut fleet = fleet([executor("a"), heavy]);
    let base = wanted(&mut fleet, &Strategy::Random, "k");
    let mut counts = BTreeMap::<String, u32>::new();
    for number in 0..4000u64 {
        let idx = fleet.take(&Wanted { number, ..base }).expect("room");
        *counts.entry(name(&fleet, idx)).or_default() += 1;
        fleet.give_back(idx);
    }
    assert!((850..=1150).contains(&counts["a"]), "1:3 became {counts:?}");
}

#[test]
fn a_busy_cpu_takes_keys_away_and_gives_them_back() {
    let mut fleet = fleet(["a", "b", "c"].map(executor));
    let a = fleet.find(&id("a")).expect("registered");
    let base = wanted(&mut fleet, &Strategy::Ring, "k");
    let count = |fleet: &mut Fleet| {
        let keys = (0..3000).map(|n| KeyHash::of(&n.to_string()));
        let owners = keys.map(|key| {
            let idx = fleet.take(&Wanted { key, ..base }).expect("room");
            fleet.give_back(idx);
            idx
        });
        owners.filter(|idx| *idx == a).count()
    };
    let calm = count(&mut fleet);
    assert!(fleet.observe_cpu(a, 95.0, 0));
    assert!(!fleet.observe_cpu(a, 95.0, 5_000));
    let busy = count(&mut fleet);
    // 0.7 of 2.7 is 26 per cent, 1 of 3 is 33.
    assert!((900..=1100).contains(&calm) && (680..=880).contains(&busy), "{calm} keys, then {busy}");
    assert!(!fleet.observe_cpu(a, 20.0, 10_000));
    assert!(fleet.observe_cpu(a, 20.0, 10_000 + crate::ring::CALM_FOR_MS));
    assert_eq!(count(&mut fleet), calm);
}

#[test]
fn classes_that_nobody_uses_are_dropped_in_time() {
    let mut fleet = fleet([executor("a")]);
    let kept = fleet.class("h", &BTreeMap::new(), &Strategy::Ring);
    for n in 0..KEPT_CLASSES {
        fleet.trim_classes(|class| class == kept);
        fleet.class("h", &labels(&[("n", &n.to_string())]), &Strategy::Ring);
    }
    assert_eq!(fleet.class_ids.len(), KEPT_CLASSES + 1);
    fleet.trim_classes(|class| class == kept);
    assert_eq!(fleet.class_ids.len(), 1);
    let base = wanted(&mut fleet, &Strategy::Ring, "k");
    assert_eq!(base.class, kept);
    assert!(fleet.take(&base).is_ok());
}

/// What a random fleet is asked to do.
#[derive(Debug, Clone)]
enum Step {
    Register { name: u8, handlers: u8, gpu: bool, zone: Option<u8>, slots: u32, queue: u32, weight: u32 },
    Remove(u8),
    Open(u8, bool),
    Cpu(u8, f64),
    GiveBack(u8),
    Take { handler: u8, gpu: bool, zone: Option<u8>, strategy: Strategy, key: u8, may_queue: bool, avoid: u8 },
}

const NAMES: u8 = 7;

fn executor_name(name: u8) -> String {
    format!("e{name}")
}

fn strategy() -> impl Generator<Value = Strategy> {
    prop_oneof![
        4 => Just(Strategy::Ring),
        1 => Just(Strategy::RoundRobin),
        1 => Just(Strategy::LeastLoaded),
        1 => Just(Strategy::Random),
        1 => (0..NAMES).prop_map(|name| Strategy::Pinned(id(&executor_name(name)))),
        1 => Just(Strategy::Broadcast),
    ]
}

fn step() -> impl Generator<Value = Step> {
    let zone = || prop::option::of(0u8..3);
    let weight = prop_oneof![3 => Just(100u32), 1 => Just(0), 2 => 1u32..1000];
    let register = (0..NAMES, 0u8..4, any::<bool>(), zone(), 0u32..6, 0u32..3, weight).prop_map(
        |(name, handlers, gpu, zone, slots, queue, weight)| Step::Register {
            name,
            handlers,
            gpu,
            zone,
            slots,
            queue,
            weight,
        },
    );
    let take =
        (0u8..2, prop::bool::weighted(0.2), zone(), strategy(), any::<u8>(), any::<bool>(), any::<u8>())
            .prop_map(|(handler, gpu, zone, strategy, key, may_queue, avoid)| Step::Take {
                handler,
                gpu,
                zone,
                strategy,
                key,
                may_queue,
                avoid: if avoid < 128 { 0 } else { avoid },
            });
    prop_oneof![
        3 => register,
        1 => (0..NAMES).prop_map(Step::Remove),
        1 => (0..NAMES, prop::bool::weighted(0.7)).prop_map(|(name, open)| Step::Open(name, open)),
        1 => (0..NAMES, prop_oneof![Just(95.0), Just(10.0)]).prop_map(|(name, cpu)| Step::Cpu(name, cpu)),
        6 => (0..NAMES).prop_map(Step::GiveBack),
        16 => take,
    ]
}

/// What the rules say of one executor, word for word; the oracle of the property test.
struct Judge<'a> {
    fleet: &'a BTreeMap<String, Known>,
    wanted: &'a Step,
}

#[derive(Debug, Clone)]
struct Known {
    registration: Registration,
    factor: LoadFactor,
    open: bool,
    held: u32,
}

impl Known {
    fn milli(&self) -> u64 {
        WeightClass::new(self.registration.weight, self.factor).milli()
    }
}

impl Judge<'_> {
    fn serves(&self, known: &Known) -> bool {
        let Step::Take { handler, gpu, strategy, .. } = self.wanted else { unreachable!() };
        let registration = &known.registration;
        registration.handlers.contains(&format!("h{handler}"))
            && (!gpu || registration.labels.contains_key("gpu"))
            && !matches!(strategy, Strategy::Pinned(id) if *id != registration.id)
    }

    /// (queued, over the bound, same task, other zone), or `None` where it may not be chosen.
    fn rank(&self, name: &str) -> Option<(bool, bool, bool, bool)> {
        let Step::Take { zone, strategy, may_queue, avoid, .. } = self.wanted else { unreachable!() };
        let known = &self.fleet[name];
        let Registration { slots, queue, zone: at, .. } = &known.registration;
        let free = *slots > known.held;
        let place = slots + queue > known.held;
        let by_weight = !matches!(strategy, Strategy::Pinned(_) | Strategy::Broadcast);
        let same_task = avoid & (1 << name[1..].parse::<u8>().expect("a number")) != 0;
        if !self.serves(known)
            || !known.open
            || !(free || *may_queue && place)
            || by_weight && known.milli() == 0
            || *strategy == Strategy::Broadcast && same_task
        {
            return None;
        }
        let peers: Vec<_> =
            self.fleet.values().filter(|peer| self.serves(peer) && peer.open && peer.milli() > 0).collect();
        let weights: u64 = peers.iter().map(|peer| peer.milli()).sum();
        let running: u32 = peers.iter().map(|peer| peer.held).sum();
        let bounded = matches!(strategy, Strategy::Ring | Strategy::Random | Strategy::RoundRobin);
        let fair = f64::from(running + 1) * known.milli() as f64 / weights as f64;
        let over = bounded && f64::from(known.held + 1) > (1.25 * fair - 1e-9).ceil();
        let other_zone = zone.is_some_and(|zone| at.as_deref() != Some(&format!("z{zone}")));
        Some((!free, over, same_task, other_zone))
    }

    /// Who should be chosen.
    fn choice(&self) -> Option<String> {
        let Step::Take { strategy, key, .. } = self.wanted else { unreachable!() };
        let best = self.fleet.keys().filter_map(|name| self.rank(name)).min()?;
        let best: Vec<_> = self.fleet.keys().filter(|name| self.rank(name) == Some(best)).cloned().collect();
        let number = u64::from(*key);
        match strategy {
            Strategy::Ring => self.clockwise(&best, KeyHash::of(&key.to_string())),
            Strategy::Random => self.clockwise(&best, KeyHash::of_number(number)),
            Strategy::RoundRobin => {
                let serving: Vec<_> =
                    self.fleet.keys().filter(|name| self.serves(&self.fleet[*name])).collect();
                let turn = (number % serving.len() as u64) as usize;
                let mut turns = serving[turn..].iter().chain(&serving[..turn]);
                turns.find(|name| best.contains(name)).map(|name| name.to_string())
            }
            Strategy::LeastLoaded => best.into_iter().min_by(|a, b| {
                let (a, b) = (&self.fleet[a], &self.fleet[b]);
                let part = |known: &Known| match known.registration.slots {
                    0 => f64::INFINITY,
                    slots => f64::from(known.held) / f64::from(slots),
                };
                let slots = |known: &Known| std::cmp::Reverse(known.registration.slots);
                part(a).total_cmp(&part(b)).then(slots(a).cmp(&slots(b)))
            }),
            Strategy::Pinned(_) | Strategy::Broadcast => best.into_iter().next(),
        }
    }

    fn clockwise(&self, best: &[String], key: KeyHash) -> Option<String> {
        let names: Vec<_> = self.fleet.iter().collect();
        let members: Vec<_> = names
            .iter()
            .map(|(id, known)| RingMember {
                id,
                class: WeightClass::new(known.registration.weight, known.factor),
            })
            .collect();
        let ring = Ring::build(&members);
        ring.walk(key).map(|member| names[member].0).find(|name| best.contains(name)).cloned()
    }
}

/// A fleet and what should be known of it.
#[derive(Default)]
struct Pair {
    fleet: Fleet,
    known: BTreeMap<String, Known>,
}

impl Pair {
    fn register(&mut self, step: &Step) {
        let Step::Register { name, handlers, gpu, zone, slots, queue, weight } = step else { unreachable!() };
        let name = executor_name(*name);
        let registration = Registration {
            handlers: (0..2).filter(|n| handlers & (1 << n) != 0).map(|n| format!("h{n}")).collect(),
            labels: if *gpu { labels(&[("gpu", "yes")]) } else { BTreeMap::new() },
            zone: zone.map(|zone| format!("z{zone}")),
            slots: *slots,
            queue: *queue,
            weight: *weight,
            ..executor(&name)
        };
        self.fleet.register(&registration);
        let (held, factor) =
            self.known.get(&name).map_or((0, LoadFactor::Full), |known| (known.held, known.factor));
        self.known.insert(name, Known { registration, factor, open: true, held });
    }

    fn take(&mut self, step: &Step) {
        let Step::Take { handler, gpu, zone, strategy, key, may_queue, avoid } = step else { unreachable!() };
        let avoided = (0..NAMES).filter(|n| avoid & (1 << n) != 0);
        let avoid: ExecutorSet = avoided.filter_map(|n| self.fleet.find(&id(&executor_name(n)))).collect();
        let asked = if *gpu { labels(&[("gpu", "yes")]) } else { BTreeMap::new() };
        let zone = zone.map(|zone| format!("z{zone}"));
        let wanted = Wanted {
            class: self.fleet.class(&format!("h{handler}"), &asked, strategy),
            strategy,
            key: KeyHash::of(&key.to_string()),
            zone: zone.as_deref(),
            avoid: &avoid,
            may_queue: *may_queue,
            number: u64::from(*key),
        };
        let chosen = self.fleet.take(&wanted).ok().map(|idx| name(&self.fleet, idx));
        assert_eq!(chosen, Judge { fleet: &self.known, wanted: step }.choice());
        if let Some(name) = chosen {
            self.known.get_mut(&name).expect("chosen from these").held += 1;
        }
    }

    fn change(&mut self, name: u8, change: impl FnOnce(&mut Fleet, ExecutorIdx, &mut Known)) {
        let name = executor_name(name);
        if let (Some(idx), Some(known)) = (self.fleet.find(&id(&name)), self.known.get_mut(&name)) {
            change(&mut self.fleet, idx, known);
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Register { .. } => self.register(step),
            Step::Take { .. } => self.take(step),
            Step::Remove(name) => {
                self.change(*name, |fleet, idx, _| fleet.remove(idx));
                self.known.remove(&executor_name(*name));
            }
            Step::Open(name, open) => self.change(*name, |fleet, idx, known| {
                fleet.set_open(idx, *open);
                known.open = *open;
            }),
            Step::Cpu(name, cpu) => self.change(*name, |fleet, idx, known| {
                // No time passes, so the factor only ever falls.
                fleet.observe_cpu(idx, *cpu, 0);
                known.factor = if *cpu > 80.0 { LoadFactor::Reduced } else { known.factor };
            }),
            Step::GiveBack(name) => self.change(*name, |fleet, idx, known| {
                fleet.give_back(idx);
                known.held = known.held.saturating_sub(1);
            }),
        }
        for (name, known) in &self.known {
            let idx = self.fleet.find(&id(name)).expect("registered");
            assert_eq!(self.fleet.held(idx), known.held, "{name}");
        }
        assert_eq!(self.fleet.len(), self.known.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_choice_is_the_one_that_the_rules_name(steps in prop::collection::vec(step(), 1..120)) {
        let mut pair = Pair::default();
        for step in &steps {
            pair.run(step);
        }
    }

    #[test]
    fn nobody_is_given_more_than_the_bound_while_others_within_it_are_free(
        weights in prop::collection::vec(20u32..800, 2..9),
        keys in prop::collection::vec(0u8..3, 1..150),
    ) {
        let mut fleet = Fleet::new();
        let executors: Vec<_> = weights
            .iter()
            .enumerate()
            .map(|(n, weight)| Registration { weight: *weight, slots: 75, ..executor(&executor_name(n as u8)) })
            .map(|registration| fleet.register(&registration))
            .collect();
        let base = wanted(&mut fleet, &Strategy::Ring, "k");
        let total: u32 = weights.iter().sum();
        for (placed, key) in keys.iter().enumerate() {
            let bound = |n: usize| {
                (1.25 * (placed + 1) as f64 * f64::from(weights[n]) / f64::from(total)).ceil()
            };
            let within: Vec<_> = (0..weights.len())
                .filter(|n| fleet.free_slots(executors[*n]) > 0)
                .filter(|n| f64::from(fleet.held(executors[*n]) + 1) <= bound(*n))
                .collect();
            let key = KeyHash::of(&key.to_string());
            let idx = fleet.take(&Wanted { key, ..base }).expect("2 x 75 slots are enough for 150");
            let chosen = executors.iter().position(|known| *known == idx).expect("one of them");
            prop_assert!(within.is_empty() || within.contains(&chosen), "{chosen} is above {}", bound(chosen));
        }
    }

    #[test]
    fn the_order_of_registration_says_nothing(
        order in Just((0..NAMES).collect::<Vec<_>>()).prop_shuffle(),
        keys in prop::collection::vec((any::<u8>(), strategy()), 1..40),
    ) {
        let mut fleets = [fleet((0..NAMES).map(|n| executor(&executor_name(n)))),
            fleet(order.iter().map(|n| executor(&executor_name(*n))))];
        for (key, strategy) in &keys {
            let chosen = fleets.each_mut().map(|fleet| {
                let wanted = Wanted {
                    number: u64::from(*key),
                    ..wanted(fleet, strategy, &key.to_string())
                };
                fleet.take(&wanted).map(|idx| name(fleet, idx))
            });
            prop_assert_eq!(&chosen[0], &chosen[1]);
        }
    }
}
