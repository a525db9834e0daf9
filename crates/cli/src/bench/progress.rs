//! One line on standard error that tells how far a bench is, for those who watch.

use std::io::{IsTerminal as _, Write as _, stderr};

/// The line.
#[derive(Debug, Clone)]
pub struct Progress {
    shown: bool,
    name: String,
    what: String,
}

impl Progress {
    /// A line that is shown on a terminal, unless it shall be quiet.
    pub fn new(quiet: bool) -> Progress {
        Progress { shown: !quiet && stderr().is_terminal(), name: String::new(), what: String::new() }
    }

    /// The line of something that has a name.
    pub fn named(&self, name: &str) -> Progress {
        Progress { name: format!("{name}: "), ..self.clone() }
    }

    /// What is done from now on.
    pub fn begin(&mut self, what: impl Into<String>) {
        self.what = what.into();
        self.show("");
    }

    /// How much of it is done.
    pub fn at(&self, done: u64, total: u64) {
        self.show(&format!(" {}", amount(done, total)));
    }

    /// Clears the line.
    pub fn end(&self) {
        if self.shown {
            // Nothing depends on this line, so a failure is none.
            let _ = write!(stderr().lock(), "\r\x1b[K");
        }
    }

    fn show(&self, how_far: &str) {
        if self.shown {
            let _ = write!(stderr().lock(), "\r\x1b[K{}{}{how_far}", self.name, self.what);
        }
    }
}

fn amount(done: u64, total: u64) -> String {
    match total {
        0 => done.to_string(),
        total => format!("{done} of {total} ({} %)", u128::from(done) * 100 / u128::from(total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_told_with_their_part() {
        assert_eq!(amount(5, 20), "5 of 20 (25 %)");
        assert_eq!(amount(7, 0), "7");
    }
}
