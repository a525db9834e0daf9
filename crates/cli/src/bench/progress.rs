//! How far a bench is, for those who watch: on a terminal a line with a bar, elsewhere a line for each run.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::Duration;

use tokio::time::Instant;

use crate::remote::output::note;

/// Characters of the bar.
const BAR: u64 = 20;

/// The line.
#[derive(Debug, Clone)]
pub struct Progress {
    to: To,
    /// All runs, in their order.
    names: Vec<String>,
    /// How long those took that are over.
    took: Vec<Duration>,
    /// When the present run began.
    run: Instant,
    /// What it does, and since when.
    what: String,
    step: Instant,
}

/// Who watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Terminal,
    Log,
    Nobody,
}

impl Progress {
    /// The line of these runs, unless it shall be quiet.
    pub fn new(quiet: bool, names: Vec<String>) -> Progress {
        let to = match (quiet, stderr().is_terminal()) {
            (true, _) => To::Nobody,
            (false, true) => To::Terminal,
            (false, false) => To::Log,
        };
        let now = Instant::now();
        Progress { to, names, took: Vec::new(), run: now, step: now, what: String::new() }
    }

    /// The next run begins.
    pub fn begin_run(&mut self) {
        self.run = Instant::now();
        if self.to == To::Log {
            note(&format!("orloj bench: {}", self.place()));
        }
    }

    /// The present run is over.
    pub fn end_run(&mut self) {
        self.took.push(self.run.elapsed());
    }

    /// What is done from now on.
    pub fn begin(&mut self, what: impl Into<String>) {
        self.what = what.into();
        self.step = Instant::now();
        self.show(String::new, None);
    }

    /// How much of it is done.
    pub fn at(&self, done: u64, total: u64) {
        self.show(|| format!(" {}", amount(done, total)), step_left(self.step.elapsed(), done, total));
    }

    /// Clears the line.
    pub fn end(&self) {
        if self.to == To::Terminal {
            // Nothing depends on this line, so a failure is none.
            let _ = write!(stderr().lock(), "\r\x1b[K");
        }
    }

    /// Which run this is, of how many.
    fn place(&self) -> String {
        let number = self.took.len() + 1;
        let name = self.names.get(self.took.len()).map_or("", String::as_str);
        format!("run {number} of {}, {name}", self.names.len())
    }

    fn show(&self, how_far: impl FnOnce() -> String, step: Option<Duration>) {
        if self.to != To::Terminal {
            return;
        }
        let left = match (left(&self.names, &self.took, self.run.elapsed()), step) {
            (Some(all), _) => format!(", {} left", words(all)),
            (None, Some(step)) => format!(", {} left of this step", words(step)),
            (None, None) => String::new(),
        };
        let _ = write!(stderr().lock(), "\r\x1b[K{}: {}{}{left}", self.place(), self.what, how_far());
    }
}

/// How long the present run and all after it take, by what those took that are over: of the same name, where there is
/// one. `None` before the first one is over.
fn left(names: &[String], took: &[Duration], now: Duration) -> Option<Duration> {
    let mean = |wanted: Option<&str>| {
        let all: Vec<Duration> = names
            .iter()
            .zip(took)
            .filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name.as_str()))
            .map(|(_, took)| *took)
            .collect();
        let count = u32::try_from(all.len()).ok().filter(|count| *count > 0)?;
        Some(all.iter().sum::<Duration>() / count)
    };
    let of = |name: &String| mean(Some(name.as_str())).or_else(|| mean(None));
    let (present, later) = names.get(took.len()..)?.split_first()?;
    let later = later.iter().map(of).sum::<Option<Duration>>()?;
    Some(of(present)?.saturating_sub(now) + later)
}

/// How long a step goes on, by what it took so far; `None` where nothing is known.
fn step_left(so_far: Duration, done: u64, total: u64) -> Option<Duration> {
    let ratio = total.saturating_sub(done) as f64 / done as f64;
    (done > 0 && total > 0).then(|| so_far.mul_f64(ratio.min(1e6)))
}

fn words(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..=99 => format!("{seconds} s"),
        seconds @ 100..=5_999 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

fn amount(done: u64, total: u64) -> String {
    if total == 0 {
        return done.to_string();
    }
    let part = |of: u64| (u128::from(done.min(total)) * u128::from(of) / u128::from(total)) as usize;
    let (full, percent) = (part(BAR), part(100));
    format!("[{}{}] {percent} % ({done} of {total})", "#".repeat(full), "-".repeat(BAR as usize - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_told_with_a_bar() {
        assert_eq!(amount(5, 20), "[#####---------------] 25 % (5 of 20)");
        assert_eq!(amount(20, 20), "[####################] 100 % (20 of 20)");
        assert_eq!(amount(21, 20), "[####################] 100 % (21 of 20)");
        assert_eq!(amount(7, 0), "7");
    }

    #[test]
    fn what_is_left_follows_from_what_was() {
        let names = ["a", "b", "a", "b"].map(str::to_owned);
        let s = Duration::from_secs;
        assert_eq!(left(&names, &[], s(5)), None, "nothing is known yet");
        assert_eq!(left(&names, &[s(10)], s(4)), Some(s(6 + 10 + 10)), "b takes what a took");
        assert_eq!(left(&names, &[s(10), s(30)], s(4)), Some(s(6 + 30)));
        assert_eq!(left(&names, &[s(10), s(30), s(20)], s(100)), Some(s(0)), "it takes longer than before");
        assert_eq!(left(&names, &[s(1); 4], s(0)), None);
    }

    #[test]
    fn a_step_goes_on_as_it_began() {
        let s = Duration::from_secs;
        assert_eq!(step_left(s(10), 25, 100), Some(s(30)));
        assert_eq!(step_left(s(10), 0, 100), None);
        assert_eq!(step_left(s(10), 5, 0), None);
        let told = [s(0), s(99), s(100), s(5_400), s(7_300)].map(words);
        assert_eq!(told, ["0 s", "99 s", "2 min", "90 min", "2 h 1 min"]);
    }

    #[test]
    fn a_run_is_told_with_its_place() {
        let mut progress = Progress::new(true, vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(progress.place(), "run 1 of 2, a");
        progress.end_run();
        assert_eq!(progress.place(), "run 2 of 2, b");
    }
}
