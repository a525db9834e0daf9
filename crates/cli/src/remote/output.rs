//! What the commands print: JSON as the API answers it, or tables for people.

use std::borrow::Cow;
use std::io::{ErrorKind, Write as _, stderr, stdout};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// Prints a line to standard output. A reader that has gone away is no error.
///
/// # Errors
/// Standard output cannot be written for another reason.
pub fn line(text: &str) -> std::io::Result<()> {
    raw(text)?;
    raw("\n")
}

/// The same without an end of line.
///
/// # Errors
/// As [`line`].
pub fn raw(text: &str) -> std::io::Result<()> {
    match stdout().lock().write_all(text.as_bytes()).and_then(|()| stdout().flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a line for a person to standard error. Nothing depends on it, so a failure is none.
pub fn note(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

/// Says that a list goes on behind what is shown of it.
pub fn goes_on(shown: usize) {
    note(&format!("orloj: there are more than these {shown}; --limit shows more"));
}

/// Prints a value as JSON.
///
/// # Errors
/// As [`line`].
pub fn json(value: &impl Serialize) -> std::io::Result<()> {
    // The answers of the API are structs with string keys, which always serialise.
    line(&serde_json::to_string_pretty(value).expect("an answer serialises"))
}

/// A table with these headings.
pub fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headings.map(str::to_uppercase));
    table
}

/// Prints a table without its trailing blanks.
///
/// # Errors
/// As [`line`].
pub fn print(table: &Table) -> std::io::Result<()> {
    table.lines().try_for_each(|row| line(&plain(row.trim_end())))
}

/// Text of others on one line of a terminal: titles, notes, errors of handlers. What moves the cursor, changes colours,
/// begins a line or turns the direction of writing around is shown as `\u{..}`, so that nobody forges what stands beside it.
fn plain(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Prints `name  value` rows; those without a value are left out.
///
/// # Errors
/// As [`line`].
pub fn fields(rows: &[(&str, Option<String>)]) -> std::io::Result<()> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        if let Some(value) = value {
            line(&format!("{name:width$}  {}", plain(value)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_others_wrote_forges_no_line_and_moves_no_cursor() {
        assert_eq!(plain("boom\nstatus  SUCCESS"), "boom\\u{a}status  SUCCESS");
        assert_eq!(plain("\u{1b}[31m\0\u{202e}"), "\\u{1b}[31m\\u{0}\\u{202e}");
        assert_eq!(plain("naïve 東京 🦀"), "naïve 東京 🦀");
    }
}
