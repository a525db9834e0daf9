//! The clock, as a thing that is passed in. The model itself never reads one.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::id::Millis;

/// A wall clock, which people and other machines can set, and a monotonic one, which only advances.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. May jump in both directions.
    fn wall_ms(&self) -> Millis;

    /// Time since some fixed instant in the past. Never goes back.
    fn monotonic(&self) -> Duration;

    /// This machine's wall clock, also where [`wall_ms`](Clock::wall_ms) shows the cluster's time in its place.
    fn own_wall_ms(&self) -> Millis {
        self.wall_ms()
    }

    /// A time of the cluster has been committed. Matters to a clock that shows the cluster's time alone.
    fn heard(&self, _committed: Millis) {}
}

/// The cluster's time as one node knows it: never behind this node's wall clock, never behind what it has
/// seen committed, and never going back. Between the two it advances by the monotonic clock, so that a step
/// back of the wall clock holds up nothing that waits for a delay. Every node hears of each committed time as it
/// applies the entry: the time between the last entry of one leader and the first of the next passes as any other,
/// also where the cluster's time is ahead of all wall clocks.
#[derive(Clone)]
pub struct ClusterClock {
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<Known>>,
}

/// What a node knows of the cluster's time.
#[derive(Clone, Copy)]
struct Known {
    /// As this node shows it.
    shown: Anchor,
    /// As the whole cluster knows it: from committed entries alone.
    committed: Anchor,
}

/// A value of the cluster's time, and the monotonic instant at which it was true. From there it runs.
#[derive(Clone, Copy)]
struct Anchor {
    at: Millis,
    monotonic: Duration,
}

impl Anchor {
    fn now(self, monotonic: Duration) -> Millis {
        let elapsed = monotonic.saturating_sub(self.monotonic);
        self.at.saturating_add(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }

    /// Only a step forward moves the anchor, so that no rounding adds up. Answers with the time now.
    fn raise(&mut self, at: Millis, monotonic: Duration) -> Millis {
        let ran = self.now(monotonic);
        if at > ran {
            *self = Anchor { at, monotonic };
        }
        ran.max(at)
    }
}

impl fmt::Debug for ClusterClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterClock").finish_non_exhaustive()
    }
}

impl ClusterClock {
    /// Starts from the wall clock, as it is when the time is first asked for.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let unknown = Anchor { at: Millis::MIN, monotonic: clock.monotonic() };
        ClusterClock { clock, known: Arc::new(Mutex::new(Known { shown: unknown, committed: unknown })) }
    }

    /// Forgets what was never committed: from here the time goes on as the committed one has gone on since it was
    /// heard, and from the wall clock where that is ahead when the time is next asked for. A leader that is none
    /// any more may have seen a wall clock that was wrong for a moment, and nobody else has.
    pub fn forget(&self, committed: Millis) {
        let monotonic = self.clock.monotonic();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.committed.raise(committed, monotonic);
        known.shown = known.committed;
    }

    /// The clocks below it.
    pub fn base(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The cluster's time now.
    pub fn now_ms(&self) -> Millis {
        self.raise_to(Millis::MIN)
    }

    /// Takes note of a time that was committed; answers with the cluster's time now.
    pub fn raise_to(&self, committed: Millis) -> Millis {
        let (wall, monotonic) = (self.clock.wall_ms(), self.clock.monotonic());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.committed.raise(committed, monotonic);
        known.shown.raise(wall.max(committed), monotonic)
    }
}

/// Shows the cluster's time in place of the wall clock: for whoever stamps entries.
impl Clock for ClusterClock {
    fn wall_ms(&self) -> Millis {
        self.now_ms()
    }

    fn own_wall_ms(&self) -> Millis {
        self.clock.own_wall_ms()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn heard(&self, committed: Millis) {
        self.raise_to(committed);
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this wall time.
    pub fn at(wall_ms: Millis) -> Self {
        ManualClock { wall_ms: AtomicI64::new(wall_ms), monotonic_ms: AtomicU64::new(0) }
    }

    /// Lets time pass on both clocks.
    pub fn advance_ms(&self, ms: u64) {
        self.wall_ms.fetch_add(ms as i64, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Steps the wall clock alone.
    pub fn step_wall_ms(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> Millis {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clusters_time_runs_on_through_steps_of_the_wall_clock() {
        let manual = Arc::new(ManualClock::at(1_000_000));
        let cluster = ClusterClock::new(manual.clone());
        manual.advance_ms(10);
        assert_eq!(cluster.now_ms(), 1_000_010);
        manual.step_wall_ms(-3_600_000);
        manual.advance_ms(10);
        assert_eq!(cluster.now_ms(), 1_000_020, "a step back does not hold it up");
        manual.step_wall_ms(2 * 3_600_000);
        assert_eq!(cluster.now_ms(), 1_000_020 + 3_600_000, "a step forward is followed");
        assert_eq!(cluster.raise_to(9_000_000), 9_000_000, "so is what was committed");
        manual.advance_ms(5);
        assert_eq!(cluster.now_ms(), 9_000_005);
        assert_eq!(cluster.raise_to(1), 9_000_005);
    }

    #[test]
    fn a_wrong_wall_clock_is_forgotten_unless_its_time_was_committed() {
        let manual = Arc::new(ManualClock::at(1_000_000 + 86_400_000));
        let cluster = ClusterClock::new(manual.clone());
        manual.step_wall_ms(-86_400_000);
        assert_eq!(cluster.now_ms(), 1_000_000, "nobody had asked while it was wrong");
        manual.step_wall_ms(3_600_000);
        assert_eq!(cluster.now_ms(), 4_600_000);
        cluster.forget(1_000_500);
        manual.step_wall_ms(-3_600_000);
        assert_eq!(cluster.now_ms(), 1_000_500, "what was committed stays");
        manual.advance_ms(2_000);
        assert_eq!(cluster.now_ms(), 1_002_500);
    }

    #[test]
    fn the_time_that_passed_since_a_commit_is_not_forgotten() {
        let manual = Arc::new(ManualClock::at(1_000_000));
        let cluster = ClusterClock::new(manual.clone());
        assert_eq!(cluster.raise_to(9_000_000), 9_000_000, "far ahead of every wall clock");
        manual.advance_ms(60_000);
        cluster.forget(9_000_000);
        assert_eq!(cluster.now_ms(), 9_060_000, "a minute without a majority is a minute");
    }
}
