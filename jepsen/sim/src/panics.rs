//! Panics of tasks. tokio catches them at the edge of the task, and nothing else would tell of them.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    static SEEN: Cell<Vec<String>> = const { Cell::new(Vec::new()) };
}

/// From now on every thread remembers what panicked on it, besides printing it.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // A thread that is going away has nobody left who asks.
            let _ = SEEN.try_with(|seen| {
                let mut all = seen.take();
                all.push(info.to_string().replace('\n', " "));
                seen.set(all);
            });
            print(info);
        }));
    });
}

/// What panicked on this thread since it was last asked.
pub fn take() -> Vec<String> {
    SEEN.take()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::host::{Host, HostOptions};

    #[test]
    fn a_task_that_panics_is_told_of_once() {
        watch();
        let options = HostOptions { now_ms: 0, wall_ms: 0, mono: Duration::ZERO, drift_ppm: 0 };
        let mut host = Host::start(options).unwrap();
        host.spawn(async { panic!("on purpose") });
        host.run_until(1);
        let told = take();
        assert!(matches!(&told[..], [one] if one.contains("on purpose")), "{told:?}");
        assert!(take().is_empty());
    }
}
