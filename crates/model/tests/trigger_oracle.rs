//! Cron against an oracle that is written apart from it: its own reading of the fields, straight from their text, and
//! its own way from local times to instants, with nothing but offset look-ups from the zone database.
//!
//! The usual form is short: 20 zones x 50 expressions x 2 years. `ORLOJ_LONG=1` (`make long`) runs 200 zones x 500
//! expressions x 5 years, and `ORLOJ_SEED` repeats a seed that was printed.
//!
//! What is sampled: the zones, spread evenly over all names of the database in their order, so that each part of the world is
//! among them; for each pair of zone and expression one of the six policies for clock changes; and the time of an
//! expression with more than [`OFTEN`] fires, of which every day around a change of the zone's offset and every 61st
//! other day are compared. Of any other pair every fire of the whole time is, and the test prints how many those are.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::{TimeZone, TimeZoneDatabase};
use orloj_model::Random as _;
use orloj_model::id::Millis;
use orloj_model::random::SeededRandom;
use orloj_model::trigger::{Cron, DayRule, Dst, Gap, Kind, Limits, Overlap, Progress, Schedule, Trigger};

const DAY: i64 = 86_400;
const FAR: i64 = 26 * 3_600;
/// An expression that names more instants is compared on a part of the days: see the head.
const OFTEN: usize = 20_000;

// ---- what an expression says of a local time, read from its text ----

#[derive(Clone)]
struct Oracle {
    fields: Vec<String>,
    or: bool,
}

#[derive(Clone, Copy)]
struct Day {
    year: i64,
    month: i64,
    day: i64,
    /// 0 is Sunday.
    weekday: i64,
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && year % 100 != 0 || year % 400 == 0
}

fn length(year: i64, month: i64) -> i64 {
    [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1]
}

/// Every day from 1960 to 2059, by stepping from one to the next.
fn days() -> BTreeMap<i64, Day> {
    // 1960-01-01 was a Friday, 3,653 days before the epoch.
    let mut at = Day { year: 1960, month: 1, day: 1, weekday: 5 };
    let mut days = BTreeMap::new();
    let mut number = -3_653;
    while at.year < 2060 {
        days.insert(number, at);
        number += 1;
        at.weekday = (at.weekday + 1) % 7;
        at.day += 1;
        if at.day > length(at.year, at.month) {
            (at.day, at.month) = (1, at.month + 1);
        }
        if at.month > 12 {
            (at.month, at.year) = (1, at.year + 1);
        }
    }
    days
}

