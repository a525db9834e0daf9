//! Writes down what one producer has seen, as lines of a file of its own.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use orloj_jepsen_core::event::{Event, Kind, Meta, VERSION, What};

use super::now;
use crate::wait::monotonic;

/// Lines wait no longer than this to be written out.
const FLUSH_MS: u128 = 100;

/// Records the events of one producer. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    src: String,
    path: PathBuf,
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    file: BufWriter<File>,
    flushed_ms: u128,
    /// Why lines are missing.
    broken: Option<String>,
}

/// An event without what the recorder adds.
#[derive(Debug, Clone)]
pub struct Note {
    /// The logical process.
    pub proc: u64,
    /// Beginning, end or neither.
    pub kind: Kind,
    /// The replica that was asked, or the host that it is about.
    pub node: Option<String>,
    /// The task, or its label.
    pub key: Option<String>,
    /// The operation or observation.
    pub what: What,
    /// What went wrong.
    pub err: Option<String>,
    /// What else the answer told.
    pub meta: Meta,
}

impl Note {
    /// An observation about a host.
    pub fn event(node: &str, what: What) -> Note {
        Note {
            proc: 0,
            kind: Kind::Event,
            node: Some(node.to_owned()),
            key: None,
            what,
            err: None,
            meta: Meta::default(),
        }
    }
}

impl Recorder {
    /// Records to `<dir>/<src>.jsonl`, which must not exist yet.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(dir: &Path, src: &str) -> Result<Recorder> {
        let path = dir.join(format!("{src}.jsonl"));
        let file = File::create_new(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let out = Out { file: BufWriter::new(file), flushed_ms: 0, broken: None };
        Ok(Recorder(Arc::new(Inner { src: src.to_owned(), path, out: Mutex::new(out) })))
    }

    /// Who writes.
    pub fn src(&self) -> &str {
        &self.0.src
    }

    /// Records what happens now.
    pub fn note(&self, note: Note) {
        let mut out = self.0.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the lines of a file are in the order of their time.
        let event = Event {
            v: VERSION,
            i: 0,
            mono_ns: now().mono_ns,
            src: self.0.src.clone(),
            proc: note.proc,
            kind: note.kind,
            node: note.node,
            key: note.key,
            what: note.what,
            err: note.err,
            meta: note.meta,
        };
        out.write(&event);
    }

    /// Records events that carry their time already.
    pub fn events(&self, events: &[Event]) {
        let mut out = self.0.out.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().for_each(|event| out.write(event));
    }

    /// Writes out what waits. To be called at the end; what comes later is written out when the last clone is
    /// dropped, without anybody to tell of a failure.
    ///
    /// # Errors
    /// A line could not be written, now or before: the history is not whole.
    pub fn finish(&self) -> Result<()> {
        let mut out = self.0.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.flush();
        match &out.broken {
            Some(problem) => bail!("{} is not whole: {problem}", self.0.path.display()),
            None => Ok(()),
        }
    }
}

impl Out {
    fn write(&mut self, event: &Event) {
        let line = serde_json::to_string(event).expect("events are made of strings, numbers and lists");
        if let Err(error) = writeln!(self.file, "{line}") {
            self.broken.get_or_insert(error.to_string());
        }
        let now_ms = monotonic().as_millis();
        if now_ms - self.flushed_ms >= FLUSH_MS {
            self.flushed_ms = now_ms;
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.file.flush() {
            self.broken.get_or_insert(error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use orloj_jepsen_core::History;
    use orloj_jepsen_core::event::Phase;

    use super::*;

    #[test]
    fn lines_are_in_order_and_can_be_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(dir.path(), "client-1").unwrap();
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let recorder = recorder.clone();
                std::thread::spawn(move || {
                    for _ in 0..100 {
                        let phase = What::Phase(Phase { name: "load".to_owned() });
                        recorder.note(Note::event("n1", phase));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        recorder.finish().unwrap();
        let file = File::open(dir.path().join("client-1.jsonl")).unwrap();
        let events = History::read_lines(BufReader::new(file)).unwrap();
        assert_eq!(events.len(), 400);
        assert!(events.is_sorted_by_key(|event| event.mono_ns));
        assert!(events.iter().all(|event| event.src == "client-1" && event.mono_ns > 0));
        assert!(Recorder::create(dir.path(), "client-1").is_err(), "nothing is written over");
    }
}
