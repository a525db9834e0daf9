//! Pages of the tables, and what is applied between them.

use orloj_model::command::{DueTime, Submit};
use orloj_model::id::{ExecutorId, Fence, TaskId};
use orloj_model::key::ShardKey;
use orloj_model::tables::MapTables;
use orloj_model::{Batch, Command, Event, Reply, apply};

use super::*;
use crate::options::Options;
use crate::testing::{self, Json};

const START: Now = Now { mono_ms: 1_000, wall_ms: 1_000_000, cluster_ms: 1_000_000 };

fn at(ms: u64) -> Now {
    let ahead = ms as i64;
    Now { mono_ms: START.mono_ms + ms, wall_ms: START.wall_ms + ahead, cluster_ms: START.cluster_ms + ahead }
}

fn shard(number: u8) -> ShardKey {
    ShardKey { task: TaskId([number; 16]), shard: 0 }
}

/// Tables, a leader's mind, and what was applied and that has not heard of.
struct World {
    tables: MapTables<Json>,
    index: u64,
    core: Core,
    untold: Vec<Event>,
}

impl World {
    fn new() -> World {
        let core = Core::new(Options::default(), 1, START);
        let mut world = World { tables: MapTables::default(), index: 0, core, untold: Vec::new() };
        world.run(Command::BeginRound { leader: 1 });
        world.run(Command::RegisterExecutor(testing::executor_row("a", 1, 100).registration));
        world
    }

    fn run(&mut self, command: Command) -> Reply {
        self.index += 1;
        let batch = Batch { now_ms: START.wall_ms, round: 1, changes: vec![command] };
        let replies = apply(&mut self.tables, self.index, &batch, &mut self.untold);
        let reply = replies.expect("tables in memory").remove(0);
        assert!(!matches!(reply, Reply::Refused(_)), "{reply:?}");
        reply
    }

    fn submit(&mut self, number: u8, due_in_ms: i64) {
        let due = DueTime::At(START.wall_ms + due_in_ms);
        let (task, spec) = (shard(number).task, testing::spec());
        self.run(Command::Submit(Box::new(Submit { task, spec, due, claim: None, idempotency: None })));
    }

    fn cancel(&mut self, number: u8) {
        self.run(Command::Cancel { task: shard(number).task, caller: None, claim: None });
    }

    fn grant(&mut self, number: u8) -> Fence {
        let executor = ExecutorId::new("a").expect("a valid name");
        let grant = Command::Grant { shard: shard(number).into(), attempt: 1, executor, incarnation: 1 };
        let Reply::Granted { fence } = self.run(grant) else { panic!("{number} was not granted") };
        fence
    }

    /// Its executor refuses it: it is ready again, at once.
    fn refuse(&mut self, number: u8, fence: Fence) {
        self.run(Command::Requeue { shard: shard(number).into(), fence, message: String::new() });
    }

    /// A new leader, which has subscribed by now.
    fn lead(&mut self) -> Window {
        self.untold.clear();
        for row in query::executors(&self.tables).expect("tables in memory") {
            self.core.executor_row(row, START);
        }
        Window::open(&mut self.core, 2, START).expect("nothing is loaded yet")
    }

    fn inherit(&mut self, inheritance: &mut Inheritance) -> bool {
        inheritance.page(&self.tables, &mut self.core, START).expect("tables in memory")
    }

    fn load(&mut self, window: &mut Window) -> bool {
        window.page(&self.tables, &mut self.core, START).expect("tables in memory")
    }

    /// The events come in.
    fn tell(&mut self) {
        for event in std::mem::take(&mut self.untold) {
            self.core.event(&event, START);
        }
    }