const MONTHS: [&str; 13] =
    ["", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEK: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

fn value(text: &str, names: &[&str]) -> i64 {
    names.iter().position(|name| *name == text).map_or_else(|| text.parse().unwrap(), |at| at as i64)
}

/// Whether a plain item names a number: counts from its beginning to its end, around the end of the field.
fn item_has(item: &str, wanted: i64, min: i64, max: i64, names: &[&str]) -> bool {
    let (range, step) =
        item.split_once('/').map_or((item, 1), |(range, step)| (range, step.parse().unwrap()));
    let (first, last) = match range.split_once('-') {
        _ if range == "*" => (min, max),
        Some((first, last)) => (value(first, names), value(last, names)),
        None if item.contains('/') => (value(range, names), max),
        None => (value(range, names), value(range, names)),
    };
    // Sunday is written as 0 or 7 in a field that ends with 6.
    let fold = |number: i64| if max == 6 { number % 7 } else { number };
    let whole = max == 6 && last == 7 && first <= 7;
    let mut at = if first == 7 && max == 6 { 0 } else { first };
    let end = if whole && first != 7 { 7 } else { fold(last) };
    let mut count = 0;
    loop {
        if fold(at) == wanted && count % step == 0 {
            return true;
        }
        if at == end || count > 100 {
            return false;
        }
        at = if at == max && (max != 6 || end != 7) { min } else { at + 1 };
        count += 1;
    }
}

fn field_has(field: &str, wanted: i64, min: i64, max: i64, names: &[&str]) -> bool {
    field.split(',').any(|item| item_has(item, wanted, min, max, names))
}

fn weekday_of(day: Day, other: i64) -> i64 {
    (day.weekday + (other - day.day)).rem_euclid(7)
}

/// The weekday nearest to a day of the month, by trying the days around it.
fn is_nearest(day: Day, wanted: i64) -> bool {
    let last = length(day.year, day.month);
    let workday = |at: i64| (1..=last).contains(&at) && !matches!(weekday_of(day, at), 0 | 6);
    let nearest = [0, -1, 1, -2, 2].iter().map(|by| wanted + by).find(|at| workday(*at));
    wanted <= last && nearest == Some(day.day)
}

fn month_day_has(field: &str, day: Day) -> bool {
    let last = length(day.year, day.month);
    field.split(',').any(|item| match item {
        "?" => true,
        "L" => day.day == last,
        "LW" => is_nearest(day, last),
        _ if item.starts_with("L-") => day.day == last - item[2..].parse::<i64>().unwrap(),
        _ if item.ends_with('W') => is_nearest(day, item[..item.len() - 1].parse().unwrap()),
        _ => item_has(item, day.day, 1, 31, &[]),
    })
}

fn week_day_has(field: &str, day: Day) -> bool {
    field.split(',').any(|item| match item {
        "?" => true,
        _ if item.contains('#') => {
            let (weekday, nth) = item.split_once('#').unwrap();
            value(weekday, &WEEK) % 7 == day.weekday && (day.day - 1) / 7 + 1 == nth.parse::<i64>().unwrap()
        }
        _ if item.ends_with('L') => {
            let weekday = value(&item[..item.len() - 1], &WEEK) % 7;
            weekday == day.weekday && day.day + 7 > length(day.year, day.month)
        }
        _ => item_has(item, day.weekday, 0, 6, &WEEK),
    })
}

impl Oracle {
    fn new(expression: &str, or: bool) -> Oracle {
        let mut fields: Vec<String> = expression.split(' ').map(str::to_string).collect();
        if fields.len() == 5 {
            fields.insert(0, "0".to_string());
        }
        if fields.len() == 6 {
            fields.push("*".to_string());
        }
        Oracle { fields, or }
    }

    fn has_day(&self, day: Day) -> bool {
        let [_, _, _, month_day, month, week_day, year] = &self.fields[..] else { panic!("seven fields") };
        let free = |field: &str| field.starts_with(['*', '?']);
        let (by_day, by_week) = (month_day_has(month_day, day), week_day_has(week_day, day));
        let either = self.or && !free(month_day) && !free(week_day);
        field_has(month, day.month, 1, 12, &MONTHS)
            && field_has(year, day.year, 1970, 9999, &[])
            && if either { by_day || by_week } else { by_day && by_week }
    }

    /// The seconds of a day that it names.
    fn times(&self) -> Vec<i64> {
        let of =
            |place: usize, max| (0..=max).filter(move |at| field_has(&self.fields[place], *at, 0, max, &[]));
        let (minutes, seconds): (Vec<_>, Vec<_>) = (of(1, 59).collect(), of(0, 59).collect());
        of(2, 23)
            .flat_map(|hour| minutes.iter().map(move |minute| hour * 3_600 + minute * 60))
            .flat_map(|at| seconds.iter().map(move |second| at + second))
            .collect()
    }

    /// Whether clock changes leave its cadence alone.
    fn cadence(&self) -> bool {
        self.fields[..3].iter().any(|field| field.contains(['*', '/']))
    }
}

// ---- from local times to instants ----

/// Offsets over time, found by looking every quarter of an hour and halving where they differ.
struct Offsets {
    zone: TimeZone,
    /// Each with its first instant.
    runs: Vec<(i64, i64)>,
}

fn offset(zone: &TimeZone, second: i64) -> i64 {
    i64::from(zone.to_offset(jiff::Timestamp::from_second(second).unwrap()).seconds())
}

impl Offsets {
    fn new(name: &str, from: i64, to: i64) -> Offsets {
        let zone = TimeZoneDatabase::bundled().get(name).unwrap();
        let mut runs = vec![(from, offset(&zone, from))];
        let mut at = from;
        while at < to {
            let (mut low, mut high) = (at, at + 900);
            if offset(&zone, high) != offset(&zone, low) {
                while high - low > 1 {
                    let middle = (low + high) / 2;
                    if offset(&zone, middle) == offset(&zone, low) { low = middle } else { high = middle }
                }
                runs.push((high, offset(&zone, high)));
            }
            at += 900;
        }
        Offsets { zone, runs }
    }

    /// The changes: instant, offset before, offset behind.
    fn changes(&self) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        self.runs.windows(2).map(|pair| (pair[1].0, pair[0].1, pair[1].1))
    }

    /// The instants that show a local second, or the end of the gap that swallows it.
    fn instants(&self, local: i64) -> (Vec<i64>, Option<i64>) {
        let at = self.runs.partition_point(|run| run.0 <= local - FAR).max(1) - 1;
        let near: Vec<&(i64, i64)> = self.runs[at..].iter().take_while(|run| run.0 <= local + FAR).collect();
        if let [(_, only)] = near[..] {
            return (vec![local - only], None);
        }
        let offsets: BTreeSet<i64> = near.iter().map(|run| run.1).collect();
        let found: BTreeSet<i64> =
            offsets.iter().map(|o| local - o).filter(|at| at + offset(&self.zone, *at) == local).collect();
        let gap = self.changes().find(|(at, before, behind)| at + before <= local && local < at + behind);
        (found.into_iter().collect(), gap.map(|gap| gap.0))
    }
}

