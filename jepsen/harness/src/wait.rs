//! Waiting for what has no event: looked at again and again until it holds or the deadline passes.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::time::{ClockId, clock_gettime};

/// Between two looks.
const STEP: Duration = Duration::from_millis(5);

/// The machine's monotonic clock, which all producers of a history share.
pub fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let s = u64::try_from(now.tv_sec).expect("the monotonic clock starts at 0");
    let ns = u32::try_from(now.tv_nsec).expect("less than a second");
    Duration::new(s, ns)
}

/// Waits until `look` gives something. Fails with `what` when `patience` has passed, or with the error of
/// `look`.
pub fn until<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = monotonic() + patience;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if monotonic() >= deadline {
            bail!("{what}: not within {patience:?}");
        }
        thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_until_it_holds_or_the_deadline_passes() {
        let mut looks = 0;
        let found = until("three looks", Duration::from_secs(10), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(found.unwrap(), 3);
        let never = until("never", Duration::from_millis(10), || Ok(None::<()>)).unwrap_err();
        assert!(never.to_string().contains("never: not within"), "{never}");
    }
}
