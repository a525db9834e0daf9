//! Properties of every schedule: mixes of triggers and calendars, computed from any instant.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use orloj_model::id::Millis;
use orloj_model::trigger::{
    BURST_LIMIT, Calendar, CalendarParts, CatchUp, Cron, DailyWindow, DayRule, Dst, Gap, Kind, Limits,
    Misfire, Overlap, Progress, Schedule, Trigger, jitter_ms,
};
use proptest::prelude::*;

/// 2027-01-01T00:00:00Z.
const START: Millis = 1_798_761_600_000;
const YEAR: Millis = 366 * 86_400_000;

fn zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Antarctica/Troll",
        "Pacific/Chatham",
        "Asia/Kolkata",
        "America/Scoresbysund",
    ])
}

fn dst() -> impl Strategy<Value = Dst> {
    let gap = prop::sample::select(vec![Gap::Skip, Gap::Shift]);
    let overlap = prop::sample::select(vec![Overlap::First, Overlap::Second, Overlap::Both]);
    (gap, overlap).prop_map(|(gap, overlap)| Dst { gap, overlap })
}

fn expression() -> impl Strategy<Value = String> {
    let minute = prop_oneof![Just("*/7".to_string()), (0..60u8).prop_map(|m| m.to_string())];
    let hour =
        prop_oneof![Just("*".to_string()), (0..4u8).prop_map(|h| h.to_string()), Just("1-3,22".to_string())];
    let day = prop::sample::select(vec!["*", "L", "15W", "1-10", "?"]);
    let weekday = prop::sample::select(vec!["*", "MON-FRI", "SUN", "6L", "2#3"]);
    (minute, hour, day, weekday)
        .prop_map(|(minute, hour, day, weekday)| format!("{minute} {hour} {day} * {weekday}"))
}

fn kind() -> impl Strategy<Value = Kind> {
    let window = (0..24u32, 0..60u32, 1..600_000u64, 1..128u8, zone(), dst());
    prop_oneof![
        4 => (expression(), zone(), dst()).prop_map(|(expression, zone, dst)| {
            Kind::Cron(Cron::new(&expression, zone, dst, DayRule::Or, START).unwrap())
        }),
        1 => (10..10_000_000u64, -YEAR..YEAR).prop_map(|(every_ms, by)| Kind::FixedRate { every_ms, anchor: START + by }),
        1 => (10..10_000_000u64).prop_map(|delay_ms| Kind::FixedDelay { delay_ms, anchor: START }),
        1 => (0..YEAR).prop_map(|by| Kind::Once { at: START + by }),
        2 => window.prop_map(|(hour, minute, every, days, zone, dst)| {
            let days: Vec<u8> = (0..7).filter(|day| days & 1 << day != 0).collect();
            let (from, to) = (format!("{hour:02}:{minute:02}"), format!("{:02}:{minute:02}", (hour + 5) % 24));
            Kind::DailyWindow(DailyWindow::new((&from, &to), every + 60_000, &days, zone, dst).unwrap())
        }),
    ]
}

fn trigger() -> impl Strategy<Value = Trigger> {
    let limits = (
        prop::option::weighted(0.2, 0..YEAR),
        prop::option::weighted(0.2, YEAR..2 * YEAR),
        prop::option::weighted(0.2, 1..50u64),
        prop_oneof![Just(0u64), 0..100_000u64],
    );
    (kind(), limits).prop_map(|(kind, (start, end, max_fires, jitter_ms))| {
        let (start_at, end_at) = (start.map(|by| START + by), end.map(|by| START + by));
        Trigger::new(kind, Limits { start_at, end_at, max_fires, jitter_ms }).unwrap()
    })
}

fn calendar() -> impl Strategy<Value = Calendar> {
    (zone(), prop::collection::btree_set(0..7u8, 0..3), 1..28u8).prop_map(|(zone, weekdays, day)| {
        let yearly = (1..=12).map(|month| format!("{month:02}-{day:02}")).collect();
        let parts =
            CalendarParts { time_zone: Some(zone.into()), weekdays, yearly, ..CalendarParts::default() };
        Calendar::new(&parts).unwrap()
    })
}

fn schedule() -> impl Strategy<Value = Schedule> {
    (prop::collection::vec(trigger(), 1..4), prop::collection::vec(calendar(), 0..2))
        .prop_map(|(triggers, calendars)| Schedule::new("job", &triggers, &calendars).unwrap())
}