/// The fires on a stretch of days, by going through every named local time of it and of the days around it.
fn fires(
    oracle: &Oracle,
    (times, days): (&[i64], &[i64]),
    offsets: &Offsets,
    dst: Dst,
    (from, to): (i64, i64),
) -> Vec<Millis> {
    let mut found = BTreeSet::new();
    let first = days.partition_point(|day| (day + 2) * DAY < from);
    for day in days[first..].iter().take_while(|day| (**day - 2) * DAY < to) {
        for time in times {
            let (instants, gap) = offsets.instants(day * DAY + time);
            match (&instants[..], dst.overlap) {
                ([], _) if !oracle.cadence() && dst.gap == Gap::Shift => found.extend(gap),
                ([first, _], Overlap::First) if !oracle.cadence() => found.extend([*first]),
                ([_, second], Overlap::Second) if !oracle.cadence() => found.extend([*second]),
                _ => found.extend(instants),
            }
        }
    }
    found.into_iter().filter(|at| (from..to).contains(at)).map(|at| at * 1_000).collect()
}

// ---- random expressions ----

struct Draw(SeededRandom);

impl Draw {
    fn below(&self, count: i64) -> i64 {
        self.0.up_to(count as u64 - 1) as i64
    }

    fn of<'a>(&self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as i64) as usize]
    }

    fn number(&self, min: i64, max: i64, names: &[&str]) -> String {
        let number = min + self.below(max - min + 1);
        match names.get(number as usize) {
            Some(name) if self.below(2) == 0 => name.to_string(),
            _ => number.to_string(),
        }
    }

    /// A number, a list, a range (that may wrap), a step.
    fn plain(&self, min: i64, max: i64, names: &[&str]) -> String {
        let number = || self.number(min, max, names);
        let size = max - min;
        match self.below(8) {
            0..=3 => number(),
            4 => format!("{},{}", number(), number()),
            5 => {
                let (first, last) = (number(), number());
                if names.is_empty() && first == last { first } else { format!("{first}-{last}") }
            }
            6 => format!("{}/{}", number(), 1 + self.below(size.min(6))),
            _ => format!("*/{}", 1 + self.below(size.min(if max == 7 { 6 } else { size }))),
        }
    }

    fn expression(&self) -> String {
        let fixed = |max: i64| self.plain(0, max, &[]);
        let month_day = match self.below(10) {
            0..=3 => "*".to_string(),
            4 => self.of(&["?", "L", "LW", "L-3", "15W", "1W", "31W", "L,1", "28-2", "L-1,15W"]).to_string(),
            _ => self.plain(1, 31, &[]),
        };
        let week_day = match self.below(10) {
            0..=4 => "*".to_string(),
            5 => self.of(&["?", "5L", "SUNL", "7L", "MON#2", "FRI#5,1", "7#1", "6-2"]).to_string(),
            _ => self.plain(0, 7, &WEEK),
        };
        let month = if self.below(4) > 0 { "*".to_string() } else { self.plain(1, 12, &MONTHS) };
        let (minute, hour) = match self.below(6) {
            0 => ("*".to_string(), fixed(23)),
            1 => (fixed(59), "*".to_string()),
            2 => (fixed(59), format!("{},{}", self.number(0, 4, &[]), self.number(0, 23, &[]))),
            _ => (fixed(59), fixed(23)),
        };
        let five = format!("{minute} {hour} {month_day} {month} {week_day}");
        match self.below(6) {
            0 => format!("{} {five}", fixed(59)),
            1 => format!(
                "{} {five} {}",
                self.number(0, 59, &[]),
                self.of(&["*", "2027-2029", "2026/2", "2028"])
            ),
            _ => five,
        }
    }

    fn dst(&self) -> Dst {
        policies()[self.below(6) as usize]
    }
}

