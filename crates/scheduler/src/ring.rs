//! The ring: which executor a key belongs to, and who is next when that one cannot take it.
//!
//! Weighted consistent hashing. A member stands on a circle of 64-bit numbers at [`POINTS_PER_100`] points
//! per weight of 100, and a key belongs to the member whose point comes first clockwise. When a member
//! comes or goes only its own keys move, and when its weight falls only some of its own keys do, because
//! the points of a lower weight are the first of those of a higher one.
//!
//! A key stands on the circle at [`PROBES`] places and belongs to the member that is nearest to any of
//! them. That evens out the luck in where the points fall: with 160 points a member's share differs from
//! its weight by about 2 per cent (standard deviation), where one place per key gives 5 to 7. With one place
//! the same evenness takes ten times the points, and ten times the memory and the time to build.
//!
//! The choice depends on the ids, the weights and the key alone: every leader makes the same one. The hash
//! is part of that promise, so it has a version, [`HASH_VERSION`], and golden values in the tests.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Names the hash and the layout of points and probes. Raise it with any change that moves keys.
pub const HASH_VERSION: u8 = 1;

/// Points on the circle for a weight of 100.
pub const POINTS_PER_100: u32 = 160;

/// Places on the circle at which a key is looked up.
pub const PROBES: usize = 4;

/// The greatest base weight: 400 cores. Greater ones count as this, which bounds the points of a member.
pub const MAX_WEIGHT: u32 = 10_000;

/// How much of its base weight an executor is given, by its CPU load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum LoadFactor {
    /// All of it.
    #[default]
    Full,
    /// 0.7 of it: its CPU is busy.
    Reduced,
}

impl LoadFactor {
    /// In thousandths.
    pub fn per_mille(self) -> u32 {
        match self {
            LoadFactor::Full => 1000,
            LoadFactor::Reduced => 700,
        }
    }
}

/// The 1-minute CPU load above which the factor falls to 0.7, in per cent.
pub const BUSY_ABOVE_PCT: f64 = 80.0;
/// The load below which an executor counts as calm again, in per cent.
pub const CALM_BELOW_PCT: f64 = 70.0;
/// How long it must stay calm before the factor rises again, in milliseconds: two minutes of which the
/// average over one minute has seen nothing of the load that made it busy.
pub const CALM_FOR_MS: u64 = 120_000;

/// Turns the CPU load that an executor reports into its [`LoadFactor`]. It falls at once and rises late, so
/// that a load that hovers at the limit does not move keys to and fro.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LoadGauge {
    factor: LoadFactor,
    calm_since_ms: Option<u64>,
}

impl LoadGauge {
    /// The factor in force.
    pub fn factor(&self) -> LoadFactor {
        self.factor
    }

    /// Takes in a load in per cent (0-100 over all cores) that arrived at `now_ms` by the monotonic clock;
    /// returns whether the factor changed. A value that is not a number says nothing.
    pub fn observe(&mut self, cpu_pct: f64, now_ms: u64) -> bool {
        let before = self.factor;
        if cpu_pct > BUSY_ABOVE_PCT {
            *self = LoadGauge { factor: LoadFactor::Reduced, calm_since_ms: None };
        } else if cpu_pct >= CALM_BELOW_PCT {
            self.calm_since_ms = None;
        } else if cpu_pct < CALM_BELOW_PCT {
            let since = *self.calm_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since) >= CALM_FOR_MS {
                self.factor = LoadFactor::Full;
            }
        }
        self.factor != before
    }
}

/// A member's weight on the ring: its base weight and the factor in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightClass {
    base: u32,
    factor: LoadFactor,
}

impl WeightClass {
    /// The class of what has no place on the ring.
    pub const ZERO: WeightClass = WeightClass { base: 0, factor: LoadFactor::Full };

    /// The class of a base weight (100 per four cores; at most [`MAX_WEIGHT`] counts) under a factor.
    pub fn new(base: u32, factor: LoadFactor) -> Self {
        WeightClass { base: base.min(MAX_WEIGHT), factor }
    }

    /// The same base weight under another factor.
    pub fn with_factor(self, factor: LoadFactor) -> Self {
        WeightClass { factor, ..self }
    }

