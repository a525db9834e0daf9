//! What a leader says of the time that it took to read what waits, and what is due soon, when it came to lead.

use orloj_bench::figures::{Run, Shown};
use orloj_bench::latency::Latency;

use super::super::stage::Stage;

/// How the names of the gauges end that tell it, in s.
const WHOLE: &str = "_leader_load_seconds";
const WINDOW: &str = "_leader_window_load_seconds";

/// What several new leaders said.
#[derive(Debug, Default)]
pub struct Loads {
    /// Of all that is ready or runs.
    whole: Latency,
    /// Of what is due within the window.
    window: Latency,
}

impl Loads {
    /// Asks the leader, which is the replica at this place. Nothing is added when it does not answer or does not tell.
    pub async fn take(&mut self, stage: &Stage, place: usize) {
        let url = format!("{}/metrics", stage.cluster.target().servers[place]);
        let Ok(answer) = stage.http().get(url).send().await else { return };
        let Ok(text) = answer.bytes().await else { return };
        self.record(&String::from_utf8_lossy(&text));
    }

    fn record(&mut self, metrics: &str) {
        for (latency, ending) in [(&mut self.whole, WHOLE), (&mut self.window, WINDOW)] {
            if let Some(us) = gauge_us(metrics, ending) {
                latency.record(us);
            }
        }
    }

    /// Adds what was said; `when` follows the names.
    pub fn add_to(&self, run: &mut Run, when: &str) {
        let shown = &[Shown::P50, Shown::Max];
        run.add_latency(&format!("load of a new leader{when}"), &self.whole, shown);
        run.add_latency(&format!("load of the window{when}"), &self.window, shown);
    }
}

/// The gauge whose name ends so, from s to µs; `None` where there is none, or where nothing was measured yet.
fn gauge_us(metrics: &str, ending: &str) -> Option<u64> {
    let mut gauges = metrics.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = gauges.find(|(name, _)| name.ends_with(ending))?;
    let seconds = value.trim().parse::<f64>().ok()?;
    (seconds > 0.0).then_some((seconds * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP orloj_leader_load_seconds What it took.\n\
        # TYPE orloj_leader_load_seconds gauge\n\
        orloj_leader_load_seconds 0.25\n\
        orloj_leader_window_load_seconds 0.002\n\
        orloj_scheduler_wheel_timers 7\n# EOF\n";

    #[test]
    fn what_a_leader_tells_is_taken() {
        let mut loads = Loads::default();
        loads.record(METRICS);
        let mut run = Run::default();
        loads.add_to(&mut run, ", empty");
        let told: Vec<(&str, f64)> =
            run.figures.iter().map(|figure| (figure.name.as_str(), figure.value)).collect();
        assert_eq!(told[1].0, "load of a new leader, empty max");
        assert!((told[1].1 - 250.0).abs() < 1.0 && (told[3].1 - 2.0).abs() < 0.1, "{told:?}");
    }

    #[test]
    fn what_it_does_not_tell_is_left_out() {
        let mut loads = Loads::default();
        loads.record("orloj_leader_load_seconds 0\norloj_leader_window_load_seconds many\n");
        let mut run = Run::default();
        loads.add_to(&mut run, "");
        assert!(run.figures.is_empty(), "{run:?}");
    }
}
