//! A host: one tokio runtime whose time stands still until the world lets it pass.
//!
//! Each host has a runtime of its own, so that a crash is what it is in life: every task of the host is dropped
//! where it stands, whoever spawned it, and nothing of it runs afterwards. The world lets its hosts pass in turn
//! through the same millisecond; what they say to each other takes longer than that.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::{Instant, advance, sleep_until};

use crate::time::HostClock;

/// One life of a host.
pub struct Host {
    runtime: Runtime,
    began: Instant,
    /// The world's time when it began, in ms.
    began_ms: u64,
    /// How fast its clocks run, in parts per million of the world's.
    drift_ppm: i64,
    /// How much of its own time has passed, in ms.
    passed_ms: u64,
    clock: Arc<HostClock>,
}

/// How a host is set up.
#[derive(Debug, Clone, Copy)]
pub struct HostOptions {
    /// The world's time, in ms.
    pub now_ms: u64,
    /// What its wall clock shows.
    pub wall_ms: i64,
    /// What its monotonic clock shows.
    pub mono: Duration,
    /// How fast its clocks run, in parts per million of the world's.
    pub drift_ppm: i64,
}

impl Host {
    /// Begins a life.
    ///
    /// # Errors
    /// The runtime cannot be built.
    pub fn start(options: HostOptions) -> anyhow::Result<Host> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .context("cannot build the runtime of a host")?;
        let HostOptions { now_ms, wall_ms, mono, drift_ppm } = options;
        let (began, clock) = runtime.block_on(async { (Instant::now(), HostClock::start(wall_ms, mono)) });
        Ok(Host { runtime, began, began_ms: now_ms, drift_ppm, passed_ms: 0, clock })
    }

    /// Its clocks.
    pub fn clock(&self) -> &Arc<HostClock> {
        &self.clock
    }

    /// What its wall clock shows at the world's `now_ms`, whether it runs or stands still.
    pub fn wall_ms(&self, now_ms: u64) -> i64 {
        self.clock.wall_after_ms(self.own_ms(now_ms))
    }

    /// Starts a task of this host; it runs when the host does.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(task).abort_handle()
    }

    /// Does something that needs the host's runtime around it and does not wait.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _inside = self.runtime.enter();
        work()
    }

    /// Runs everything that is due until the world's `now_ms`.
    pub fn run_until(&mut self, now_ms: u64) {
        let until = self.began + Duration::from_millis(self.own_ms(now_ms));
        self.runtime.block_on(async move { sleep_until(until).await });
        self.passed_ms = self.own_ms(now_ms);
    }

    /// Lets time pass at which the host did not run, as when its process was stopped: whatever became due
    /// meanwhile is due at once.
    pub fn jump_to(&mut self, now_ms: u64) {
        let until = self.own_ms(now_ms);
        let gap = Duration::from_millis(until.saturating_sub(self.passed_ms));
        self.runtime.block_on(async move { advance(gap).await });
        self.passed_ms = until;
    }

    fn own_ms(&self, now_ms: u64) -> u64 {
        let passed = i128::from(now_ms.saturating_sub(self.began_ms));
        let own = passed * i128::from(1_000_000 + self.drift_ppm) / 1_000_000;
        u64::try_from(own).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orloj_model::time::Clock as _;
    use std::sync::Mutex;

    fn host(drift_ppm: i64) -> Host {
        Host::start(HostOptions { now_ms: 100, wall_ms: 5_000, mono: Duration::from_secs(1), drift_ppm })
            .unwrap()
    }

    #[test]
    fn time_passes_for_a_host_only_when_the_world_says_so_and_at_its_own_rate() {
        for (drift, expected) in [(0, 1_000), (10_000, 1_010), (-10_000, 990)] {
            let mut host = host(drift);
            host.run_until(1_100);
            assert_eq!(host.wall_ms(1_100), 5_000 + expected);
            host.clock().step_wall(-700);
            assert_eq!(host.wall_ms(1_100), 4_300 + expected);
            let clock = Arc::clone(host.clock());
            let (mono, wall) = host.enter(|| (clock.monotonic(), clock.wall_ms()));
            assert_eq!(mono, Duration::from_millis(1_000 + expected as u64));
            assert_eq!(wall, host.wall_ms(1_100));
        }
    }

    #[test]
    fn a_stopped_host_wakes_up_to_everything_at_once() {
        let mut host = host(0);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for after in [50, 10] {
            let (seen, clock) = (Arc::clone(&seen), Arc::clone(host.clock()));
            host.spawn(async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                seen.lock().unwrap().push((after, clock.monotonic().as_millis()));
            });
        }
        host.run_until(101);
        host.jump_to(400);
        host.run_until(401);
        let mut seen = seen.lock().unwrap().clone();
        seen.sort();
        assert_eq!(seen, [(10, 1_300), (50, 1_300)]);
    }

    #[test]
    fn a_dropped_host_leaves_nothing_behind() {
        let host = host(0);
        let held = Arc::new(());
        let task = Arc::clone(&held);
        host.spawn(async move {
            let _task = task;
            std::future::pending::<()>().await;
        });
        drop(host);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
