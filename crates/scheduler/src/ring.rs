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
        KeyHash::of_number(xxh3_64(key.as_bytes()))
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
        scale *= 8;
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
