//! What the shell may run. Pure.

use crate::error::OptionsError;

/// A list of whole commands and prefixes.
#[derive(Debug)]
pub(super) struct AllowList {
    any: bool,
    entries: Vec<(String, bool)>,
}

impl AllowList {
    /// Entries with a final `*` are prefixes, others are whole.
    pub(super) fn new(allow: &[String], any: bool) -> Result<Self, OptionsError> {
        let mut entries = Vec::with_capacity(allow.len());
        for entry in allow {
            let (text, prefix) = match entry.strip_suffix('*') {
                Some(text) => (text, true),
                None => (entry.as_str(), false),
            };
            if text.trim().is_empty() {
                let problem = format!("`{entry}` would allow everything; say `allow-any` when that is meant");
                return Err(OptionsError::new("handlers.shell.allow", problem));
            }
            entries.push((text.to_owned(), prefix));
        }
        Ok(AllowList { any, entries })
    }

    /// Whether a command line, or a program, may run.
    pub(super) fn allows(&self, text: &str) -> bool {
        self.any
            || self.entries.iter().any(
                |(entry, prefix)| {
                    if *prefix { text.starts_with(entry.as_str()) } else { text == entry }
                },
            )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn whole_entries_prefixes_and_nothing() {
        let list = AllowList::new(&["date".to_owned(), "/opt/jobs/*".to_owned()], false).unwrap();
        for (text, allowed) in
            [("date", true), ("date; rm x", false), ("/opt/jobs/a", true), ("/opt/job", false), ("", false)]
        {
            assert_eq!(list.allows(text), allowed, "{text:?}");
        }
        assert!(!AllowList::new(&[], false).unwrap().allows("date"), "an empty list allows nothing");
        assert!(AllowList::new(&[], true).unwrap().allows("anything"));
        assert!(AllowList::new(&["*".to_owned()], false).is_err());
        assert!(AllowList::new(&[String::new()], false).is_err());
    }
}