fn next(schedule: &Schedule, after: Millis) -> Option<Millis> {
    schedule.next(&Progress::default(), after).map(|next| next.scheduled_at)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_next_fire_is_later_and_the_first_that_there_is(
        schedule in schedule(),
        by in -YEAR..2 * YEAR,
        back in 0..YEAR,
    ) {
        let after = START + by;
        let found = next(&schedule, after);
        if let Some(at) = found {
            prop_assert!(at > after);
            prop_assert_eq!(next(&schedule, at - 1), Some(at), "nothing lies between");
            prop_assert_eq!(next(&schedule, after + (at - 1 - after) / 2), Some(at));
        }
        let earlier = next(&schedule, after - back);
        prop_assert!(earlier.is_some() || found.is_none());
        if let (Some(earlier), Some(found)) = (earlier, found) {
            prop_assert!(earlier <= found, "it grows with the instant");
        }
    }

    #[test]
    fn jitter_is_the_same_for_every_leader_and_within_its_bound(
        schedule in schedule(),
        by in 0..YEAR,
        job in "[a-z]{1,12}",
        most in 0..100_000_000u64,
    ) {
        prop_assert!(jitter_ms(&job, by, most) <= most);
        prop_assert_eq!(jitter_ms(&job, by, most), jitter_ms(&job, by, most));
        let found = schedule.next(&Progress::default(), START + by);
        if let Some(found) = &found {
            prop_assert!((0..=100_000).contains(&(found.due_at - found.scheduled_at)));
            prop_assert_eq!(&schedule.next(&Progress::default(), found.scheduled_at - 1).unwrap().due_at, &found.due_at);
        }
    }

    #[test]
    fn a_preview_is_in_order_and_nothing_is_both_fired_and_skipped(schedule in schedule(), by in 0..YEAR) {
        let preview = schedule.preview(&Progress::default(), START + by, 60);
        prop_assert!(preview.fires.windows(2).all(|pair| pair[0].scheduled_at < pair[1].scheduled_at));
        prop_assert!(preview.fires.iter().all(|fire| fire.scheduled_at >= START + by));
        prop_assert!(preview.skipped.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }

    #[test]
    fn catching_up_accounts_for_every_instant_once(
        schedule in schedule(),
        by in 0..YEAR,
        away in 0..200_000_000i64,
        cap in 0..40u32,
        grace_ms in prop_oneof![Just(0u64), 0..10_000_000u64],
        which in 0..3,
    ) {
        let (last, now) = (START + by, START + by + away);
        let policy = [Misfire::Skip, Misfire::FireOnce, Misfire::FireAll { cap }][which as usize];
        let due = schedule.catch_up(CatchUp { policy, grace_ms }, &Progress::default(), last, now);
        prop_assert!(due.fires.windows(2).all(|pair| pair[0].scheduled_at < pair[1].scheduled_at));
        prop_assert!(due.fires.len() <= BURST_LIMIT);
        for fire in &due.fires {
            prop_assert!(fire.scheduled_at > last && fire.due_at <= now, "nothing is early");
        }
        if let Some(next) = &due.next {
            prop_assert!(next.scheduled_at > due.through);
            prop_assert!(next.due_at > now || next.scheduled_at > now, "nothing that is due is left");
        }
        // Without limits on the number of fires every instant is fired or counted. A fixed delay has none behind one of its
        // own, nor behind one that makes a task.
        let mut progress = Progress::default();
        let (mut all, mut held) = (Vec::new(), Millis::MIN);
        let mut at = last;
        while let Some(next) = schedule.next(&progress, at).filter(|next| next.scheduled_at <= due.through) {
            let without_delays = schedule.next(&Progress { open: true, ..progress.clone() }, at);
            let is_of_a_delay = without_delays.is_none_or(|other| other.triggers != next.triggers);
            (at, held) = (next.scheduled_at, held.max(next.due_at));
            let makes_a_task = matches!(policy, Misfire::FireAll { .. }) || now - held <= grace_ms as i64;
            progress.open |= is_of_a_delay || makes_a_task;
            all.push(at);
        }
        let skipped: u64 = due.skipped.iter().map(|missed| missed.count).sum();
        let exact = due.skipped.iter().all(|missed| missed.exact);
        let accounted = due.fires.len() as u64 + skipped;
        prop_assert!(accounted <= all.len() as u64);
        if exact && due.fires.len() < 30 && policy != Misfire::Skip && cap < 30 {
            let full = due.fires.iter().all(|fire| all.contains(&fire.scheduled_at));
            prop_assert!(full, "a fire that is no instant");
        }
        if policy == Misfire::Skip && grace_ms == 0 && exact {
            let late = due.fires.iter().all(|fire| fire.due_at == now);
            prop_assert!(late, "skip fires only what is in time");
        }
    }

    #[test]
    fn a_calendar_takes_out_exactly_its_days(
        expression in expression(),
        zones in (zone(), zone()),
        dst in dst(),
        weekdays in prop::collection::btree_set(0..7u8, 0..4),
        day in 1..29u8,
        by in 0..YEAR,
    ) {
        let cron = Cron::new(&expression, zones.0, dst, DayRule::Or, START).unwrap();
        let triggers = [Trigger::new(Kind::Cron(cron), Limits::default()).unwrap()];
        let yearly = (1..=12).map(|month| format!("{month:02}-{day:02}")).collect();
        let time_zone = Some(zones.1.to_string());
        let parts = CalendarParts { time_zone, weekdays: weekdays.clone(), yearly, ..CalendarParts::default() };
        let calendar = Calendar::new(&parts).unwrap();
        let (free, bound) = (
            Schedule::new("job", &triggers, &[]).unwrap(),
            Schedule::new("job", &triggers, &[calendar]).unwrap(),
        );
        let zone = jiff::tz::TimeZoneDatabase::bundled().get(zones.1).unwrap();
        let allowed = |at: &Millis| {
            let date = zone.to_datetime(jiff::Timestamp::from_millisecond(*at).unwrap()).date();
            date.day() as u8 != day && !weekdays.contains(&(date.weekday().to_sunday_zero_offset() as u8))
        };
        let all = free.preview(&Progress::default(), START + by, 400).fires;
        let end = all.last().map_or(0, |fire| fire.scheduled_at);
        let right: Vec<Millis> = all.iter().map(|fire| fire.scheduled_at).filter(allowed).collect();
        let mut found = Vec::new();
        let mut after = START + by - 1;
        while let Some(at) = next(&bound, after).filter(|at| *at <= end) {
            found.push(at);
            after = at;
        }
        prop_assert_eq!(found, right);
    }

    #[test]
    fn no_text_makes_the_parser_panic_and_every_fault_has_its_place(text in r"[ -~\t\r\né]{0,40}") {
        if let Err(error) = Cron::new(&text, "UTC", Dst::default(), DayRule::Or, START) {
            prop_assert!(error.position.is_some_and(|position| position <= text.chars().count()), "{}", error);
        }
    }

    #[test]
    fn what_looks_like_cron_makes_no_panic_either(text in r"[0-9*/,LW#?A-C \-]{5,30}") {
        if let Ok(cron) = Cron::new(&text, "Europe/Berlin", Dst::default(), DayRule::And, START) {
            let trigger = Trigger::new(Kind::Cron(cron), Limits::default()).unwrap();
            let schedule = Schedule::new("job", &[trigger], &[]).unwrap();
            if let Some(at) = next(&schedule, START) {
                prop_assert!(at > START);
            }
        }
    }

    #[test]
    fn a_trigger_comes_back_from_where_it_is_stored(trigger in trigger(), calendar in calendar()) {
        let stored = serde_json::to_string(&(&trigger, &calendar)).unwrap();
        prop_assert_eq!(serde_json::from_str::<(Trigger, Calendar)>(&stored).unwrap(), (trigger, calendar));
    }
}

/// Every instant is either fired or counted, exactly, where nothing limits the number of fires.
#[test]
fn fired_and_skipped_together_are_all_instants() {
    let kind = Kind::FixedRate { every_ms: 700, anchor: START };
    for jitter_ms in [0, 500, 5_000] {
        let trigger = Trigger::new(kind.clone(), Limits { jitter_ms, ..Limits::default() }).unwrap();
        let schedule = Schedule::new("job", &[trigger], &[]).unwrap();
        for away in [0, 699, 700, 5_000, 300_000, 3_400_000] {
            for policy in [Misfire::Skip, Misfire::FireOnce, Misfire::FireAll { cap: 7 }] {
                let catch_up = CatchUp { policy, grace_ms: 1_000 };
                let due = schedule.catch_up(catch_up, &Progress::default(), START, START + away);
                let skipped: u64 = due.skipped.iter().map(|missed| missed.count).sum();
                let all = (due.through - START).div_euclid(700) as u64;
                assert_eq!(due.fires.len() as u64 + skipped, all, "{policy:?} {away} {jitter_ms}");
                let next = due.next.unwrap();
                assert!(next.due_at > START + away, "{policy:?} {away}: left out {next:?}");
                assert_eq!(next.scheduled_at, START + (all as i64 + 1) * 700);
            }
        }
    }
}
