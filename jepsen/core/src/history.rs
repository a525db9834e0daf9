//! A merged history and the views that checkers need of it.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use crate::event::{Event, Kind, VERSION, What};

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A line is not an event of this format.
    #[error("line {line}: {problem}")]
    Malformed {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The source cannot be read.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
}

/// Everything that was seen in one run, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    events: Vec<Event>,
}

/// One operation of a client: its beginning and its end.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// The `invoke`.
    pub invoke: &'a Event,
    /// The `ok`, `fail` or `info`; none when the run ended before it.
    pub end: Option<&'a Event>,
}

impl<'a> Operation<'a> {
    /// The end, when it is an `ok`.
    pub fn ok(&self) -> Option<&'a Event> {
        self.end.filter(|end| end.kind == Kind::Ok)
    }

    /// The task that it is about, where either of its lines names one; of a submission without an answer its
    /// label.
    pub fn key(&self) -> Option<&'a str> {
        self.end.and_then(|end| end.key.as_deref()).or(self.invoke.key.as_deref())
    }

    /// Whether it may or may not have happened.
    pub fn is_unknown(&self) -> bool {
        self.end.is_none_or(|end| end.kind == Kind::Info)
    }
}

impl History {
    /// Puts the events of all producers in order and numbers them from 1. Events of one instant keep the order
    /// in which they were given.
    pub fn merge(mut events: Vec<Event>) -> History {
        events.sort_by_key(|event| event.mono_ns);
        for (number, event) in (1..).zip(&mut events) {
            event.i = number;
        }
        History { events }
    }

    /// Reads JSON lines: of one producer, or of a merged history.
    ///
    /// # Errors
    /// A line that does not parse, or has another version.
    pub fn read_lines(source: impl BufRead) -> Result<Vec<Event>, HistoryError> {
        let mut events = Vec::new();
        for (number, line) in (1..).zip(source.lines()) {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let malformed = |problem: String| HistoryError::Malformed { line: number, problem };
            let event: Event = serde_json::from_str(&line).map_err(|error| malformed(error.to_string()))?;
            if event.v != VERSION {
                return Err(malformed(format!("version {} is not {VERSION}", event.v)));
            }
            events.push(event);
        }
        Ok(events)
    }

    /// All events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The event with this number.
    pub fn event(&self, number: u64) -> Option<&Event> {
        number.checked_sub(1).and_then(|at| self.events.get(usize::try_from(at).ok()?))
    }

    /// Every client operation in the order of its beginning, each with its end.
    pub fn operations(&self) -> Vec<Operation<'_>> {
        let mut operations = Vec::new();
        let mut open: BTreeMap<(&str, u64), usize> = BTreeMap::new();
        for event in &self.events {
            let process = (event.src.as_str(), event.proc);
            match event.kind {
                Kind::Invoke => {
                    open.insert(process, operations.len());
                    operations.push(Operation { invoke: event, end: None });
                }
                Kind::Ok | Kind::Fail | Kind::Info => {
                    if let Some(at) = open.remove(&process) {
                        operations[at].end = Some(event);
                    }
                }
                Kind::Event => {}
            }
        }
        operations
    }

    /// When a phase began, in ns; none when the run did not get there.
    pub fn phase(&self, name: &str) -> Option<u64> {
        self.events.iter().find_map(|event| match &event.what {
            What::Phase(phase) if phase.name == name => Some(event.mono_ns),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Get, Phase};

    fn line(mono_ns: u64, kind: Kind, proc: u64) -> Event {
        Event {
            v: VERSION,
            i: 0,
            mono_ns,
            src: "client-1".into(),
            proc,
            kind,
            node: Some("n1".into()),
            key: Some("tsk_1".into()),
            what: What::Get(Get::default()),
            err: None,
            meta: Default::default(),
        }
    }

    #[test]
    fn operations_are_paired_by_process() {
        let history = History::merge(vec![
            line(5, Kind::Info, 1),
            line(1, Kind::Invoke, 1),
            line(2, Kind::Invoke, 2),
            line(3, Kind::Ok, 2),
            line(6, Kind::Invoke, 3),
        ]);
        assert_eq!(history.events().iter().map(|event| event.i).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let ends: Vec<_> =
            history.operations().iter().map(|operation| operation.end.map(|end| end.kind)).collect();
        assert_eq!(ends, [Some(Kind::Info), Some(Kind::Ok), None]);
        assert!(history.operations()[0].is_unknown() && history.operations()[2].is_unknown());
    }

    #[test]
    fn a_line_survives_and_a_bad_one_is_named() {
        let phase = Event { what: What::Phase(Phase { name: "heal".into() }), ..line(9, Kind::Event, 0) };
        let text = format!("{}\n\n", serde_json::to_string(&phase).unwrap());
        let read = History::read_lines(text.as_bytes()).unwrap();
        assert_eq!(read, [phase]);
        assert_eq!(History::merge(read).phase("heal"), Some(9));
        let error = History::read_lines("{}\n".as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("line 1: "), "{error}");
    }
}