    /// The weight in thousandths.
    pub fn milli(self) -> u64 {
        u64::from(self.base) * u64::from(self.factor.per_mille())
    }

    /// The points of this class on a ring whose weights count `scale` times.
    fn points(self, scale: u64) -> u32 {
        if self.base == 0 {
            return 0;
        }
        let points = (self.milli() * scale * u64::from(POINTS_PER_100) + 50_000) / 100_000;
        u32::try_from(points).expect("at most MAX_WEIGHT, or 100 where it is scaled").max(1)
    }
}

/// A member as the ring is built from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingMember<'a> {
    /// Its name; no two members share one.
    pub id: &'a str,
    /// Its weight; a member of weight 0 has no place on the ring.
    pub class: WeightClass,
}

/// A weighted consistent-hash ring. Members are named by their index in the slice that it was built from.
#[derive(Debug, Default, Clone)]
pub struct Ring {
    /// The points, ascending.
    points: Vec<Point>,
    /// Where the points begin whose upper bits are at least the index: a lookup starts there.
    starts: Vec<u32>,
    /// 64 less the number of those upper bits.
    shift: u32,
    members: usize,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    at: u64,
    member: u32,
}

impl Ring {
    /// Builds the ring of these members; their order has no influence on which keys are whose.
    pub fn build(members: &[RingMember<'_>]) -> Self {
        let scale = scale(members);
        let mut points = Vec::new();
        for (index, member) in members.iter().enumerate() {
            let index = u32::try_from(index).expect("fewer than 2^32 executors");
            points.extend(
                (0..member.class.points(scale)).map(|n| Point { at: point(member.id, n), member: index }),
            );
        }
        // Two points on one spot are as good as impossible, but must not be ordered by the input.
        let id = |point: &Point| members[point.member as usize].id;
        points.sort_unstable_by(|a, b| a.at.cmp(&b.at).then_with(|| id(a).cmp(id(b))));
        let bits = points.len().next_power_of_two().ilog2().max(1);
        let shift = u64::BITS - bits;
        let starts = starts(&points, shift, 1 << bits);
        Ring { points, starts, shift, members: members.len() }
    }

    /// Whether no member has a place on it.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// How many points the members have.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// The member that `key` belongs to among those that `accepts` says yes to, or `None` where it says
    /// yes to nobody. It is the first such one of [`walk`](Self::walk), found without a walk over the others;
    /// `accepts` is asked about a member as often as the walk meets it.
    pub fn find(&self, key: KeyHash, mut accepts: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut best: Option<(u64, usize)> = None;
        for probe in key.probes() {
            for point in self.clockwise(probe) {
                let distance = point.at.wrapping_sub(probe);
                if best.is_some_and(|(nearest, _)| distance >= nearest) {
                    break;
                }
                if accepts(point.member as usize) {
                    best = Some((distance, point.member as usize));
                    break;
                }
            }
        }
        best.map(|(_, member)| member)
    }

    /// Every member with a place on the ring, each once: first the one that `key` belongs to, then the one
    /// that it belongs to while the first cannot take it, and so on.
    pub fn walk(&self, key: KeyHash) -> impl Iterator<Item = usize> + '_ {
        let mut cursors = key.probes().map(|probe| (probe, self.clockwise(probe).peekable()));
        let mut seen = vec![false; self.members];
        std::iter::from_fn(move || {
            loop {
                let nearest = cursors
                    .iter_mut()
                    .filter_map(|(probe, points)| {
                        let distance = points.peek()?.at.wrapping_sub(*probe);
                        Some((distance, points))
                    })
                    .min_by_key(|(distance, _)| *distance)?;
                let member = nearest.1.next()?.member as usize;
                if !std::mem::replace(&mut seen[member], true) {
                    return Some(member);
                }
            }
        })
    }

    /// Every point, once around, from the first at or after `from`.
    fn clockwise(&self, from: u64) -> impl Iterator<Item = Point> + '_ {
        let start = self.starts.get((from >> self.shift) as usize).map_or(0, |start| *start as usize);
        let skip = self.points[start..].iter().take_while(|point| point.at < from).count();
        let (before, after) = self.points.split_at(start + skip);
        after.iter().chain(before).copied()
    }
}

