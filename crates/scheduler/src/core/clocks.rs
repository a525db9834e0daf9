//! The clocks against each other: how far the wall clock and the cluster's time are ahead of the monotonic
//! clock, and whether one of them has been stepped.

use orloj_model::id::Millis;
use orloj_model::task::DueClock;

use super::Now;

/// A difference smaller than this is slewing or rounding, in milliseconds; it moves no timers. The wheel
/// compares absolute times anyway, so it can make a timer late by this much and never early.
const STEP_MS: i64 = 50;

/// See the module.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Wall clock minus monotonic clock, when it was last looked at.
    wall_offset: i64,
    /// Cluster's time minus monotonic clock, likewise.
    cluster_offset: i64,
    /// The wall clock's offset when this leader began.
    first_wall_offset: i64,
    steps: u64,
}

/// What [`Clocks::observe`] saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observed {
    /// By how much the wall clock was stepped, in milliseconds, if it was.
    pub wall_step_ms: Option<i64>,
    /// The timers in the wheel no longer fit the clocks.
    pub retime: bool,
}

impl Clocks {
    pub(super) fn new(now: Now) -> Self {
        let wall_offset = offset(now.wall_ms, now);
        Clocks {
            wall_offset,
            cluster_offset: offset(now.cluster_ms, now),
            first_wall_offset: wall_offset,
            steps: 0,
        }
    }

    /// Compares the clocks with what they showed before.
    pub(super) fn observe(&mut self, now: Now) -> Observed {
        let (wall, cluster) = (offset(now.wall_ms, now), offset(now.cluster_ms, now));
        let wall_step = wall.saturating_sub(self.wall_offset);
        let cluster_step = cluster.saturating_sub(self.cluster_offset);
        let stepped = wall_step.saturating_abs() > STEP_MS;
        let retime = stepped || cluster_step.saturating_abs() > STEP_MS;
        if stepped {
            self.steps += 1;
        }
        if retime {
            self.wall_offset = wall;
            self.cluster_offset = cluster;
        }
        Observed { wall_step_ms: stepped.then_some(wall_step), retime }
    }

    /// When `clock` will show `at`, by the monotonic clock: when a timer for that fires. What it is compared with then is
    /// [`shown`] too, or a timer would be handed out and put back without end.
    pub(super) fn deadline(&self, at: Millis, clock: DueClock, now: Now) -> u64 {
        let ahead = at.saturating_sub(shown(now, clock));
        match u64::try_from(ahead) {
            Ok(ahead) => now.mono_ms.saturating_add(ahead),
            Err(_) => now.mono_ms,
        }
    }

    /// How often the wall clock was stepped.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// How far the wall clock has been moved since this leader began, in milliseconds.
    pub(super) fn wall_offset_ms(&self) -> i64 {
        self.wall_offset.saturating_sub(self.first_wall_offset)
    }
}

/// What the clock that decides shows.
pub(super) fn shown(now: Now, clock: DueClock) -> Millis {
    match clock {
        DueClock::Wall => now.wall_ms,
        DueClock::Cluster => now.cluster_ms,
    }
}

fn offset(shown: Millis, now: Now) -> i64 {
    shown.saturating_sub(i64::try_from(now.mono_ms).unwrap_or(i64::MAX))
}