    /// What is due by then, sorted; it is read then, and does not wait any more.
    fn due(&mut self, now: Now) -> Vec<u8> {
        self.core.advance(now);
        let due = self.core.next_due(now);
        due.iter().for_each(|shard| self.core.not_waiting(*shard));
        let mut numbers: Vec<u8> = due.into_iter().map(|shard| shard.task.0[0]).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[test]
fn what_changes_between_two_pages_of_the_window_is_not_missed_and_not_doubled() {
    for told_at_once in [true, false] {
        let mut world = World::new();
        (0..7).for_each(|number| world.submit(number, 1_000 + i64::from(number)));
        let mut window = world.lead();
        assert!(world.load(&mut window), "0 and 1 are in hand");
        world.submit(7, 500);
        world.submit(8, 2_000);
        world.cancel(0);
        world.cancel(5);
        if told_at_once {
            world.tell();
        }
        while world.load(&mut window) {}
        world.tell();
        assert_eq!(world.due(at(10_000)), [1, 2, 3, 4, 6, 7, 8], "told at once: {told_at_once}");
        assert!(world.due(at(20_000)).is_empty());
    }
}

#[test]
fn a_lease_that_ends_between_two_pages_is_found_wherever_it_goes() {
    let mut world = World::new();
    (0..6).for_each(|number| world.submit(number, -1_000));
    let fences: Vec<Fence> = (0..3).map(|number| world.grant(number)).collect();
    for number in 3..6 {
        world.run(Command::MakeReady { shard: shard(number).into() });
    }
    let (mut window, mut inheritance) = (world.lead(), Inheritance::new(2));
    assert!(world.inherit(&mut inheritance));
    assert_eq!(world.core.counts().held, 2);
    world.refuse(0, fences[0]);
    world.refuse(2, fences[2]);
    world.tell();
    while world.inherit(&mut inheritance) {}
    // The pages of what is ready have been read, and this is ready now.
    world.refuse(1, fences[1]);
    while world.load(&mut window) {}
    world.tell();
    let counts = world.core.counts();
    assert_eq!((counts.held, counts.waiting), (0, 5));
    assert_eq!(world.due(at(10)), [1]);
}

#[test]
fn what_is_no_longer_ready_when_its_row_is_read_does_not_wait() {
    let mut world = World::new();
    (0..6).for_each(|number| world.submit(number, -1_000));
    for number in 0..6 {
        world.run(Command::MakeReady { shard: shard(number).into() });
    }
    let (mut window, mut inheritance) = (world.lead(), Inheritance::new(2));
    assert!(world.inherit(&mut inheritance), "there are no leases");
    assert!(world.inherit(&mut inheritance));
    assert_eq!(world.core.counts().waiting, 2, "of the keys of all six");
    world.cancel(2);
    let fence = world.grant(3);
    // Its next attempt is due in ten seconds.
    world.run(Command::TimeOut { shard: shard(3).into(), fence, chance: 0 });
    while world.inherit(&mut inheritance) {}
    while world.load(&mut window) {}
    world.tell();
    assert_eq!(world.core.counts().waiting, 4);
    assert!(world.due(at(9_000)).is_empty());
    assert_eq!(world.due(at(11_000)), [3]);
}

#[test]
fn all_that_was_applied_during_a_page_is_taken_in_before_the_next_one() {
    for untold in [0, 1, EVENTS_PER_TURN, EVENTS_PER_TURN + 1, 4_096] {
        let room = turns(untold) * EVENTS_PER_TURN;
        assert!((untold..untold + EVENTS_PER_TURN).contains(&room) || untold == 0, "{room} of {untold}");
        assert!(turns(untold) > 0, "the loop looks whether it leads still");
    }
}

#[test]
fn a_long_backlog_comes_in_by_pages_of_bounded_length() {
    let mut world = World::new();
    (0..200).for_each(|number| world.submit(number, -1_000));
    for number in 0..200 {
        world.run(Command::MakeReady { shard: shard(number).into() });
    }
    world.lead();
    // Their keys come in twice: 128 and 72.
    let mut inheritance = Inheritance::new(4);
    let mut before = 0;
    loop {
        let more = world.inherit(&mut inheritance);
        let waiting = world.core.counts().waiting;
        assert!(waiting - before <= 4, "{waiting} after {before}");
        before = waiting;
        if !more {
            break;
        }
    }
    assert_eq!((before, inheritance.shards), (200, 200));
}