/// A key's places on the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u64; PROBES]);

impl KeyHash {
    /// The places of a routing key.
    pub fn of(key: &str) -> Self {
        KeyHash::of_number(KeyHash::number_of(key))
    }

    /// The number that stands for a routing key in [`of_number`](Self::of_number), where many keys are to be kept.
    pub fn number_of(key: &str) -> u64 {
        xxh3_64(key.as_bytes())
    }

    /// The places of a number: of a hash, or of one drawn by chance.
    pub fn of_number(number: u64) -> Self {
        KeyHash(std::array::from_fn(|probe| xxh3_64_with_seed(&number.to_le_bytes(), probe as u64)))
    }

    /// A number that is spread evenly over all keys.
    pub fn number(self) -> u64 {
        self.0[0]
    }

    fn probes(self) -> [u64; PROBES] {
        self.0
    }
}

/// Where the `number`th point of a member stands.
fn point(id: &str, number: u32) -> u64 {
    // The number is hashed as data: seeds and short inputs are combined by addition and exclusive or, where
    // ("a1", 3) and ("a2", 0) may meet.
    let mut bytes = Vec::with_capacity(id.len() + 4);
    bytes.extend_from_slice(id.as_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    xxh3_64(&bytes)
}

/// How many times the weights count. Where nobody has half the usual weight of 100, all are scaled up alike:
/// weights of 1 and 3 would make two and five points, which is neither even nor 1 to 3. Only base weights
/// decide, so that the load of the executors never rescales the ring, and the steps are coarse, so that a
/// member that comes or goes hardly ever does.
fn scale(members: &[RingMember<'_>]) -> u64 {
    let heaviest = members.iter().map(|member| member.class.base).max().unwrap_or(0);
    let mut scale = 1;
    while heaviest > 0 && u64::from(heaviest) * scale < 50 {
        scale *= 16;
    }
    scale
}

/// For each value of the upper bits, the first point that has them or greater ones.
fn starts(points: &[Point], shift: u32, buckets: usize) -> Vec<u32> {
    let mut starts = Vec::with_capacity(buckets);
    for (index, point) in points.iter().enumerate() {
        let bucket = (point.at >> shift) as usize;
        while starts.len() <= bucket {
            starts.push(index as u32);
        }
    }
    starts.resize(buckets, points.len() as u32);
    starts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Named = Vec<(String, u32, LoadFactor)>;

    fn build(members: &Named) -> Ring {
        let members: Vec<_> = members
            .iter()
            .map(|(id, base, factor)| RingMember { id, class: WeightClass::new(*base, *factor) })
            .collect();
        Ring::build(&members)
    }

    fn full(members: &[(&str, u32)]) -> Named {
        members.iter().map(|(id, base)| (id.to_string(), *base, LoadFactor::Full)).collect()
    }

    /// Whose each of so many keys is, by name.
    fn owners(members: &Named, keys: usize) -> Vec<Option<&str>> {
        let ring = build(members);
        (0..keys)
            .map(|n| ring.find(KeyHash::of(&format!("job-{n}")), |_| true).map(|at| members[at].0.as_str()))
            .collect()
    }

    fn shares(members: &Named, keys: usize) -> Vec<usize> {
        let owners = owners(members, keys);
        members.iter().map(|(id, ..)| owners.iter().filter(|owner| **owner == Some(id)).count()).collect()
    }

    fn fleet() -> impl Strategy<Value = Named> {
        let weight = prop_oneof![4 => Just(100u32), 2 => 50u32..800, 1 => Just(0)];
        let factor = prop_oneof![4 => Just(LoadFactor::Full), 1 => Just(LoadFactor::Reduced)];
        let ids = prop::collection::btree_set("[a-z0-9]{1,3}|[a-z]{2,8}-[0-9]{1,4}", 1..12);
        ids.prop_flat_map(move |ids| {
            let parts = prop::collection::vec((weight.clone(), factor.clone()), ids.len());
            parts.prop_map(move |parts| {
                let named = ids.iter().cloned().zip(parts);
                let mut members: Named = named.map(|(id, (base, factor))| (id, base, factor)).collect();
                // Somebody of the usual weight keeps the scale, whoever else comes and goes.
                members.push(("anchor".into(), 100, LoadFactor::Full));
                members
            })
        })
    }

    #[test]
    fn golden_values_of_this_hash_version() {
        assert_eq!(HASH_VERSION, 1);
        let places = [4815474616123019862, 3160292928606322068, 9041467674825672657, 6993953374630824362];
        assert_eq!(KeyHash::of("daily-report").0, places);
        assert_eq!(point("executor-1", 0), 12991744110906625967);
        assert_eq!(point("executor-1", 159), 12072679326756104528);
        let ring = build(&full(&[("executor-1", 100), ("executor-2", 200), ("executor-3", 50)]));
        let owners = (0..16).map(|n| ring.find(KeyHash::of(&format!("job-{n}")), |_| true));
        let owners: Vec<_> = owners.flatten().collect();
        assert_eq!(owners, [1, 0, 0, 2, 2, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1]);
    }

    #[test]
    fn weights_of_zero_one_and_three() {
        let mut ratios = Vec::new();
        for n in 0..20 {
            let ids = ["zero", "one", "three"].map(|name| format!("{name}-{n}"));
            let members = full(&[(&ids[0], 0), (&ids[1], 1), (&ids[2], 3)]);
            let counts = shares(&members, 10_000);
            assert_eq!(counts[0], 0);
            ratios.push(counts[2] as f64 / counts[1] as f64);
        }
        // Whatever the names: the worst luck is bounded, and nobody has luck on average.
        assert!(ratios.iter().all(|ratio| (2.7..=3.3).contains(ratio)), "{ratios:?}");
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!((2.9..=3.1).contains(&mean), "1:3 became 1:{mean}");
    }

    #[test]
    fn the_least_weight_has_its_points_beside_a_usual_one() {
        let points = |base| build(&full(&[("small", base), ("usual", 100)])).points() - 160;
        assert_eq!([0, 1, 3, 50].map(points), [0, 2, 5, 80]);
    }

    #[test]
    fn a_ring_of_nobody_owns_nothing() {
        for members in [full(&[]), full(&[("a", 0), ("b", 0)])] {
            let ring = build(&members);
            assert!(ring.is_empty());
            assert_eq!(ring.find(KeyHash::of("k"), |_| true), None);
            assert_eq!(ring.walk(KeyHash::of("k")).count(), 0);
        }
        assert_eq!(Ring::default().find(KeyHash::of("k"), |_| true), None);
    }

    #[test]
    fn one_more_of_four_takes_a_fair_part_of_the_keys() {
        let four = full(&[("e1", 100), ("e2", 100), ("e3", 100), ("e4", 100)]);
        let five: Named = four.iter().cloned().chain(full(&[("e5", 100)])).collect();
        let moved =
            owners(&four, 10_000).iter().zip(owners(&five, 10_000)).filter(|(a, b)| **a != *b).count();
        assert!((1_700..=2_300).contains(&moved), "{moved} of 10,000 keys moved; a fifth should");
    }

    #[test]
    fn a_factor_of_seven_tenths_takes_three_tenths_of_the_points() {
        let full = Ring::build(&[RingMember { id: "e", class: WeightClass::new(100, LoadFactor::Full) }]);
        let busy = Ring::build(&[RingMember { id: "e", class: WeightClass::new(100, LoadFactor::Reduced) }]);
        assert_eq!((full.points(), busy.points()), (160, 112));
    }

    #[test]
    fn a_huge_weight_is_bounded() {
        let class = WeightClass::new(u32::MAX, LoadFactor::Full);
        assert_eq!(class, WeightClass::new(MAX_WEIGHT, LoadFactor::Full));
        assert_eq!(Ring::build(&[RingMember { id: "e", class }]).points(), 16_000);
    }

    #[test]
    fn the_factor_falls_at_once_and_rises_late() {
        let mut gauge = LoadGauge::default();
        assert!(!gauge.observe(80.0, 0), "80 is not above 80");
        assert!(gauge.observe(80.1, 5_000));
        assert_eq!(gauge.factor(), LoadFactor::Reduced);
        // Calm, but not for long enough; then between the limits, which starts the count anew.
        assert!(!gauge.observe(10.0, 10_000));
        assert!(!gauge.observe(10.0, 10_000 + CALM_FOR_MS - 1));
        assert!(!gauge.observe(75.0, 140_000));
        assert!(!gauge.observe(10.0, 145_000));
        assert!(!gauge.observe(f64::NAN, 200_000));
        assert!(!gauge.observe(10.0, 145_000 + CALM_FOR_MS - 1));
        assert!(gauge.observe(10.0, 145_000 + CALM_FOR_MS));
        assert_eq!(gauge.factor(), LoadFactor::Full);
    }

    #[test]
    fn a_load_that_hovers_at_the_limit_changes_the_factor_once() {
        let mut gauge = LoadGauge::default();
        let loads = [79.0, 81.0, 79.0, 82.0, 71.0, 80.5];
        let beats = loads.iter().cycle().take(720).enumerate();
        let changes = beats.filter(|(beat, load)| gauge.observe(**load, *beat as u64 * 5_000)).count();
        assert_eq!(changes, 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn shares_follow_the_weights(members in fleet()) {
            const KEYS: usize = 20_000;
            let weight = |(_, base, factor): &(String, u32, LoadFactor)| WeightClass::new(*base, *factor).milli();
            let total: u64 = members.iter().map(weight).sum();
            for (member, count) in members.iter().zip(shares(&members, KEYS)) {
                let fair = KEYS as f64 * weight(member) as f64 / total as f64;
                // Five standard deviations of the points and of the sample.
                let points = f64::from(WeightClass::new(member.1, member.2).points(1)).max(1.0);
                let tolerance = 5.0 * (fair * 0.3 / points.sqrt() + fair.sqrt());
                prop_assert!((count as f64 - fair).abs() <= tolerance, "{member:?}: {count}, fair {fair}");
            }
        }

        #[test]
        fn only_the_keys_of_a_member_move_with_it(members in fleet(), which in any::<prop::sample::Index>()) {
            let with = owners(&members, 500);
            let (gone, ..) = &members[which.index(members.len() - 1)];
            let rest: Named = members.iter().filter(|(id, ..)| id != gone).cloned().collect();
            for (before, after) in with.iter().zip(owners(&rest, 500)) {
                prop_assert!(*before == Some(gone) || *before == after, "{before:?} -> {after:?}");
                prop_assert_ne!(after, Some(gone.as_str()));
            }
        }

        #[test]
        fn a_busy_member_gives_keys_away_and_takes_none(
            members in fleet(), which in any::<prop::sample::Index>(),
        ) {
            let at = which.index(members.len());
            let with = |factor| {
                let mut members = members.clone();
                members[at].2 = factor;
                members
            };
            let (calm, busy) = (with(LoadFactor::Full), with(LoadFactor::Reduced));
            for (before, after) in owners(&calm, 500).iter().zip(owners(&busy, 500)) {
                prop_assert!(*before == Some(&members[at].0) || *before == after, "{before:?} -> {after:?}");
            }
        }

        #[test]
        fn the_order_of_the_members_says_nothing(members in fleet(), turn in 0usize..12) {
            let mut turned = members.clone();
            let by = turn % members.len();
            turned.rotate_left(by);
            turned.reverse();
            prop_assert_eq!(owners(&members, 300), owners(&turned, 300));
        }

        #[test]
        fn find_is_the_first_of_the_walk(members in fleet(), refused in any::<u16>(), key in any::<u64>()) {
            let ring = build(&members);
            let key = KeyHash::of_number(key);
            let walk: Vec<_> = ring.walk(key).collect();
            let weighted = members.iter().filter(|(_, base, _)| *base > 0).count();
            prop_assert_eq!(walk.len(), weighted);
            prop_assert_eq!(walk.iter().collect::<BTreeSet<_>>().len(), weighted);
            let accepts = |member: usize| refused & (1 << member) == 0;
            let first = walk.iter().copied().find(|member| accepts(*member));
            prop_assert_eq!(ring.find(key, accepts), first);
        }
    }
}