fn policies() -> Vec<Dst> {
    let gaps = [Gap::Shift, Gap::Skip];
    let overlaps = [Overlap::First, Overlap::Second, Overlap::Both];
    gaps.iter().flat_map(|gap| overlaps.map(|overlap| Dst { gap: *gap, overlap })).collect()
}

// ---- the comparison ----

fn schedule(expression: &str, zone: &str, dst: Dst, rule: DayRule) -> Result<Schedule, String> {
    let cron = Cron::new(expression, zone, dst, rule, 0).map_err(|error| error.to_string())?;
    let trigger = Trigger::new(Kind::Cron(cron), Limits::default()).unwrap();
    Ok(Schedule::new("oracle", &[trigger], &[]).unwrap())
}

fn seed() -> u64 {
    std::env::var("ORLOJ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_270_314)
}

fn long() -> bool {
    std::env::var("ORLOJ_LONG").is_ok_and(|value| value == "1")
}

/// Compares the chain of next fires with the oracle on a stretch of time.
fn compare(schedule: &Schedule, right: &[Millis], (from, to): (i64, i64), about: &str) {
    let mut after = from * 1_000 - 1;
    let mut right = right.iter();
    loop {
        let found = schedule.next(&Progress::default(), after).map(|next| next.scheduled_at);
        let found = found.filter(|at| *at < to * 1_000);
        let expected = right.next().copied();
        assert_eq!(found, expected, "{about}, after {after}");
        let Some(at) = found else { return };
        assert!(at > after, "{about}: not later than {after}");
        after = at;
    }
}

/// The stretches to compare: all of the range, or of an expression that fires very often every change of the offset
/// with the days around it, and every 61st day.
fn stretches(often: bool, offsets: &Offsets, (from, to): (i64, i64)) -> Vec<(i64, i64)> {
    if !often {
        return vec![(from, to)];
    }
    let around = offsets.changes().map(|(at, ..)| (at - DAY, at + DAY + 3_600));
    let spread = (from..to).step_by(61 * DAY as usize).map(|at| (at, at + DAY));
    around.chain(spread).filter(|(begin, end)| *begin >= from && *end <= to).collect()
}

struct Case {
    expression: String,
    rule: DayRule,
    oracle: Oracle,
    times: Vec<i64>,
    days: Vec<i64>,
}

fn case(draw: &Draw, days: &BTreeMap<i64, Day>, (from, to): (i64, i64)) -> Case {
    loop {
        let expression = draw.expression();
        let rule = if draw.below(2) == 0 { DayRule::Or } else { DayRule::And };
        let oracle = Oracle::new(&expression, rule == DayRule::Or);
        let near = days.range(from / DAY - 3..to / DAY + 3);
        let named: Vec<i64> =
            near.filter(|(_, day)| oracle.has_day(**day)).map(|(number, _)| *number).collect();
        if let Err(error) = schedule(&expression, "UTC", Dst::default(), rule) {
            assert!(error.contains("no date ever matches"), "{expression}: {error}");
            assert!(!days.values().any(|day| oracle.has_day(*day)), "{expression} has a date: {error}");
            continue;
        }
        let times = oracle.times();
        return Case { expression, rule, oracle, times, days: named };
    }
}

fn run_zone(name: &str, cases: &[Case], range: (i64, i64), draw: &Draw) -> (usize, usize) {
    let offsets = Offsets::new(name, range.0 - 4 * DAY, range.1 + 4 * DAY);
    let (mut count, mut whole) = (0, 0);
    for case in cases {
        let dst = draw.dst();
        let schedule = schedule(&case.expression, name, dst, case.rule).unwrap();
        let often = case.times.len() * case.days.len() > OFTEN;
        whole += usize::from(!often);
        for stretch in stretches(often, &offsets, range) {
            let right = fires(&case.oracle, (&case.times, &case.days), &offsets, dst, stretch);
            count += right.len();
            let about = format!("{:?} {:?} in {name}, {dst:?}", case.expression, case.rule);
            compare(&schedule, &right, stretch, &about);
        }
    }
    (count, whole)
}

/// The zones of the long and of the short form.
const ZONES: (usize, usize) = (200, 20);

/// So many names of the database, spread evenly from the first to the last.
fn zone_names(count: usize) -> Vec<String> {
    let mut names: Vec<String> =
        TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_string()).collect();
    names.sort_unstable();
    (0..count).map(|place| names[place * (names.len() - 1) / (count - 1)].clone()).collect()
}

