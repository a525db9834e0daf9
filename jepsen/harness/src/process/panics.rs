//! Panics in the log of a process.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// What the runtime's own report of a panic has in its first line; the message is in the second.
const MARKER: &str = " panicked at ";
/// What is kept of a line.
const LONGEST: usize = 500;

/// Reads what a process adds to its log.
#[derive(Debug)]
pub struct Panics {
    log: PathBuf,
    /// What has been read of the file.
    read: u64,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
    /// The first line of a panic whose message comes next.
    open: Option<String>,
    /// The last whole line that is not empty.
    last: Option<String>,
}

impl Panics {
    /// Those that come after what is in the log now.
    pub fn after(log: &Path) -> Panics {
        let read = std::fs::metadata(log).map_or(0, |meta| meta.len());
        Panics { log: log.to_path_buf(), read, rest: Vec::new(), open: None, last: None }
    }

    /// The panics that are new since the last look, each as one line. A log that cannot be read has none.
    pub fn look(&mut self) -> Vec<String> {
        self.read_more();
        let mut found = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            found.extend(self.line(String::from_utf8_lossy(&line).trim_end()));
        }
        found
    }

    /// The last look, after the end of the process: what is half written stays so. Gives the panics and the
    /// last line.
    pub fn finish(mut self) -> (Vec<String>, Option<String>) {
        let mut found = self.look();
        let rest = std::mem::take(&mut self.rest);
        found.extend(self.line(String::from_utf8_lossy(&rest).trim_end()));
        found.extend(self.open.take());
        (found, self.last)
    }

    fn line(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            return None;
        }
        let line: String = line.chars().take(LONGEST).collect();
        self.last = Some(line.clone());
        if line.contains(MARKER) {
            return self.open.replace(line);
        }
        self.open.take().map(|first| format!("{first} {line}"))
    }

    fn read_more(&mut self) {
        let Ok(file) = File::open(&self.log) else { return };
        let mut buffer = [0; 16 << 10];
        while let Ok(count @ 1..) = file.read_at(&mut buffer, self.read) {
            self.rest.extend_from_slice(&buffer[..count]);
            self.read += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn panics_are_found_once_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "thread 'main' panicked at an earlier life:\nold\n").unwrap();
        let mut panics = Panics::after(&log);
        let mut file = File::options().append(true).open(&log).unwrap();
        file.write_all(b"INFO works\n\nthread 'tokio' (7) panicked at src/a.rs:1:2:\nit can").unwrap();
        assert_eq!(panics.look(), Vec::<String>::new(), "its message is not whole yet");
        file.write_all(b"not be\nnote: run with\n").unwrap();
        assert_eq!(panics.look(), ["thread 'tokio' (7) panicked at src/a.rs:1:2: it cannot be"]);
        assert_eq!(panics.look(), Vec::<String>::new());
        file.write_all(b"thread 'main' panicked at src/b.rs:3:4:\nlast words").unwrap();
        let (found, last) = panics.finish();
        assert_eq!(found, ["thread 'main' panicked at src/b.rs:3:4: last words"]);
        assert_eq!(last.as_deref(), Some("last words"));
    }

    #[test]
    fn a_log_that_is_not_there_has_none() {
        assert_eq!(Panics::after(Path::new("/no/such/log")).finish(), (vec![], None));
    }
}
