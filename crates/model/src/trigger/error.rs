//! Why a trigger or a calendar is refused, in words that point at the place.

use std::fmt;

/// The longest piece of a refused value that an error repeats, in characters.
const SHOWN: usize = 120;

/// Which field is wrong, what it holds, and where in it the fault lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerError {
    /// The field as the API writes it, such as `triggers[0].expression`.
    pub field: String,
    /// What it holds, cut to 120 characters.
    pub value: String,
    /// The first wrong character, counted in characters from 0; only of texts with a grammar.
    pub position: Option<usize>,
    /// What is wrong with it.
    pub message: String,
}

impl TriggerError {
    /// An error on a whole field.
    pub fn new(field: &str, value: impl fmt::Display, message: impl Into<String>) -> Self {
        let value = value.to_string().chars().take(SHOWN).collect();
        TriggerError { field: field.to_string(), value, position: None, message: message.into() }
    }

    /// The same error, pointing at a character of the value.
    pub fn at(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    /// The same error, one level further out: `triggers[0]` before `expression`.
    pub fn under(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: ", self.field, self.value)?;
        if let Some(position) = self.position {
            write!(f, "at character {position}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TriggerError {}

/// A fault in a text with a grammar, before it is known which field holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// In characters from 0.
    pub position: usize,
    pub message: String,
}

impl Fault {
    pub fn new<T>(position: usize, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault { position, message: message.into() })
    }

    /// The error for whoever asked, once it is known which field holds the text.
    pub fn in_field(self, field: &str, value: &str) -> TriggerError {
        TriggerError::new(field, value, self.message).at(self.position)
    }
}