#[test]
fn the_zones_are_spread_over_the_whole_world() {
    let regions = |count| -> BTreeSet<String> {
        let names = zone_names(count);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), count, "a zone stands there twice");
        names.iter().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect()
    };
    let every = [
        "Africa",
        "America",
        "Antarctica",
        "Asia",
        "Atlantic",
        "Australia",
        "Canada",
        "Etc",
        "Europe",
        "Indian",
        "Mexico",
        "Pacific",
        "US",
    ];
    let (long, short) = (regions(ZONES.0), regions(ZONES.1));
    for region in every {
        assert!(long.contains(region), "{region} is not among {long:?}");
    }
    for region in ["Africa", "America", "Asia", "Europe", "Indian", "Pacific"] {
        assert!(short.contains(region), "{region} is not among {short:?}");
    }
}

#[test]
fn random_expressions_fire_as_the_oracle_says() {
    let (zone_count, expression_count, years) = if long() { (ZONES.0, 500, 5) } else { (ZONES.1, 50, 2) };
    let seed = seed();
    println!("ORLOJ_SEED={seed}: {zone_count} zones x {expression_count} expressions x {years} years");
    let draw = Draw(SeededRandom::new(seed));
    // From 2026-01-01.
    let range = (1_767_225_600, 1_767_225_600 + years * 365 * DAY);
    let days = days();
    let cases: Vec<Case> = (0..expression_count).map(|_| case(&draw, &days, range)).collect();
    let zones = zone_names(zone_count);
    let halves: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let (left, right) = zones.split_at(zones.len() / 2);
        let cases = &cases;
        let threads = [(left, seed + 1), (right, seed + 2)].map(|(half, seed)| {
            scope.spawn(move || {
                let draw = Draw(SeededRandom::new(seed));
                half.iter().map(|name| run_zone(name, cases, range, &draw)).collect::<Vec<_>>()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let fires: usize = halves.iter().map(|half| half.0).sum();
    let whole: usize = halves.iter().map(|half| half.1).sum();
    println!(
        "{} zones, {fires} fires compared; {whole} of {} pairs over all of the time",
        zones.len(),
        zones.len() * cases.len()
    );
    assert!(fires > 10_000, "too little was compared: {fires}");
}

// ---- every change of ten zones, minute by minute ----

const NASTY: [&str; 12] = [
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Asia/Tehran",
    "America/Scoresbysund",
    "Pacific/Chatham",
    "Europe/Dublin",
    "Asia/Gaza",
];

/// A minute of UTC and what clocks show at it.
struct Minute {
    at: i64,
    local: i64,
    /// Clocks show it for the first time.
    first: bool,
    /// They will not show it again.
    last: bool,
}

fn walk(zone: &TimeZone, from: i64, to: i64) -> Vec<Minute> {
    let from = from.div_euclid(60) * 60;
    let shown: Vec<(i64, i64)> = (from..to).step_by(60).map(|at| (at, at + offset(zone, at))).collect();
    let mut firsts = BTreeMap::new();
    let mut lasts = BTreeMap::new();
    for (at, local) in &shown {
        firsts.entry(*local).or_insert(*at);
        lasts.insert(*local, *at);
    }
    let minute = |(at, local): &(i64, i64)| Minute {
        at: *at,
        local: *local,
        first: firsts[local] == *at,
        last: lasts[local] == *at,
    };
    shown.iter().map(minute).collect()
}

/// Minute by minute: does it fire here?
fn walked(minutes: &[Minute], cadence: bool, named: &impl Fn(i64) -> bool, dst: Dst) -> Vec<Millis> {
    let mut found = Vec::new();
    let mut before = minutes[0].local - 60;
    for minute in minutes {
        let mut fires = named(minute.local);
        if !cadence {
            fires &= match dst.overlap {
                Overlap::First => minute.first,
                Overlap::Second => minute.last,
                Overlap::Both => true,
            };
            let mut missing = (before + 60..minute.local).step_by(60);
            fires |= dst.gap == Gap::Shift && missing.any(named);
        }
        if fires {
            found.push(minute.at * 1_000);
        }
        before = minute.local;
    }
    found
}

/// What an expression names in a stretch of days, looked up once.
fn table(oracle: &Oracle, days: &BTreeMap<i64, Day>, (from, to): (i64, i64)) -> impl Fn(i64) -> bool {
    let times: BTreeSet<i64> = oracle.times().into_iter().collect();
    let times: Vec<bool> = (0..1_440).map(|minute| times.contains(&(minute * 60))).collect();
    let first = from.div_euclid(DAY) - 3;
    let named: Vec<bool> = (first..to / DAY + 3).map(|day| oracle.has_day(days[&day])).collect();
    move |local| {
        named[(local.div_euclid(DAY) - first) as usize] && times[(local.rem_euclid(DAY) / 60) as usize]
    }
}

#[test]
fn every_change_of_the_nasty_zones_follows_every_policy() {
    let days = days();
    let seed = seed();
    println!("ORLOJ_SEED={seed}");
    let draw = Draw(SeededRandom::new(seed));
    // 1970 to 2037: every change of the database.
    let (from, to) = (0, 2_145_916_800);
    let mut changes = 0;
    for name in NASTY {
        let offsets = Offsets::new(name, from, to);
        for (at, before, behind) in offsets.changes() {
            changes += 1;
            let hour = (at + before.min(behind)).rem_euclid(DAY) / 3_600;
            let hours = format!("{},{},{}", hour, (hour + 1) % 24, (hour + 23) % 24);
            let minute = draw.number(0, 59, &[]);
            let window = (at - 2 * DAY, at + 2 * DAY);
            let minutes = walk(&offsets.zone, window.0 - DAY, window.1 + DAY);
            for expression in [
                format!("{minute} {hour} * * *"),
                format!("0,15,30,{minute} {hours} * * *"),
                format!("{minute} 0-23 * * *"),
                "*/20 * * * *".to_string(),
                format!("*/15 {hours} * * *"),
                format!("{minute} * * * 0"),
            ] {
                let oracle = Oracle::new(&expression, true);
                let named = table(&oracle, &days, (window.0 - DAY, window.1 + DAY));
                for dst in policies() {
                    let mut right = walked(&minutes, oracle.cadence(), &named, dst);
                    right.retain(|fire| (window.0 * 1_000..window.1 * 1_000).contains(fire));
                    let schedule = schedule(&expression, name, dst, DayRule::Or).unwrap();
                    compare(&schedule, &right, window, &format!("{expression:?} in {name}, {dst:?}"));
                }
            }
        }
    }
    println!("{changes} changes of {} zones", NASTY.len());
    assert!(changes > 1_000, "the zones have lost their changes: {changes}");
}
